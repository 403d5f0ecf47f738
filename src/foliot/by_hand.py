"""A worker and the scheduler's duties driven by hand: one job after the other, until there is nothing left to do.

What `foliot.testing` and inline mode run jobs with. Everything is the engine's own: the store, the duties' ticks, the
worker's trips, slots and outcomes. Only what waits for real time is left out: the heartbeat, the polls, the sleeps.
Whoever drives decides when the clock moves.

    run()    in the calling thread: async functions on an event loop of its own, sync functions while that loop rests
    arun()   on the running event loop: async functions there, sync functions in a thread
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable
from contextvars import copy_context
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from foliot.clock import Clock
from foliot.config import Settings, StoreSettings
from foliot.errors import Cancel, NeverIdle, Retry
from foliot.ids import Ids
from foliot.life import Life, Requests, Role
from foliot.model.job import ClaimedJob, Outcome
from foliot.registry import Registry
from foliot.store.open import open_store
from foliot.store.port import Peek, Store, Wake
from foliot.worker.capture import JOB_LINES
from foliot.worker.context import State
from foliot.worker.executors.thread import Threads
from foliot.worker.hooks import shut_down, start_up
from foliot.worker.run import Requested
from foliot.worker.running import Running
from foliot.worker.service import Host
from foliot.worker.stage import Stage

LIMIT: Final = 1000  # attempts after which something is taken for endless
MEMORY: Final = "sqlite:///:memory:"
_ENDLESS: Final = 36_500 * 86_400.0


class MovableClock(Clock, Protocol):
    def advance(self, seconds: float) -> datetime: ...


class Failure(msgspec.Struct, frozen=True):
    """An attempt that failed, and what its function raised."""

    job: ClaimedJob
    error: BaseException


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How far to go: with the clock standing still, until a time, or through all that is due at any time."""

    until: datetime | None = None
    through: bool = False
    limit: int = LIMIT
    reraise: bool = False
    schedules: bool = True  # whether they fire


def settings_by_hand(settings: Settings, url: str = MEMORY) -> Settings:
    """The same for a store that one driver has for itself: one job at a time, and nothing runs out."""
    replace = msgspec.structs.replace
    worker = replace(settings.worker, concurrency=1, threads=1, queues=(), lease=_ENDLESS)
    return replace(
        settings,
        store=StoreSettings(url=url),
        worker=worker,
        retention=replace(settings.retention, history=None),
    )


class CallingThread(Threads[Running]):
    """Sync functions wait here until the thread that drives runs them itself."""

    def __init__(
        self,
        limit: int,
        run: Callable[[Running], Outcome],
        finish: Callable[[Running, Outcome], None],
        fail: Callable[[Running, BaseException], Outcome],
        *,
        asked: asyncio.Event,
    ) -> None:
        """`asked` is set while some wait."""
        super().__init__(limit, run, finish, fail)
        self._given: deque[Running] = deque()
        self._asked = asked

    def submit(self, work: Running) -> None:
        self.busy += 1
        self._given.append(work)
        self._asked.set()

    def run_next(self, before_it_ends: Callable[[], None]) -> None:
        work = self._given.popleft()
        if not self._given:
            self._asked.clear()
        outcome = copy_context().run(self._run, work)
        before_it_ends()
        self.busy -= 1
        self._finish(work, outcome)


class ByHand(Life):
    """A session without a heartbeat: it lasts as long as its driver wants."""

    _alone = True

    def __init__(
        self,
        store: Store,
        role: Role,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        state: State,
        stage: Stage,
        fires: bool,
    ) -> None:
        self._stage = stage
        self._fires = fires
        self._news = False
        # Threads that do not end keep their driver, not others; nothing lasts long enough to be replaced.
        requests = Requests(_nothing, _nothing, _nothing)
        super().__init__(
            store, role, settings, clock=clock, ids=ids, state=state, requests=requests
        )

    async def run_ready(self, proceed: Callable[[], bool]) -> None:
        """All that is due now, and all that comes of it. `proceed` is asked after every step."""
        assert self._worker is not None and self._scheduler is not None
        moved, going = True, proceed()
        while going and (moved or self._news):
            moved = self._news = False
            await self._watch.tick()
            await self._scheduler.tick()
            await self._watch.tick()
            while await self._worker.step():
                moved = True
                if going and not proceed():
                    going = False
                    self._worker.claim_no_more()

    async def due_in(self) -> float | None:
        """Seconds until something is due next: a job, a schedule, a token of a rate, or an open breaker's end."""
        assert self._scheduler is not None
        peek = await self._store.jobs.peek()
        fires = [seconds for seconds in peek.fire_in.values() if self._fires and seconds > 0]
        gates = [self._scheduler.limits.due_in, await self._scheduler.breakers.due_in()]
        opens = [seconds for seconds in gates if seconds is not None and seconds > 0]
        return min([*peek.due_in.values(), *fires, *opens], default=None)

    def look_at_the_clock(self) -> None:
        assert self._worker is not None
        self._worker.look_at_the_clock()

    async def close(self) -> None:
        assert self._worker is not None
        await self._worker.write_rollups()
        await self._close()

    def _start_beating(self, asked: float) -> None:
        """Nobody else is there who could take it for dead."""

    def _trusted(self) -> bool:
        return True

    def _see(self, peek: Peek) -> None:
        if not self._fires:
            peek = msgspec.structs.replace(peek, fire_in={}, missed=frozenset())
        self._news |= bool(peek.missed or peek.events)
        super()._see(peek)

    async def _sync_schedules(self, registry: Registry) -> None:
        if self._fires:
            await super()._sync_schedules(registry)

    def _announce(self, wake: Wake) -> None:
        self._news = True
        super()._announce(wake)

    def _host(self) -> Host:
        return msgspec.structs.replace(super()._host(), stage=self._stage)


class Driver:
    """Runs what is in a store that nobody else works on."""

    def __init__(
        self,
        store: Store | None,
        registry: Registry,
        settings: Settings,
        *,
        clock: MovableClock,
        ids: Ids,
    ) -> None:
        """A store in memory is given; any other is opened when it is driven, for it belongs to its event loop."""
        self._store = store
        self._registry = registry
        self._settings = _able_to_all(settings, registry)
        self._clock = clock
        self._ids = ids
        self._life: ByHand | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calling: CallingThread | None = None
        self._asked = asyncio.Event()
        self._plan = Plan()
        self._kinds: Counter[str] = Counter()
        self._fired = 0  # attempts of jobs that follow from the time: these come to an end with it
        self._trouble: BaseException | None = None
        self.failures: list[Failure] = []

    @property
    def attempts(self) -> int:
        """How many it has run."""
        return self._kinds.total()

    def run(self, plan: Plan) -> None:
        """In this thread, which must have no running event loop."""
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            task = runner.get_loop().create_task(self._go(plan, self._in_this_thread))
            while not runner.run(self._rest(task)):
                assert self._calling is not None
                self._calling.run_next(self._look_at_the_clock)
            task.result()
        if self._trouble is not None:
            raise self._trouble

    async def arun(self, plan: Plan) -> None:
        await self._go(plan, Threads)
        if self._trouble is not None:
            raise self._trouble

    def clock_moved(self) -> None:
        """Called by a running job, from any thread: others, or itself, may be late now."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._look_at_the_clock)

    async def _go(self, plan: Plan, threads: Callable[..., Threads[Running]]) -> None:
        if self._store is not None:
            await self._work(self._store, plan, threads)
            return
        store = await open_store(self._settings.store, clock=self._clock, ids=self._ids)
        try:
            await self._work(store, plan, threads)
        finally:
            await store.close()

    async def _work(
        self, store: Store, plan: Plan, threads: Callable[..., Threads[Running]]
    ) -> None:
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        life = self._life = ByHand(
            store,
            Role(self._registry),
            self._settings,
            clock=self._clock,
            ids=self._ids,
            state=(state := State()),
            stage=Stage(threads, self._start, self._fail),
            fires=plan.schedules,
        )
        await start_up(self._registry.hooks, state)
        JOB_LINES.start()
        try:
            await life.open()
            await life.run_ready(self._proceed)
            while self._proceed() and await self._leap(plan):
                await life.run_ready(self._proceed)
        finally:
            self._life = self._loop = None
            await life.close()
            JOB_LINES.stop()
            await shut_down(self._registry.hooks, state)

    async def _leap(self, plan: Plan) -> bool:
        """Move the clock to what is due next, or to the end. False if it is there already."""
        assert self._life is not None
        if plan.until is None:
            left = math.inf if plan.through else 0.0
        else:
            left = (plan.until - self._clock.now()).total_seconds()
        due = await self._life.due_in()
        step = due if due is not None and 0 < due <= left else left
        if not 0 < step < math.inf:
            return False
        # Not a microsecond too short: then it would not be due yet.
        self._clock.advance(math.ceil(step * 1e6) / 1e6)
        return True

    def _in_this_thread(self, *args: Any) -> CallingThread:
        self._calling = CallingThread(*args, asked=self._asked)
        return self._calling

    async def _rest(self, task: asyncio.Task[None]) -> bool:
        """Until it is done, or a sync function waits to be run by this thread. Whether it is done."""
        asked = asyncio.ensure_future(self._asked.wait())
        await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        return task.done()

    def _look_at_the_clock(self) -> None:
        if self._life is not None:
            self._life.look_at_the_clock()

    def _start(self, job: ClaimedJob) -> None:
        self._kinds[job.kind] += 1
        self._fired += job.facts.extras.nominal is not None

    def _fail(self, job: ClaimedJob, error: BaseException) -> None:
        failure = Failure(job, error)
        self.failures.append(failure)
        if self._trouble is None and _ends_the_run(error, reraise=self._plan.reraise):
            self._trouble = error

    def _proceed(self) -> bool:
        if self._trouble is None and self.attempts - self._fired > self._plan.limit:
            [(kind, count)] = self._kinds.most_common(1)
            self._trouble = NeverIdle(kind, count, self.attempts)
        return self._trouble is None


def _able_to_all(settings: Settings, registry: Registry) -> Settings:
    """With every capability that a job of the app requires: there is no other worker to wait for."""
    wanted = {name for definition in registry for name in definition.requires}
    replace = msgspec.structs.replace
    return replace(settings, worker=replace(settings.worker, capabilities=tuple(sorted(wanted))))


def _ends_the_run(error: BaseException, *, reraise: bool) -> bool:
    """What a job's function raised, and the caller should see. What it raised on purpose is no error; Ctrl-C and
    a verdict of the test itself are none of the job's business."""
    if isinstance(error, Retry | Cancel | Requested | asyncio.CancelledError):
        return False
    if reraise or isinstance(error, NeverIdle):
        return True
    return not isinstance(error, Exception | SystemExit | GeneratorExit)


def _nothing(*_: object) -> None:
    """Nobody is asked for anything."""
