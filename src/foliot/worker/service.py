"""Worker: what one session claims, runs and finishes; and how it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids, JobId, SessionId, partition_of
from foliot.loop import rest
from foliot.model.job import ClaimedJob
from foliot.registry import Registry
from foliot.store.living import Load
from foliot.store.port import Peek, Store, Wake
from foliot.worker.breakers import Breakers
from foliot.worker.capture import JOB_LINES
from foliot.worker.context import Place, State
from foliot.worker.cycle import Cycle
from foliot.worker.hearing import Hearing
from foliot.worker.notes import Notes, write_batch
from foliot.worker.recycle import Recycling
from foliot.worker.slots import Slots
from foliot.worker.stage import DEFAULT_STAGE, Stage
from foliot.worker.tallies import Tallies, WriteTallies
from foliot.worker.transaction import Desk

log = logging.getLogger("foliot.worker")
_RECONCILE_EVERY = 60.0
_LEARN_EVERY = 15.0  # other versions of the app come and go
_WEAR = 5.0  # seconds that everything must be stuck: what is only a little late comes back
_FAREWELL = 2.0  # seconds to write down what jobs said last
_NOTES_EVERY = 0.05  # seconds at least between two batches of what jobs say
_RECONCILE_AGAIN = 5.0  # a transaction whose reply was lost may still commit after the first look


class Host(msgspec.Struct, frozen=True):
    """What a worker asks of the process that it lives in."""

    trusted: Callable[[], bool]  # whether its lease still counts
    look: Callable[[], None]
    announce: Callable[[Wake], None]
    wear_out: Callable[[], None]  # jobs that never end have taken all there is to run jobs with
    recycle: Callable[[str], None]  # it has run long enough, says why
    state: State  # what the start-up functions have put there
    tallies: Tallies
    stage: Stage = DEFAULT_STAGE


class Worker:
    """1. hears where there is work; 2. cycles; 3. runs jobs in its slots; 4. passes on requests to cancel;
    5. stops: claims no more, gives back what has not started, waits for the rest."""

    def __init__(
        self,
        store: Store,
        session: SessionId,
        registry: Registry,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        target: str | None,
        host: Host,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._host = host
        self._worn_at: float | None = None
        self._settings = settings
        self._notes = Notes(settings, clock, wake=self._hear_notes)
        self._noted = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._desk = Desk(settings, session, clock=clock, ids=ids, tell=self._tell, store=store)
        counted = host.tallies
        self._place = Place(
            session, clock, self._notes, counted.queues, host.state, self._desk, counts=True
        )
        self._rollups = WriteTallies(store, counted, clock=clock, ids=ids)
        self._recycling = Recycling(settings, clock, ids)
        self._moves = 0
        graces = (one.cancel_grace for one in registry if one.cancel_grace is not None)
        self._least_grace = min(settings.worker.cancel_grace, *graces, 2.0)
        self._cycle = Cycle(
            store,
            session,
            settings,
            clock=clock,
            ids=ids,
            trusted=host.trusted,
            look=host.look,
            announce=host.announce,
            kinds=registry.runnable,
        )
        self._cycle.tallies = counted
        self._breakers = Breakers(
            store,
            registry.breakers,
            kinds={one.kind: one.breaker for one in registry if one.breaker is not None},
            clock=clock,
            announce=host.announce,
        )
        self._slots = Slots(
            registry,
            settings,
            self._place,
            ids=ids,
            target=target,
            trusted=host.trusted,
            on_done=self._cycle.done,
            breakers=self._breakers,
            stage=host.stage,
        )
        self._cycle.serve(self._slots)
        self.hearing = Hearing(store, session, registry, clock=clock, ids=ids, know=self._take)
        self._cancels = asyncio.Event()
        self._learn_at = 0.0
        self._reconcile_at = clock.monotonic() + _RECONCILE_EVERY

    @property
    def concurrency(self) -> int:
        return self._slots.concurrency

    def executing(self) -> list[JobId]:
        """Called by the heartbeat's thread."""
        return list(self._slots.executing)

    def load(self) -> Load:
        """How it is, for the registry. Called by the heartbeat's thread, once for each beat."""
        attempts = self._slots.attempts
        moves = attempts.started + attempts.finished
        moved, self._moves = moves != self._moves, moves
        stuck, behind = attempts.stuck_threads, len(attempts.behind)
        note = f"threads stuck in jobs whose attempts have ended: {stuck}" if stuck else None
        if behind > stuck:
            note = f"jobs that do not end although their attempts have: {behind}"
        room = max(0, self._slots.room(0))
        note = self.hearing.note if note is None else note
        return Load(room=room, waiting=self._slots.waiting, moved=moved, note=note)

    def hear(self, wake: Wake) -> None:
        self._cycle.hear(wake)
        if wake.cancel and self._slots.holds_any:
            self._cancels.set()

    def see(self, peek: Peek) -> None:
        for _, lane in peek.ready:
            self._place.queues[lane.number] = lane.queue
        self._cycle.see(peek)

    def beat(self) -> None:
        """With every heartbeat: the hint to cancel may have been lost."""
        if self._slots.holds_any:
            self._cancels.set()

    async def run(self) -> None:
        """Until cancelled."""
        await self._learn()
        JOB_LINES.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cycle.run())
                group.create_task(self._attend())
                group.create_task(self._write_notes())
                group.create_task(self._rollups.run())
                group.create_task(self._breakers.run())
                group.create_task(self.hearing.run())
        finally:
            JOB_LINES.stop()

    async def step(self) -> bool:
        """By hand: one trip or, where there is none to make, a wait for what runs. False: nothing does."""
        self._slots.look_at_the_clock()
        await self._write_batch()
        await self._breakers.tell()
        if await self._cycle.step():
            return True
        if not self._slots.executing:
            return False
        waits = [asyncio.ensure_future(one.wait()) for one in (self._cycle, self._noted)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._noted.clear()
        return True

    def look_at_the_clock(self) -> None:
        self._slots.look_at_the_clock()

    def claim_no_more(self) -> None:
        self._cycle.stop_claiming()

    async def stop(self, grace: float, hurry: asyncio.Event | None = None) -> None:
        """Leave nothing behind: what runs gets `grace` seconds to finish, from when `hurry` is set."""
        self._cycle.stop_claiming()
        self._slots.start_no_more()
        count = len(self._slots.executing)
        log.info("stopping: %d running jobs have %g s to finish", count, grace)
        until = None
        while self._slots.executing:
            now = self._clock.monotonic()
            if until is None and (hurry is None or hurry.is_set()):
                until = now + grace
            if until is not None and now >= until:
                break
            await self._clock.sleep(0.02)
        if self._slots.executing:
            log.warning(
                "%d jobs did not finish within the grace period", len(self._slots.executing)
            )
            self._slots.attempts.interrupt_all()
            for _ in range(50):
                if not self._slots.executing:
                    break
                await self._clock.sleep(0.02)
            self._slots.attempts.leave_behind()
        await self._cycle.flush()
        with suppress(StoreUnavailable, TimeoutError):
            await asyncio.wait_for(self._write_batch(), _FAREWELL)
            await asyncio.wait_for(self._breakers.tell(), _FAREWELL)
        await self.write_rollups()

    async def write_rollups(self) -> None:
        """What has been counted so far, if the store is there."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rollups.tick_safely(), _FAREWELL)

    async def close(self) -> None:
        await self._slots.close()
        await self._desk.close()

    def abandon(self) -> None:
        """The session is lost: what it runs belongs to others. Stop it; nothing it says counts."""
        self._cycle.stop_claiming()
        self._slots.start_no_more()
        self._slots.attempts.interrupt_all()

    async def _attend(self) -> None:
        """Cancels at once, reconciliation once a minute and after a claim whose reply was lost."""
        pause = min(1.0, max(0.05, self._least_grace / 2))
        while True:
            await rest(self._cancels, pause)
            try:
                await self._attend_once()
            except StoreUnavailable as error:
                log.debug("looked for nothing: %s", error)
            except Exception:
                log.exception("the worker could not look after its jobs")
                await self._clock.sleep(1.0)

    def _take(self, kinds: Sequence[str]) -> None:
        self._cycle.lanes.take(kinds)
        self._learn_at = 0.0

    async def _learn(self) -> None:
        """Which queues have kinds that are for others."""
        self._learn_at = self._clock.monotonic() + _LEARN_EVERY
        try:
            self._cycle.lanes.know(await self._store.definitions.all())
        except StoreUnavailable as error:
            log.debug("not known which kinds there are: %s", error)

    async def _attend_once(self) -> None:
        self._slots.tend()
        self._look_for_wear()
        if late := self._slots.attempts.starts.find_late():
            await self._extend(late)
        if (why := self._recycling.find(self._slots.attempts.finished)) is not None:
            self._host.recycle(why)
        if self._cancels.is_set():
            self._cancels.clear()
            rows = await self._store.jobs.running(self._session)
            self._slots.cancel({row.id for row in rows if row.cancel_requested})
        now = self._clock.monotonic()
        if now >= self._learn_at:
            await self._learn()
        if self._cycle.uncertain or now >= self._reconcile_at:
            await self._cycle.reconcile()
            again = _RECONCILE_AGAIN if self._cycle.uncertain else _RECONCILE_EVERY
            self._cycle.uncertain = False
            self._reconcile_at = now + again

    async def _extend(self, late: list[ClaimedJob]) -> None:
        """What waits for a child process must not run out of time in the store."""
        since, some = self._clock.monotonic(), dict[int, list[ClaimedJob]]()
        for job in late:
            some.setdefault(partition_of(job.id, self._store.partitions), []).append(job)
        for partition, jobs in some.items():
            await self._store.jobs.extend(partition, self._session, jobs)
            self._slots.attempts.starts.extended(jobs, since=since)

    def _tell(self, wake: Wake) -> None:
        """Of what a job's transaction has made ready; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: polling is the truth
            self._loop.call_soon_threadsafe(self._host.announce, wake)

    def _hear_notes(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody writes any more
            self._loop.call_soon_threadsafe(self._noted.set)

    async def _write_notes(self) -> None:
        """As soon as there is something, and then whatever has come meanwhile."""
        pause = _NOTES_EVERY
        while True:
            await self._noted.wait()
            self._noted.clear()
            try:
                await self._write_batch()
                pause = _NOTES_EVERY
            except StoreUnavailable as error:
                log.warning("what jobs said could not be written, trying again: %s", error)
                self._noted.set()
                pause = min(pause * 2, 5.0)
            except Exception:  # what jobs say is not worth their worker
                log.exception("some of what jobs said could not be written and is lost")
                self._noted.set()
                pause = min(pause * 2, 5.0)
            await self._clock.sleep(pause)

    async def _write_batch(self) -> None:
        while batch := self._notes.take():
            try:
                await write_batch(self._store, self._session, batch)
            except StoreUnavailable:
                self._notes.put_back(batch)
                raise

    def _look_for_wear(self) -> None:
        now = self._clock.monotonic()
        if not self._slots.worn_out:
            self._worn_at = None
        elif self._worn_at is None:
            self._worn_at = now + _WEAR
        elif now >= self._worn_at:
            self._worn_at = float("inf")  # once is enough
            self._host.wear_out()
