"""Slots: the jobs that this process is executing, and those that it has claimed and not yet started.

Async functions run on the event loop, sync ones in threads, suspects alone in a child process. Every job that comes
in leaves as exactly one Outcome.
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


class Running:
    """One attempt under way."""

    __slots__ = ("current", "definition", "job", "stop_reason", "task")

    def __init__(self, job: ClaimedJob, definition: JobDefinition) -> None:
        self.job = job
        self.definition = definition
        self.current = CurrentJob(job)
        self.task: asyncio.Task[None] | None = None
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
        on_done: Callable[[Outcome], None],
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._concurrency = settings.worker.concurrency
        self._result_limit = settings.limits.result
        self._clock = clock
        self._ids = ids
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._threads: Threads[Running] = Threads(
            settings.worker.threads, self._run_in_thread, self._finish
        )
        self._child = ChildProcess(target) if target else None
        self._alone = asyncio.Lock()
        self.executing: dict[JobId, Running] = {}
        self._backlog: deque[ClaimedJob] = deque()
        self._sync_backlog: deque[ClaimedJob] = deque()
        # For each timeout in use, its jobs in the order they started: the first is the first to run out.
        self._timeouts: dict[float, dict[JobId, tuple[float, Running]]] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, jobs: Sequence[ClaimedJob]) -> None:
        self._backlog.extend(jobs)
        self._fill()

    def room(self, prefetch: int) -> int:
        """How many more jobs to claim, so that `prefetch` of them wait here for a slot."""
        if len(self._sync_backlog) > prefetch:
            return 0  # what comes in cannot start: threads are the limit, not slots
        waiting = len(self._backlog) + len(self._sync_backlog)
        return self._concurrency + prefetch - len(self.executing) - waiting

    def holds(self, id: JobId) -> bool:
        return id in self.executing or any(
            job.id == id for backlog in (self._backlog, self._sync_backlog) for job in backlog
        )

    def cancel(self, ids: set[JobId]) -> None:
        """Somebody asked for the end of these."""
        for id in ids:
            if id in self.executing:
                self._interrupt(self.executing[id], Requested())
        for backlog in (self._backlog, self._sync_backlog):
            for job in [job for job in backlog if job.id in ids]:
                backlog.remove(job)
                self._on_done(Outcome(job.id, job.fence, End.CANCEL, reason="requested"))

    def release_waiting(self) -> None:
        """Give back what has not started."""
        for backlog in (self._backlog, self._sync_backlog):
            while backlog:
                job = backlog.popleft()
                self._on_done(Outcome(job.id, job.fence, End.RELEASE))

    def interrupt_all(self) -> None:
        """The time to finish is over. Async jobs are cancelled; threads are left behind."""
        for running in list(self.executing.values()):
            self._interrupt(running, Interrupted("the worker stopped"))
            if running.task is None:
                self._finish(running, self._failed(running, Interrupted("the worker stopped")))

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._threads.close()
        if self._child is not None:
            await self._child.close()

    @property
    def stuck_threads(self) -> int:
        """Threads that still run a job whose attempt has ended."""
        return self._threads.busy - sum(1 for r in self.executing.values() if r.task is None)

    def _fill(self) -> None:
        backlog, executing, limit = self._backlog, self.executing, self._concurrency
        while backlog and len(executing) < limit:
            self._start(backlog.popleft())
        while self._sync_backlog and len(executing) < limit and self._threads.idle:
            self._start(self._sync_backlog.popleft())

    def _start(self, job: ClaimedJob) -> None:
        definition = self._registry.get(job.kind)
        if definition is None:
            log.warning("job %s is held: this worker does not know its kind, %s", job.id, job.kind)
            self._on_done(Outcome(job.id, job.fence, End.HOLD, reason=_UNKNOWN))
            return
        if not definition.is_async and not job.suspect and not self._threads.idle:
            self._sync_backlog.append(job)
            return
        running = Running(job, definition)
        self.executing[job.id] = running
        if job.timeout is not None:
            self._watch(running, job.timeout)
        if job.suspect and self._child is not None:
            running.task = self._loop.create_task(self._run_alone(running, self._child))
        elif definition.is_async:
            running.task = self._loop.create_task(self._run_async(running))
        else:
            self._threads.submit(running)

    async def _run_async(self, running: Running) -> None:
        CURRENT.set(running.current)
        try:
            result = await call(running.definition, running.job.payload)
            outcome = success(running.job, result, limit=self._result_limit)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is how the attempt ended
            outcome = self._failed(running, error)
        self._finish(running, outcome)

    async def _run_alone(self, running: Running, child: ChildProcess) -> None:
        """A suspect: one at a time, where only it can die."""
        try:
            async with self._alone:
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
        if running.task is not None:
            running.task.cancel()

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
