"""Attempts: what is being executed right now, where, and how it is brought to an end.

An attempt runs on the event loop, in a thread or in a child process. It ends by itself, or it is interrupted: told
first, then, after a grace, forced. Whatever happens, it leaves exactly one Outcome. A thread cannot be forced, and a
task may ignore it: such an attempt ends all the same, and what still runs stays behind and occupies its slot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from foliot.builtin import Awaiting
from foliot.config import Settings
from foliot.ids import Ids, JobId
from foliot.model.job import ClaimedJob, End, Outcome, Span
from foliot.model.session import SUSPECTS
from foliot.worker.context import CURRENT, Place
from foliot.worker.executors.process import ChildProcess
from foliot.worker.executors.thread import Threads
from foliot.worker.executors.wire import Said
from foliot.worker.invoke import Interruptible, Recipe, SoftCancel
from foliot.worker.run import (
    Interrupted,
    Requested,
    TimedOut,
    failure,
    report,
    settled,
    undescribed,
)
from foliot.worker.running import Running
from foliot.worker.stage import DEFAULT_STAGE, Stage
from foliot.worker.starts import Starts
from foliot.worker.success import success
from foliot.worker.timeouts import Timeouts

log = logging.getLogger("foliot.worker")
_TOGETHER: Final = 0.001  # seconds
_FORCED: Final = {
    "killed": "it was asked to end, did not, and its process was killed",
    "abandoned": "it was asked to end, does not, and is left to run on",
}


class Attempts:
    def __init__(
        self,
        settings: Settings,
        place: Place,
        *,
        ids: Ids,
        target: str | None,
        on_end: Callable[[Outcome | None], None],
        stage: Stage,
    ) -> None:
        """`on_end` is given each outcome, or None when something that was left behind has ended."""
        self._settings = settings
        self._place = place
        self._clock = place.clock
        self._now = place.clock.monotonic
        self._counts = place.counts
        self._ids = ids
        self._on_end = on_end
        self._result_limit = settings.limits.result
        self._loop = asyncio.get_running_loop()
        self._stage = None if stage is DEFAULT_STAGE else stage  # hardly anybody looks on
        self.threads: Threads[Running] = stage.threads(
            settings.worker.threads, self._run_in_thread, self._finish, self._failed
        )
        # Children that are free, and cells for suspects; without a target there is nothing that they could run.
        self.can_isolate = target is not None
        self.children = self._make_children(target, settings.worker.children)
        self.cells = self._make_children(target, max(SUSPECTS, settings.worker.children))
        self.executing: dict[JobId, Running] = {}
        self.behind: set[Running] = set()  # still run although their attempts have ended
        self._spans: dict[
            str, Span
        ] = {}  # the last of each kind, for those that run together with it
        self.starts = Starts(place.clock)
        self._timeouts: Timeouts[Running] = Timeouts(place.clock, self._time_out)
        self._soft_timeouts: Timeouts[Running] = Timeouts(place.clock, self._soften)
        self.started = self.finished = 0  # how many ever

    @property
    def stuck_threads(self) -> int:
        """Threads that still run a job whose attempt has ended. The heartbeat's thread asks, too: of a copy."""
        return sum(1 for running in list(self.behind) if running.task is None)

    def start_on_loop(self, job: ClaimedJob, recipe: Recipe) -> None:
        running = self._begin(job, recipe)
        if job.timeout is not None or recipe.soft_timeout is not None:
            self._watch_times(running)
        running.task = self._loop.create_task(self._run_async(running))

    def start_in_thread(self, job: ClaimedJob, recipe: Recipe) -> None:
        running = self._begin(job, recipe)
        if job.timeout is not None or recipe.soft_timeout is not None:
            self._watch_times(running)
        self.threads.submit(running)

    def start_in_child(self, job: ClaimedJob, recipe: Recipe, free: list[ChildProcess]) -> None:
        running = self._begin(job, recipe)
        running.child, running.home = free.pop(), free
        if job.timeout is not None:
            self.starts.wait(job)
        running.task = self._loop.create_task(self._run_in_child(running, running.child))

    def cancel(self, id: JobId) -> None:
        """Somebody asked for its end."""
        self._interrupt(self.executing[id], Requested())

    def tend(self) -> None:
        """Force what was asked to end and has not within the grace."""
        now, usual = self._clock.monotonic(), self._settings.worker.cancel_grace
        for running in list(self.executing.values()):
            own = running.definition.cancel_grace
            grace = usual if own is None else own
            if running.stop_reason is not None and now - running.stopped_at > grace:
                self._force(running)

    def look_at_the_clock(self) -> None:
        """By hand: end what is late now. Otherwise a timer does."""
        self._soft_timeouts.ring()
        self._timeouts.ring()

    def interrupt_all(self) -> None:
        """The time to finish is over. Async jobs are cancelled, children killed; threads are left behind."""
        for running in list(self.executing.values()):
            self._interrupt(running, Interrupted("the worker stopped"))
            if running.task is None:
                self._let_go(running, Interrupted("the worker stopped"))
            elif running.child is not None:
                running.task.cancel()

    def leave_behind(self) -> None:
        """What was interrupted and does not end: its attempt does."""
        for running in list(self.executing.values()):
            self._leave(running)

    def give_back(self, id: JobId) -> bool:
        """What could not be started after all: whether it had been begun."""
        running = self.executing.get(id)
        if running is not None:
            self._finish(running, Outcome(id, running.job.fence, End.RELEASE))
        return running is not None

    async def close(self) -> None:
        self._timeouts.close()
        self._soft_timeouts.close()
        self.threads.close()
        busy = [running.child for running in self.executing.values() if running.child is not None]
        await asyncio.gather(
            *(child.close() for child in (*self.children, *self.cells)),
            *(child.kill() for child in busy),
        )

    def _begin(self, job: ClaimedJob, recipe: Recipe) -> Running:
        running = self.executing[job.id] = Running(job, recipe, self._place)
        self.started += 1
        if self._stage is not None:
            self._stage.on_start(job)
        return running

    def _watch_times(self, running: Running) -> None:
        """Its timeouts count from here."""
        job, soft = running.job, running.recipe.soft_timeout
        if job.timeout is not None:
            running.current.begin()
            self._timeouts.watch(job.id, job.timeout, running)
        if soft is not None:
            self._soft_timeouts.watch(job.id, soft, running)

    async def _run_async(self, running: Running) -> None:
        running.begun = True
        running.began = self._now()
        CURRENT.set(running.current)
        try:
            called = running.recipe.invoke(running.current, running.job)
            if running.recipe.soft_timeout is not None:
                called = running.soft = Interruptible(called)
            result = await called
            outcome = self._succeeded(running, result)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is how the attempt ended
            outcome = self._failed(running, error)
        self._finish(running, outcome)

    def _run_in_thread(self, running: Running) -> Outcome:
        running.began = self._now()
        CURRENT.set(running.current)
        try:
            result = running.recipe.invoke(running.current, running.job)
            return self._succeeded(running, result)
        except BaseException as error:  # noqa: BLE001
            return self._failed(running, error)

    async def _run_in_child(self, running: Running, child: ChildProcess) -> None:
        """Where only it can die."""
        running.begun = True
        try:
            await child.start()
            self._watch_times(running)
            running.called = True
            running.began = self._now()
            if running.job.timeout is not None:
                self.starts.begin(running.job)
            queue, memory = running.current.queue, running.recipe.definition.memory
            outcome = await child.run(running.job, queue, memory=memory)
            report(running.job, outcome)
        except BaseException as error:  # noqa: BLE001
            outcome = self._failed(running, error)
        self._finish(running, outcome)

    def _finish(self, running: Running, outcome: Outcome) -> None:
        job = running.job
        if self.executing.get(job.id) is not running:
            # Let go before, or the store has given the job to us once more: the child comes back all the same.
            self.behind.discard(running)
            running.give_back_child()
            self._on_end(None)
            return
        del self.executing[job.id]
        self.finished += 1
        if outcome.span is None and self._counts and (began := running.began) is not None:
            span = (job.id, job.lane, job.kind, job.more, began, self._now())
            outcome = replace(outcome, span=span)
        if running.child is not None:
            running.give_back_child()
        if job.timeout is not None:
            self._timeouts.forget(job.id, job.timeout)
            self.starts.forget(job.id)
        if running.recipe.soft_timeout is not None:
            self._soft_timeouts.forget(job.id, running.recipe.soft_timeout)
        self._on_end(outcome)

    def _succeeded(self, running: Running, result: object) -> Outcome:
        if running.current.transacts and running.current.settled:
            return settled(running.job)
        job, span = running.job, None
        if self._counts and (began := running.began) is not None:
            ended, span = self._now(), self._spans.get(job.kind)
            if (
                span is None
                or job.more is not None
                or ended - span[5] > _TOGETHER
                or abs(began - span[4]) > _TOGETHER
                or job.lane != span[1]
            ):
                span = (job.id, job.lane, job.kind, job.more, began, ended)
                if job.more is None:
                    self._spans[job.kind] = span
        return success(job, result, self._result_limit, span)

    def _failed(self, running: Running, error: BaseException) -> Outcome:
        if running.current.transacts and running.current.settled:
            return settled(running.job, error)
        # A cancelled task does not say why; whoever cancelled it has written the reason down.
        if running.stop_reason is not None and isinstance(error, asyncio.CancelledError):
            error = running.stop_reason
        if self._stage is not None and not isinstance(error, Awaiting):
            self._stage.on_failure(running.job, error)
        try:
            outcome = failure(
                running.job,
                running.recipe.definition,
                error,
                ids=self._ids,
                loss_limit=self._settings.worker.loss_limit,
            )
        except BaseException as second:  # noqa: BLE001 - every attempt has an outcome
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
        if running.child is not None and running.called and isinstance(why, Requested):
            running.child.tell(running.job, softly=False)
            return
        running.task.cancel()
        if not running.begun:
            # Cancelled before its first line: nobody else will ever say how it ended.
            reason = why.how if isinstance(why, Requested) else None
            job = running.job
            self._finish(running, Outcome(job.id, job.fence, End.RELEASE, reason=reason))

    def _force(self, running: Running) -> None:
        """It was asked to end, and has not within the grace."""
        if isinstance(running.stop_reason, Requested):
            how = "abandoned" if running.child is None else "killed"
            running.stop_reason = Requested(how, _FORCED[how])
        if running.child is not None and running.task is not None:
            running.stopped_at = float("inf")
            running.task.cancel()  # which kills the child
        else:
            self._leave(running)

    def _time_out(self, running: Running, timeout: float) -> None:
        """A thread cannot be stopped: its attempt ends, the thread stays occupied. A child is killed."""
        if running.stop_reason is not None and running.child is not None:
            self._force(running)  # asked to end before, and now its time is over too
            return
        how = ", its process was killed" if running.child is not None else ""
        if running.task is None:
            how = ", its thread runs on"
        why = TimedOut(f"it ran longer than its timeout of {timeout:g} s{how}")
        self._interrupt(running, why)
        if running.task is None:
            self._let_go(running, why)

    def _soften(self, running: Running, _: float) -> None:
        """The function is told. In a thread it has to ask."""
        running.current.timed_out = True
        if running.child is not None:
            running.child.tell(running.job, softly=True)
        elif running.soft is not None:
            running.soft.throw(SoftCancel())

    def _leave(self, running: Running) -> None:
        log.warning("job %s does not end, it is left behind", running.job.id)
        self._let_go(running, running.stop_reason or Interrupted("the worker stopped"))

    def _let_go(self, running: Running, why: BaseException) -> None:
        """Its attempt ends, although it runs on."""
        self.behind.add(running)
        self._finish(running, self._failed(running, why))

    def _make_children(self, target: str | None, count: int) -> list[ChildProcess]:
        if target is None:
            return []
        session, clock = self._place.session, self._place.clock
        return [
            ChildProcess(target, self._settings, session, clock=clock, hear=self._pass_on)
            for _ in range(count)
        ]

    def _pass_on(self, said: Said) -> None:
        """What a job in a child says."""
        if said.line is not None:
            self._place.notes.put_line(said.line)
        if said.progress is not None:
            self._place.notes.put_progress(said.progress)
