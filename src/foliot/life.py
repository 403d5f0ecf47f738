"""Life: one session of a process, from opening to closing or loss, with its heartbeat, worker and duties."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection

import msgspec

from foliot import (
    __version__,
    breaker_commands,
    commands,
    hook_sync,
    limit_commands,
    namesakes,
    queue_commands,
    schedule_sync,
)
from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids
from foliot.model.lane import weights_of
from foliot.model.session import NewSession
from foliot.registry import Registry
from foliot.scheduler.service import Scheduler
from foliot.store.living import IDLE, Load
from foliot.store.port import Peek, Store, Wake
from foliot.watch import Watch
from foliot.worker.context import State
from foliot.worker.heartbeat import Heartbeat, Owner
from foliot.worker.service import Host, Worker
from foliot.worker.tallies import Tallies

log = logging.getLogger("foliot.process")
FAREWELL = 1.0  # seconds that a call to a store that does not answer gets to end


class Role(msgspec.Struct, frozen=True):
    """What the process does. `target` says where the app is, for child processes."""

    registry: Registry | None  # None: no worker
    duties: bool = True
    target: str | None = None


class Requests(msgspec.Struct, frozen=True):
    """What a life may ask of its process."""

    wear_out: Callable[[], None]
    recycle: Callable[[str], None]
    drain: Callable[[], None]


class Life:
    _alone = False  # whether it may take all duties for its own

    def __init__(
        self,
        store: Store,
        role: Role,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        state: State,
        requests: Requests,
        tallies: Tallies | None = None,
    ) -> None:
        self._tallies = tallies or Tallies(clock, ids)
        self.session = ids.session()
        self._state = state
        self._requests = requests
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
        registry = self._role.registry
        kinds = registry.runnable if registry is not None else ()
        session = NewSession(
            id=self.session,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            queues=tuple(weights_of(own.queues)),
            kinds=kinds,
            modules=() if registry is None else namesakes.modules_of(registry, kinds),
            duties=self._role.duties,
            capabilities=own.capabilities,
            concurrency=0 if self._worker is None else self._worker.concurrency,
        )
        if self._role.registry is not None:
            await commands.announce(self._store, self._role.registry)
            await queue_commands.apply_queues(self._store, self._role.registry.queues, by="code")
            await limit_commands.apply_limits(self._store, self._role.registry.limits, by="code")
            await breaker_commands.apply_breakers(self._store, self._role.registry.breakers)
            await self._sync_schedules(self._role.registry)
            await self._sync_hooks(opened=False)
            for doubt in await self._find_doubts(self._role.registry, session.queues):
                log.warning("%s", doubt)
        asked = self._clock.monotonic()
        await self._store.sessions.open(session, lease=own.lease)
        await self._sync_hooks(opened=True)
        if self._role.registry is not None:
            sessions = await self._store.sessions.all()
            for namesake in namesakes.find_namesakes(sessions, of=self.session):
                log.warning("%s", namesake)
        self._start_beating(asked)
        self.opened = True
        log.info(
            "ready: %s, queues %s, %d kinds%s",
            self._store.url,
            ", ".join(own.queues) or "all",
            0 if self._role.registry is None else len(self._role.registry),
            ", with duties" if self._role.duties else "",
        )

    async def _sync_schedules(self, registry: Registry) -> None:
        if diff := await schedule_sync.sync_registry(self._store, registry):
            log.info("schedules are now what the code declares:\n%s", diff)

    async def _sync_hooks(self, *, opened: bool) -> None:
        if self._worker is not None:
            await self._worker.hearing.sync(opened=opened)

    async def _find_doubts(self, registry: Registry, queues: Collection[str]) -> list[str]:
        """Names in the code and in --queues that nobody knows so far: they may be mistyped."""
        limits = {name: name.partition(":") for name in registry.limits}
        named = {name: (scope, of) for name, (scope, _, of) in limits.items()}
        doubts = await queue_commands.find_doubts(self._store, named.values())
        return [
            *(
                f"limit {name}: {doubts[one]}"
                for name, one in sorted(named.items())
                if one in doubts
            ),
            *await hook_sync.find_doubts(self._store, registry),
            *await queue_commands.doubt_served(self._store, registry, queues),
        ]

    def _start_beating(self, asked: float) -> None:
        """`asked` is when the session was asked for."""
        own = self._settings.worker
        self._heartbeat = Heartbeat(
            self._store.sessions.heart(self.session, lease=own.lease),
            self._clock,
            opened=asked,
            lease=own.lease,
            beat=own.beat,
            owner=Owner(
                executing=self._worker.executing if self._worker else list,
                load=self._worker.load if self._worker else _idle,
                on_lost=self._lose,
                on_beat=self._worker.beat if self._worker else _nothing,
                on_drain=self._requests.drain,
            ),
        )
        self._heartbeat.start()

    async def live(self, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        """Until `stop` is set, or the session is lost. What runs then may finish; once `hurry` is set, not for long."""
        work = asyncio.create_task(self._work())
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self._lost.wait())]
        try:
            await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # a loop never ends by itself: this raises what broke it
            if not self._lost.is_set():
                await self._finish(work, hurry)
        finally:
            for task in (*ends, work):
                task.cancel()
            # Not for ever: a call to a store that does not answer ends when it likes.
            await asyncio.wait([*ends, work], timeout=FAREWELL)
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
        if wake.flows and self._scheduler is not None:
            self._scheduler.flow.wake()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run())
            if self._worker is not None:
                group.create_task(self._worker.run())
            if self._scheduler is not None:
                group.create_task(self._scheduler.run())

    async def _finish(self, work: asyncio.Task[None], hurry: asyncio.Event) -> None:
        """Stop in good order, unless the session is lost meanwhile, or what does the work breaks."""
        stopping = asyncio.create_task(self._stop_in_order(hurry))
        lost = asyncio.create_task(self._lost.wait())
        await asyncio.wait([stopping, lost, work], return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, lost):
            task.cancel()
        await asyncio.gather(stopping, lost, return_exceptions=True)
        for task in (stopping, work):
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                log.error("the process did not stop in good order", exc_info=error)

    async def _stop_in_order(self, hurry: asyncio.Event) -> None:
        # The duties last: as long as this session lives, others count on it to do its share of them.
        if self._worker is not None:
            await self._worker.stop(self._settings.worker.grace, hurry)
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
        return Host(
            self._trusted,
            self._watch.wake,
            self._announce,
            self._requests.wear_out,
            self._requests.recycle,
            self._state,
            self._tallies,
        )

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


def _idle() -> Load:
    """There is no worker to ask."""
    return IDLE
