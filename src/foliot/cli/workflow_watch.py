"""Watching a workflow until it has ended: its picture on a terminal, elsewhere a line for each step that changes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import Final

import msgspec
from rich.live import Live
from rich.text import Text

from foliot import workflow_commands
from foliot.cli.output import print_json, printable
from foliot.cli.shape import show_time
from foliot.cli.stall import Stall
from foliot.cli.terminal import Screen
from foliot.cli.waiting import last_line
from foliot.cli.workflow_shape import Reasons, in_letters_of, steps_to_json, workflow_to_json
from foliot.clock import SystemClock
from foliot.drawing import draw_terminal
from foliot.errors import StoreUnavailable, WorkflowFailed
from foliot.ids import JobId
from foliot.model.job import STOPPED, Attempt, JobState
from foliot.model.workflow import FAILED, Step, Workflow, WorkflowState
from foliot.store.port import Store
from foliot.workflow_results import errors_of, result_of

_FIRST_LOOK: Final = 0.05
_LAST_LOOK: Final = 0.5
_AT_FIRST: Final = JobState.WAITING
_RAN: Final = (*FAILED, JobState.SUCCEEDED)
_MOST_ERRORS: Final = 100
_SHARE: Final = 10  # a look may take one part in so many of the time: large graphs get fewer
INTERRUPTED: Final = 130


class Watch:
    """`quiet`: nothing is shown on the way. `json`: what is shown is one object a line, whenever something changed."""

    def __init__(
        self,
        store: Store,
        id: JobId,
        *,
        stderr: bool = False,
        json: bool = False,
        quiet: bool = False,
    ) -> None:
        self._store = store
        self._id = id
        self._json = json
        self._quiet = quiet
        self._console = Screen(stderr=stderr)
        self._file = sys.stderr if stderr else sys.stdout
        self._clock = SystemClock()
        self._stall = Stall(store, self._clock)
        self._stop = asyncio.Event()
        self._told: dict[JobId, JobState] = {}
        self._errors: dict[JobId, str] = {}
        self._paused_at: datetime | None = None
        self._last = b""
        self._failures = Failures(store)

    @property
    def drawn(self) -> bool:
        return self._console.is_terminal and not (self._json or self._quiet)

    async def run(self) -> tuple[Workflow, list[Step]] | None:
        """As it stands in the end. None: the watch was broken off."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop.set)
        screen = Live(console=self._console, screen=True, auto_refresh=False)
        pause = _FIRST_LOOK
        with screen if self.drawn else nullcontext():
            while not self._stop.is_set():
                before = self._clock.monotonic()
                found = await self._look()
                if found is not None:
                    workflow, steps = found
                    self._show(screen, workflow, steps, await self._failed(steps))
                    if workflow.state.final:
                        return found
                    await self._say_stall(found[1])
                cost = self._clock.monotonic() - before
                await self._rest(max(pause, _SHARE * cost))
                pause = min(pause * 1.5, _LAST_LOOK)
        return None

    def leave(self, workflow: Workflow, steps: Sequence[Step]) -> None:
        """The last picture, where the screen was that is gone."""
        if self.drawn:
            self._console.print(Text.from_ansi(self._draw(workflow, steps), no_wrap=True))

    async def _look(self) -> tuple[Workflow, list[Step]] | None:
        """None while the store is away: it may come back, and the workflow is in it. It is read first: if it
        has ended, so have its steps."""
        try:
            workflow = await workflow_commands.get_workflow(self._store, self._id)
            steps = await workflow_commands.workflow_steps(self._store, self._id)
            await self._learn(steps)
        except StoreUnavailable:
            return None
        return workflow, steps

    async def _learn(self, steps: Sequence[Step]) -> None:
        """What steps have died of, each asked once; one that was retried may die of something else."""
        if self._json or self._quiet:
            return
        dead = {step.job for step in steps if step.state is JobState.DEAD}
        self._errors = {job: error for job, error in self._errors.items() if job in dead}
        new = [step for step in steps if step.job in dead and step.job not in self._errors]
        left = _MOST_ERRORS - len(self._errors)
        self._errors.update(await errors_of(self._store, new, most=left))

    async def _failed(self, steps: Sequence[Step]) -> list[tuple[Step, Attempt]]:
        """Attempts, where each change has its line; a picture has no room for them."""
        if self._json or self._quiet or self.drawn:
            return []
        try:
            return await self._failures.new(steps)
        except StoreUnavailable:
            return []

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _show(
        self,
        screen: Live,
        workflow: Workflow,
        steps: Sequence[Step],
        failed: Sequence[tuple[Step, Attempt]],
    ) -> None:
        if self._json:
            self._show_object(workflow, steps)
        elif self.drawn:
            screen.update(self._picture(workflow, steps), refresh=True)
        elif not self._quiet:
            self._show_changes(workflow, steps, failed)

    async def _say_stall(self, steps: Sequence[Step]) -> None:
        if self._json or self._quiet:
            return
        for line in await self._stall.of_steps(steps):
            if not self.drawn:  # there it is below the picture
                print(printable(line), file=self._file, flush=True)

    def _picture(self, workflow: Workflow, steps: Sequence[Step]) -> Text:
        """As much of it as there is room for; all of it is printed in the end."""
        height = self._console.size.height
        lines = self._draw(workflow, steps).splitlines()
        lines += [printable(line) for line in self._stall.shown]
        if len(lines) > height:
            hidden = len(lines) - height + 1
            lines = [*lines[: height - 1], f"… {hidden} more lines"]
        return Text.from_ansi("\n".join(lines), no_wrap=True)

    def _draw(self, workflow: Workflow, steps: Sequence[Step]) -> str:
        drawn = draw_terminal(
            workflow,
            steps,
            width=self._console.size.width,
            colour=True,
            now=self._clock.now(),
            errors=self._errors,
            steady=not workflow.state.final,
        )
        return in_letters_of(self._file, drawn)

    def _show_changes(
        self, workflow: Workflow, steps: Sequence[Step], failed: Sequence[tuple[Step, Attempt]]
    ) -> None:
        """In the order in which they came about. That a step waits is nothing new."""
        now, reasons = self._clock.now(), Reasons(workflow, steps, self._errors)
        changed = [step for step in steps if self._told.get(step.job, _AT_FIRST) != step.state]
        self._told.update((step.job, step.state) for step in changed)
        lines = [(attempt.finished_at, _say_attempt(step, attempt)) for step, attempt in failed]
        for step in changed:
            why = f": {reason}" if (reason := reasons.of(step)) else ""
            began = step.started_at if step.state is JobState.RUNNING else None
            lines.append((step.finished_at or began or now, f"{step.name} {step.state}{why}"))
        for at, line in sorted(lines, key=lambda one: one[0]):
            print(printable(f"{show_time(at)} {line}"), file=self._file, flush=True)
        self._show_pause(workflow)

    def _show_pause(self, workflow: Workflow) -> None:
        """Else nobody would know why no step goes on."""
        if workflow.state.final or workflow.paused_at == self._paused_at:
            return
        self._paused_at = workflow.paused_at
        if workflow.paused_at is None:
            line = f"{show_time(self._clock.now())} the workflow is resumed"
        else:
            why = f": {workflow.note}" if workflow.note else ""
            line = f"{show_time(workflow.paused_at)} the workflow is paused by {workflow.paused_by}{why}"
        print(printable(line), file=self._file, flush=True)

    def _show_object(self, workflow: Workflow, steps: Sequence[Step]) -> None:
        shape = {**workflow_to_json(workflow), "steps": steps_to_json(workflow, steps)}
        line = msgspec.json.encode(shape)
        if line != self._last:
            self._last = line
            print(line.decode(), file=self._file, flush=True)


class Failures:
    """Attempts that did not succeed, of steps that changed between two looks. They are asked for where there may be
    some, and of so many steps in a look: it takes no statement for each step."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[JobId, tuple[JobState, datetime | None]] = {}
        self._told: dict[JobId, int] = {}

    async def new(self, steps: Sequence[Step]) -> list[tuple[Step, Attempt]]:
        changed = [step for step in steps if self._seen.get(step.job) != _moment(step)]
        found: list[tuple[Step, Attempt]] = []
        told = dict(self._told)
        for step in await self._suspects(changed):
            attempts = await self._store.jobs.attempts(step.job)
            told[step.job] = len(attempts)
            found += [
                (step, attempt)
                for attempt in attempts[self._told.get(step.job, 0) :]
                if attempt.outcome not in STOPPED
                and not (step.state is JobState.DEAD and attempt is attempts[-1])  # its line has it
            ]
        self._told = told
        self._seen.update((step.job, _moment(step)) for step in changed)
        return found

    async def _suspects(self, changed: Sequence[Step]) -> list[Step]:
        ended = [step for step in changed if step.state in _RAN][:_MOST_ERRORS]
        jobs = await self._store.jobs.ended([step.job for step in ended]) if ended else []
        repeated = {job.id for job in jobs if job.attempt > 1}
        again = [step for step in changed if not step.state.final and self._may_have_failed(step)]
        return [step for step in ended if step.job in repeated] + again[:_MOST_ERRORS]

    def _may_have_failed(self, step: Step) -> bool:
        """It ran, and is about to run again; when it was not seen, it may be no more than delayed."""
        before = self._seen.get(step.job)
        return step.state is JobState.SCHEDULED or (
            before is not None and before[0] is JobState.RUNNING
        )


def _moment(step: Step) -> tuple[JobState, datetime | None]:
    """Another attempt that runs has begun at another time."""
    return step.state, step.started_at


def _say_attempt(step: Step, attempt: Attempt) -> str:
    most = "" if step.job_template is None else f" of {step.job_template.max_attempts}"
    return f"{step.name} attempt {attempt.attempt}{most} {attempt.outcome}: {last_line(attempt)}"


async def wait_for_end(store: Store, id: JobId, *, is_new: bool, json: bool) -> int:
    """Until a workflow that was submitted has ended. What is shown on the way goes to stderr, the result to stdout.
    0 if it succeeded, 1 if not, 130 if the wait was broken off."""
    if not json:
        said = f"submitted {id}" if is_new else f"there already, by its key: {id}"
        print(said, file=sys.stderr, flush=True)
    watch = Watch(store, id, stderr=True, quiet=json)
    found = await watch.run()
    if found is None:
        print(f"no longer waiting: the workflow goes on, {id}", file=sys.stderr)
        return INTERRUPTED
    workflow, steps = found
    watch.leave(workflow, steps)
    result, error = None, None
    try:
        result = await result_of(store, id)
    except WorkflowFailed as failure:
        error = failure.error
    if json:
        failed = [step.name for step in steps if step.state in FAILED]
        told = {
            "id": id,
            "is_new": is_new,
            "state": workflow.state,
            "result": result,
            "error": error,
        }
        print_json({**told, "reason": workflow.reason, "failed": failed})
    elif workflow.state is WorkflowState.SUCCEEDED:
        print_json(result)
    else:
        why = "; ".join(one for one in (workflow.reason, error) if one)
        line = f"error: workflow {id} is {workflow.state}" + (f": {why}" if why else "")
        print(printable(line), file=sys.stderr)
    return 0 if workflow.state is WorkflowState.SUCCEEDED else 1
