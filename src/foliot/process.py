"""Process: a session with its heartbeat, and in it a worker, the scheduler's duties, or both.

    opening → living → stopping → gone        stop() was called
                 └──→ lost → opening          the lease could not be extended: a new session is opened

A process outlives its store: while that is away it tries again, with jitter, for as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeVar

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import InvalidValue, StoreUnavailable
from foliot.ids import Ids, SessionId
from foliot.life import FAREWELL, Life, Requests, Role
from foliot.loop import rest
from foliot.registry import Hooks
from foliot.store.open import open_store
from foliot.store.port import Store, Wake
from foliot.worker.context import State
from foliot.worker.hooks import shut_down, start_up
from foliot.worker.tallies import Tallies

log = logging.getLogger("foliot.process")
T = TypeVar("T")


class Leaving(StrEnum):
    """Why a process stops by itself."""

    RECYCLED = "recycled"  # another one takes over
    DRAINED = "drained"  # none does


class Process:
    def __init__(
        self,
        role: Role,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        on_live: Callable[[], None] | None = None,
        on_leave: Callable[[Leaving], None] | None = None,
        supervised: bool = False,
    ) -> None:
        """`on_live` is called whenever a session has been opened, `on_leave` when it is going to stop by itself.
        `supervised`: it may stop when it is worn out, for another process is started in its place."""
        self._role = role
        self._on_live = on_live or _nothing
        self._supervised = supervised
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._on_leave = on_leave or _nobody
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._leaving: Leaving | None = None
        self._life: Life | None = None
        self._state = State()
        self._tallies = Tallies(clock, ids)
        self._told_of_age = False
        self._said = ""  # why there is no session
        self.session: SessionId | None = None

    def stop(self) -> None:
        """What runs gets `worker.grace` to finish."""
        self._hurry.set()
        self._stop.set()

    def leave(self, leaving: Leaving) -> None:
        """Claim no more, finish what runs, however long it takes, and end."""
        if self._leaving is None:
            self._leaving = leaving
            self._on_leave(leaving)
            self._stop.set()

    async def run(self) -> None:
        """Until stopped."""
        registry = self._role.registry
        hooks = Hooks() if registry is None else registry.hooks
        self._check_isolation()
        await start_up(hooks, self._state)
        try:
            await self._run()
        finally:
            await shut_down(hooks, self._state)

    def _check_isolation(self) -> None:
        registry, target = self._role.registry, self._role.target
        isolated = [one.kind for one in registry or () if one.isolated]
        if isolated and target is None:
            raise InvalidValue(
                "executor",
                "process",
                f"of {isolated[0]} needs an app that a child process can load",
                hint="run it with: foliot worker module:app",
            )

    async def _run(self) -> None:
        store = await self._open()
        if store is None:
            return
        try:
            await store.listen(self._hear)
            while not self._stop.is_set():
                await self._live(store)
        finally:
            await store.close()

    def _wear_out(self) -> None:
        if self._supervised:
            log.error("jobs that do not end have taken all threads: stopping, to be started again")
            self.stop()
        else:
            log.error("jobs that do not end have taken all threads: start this process again")

    def _recycle(self, why: str) -> None:
        if self._supervised:
            if self._leaving is None:
                log.info("%s: finishing what runs, another process takes over", why)
            self.leave(Leaving.RECYCLED)
        elif not self._told_of_age:
            self._told_of_age = True
            log.warning("%s, and nobody would start another process: going on", why)

    def _drain(self) -> None:
        log.info("told to drain: finishing what runs")
        self.leave(Leaving.DRAINED)

    def _hear(self, wake: Wake) -> None:
        if self._life is not None:
            self._life.hear(wake)

    async def _open(self) -> Store | None:
        size = self._settings.store.pool + self._settings.worker.in_flight + 1  # a spare trip
        while not self._stop.is_set():
            try:
                return await self._unless_stopped(
                    open_store(self._settings.store, clock=self._clock, ids=self._ids, size=size)
                )
            except StoreUnavailable as error:
                log.warning("the store is not there yet, trying again: %s", error)
                await self._pause(1.0)
        return None

    async def _live(self, store: Store) -> None:
        life = Life(
            store,
            self._role,
            self._settings,
            clock=self._clock,
            ids=self._ids,
            state=self._state,
            requests=Requests(self._wear_out, self._recycle, self._drain),
            tallies=self._tallies,
        )
        try:
            # A session that takes its whole lease to open is worth nothing.
            async with asyncio.timeout(self._settings.worker.lease):
                await self._unless_stopped(life.open())
        except (StoreUnavailable, TimeoutError) as error:
            await self._wait_for_store(error)
            return
        if not life.opened:
            return
        self._said = ""
        self._life, self.session = life, life.session
        self._on_live()
        try:
            await life.live(self._stop, self._hurry)
        finally:
            self._life = None

    async def _wait_for_store(self, error: StoreUnavailable | TimeoutError) -> None:
        """The same is said once. A file that was replaced is not opened by itself: somebody may be copying it back."""
        said = str(error) or "no answer"
        if said != self._said:
            self._said = said
            log.warning("no session could be opened, trying again: %s", said)
        await self._pause(1.0)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result; None if we are told to stop first, for a store may take for ever to answer."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.wait([task, stop], timeout=FAREWELL)

    async def _pause(self, seconds: float) -> None:
        await rest(self._stop, self._ids.jitter(seconds, 0.5))


def _nothing() -> None:
    """Nobody asked to be told."""


def _nobody(_: Leaving) -> None:
    """Nobody asked to be told."""
