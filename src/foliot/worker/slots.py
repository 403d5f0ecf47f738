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

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids, JobId
from foliot.model.definition import JobDefinition
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.registry import Registry, call
from foliot.worker.context import CURRENT, CurrentJob
from foliot.worker.executors.process import ChildProcess
from foliot.worker.executors.thread import Threads
from foliot.worker.run import Interrupted, Requested, TimedOut, failure, success

log = logging.getLogger("foliot.worker")
_UNKNOWN: Final = "unknown_kind"
_MOST_ALONE: Final = 4  # child processes for suspects
_PATIENCE: Final = (
    5.0  # seconds past its timeout that a job may wait here; the store takes it back after 10
)


class Running:
    """One attempt under way."""

    __slots__ = ("begun", "child", "current", "definition", "job", "stop_reason", "task")

    def __init__(self, job: ClaimedJob, definition: JobDefinition) -> None:
        self.job = job
        self.definition = definition
        self.current = CurrentJob(job)
        self.task: asyncio.Task[None] | None = None
        self.child: ChildProcess | None = None
        self.begun = False  # of a task: whether it has come to its first line
        self.stop_reason: BaseException | None = None


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
        self._threads: Threads[Running] = Threads(
            settings.worker.threads, self._run_in_thread, self._finish
        )
        # Children that are free; without a target there is nothing that they could run.
        self._children = [ChildProcess(target) for _ in range(_MOST_ALONE)] if target else []
        self._isolates = target is not None
        self.executing: dict[JobId, Running] = {}
        self._backlog: deque[ClaimedJob] = deque()
        self._sync_backlog: deque[ClaimedJob] = deque()
        self._suspects: deque[ClaimedJob] = deque()
        self._waits_since: dict[JobId, float] = {}  # of those that have a timeout
        # For each timeout in use, its jobs in the order they started: the first is the first to run out.
        self._timeouts: dict[float, dict[JobId, tuple[float, Running]]] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, jobs: Sequence[ClaimedJob], *, since: float) -> None:
        """Jobs that were asked for at `since`, on the monotonic clock."""
        self._backlog.extend(jobs)
        if not self._open:
            self.release_waiting()
            return
        for job in jobs:
            if job.timeout is not None:
                self._waits_since[job.id] = since
        self._fill()

    def room(self, prefetch: int) -> int:
        """How many more jobs to claim, so that `prefetch` of them wait here for a slot."""
        if len(self._sync_backlog) > prefetch:
            return 0  # what comes in cannot start: threads are the limit, not slots
        # Suspects wait for a child, not for a slot: some of them must not keep everybody else out.
        suspects = max(0, len(self._suspects) - self._concurrency)
        waiting = len(self._backlog) + len(self._sync_backlog) + suspects
        return self._concurrency + prefetch - len(self.executing) - waiting

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

    def release_stale(self) -> None:
        """Give back what has waited here so long that the store will soon take its attempt for timed out."""
        now = self._clock.monotonic()
        for backlog in self._backlogs:
            for job in [job for job in backlog if self._is_stale(job, now)]:
                backlog.remove(job)
                self._release(job)

    def interrupt_all(self) -> None:
        """The time to finish is over. Async jobs are cancelled; threads are left behind."""
        for running in list(self.executing.values()):
            self._interrupt(running, Interrupted("the worker stopped"))
            if running.task is None:
                self._finish(running, self._failed(running, Interrupted("the worker stopped")))

    def leave_behind(self) -> None:
        """What was interrupted and does not end: its attempt does."""
        for running in list(self.executing.values()):
            log.warning("job %s does not let itself be cancelled", running.job.id)
            self._finish(running, self._failed(running, Interrupted("the worker stopped")))

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._threads.close()
        busy = [running.child for running in self.executing.values() if running.child is not None]
        for child in (*self._children, *busy):
            await child.close()

    @property
    def stuck_threads(self) -> int:
        """Threads that still run a job whose attempt has ended."""
        return self._threads.busy - sum(1 for r in self.executing.values() if r.task is None)

    @property
    def _backlogs(self) -> tuple[deque[ClaimedJob], ...]:
        return (self._backlog, self._sync_backlog, self._suspects)

    def _fill(self) -> None:
        backlog, executing, limit = self._backlog, self.executing, self._concurrency
        while backlog and len(executing) < limit:
            self._start(backlog.popleft())
        while self._sync_backlog and len(executing) < limit and self._threads.idle:
            self._start(self._sync_backlog.popleft())
        while self._suspects and len(executing) < limit and self._children:
            self._start(self._suspects.popleft())

    def _start(self, job: ClaimedJob) -> None:
        if not self._trusted():
            self._release(job)  # by now it may belong to another
            return
        definition = self._registry.get(job.kind)
        if definition is None:
            log.warning("job %s is held: this worker does not know its kind, %s", job.id, job.kind)
            self._on_done(Outcome(job.id, job.fence, End.HOLD, reason=_UNKNOWN))
            return
        alone = job.suspect and self._isolates
        if alone and not self._children:
            self._suspects.append(job)
            return
        if not definition.is_async and not alone and not self._threads.idle:
            self._sync_backlog.append(job)
            return
        running = Running(job, definition)
        self.executing[job.id] = running
        if job.timeout is not None:
            self._waits_since.pop(job.id, None)
            self._watch(running, job.timeout)
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
                self._timeouts[job.timeout].pop(job.id, None)
            self._on_done(outcome)
        self._fill()

    def _failed(self, running: Running, error: BaseException) -> Outcome:
        # A cancelled task does not say why; whoever cancelled it has written the reason down.
        if running.stop_reason is not None and isinstance(error, asyncio.CancelledError):
            error = running.stop_reason
        return failure(
            running.job,
            running.definition,
            error,
            ids=self._ids,
            loss_limit=self._settings.worker.loss_limit,
        )

    def _interrupt(self, running: Running, why: BaseException) -> None:
        if running.stop_reason is not None:
            return
        running.stop_reason = why
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

    def _is_stale(self, job: ClaimedJob, now: float) -> bool:
        return job.timeout is not None and (
            now - self._waits_since.get(job.id, now) > job.timeout + _PATIENCE
        )

    def _watch(self, running: Running, timeout: float) -> None:
        until = self._clock.monotonic() + timeout
        self._timeouts.setdefault(timeout, {})[running.job.id] = (until, running)
        if self._alarm is None or until < self._alarm_at:
            self._set_alarm(until)

    def _set_alarm(self, until: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = until
        self._alarm = self._loop.call_later(max(0.0, until - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        """End what has run out of time. A thread cannot be stopped: its attempt ends, the thread stays occupied."""
        self._alarm = None
        now = self._clock.monotonic()
        for timeout, jobs in self._timeouts.items():
            for until, running in list(jobs.values()):
                if until > now:
                    break
                jobs.pop(running.job.id, None)
                why = TimedOut(f"it ran longer than its timeout of {timeout:g} s")
                self._interrupt(running, why)
                if running.task is None:
                    self._finish(running, self._failed(running, why))
        firsts = [next(iter(jobs.values()))[0] for jobs in self._timeouts.values() if jobs]
        if firsts:
            self._set_alarm(min(firsts))


def _concurrency(registry: Registry, settings: Settings) -> int:
    """What an app of sync functions alone claims beyond its threads would only wait here."""
    own = settings.worker
    if any(definition.is_async for definition in registry):
        return own.concurrency
    return min(own.concurrency, own.threads)
