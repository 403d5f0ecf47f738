"""Slots: the jobs that this process is executing, and those that it has claimed and not yet started.

Async functions run on the event loop, sync ones in threads, suspects each alone in a child process. Every job that
comes in leaves as exactly one Outcome. Nothing starts once the lease is no longer trusted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids, JobId
from foliot.model.definition import JobDefinition
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.registry import Registry, call
from foliot.worker.context import CURRENT, CurrentJob
from foliot.worker.executors.process import ChildProcess
from foliot.worker.executors.thread import Threads
from foliot.worker.run import (
    Interrupted,
    Requested,
    TimedOut,
    failure,
    report,
    success,
    undescribed,
)
from foliot.worker.timeouts import Timeouts

log = logging.getLogger("foliot.worker")
_UNKNOWN: Final = "unknown_kind"
_MOST_ALONE: Final = 4  # child processes for suspects
_WAIT: Final = 2.0  # seconds that a claimed job may wait here; then others shall have it
_PATIENCE: Final = 5.0  # seconds that a cancelled task gets to end


class Running:
    """One attempt under way."""

    __slots__ = (
        "begun",
        "child",
        "current",
        "definition",
        "job",
        "stop_reason",
        "stopped_at",
        "task",
    )

    def __init__(self, job: ClaimedJob, definition: JobDefinition) -> None:
        self.job = job
        self.definition = definition
        self.current = CurrentJob(job)
        self.task: asyncio.Task[None] | None = None
        self.child: ChildProcess | None = None
        self.begun = False  # of a task: whether it has come to its first line
        self.stop_reason: BaseException | None = None
        self.stopped_at = 0.0


def _nothing(*_: object) -> None:
    """Nobody asks."""


class Stage(msgspec.Struct, frozen=True):
    """For who drives a worker by hand: where sync functions run, and who is shown what starts and what fails."""

    threads: Callable[..., Threads[Running]] = Threads
    on_start: Callable[[ClaimedJob], None] = _nothing
    on_failure: Callable[[ClaimedJob, BaseException], None] = _nothing


DEFAULT_STAGE: Final = Stage()


class Slots:
    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        target: str | None,
        trusted: Callable[[], bool],
        on_done: Callable[[Outcome], None],
        stage: Stage = DEFAULT_STAGE,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._concurrency = _concurrency(registry, settings)
        self._result_limit = settings.limits.result
        self._clock = clock
        self._ids = ids
        self._trusted = trusted
        self._on_done = on_done
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._stage = stage
        self._threads: Threads[Running] = stage.threads(
            settings.worker.threads, self._run_in_thread, self._finish, self._failed
        )
        # Children that are free; without a target there is nothing that they could run.
        self._children = [ChildProcess(target) for _ in range(_MOST_ALONE)] if target else []
        self._isolates = target is not None
        self._has_sync = any(not definition.is_async for definition in registry)
        self.executing: dict[JobId, Running] = {}
        self._backlog: deque[ClaimedJob] = deque()
        self._sync_backlog: deque[ClaimedJob] = deque()
        self._suspects: deque[ClaimedJob] = deque()
        self._waits_since: dict[JobId, float] = {}
        self._crowded_until = 0.0  # what was claimed had to be given back: claim what can start
        self._behind: set[Running] = set()  # still run although their attempts have ended
        self._timeouts: Timeouts[Running] = Timeouts(clock, self._time_out)

    def add(self, jobs: Sequence[ClaimedJob], *, since: float) -> None:
        """Jobs that were asked for at `since`, on the monotonic clock."""
        self._backlog.extend(jobs)
        for job in jobs:
            self._waits_since[job.id] = since
        if self._open:
            self._fill()
        else:
            self.release_waiting()

    def room(self, prefetch: int) -> int:
        """How many more jobs to claim, so that `prefetch` of them wait here for a slot."""
        if len(self._sync_backlog) > prefetch:
            return 0  # what comes in cannot start: threads are the limit, not slots
        # Suspects wait for a child, not for a slot: some of them must not keep everybody else out.
        suspects = max(0, len(self._suspects) - self._concurrency)
        waiting = len(self._backlog) + len(self._sync_backlog) + suspects
        free = self._limit - len(self.executing) - waiting
        if self._clock.monotonic() >= self._crowded_until:
            return free + prefetch if self._limit > 0 else 0
        return min(free, self._threads.free) if self._has_sync else free

    @property
    def holds_any(self) -> bool:
        return bool(self.executing) or any(self._backlogs)

    @property
    def worn_out(self) -> bool:
        """So much is left behind that nothing can start here any more, or no sync function."""
        threads = self._settings.worker.threads
        return self._limit <= 0 or self.stuck_threads >= threads

    def ids(self) -> set[JobId]:
        """All that is here, executing or waiting."""
        return {*self.executing, *(job.id for backlog in self._backlogs for job in backlog)}

    def cancel(self, ids: set[JobId]) -> None:
        """Somebody asked for the end of these."""
        for id in ids:
            if id in self.executing:
                self._interrupt(self.executing[id], Requested())
        for backlog in self._backlogs:
            for job in [job for job in backlog if job.id in ids]:
                backlog.remove(job)
                self._waits_since.pop(job.id, None)
                self._on_done(Outcome(job.id, job.fence, End.CANCEL, reason="requested"))

    def start_no_more(self) -> None:
        """Give back what has not started, and whatever a claim that is under way will bring."""
        self._open = False
        self.release_waiting()

    def release_waiting(self) -> None:
        for backlog in self._backlogs:
            while backlog:
                self._release(backlog.popleft())

    def tend(self) -> None:
        """Once in a while: give back what waits in vain, and let go of what does not end."""
        now = self._clock.monotonic()
        for backlog in self._backlogs:
            for job in [job for job in backlog if now - self._waits_since.get(job.id, 0.0) > _WAIT]:
                backlog.remove(job)
                self._release(job)
                self._crowded_until = now + _WAIT
        for running in list(self.executing.values()):
            stubborn = running.task is not None and running.stop_reason is not None
            if stubborn and now - running.stopped_at > _PATIENCE:
                self._leave(running)

    def look_at_the_clock(self) -> None:
        """By hand: end what is late now. Otherwise a timer does."""
        self._timeouts.ring()

    def interrupt_all(self) -> None:
        """The time to finish is over. Async jobs are cancelled; threads are left behind."""
        for running in list(self.executing.values()):
            self._interrupt(running, Interrupted("the worker stopped"))
            if running.task is None:
                self._let_go(running, Interrupted("the worker stopped"))

    def leave_behind(self) -> None:
        """What was interrupted and does not end: its attempt does."""
        for running in list(self.executing.values()):
            self._leave(running)

    async def close(self) -> None:
        self._timeouts.close()
        self._threads.close()
        busy = [running.child for running in self.executing.values() if running.child is not None]
        for child in (*self._children, *busy):
            await child.close()

    @property
    def stuck_threads(self) -> int:
        """Threads that still run a job whose attempt has ended."""
        return sum(1 for running in self._behind if running.task is None)

    @property
    def _limit(self) -> int:
        """What is left behind occupies its slot."""
        return self._concurrency - len(self._behind)

    @property
    def _backlogs(self) -> tuple[deque[ClaimedJob], ...]:
        return (self._backlog, self._sync_backlog, self._suspects)

    def _fill(self) -> None:
        backlog, executing, limit = self._backlog, self.executing, self._limit
        while backlog and len(executing) < limit:
            self._start_safely(backlog.popleft())
        while self._sync_backlog and len(executing) < limit and self._threads.free:
            self._start_safely(self._sync_backlog.popleft())
        while self._suspects and len(executing) < limit and self._children:
            self._start_safely(self._suspects.popleft())

    def _start_safely(self, job: ClaimedJob) -> None:
        try:
            self._start(job)
        except Exception:
            log.exception("job %s could not be started: released", job.id)
            self._crowded_until = self._clock.monotonic() + _WAIT
            running = self.executing.get(job.id)
            if running is None:
                self._release(job)
            else:
                self._finish(running, Outcome(job.id, job.fence, End.RELEASE))

    def _start(self, job: ClaimedJob) -> None:
        if not self._trusted():
            self._release(job)  # by now it may belong to another
            return
        definition = self._registry.get(job.kind)
        if definition is None:
            log.warning("job %s is held: this worker does not know its kind, %s", job.id, job.kind)
            self._waits_since.pop(job.id, None)
            self._on_done(Outcome(job.id, job.fence, End.HOLD, reason=_UNKNOWN))
            return
        alone = job.suspect and self._isolates
        if alone and not self._children:
            self._suspects.append(job)
            return
        if not definition.is_async and not alone and not self._threads.free:
            self._sync_backlog.append(job)
            return
        running = Running(job, definition)
        self.executing[job.id] = running
        self._waits_since.pop(job.id, None)
        self._stage.on_start(job)
        if job.timeout is not None:
            self._timeouts.watch(job.id, job.timeout, running)
        if alone:
            running.child = self._children.pop()
            running.task = self._loop.create_task(self._run_alone(running, running.child))
        elif definition.is_async:
            running.task = self._loop.create_task(self._run_async(running))
        else:
            self._threads.submit(running)

    async def _run_async(self, running: Running) -> None:
        running.begun = True
        CURRENT.set(running.current)
        try:
            result = await call(running.definition, running.job.payload)
            outcome = success(running.job, result, limit=self._result_limit)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is how the attempt ended
            outcome = self._failed(running, error)
        self._finish(running, outcome)

    async def _run_alone(self, running: Running, child: ChildProcess) -> None:
        """A suspect, where only it can die."""
        running.begun = True
        try:
            result = await child.run(running.job)
            outcome = success(running.job, result, limit=self._result_limit)
        except BaseException as error:  # noqa: BLE001
            outcome = self._failed(running, error)
        self._finish(running, outcome)

    def _run_in_thread(self, running: Running) -> Outcome:
        CURRENT.set(running.current)
        try:
            result = call(running.definition, running.job.payload)
            return success(running.job, result, limit=self._result_limit)
        except BaseException as error:  # noqa: BLE001
            return self._failed(running, error)

    def _finish(self, running: Running, outcome: Outcome) -> None:
        job = running.job
        if self.executing.get(job.id) is running:
            del self.executing[job.id]
            if running.child is not None:
                self._children.append(running.child)
            if job.timeout is not None:
                self._timeouts.forget(job.id, job.timeout)
            self._on_done(outcome)
        else:
            self._behind.discard(running)
        self._fill()

    def _failed(self, running: Running, error: BaseException) -> Outcome:
        # A cancelled task does not say why; whoever cancelled it has written the reason down.
        if running.stop_reason is not None and isinstance(error, asyncio.CancelledError):
            error = running.stop_reason
        self._stage.on_failure(running.job, error)
        try:
            outcome = failure(
                running.job,
                running.definition,
                error,
                ids=self._ids,
                loss_limit=self._settings.worker.loss_limit,
            )
        except BaseException as second:  # noqa: BLE001 - it runs code of the exception's own
            outcome = undescribed(running.job, error, second)
        report(running.job, outcome)
        return outcome

    def _interrupt(self, running: Running, why: BaseException) -> None:
        if running.stop_reason is not None:
            return
        running.stop_reason = why
        running.stopped_at = self._clock.monotonic()
        running.current.cancelled = True
        if running.task is None:
            return
        running.task.cancel()
        if not running.begun:
            # Cancelled before its first line: nobody else will ever say how it ended.
            requested = isinstance(why, Requested)
            end, reason = (End.CANCEL, "requested") if requested else (End.RELEASE, None)
            self._finish(running, Outcome(running.job.id, running.job.fence, end, reason=reason))

    def _release(self, job: ClaimedJob) -> None:
        self._waits_since.pop(job.id, None)
        self._on_done(Outcome(job.id, job.fence, End.RELEASE))

    def _time_out(self, running: Running, timeout: float) -> None:
        """A thread cannot be stopped: its attempt ends, the thread stays occupied."""
        why = TimedOut(f"it ran longer than its timeout of {timeout:g} s")
        self._interrupt(running, why)
        if running.task is None:
            self._let_go(running, why)

    def _leave(self, running: Running) -> None:
        log.warning("job %s does not let itself be cancelled", running.job.id)
        self._let_go(running, running.stop_reason or Interrupted("the worker stopped"))

    def _let_go(self, running: Running, why: BaseException) -> None:
        """Its attempt ends, although it runs on."""
        self._behind.add(running)
        self._finish(running, self._failed(running, why))


def _concurrency(registry: Registry, settings: Settings) -> int:
    """What an app of sync functions alone claims beyond its threads would only wait here."""
    own = settings.worker
    if any(definition.is_async for definition in registry):
        return own.concurrency
    return min(own.concurrency, own.threads)
