"""Process: a session with its heartbeat, and in it a worker, the scheduler's duties, or both.

    opening → living → stopping → gone        stop() was called
                 └──→ lost → opening          the lease could not be extended: a new session is opened

A process outlives its store: while that is away it tries again, with jitter, for as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from foliot import __version__, commands
from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids, SessionId
from foliot.model.session import NewSession
from foliot.registry import Registry
from foliot.scheduler.service import Scheduler
from foliot.store.open import open_store
from foliot.store.port import Peek, Store, Wake
from foliot.watch import Watch
from foliot.worker.heartbeat import Heartbeat
from foliot.worker.service import Host, Worker

log = logging.getLogger("foliot.process")
T = TypeVar("T")


class Role(msgspec.Struct, frozen=True):
    """What the process does. `target` says where the app is, for child processes."""

    registry: Registry | None  # None: no worker
    duties: bool = True
    target: str | None = None


class Process:
    def __init__(
        self,
        role: Role,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        on_live: Callable[[], None] | None = None,
        supervised: bool = False,
    ) -> None:
        """`on_live` is called whenever a session has been opened. `supervised`: it may stop when it is worn out,
        for another process is started in its place."""
        self._role = role
        self._on_live = on_live or _nothing
        self._supervised = supervised
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._stop = asyncio.Event()
        self._life: Life | None = None
        self.session: SessionId | None = None

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Until stopped."""
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

    def _hear(self, wake: Wake) -> None:
        if self._life is not None:
            self._life.hear(wake)

    async def _open(self) -> Store | None:
        size = self._settings.store.pool + self._settings.worker.in_flight
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
            on_worn_out=self._wear_out,
        )
        try:
            # A session that takes its whole lease to open is worth nothing.
            async with asyncio.timeout(self._settings.worker.lease):
                await self._unless_stopped(life.open())
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("no session could be opened, trying again: %s", str(error) or "no answer")
            await self._pause(1.0)
            return
        if not life.opened:
            return
        self._life, self.session = life, life.session
        self._on_live()
        try:
            await life.live(self._stop)
        finally:
            self._life = None

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
            await asyncio.wait([task, stop], timeout=_FAREWELL)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), self._ids.jitter(seconds, 0.5))


_FAREWELL = 1.0  # seconds that a call to a store that does not answer gets to end


class Life:
    """One session, from opening to closing or loss."""

    _alone = False  # whether it may take all duties for its own

    def __init__(
        self,
        store: Store,
        role: Role,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        on_worn_out: Callable[[], None],
    ) -> None:
        self.session = ids.session()
        self._on_worn_out = on_worn_out
        self._store = store
        self._role = role
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._lost = asyncio.Event()
        self._heartbeat: Heartbeat | None = None
        self.opened = False
        self._watch = Watch(store, clock=clock, ids=ids, poll=settings.worker.poll, see=self._see)
        self._worker = self._make_worker()
        self._scheduler = self._make_scheduler()

    async def open(self) -> None:
        own = self._settings.worker
        kinds = self._role.registry.kinds if self._role.registry is not None else ()
        session = NewSession(
            id=self.session,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            queues=own.queues,
            kinds=kinds,
            duties=self._role.duties,
        )
        if self._role.registry is not None:
            await commands.announce(self._store, self._role.registry)
        asked = self._clock.monotonic()
        await self._store.sessions.open(session, lease=own.lease)
        self._start_beating(asked)
        self.opened = True
        log.info(
            "ready: %s, queues %s, %d kinds%s",
            self._store.url,
            ", ".join(own.queues) or "all",
            len(kinds),
            ", with duties" if self._role.duties else "",
        )

    def _start_beating(self, asked: float) -> None:
        """`asked` is when the session was asked for."""
        own = self._settings.worker
        self._heartbeat = Heartbeat(
            self._store.sessions.heart(self.session, lease=own.lease),
            self._clock,
            opened=asked,
            lease=own.lease,
            beat=own.beat,
            executing=self._worker.executing if self._worker else list,
            on_lost=self._lose,
            on_beat=self._worker.beat if self._worker else _nothing,
        )
        self._heartbeat.start()

    async def live(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or the session is lost."""
        work = asyncio.create_task(self._work())
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self._lost.wait())]
        try:
            await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # a loop never ends by itself: this raises what broke it
            if not self._lost.is_set():
                await self._finish(work)
        finally:
            for task in (*ends, work):
                task.cancel()
            # Not for ever: a call to a store that does not answer ends when it likes.
            await asyncio.wait([*ends, work], timeout=_FAREWELL)
            await self._close()

    def _lose(self) -> None:
        """What runs belongs to others: stop it before anything else."""
        if self._worker is not None:
            self._worker.abandon()
        self._lost.set()

    def hear(self, wake: Wake) -> None:
        if self._worker is not None:
            self._worker.hear(wake)
        if wake.due:
            self._watch.wake()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run())
            if self._worker is not None:
                group.create_task(self._worker.run())
            if self._scheduler is not None:
                group.create_task(self._scheduler.run())

    async def _finish(self, work: asyncio.Task[None]) -> None:
        """Stop in good order, unless the session is lost meanwhile, or what does the work breaks."""
        stopping = asyncio.create_task(self._stop_in_order())
        lost = asyncio.create_task(self._lost.wait())
        await asyncio.wait([stopping, lost, work], return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, lost):
            task.cancel()
        await asyncio.gather(stopping, lost, return_exceptions=True)
        for task in (stopping, work):
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                log.error("the process did not stop in good order", exc_info=error)

    async def _stop_in_order(self) -> None:
        # The duties last: as long as this session lives, others count on it to do its share of them.
        if self._worker is not None:
            await self._worker.stop(self._settings.worker.grace)
        if self._scheduler is not None:
            try:
                await self._scheduler.stop()
            except StoreUnavailable as error:
                log.warning("the partitions were not handed over: %s", error)

    async def _close(self) -> None:
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        if self._worker is not None:
            await self._worker.close()
        if not self._lost.is_set():
            try:
                await self._store.sessions.close(self.session)
            except Exception as error:  # noqa: BLE001 - it must not hide what ended this life
                log.warning("the session was not closed, it will expire: %s", error)

    def _see(self, peek: Peek) -> None:
        if self._worker is not None:
            self._worker.see(peek)
        if self._scheduler is not None:
            self._scheduler.see(peek)

    def _announce(self, wake: Wake) -> None:
        """Tell ourselves at once, and everybody else."""
        self.hear(wake)
        self._store.wake(wake)

    def _trusted(self) -> bool:
        return self._heartbeat is not None and self._heartbeat.trusted

    def _make_worker(self) -> Worker | None:
        if self._role.registry is None:
            return None
        return Worker(
            self._store,
            self.session,
            self._role.registry,
            self._settings,
            clock=self._clock,
            ids=self._ids,
            target=self._role.target,
            host=self._host(),
        )

    def _host(self) -> Host:
        return Host(self._trusted, self._watch.wake, self._announce, self._on_worn_out)

    def _make_scheduler(self) -> Scheduler | None:
        if not self._role.duties:
            return None
        return Scheduler(
            self._store,
            self.session,
            self._settings,
            clock=self._clock,
            ids=self._ids,
            announce=self._announce,
            look=self._watch.wake,
            alone=self._alone,
        )


def _nothing() -> None:
    """There is no worker to tell."""
