"""Workflows and their steps as they are printed: JSON, or text with a picture."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec

from foliot.cli.output import print_table, printable
from foliot.cli.shape import say_entry, show_time
from foliot.drawing import boxes_of, draw_terminal, to_ascii, took, why_failed
from foliot.drawing.boxes import FEW
from foliot.explain_step import facts_among, reason_of, ruled_out_by
from foliot.ids import inner_id
from foliot.model.job import JobState
from foliot.model.workflow import (
    FAILED,
    HELD_BY_PAUSE,
    HELD_FOR_SIGNAL,
    HELD_FOR_WORKFLOW,
    MAP_KIND,
)
from foliot.workflow_view import Elements

if TYPE_CHECKING:
    from foliot.ids import JobId
    from foliot.model.audit import Entry
    from foliot.model.workflow import Step, Workflow

_WORKFLOWS: Final = ("id", "state", "name", "steps", "failed", "created", "took", "about")
_NARROW: Final = ("id", "state", "name", "steps", "age", "took", "about")
_WIDE: Final = 120  # columns, from which whole ids and times have room
# The longest last: nothing is padded to it.
_STEPS: Final = ("step", "state", "started", "took", "job", "reason")
_NOT_LISTED: Final = frozenset(  # drawn, or of no use to people
    {"id", "state", "total", "remaining", "failed", "paused_at", "paused_by", "note", "reason"}
    | {"cancel_requested", "deadline", "fingerprint", "waiter"}
)
_WORTH_A_LINE: Final = (*FAILED, JobState.RUNNING)  # of many that are alike


def workflow_to_json(workflow: Workflow) -> dict[str, Any]:
    shape: dict[str, Any] = msgspec.to_builtins(workflow, builtin_types=(datetime,))
    return shape


def steps_to_json(workflow: Workflow, steps: Sequence[Step]) -> list[dict[str, Any]]:
    elements = Elements(steps)
    return [_step_to_json(step, elements) | {"reason": reason_of(workflow, step)} for step in steps]


def _step_to_json(step: Step, elements: Elements) -> dict[str, Any]:
    """All but the job as it was submitted, which `jobs show` has; the result is the JSON that it is."""
    bare = msgspec.structs.replace(step, result=None, job_template=None)
    shape: dict[str, Any] = msgspec.to_builtins(bare, builtin_types=(datetime,))
    del shape["job_template"]
    result = elements.result(step)
    shape["result"] = None if result is None else msgspec.Raw(result)
    shape["elements"] = elements.counts(step)
    return shape


def print_workflows(workflows: Sequence[Workflow], now: datetime) -> None:
    """On a small terminal an id is its end, by which every command finds it, and a time is how long ago it was."""
    if _is_small():
        print_table(
            _NARROW,
            [_narrow_row(one, now) for one in workflows],
            whole=("id", "state", "steps"),
            names=("name",),
        )
        return
    print_table(_WORKFLOWS, [_row(one, now) for one in workflows], whole=("id",))


def _is_small() -> bool:
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE


def _row(one: Workflow, now: datetime) -> tuple[str, ...]:
    return (
        one.id,
        _state(one),
        one.name,
        _steps_done(one),
        "-" if _was_ended(one) else f"{one.failed:,}",
        show_time(one.created_at),
        _took(one.created_at, one.finished_at, now),
        about(one),
    )


def _narrow_row(one: Workflow, now: datetime) -> tuple[str, ...]:
    failed = f"{one.failed:,} failed" if one.failed and not _was_ended(one) else ""
    return (
        one.id[-8:],
        _state(one),
        one.name,
        _steps_done(one),
        _took(one.created_at, now, now),
        _took(one.created_at, one.finished_at, now),
        ", ".join(said for said in (failed, about(one)) if said),
    )


def _state(one: Workflow) -> str:
    """One that is paused runs as well: nobody is to overlook it."""
    return "paused" if one.paused_at is not None and not one.state.final else one.state.value


def _was_ended(one: Workflow) -> bool:
    """Whether steps were cancelled with it: those are counted with the ones that failed."""
    return one.cancel_requested or one.reason is not None


def _steps_done(one: Workflow) -> str:
    return f"{one.total - one.remaining:,}/{one.total:,}"


def about(workflow: Workflow) -> str:
    """What is most worth knowing beside the state."""
    if workflow.state.final:
        some = workflow.failed and _was_ended(workflow)
        ended = f"{workflow.failed:,} failed or cancelled" if some else ""
        return ", ".join(said for said in (workflow.reason, ended) if said)
    if workflow.cancel_requested:
        return "asked to end"
    if workflow.paused_at is not None:
        by = f" by {workflow.paused_by}" if workflow.paused_by else ""
        note = f": {workflow.note}" if workflow.note else ""
        return f"paused at {show_time(workflow.paused_at)}{by}{note}"
    return "" if workflow.deadline_at is None else f"until {show_time(workflow.deadline_at)}"


def print_workflow(
    workflow: Workflow,
    steps: Sequence[Step],
    errors: Mapping[JobId, str],
    audit: Sequence[Entry],
    *,
    now: datetime,
    width: int,
    colour: bool,
    all: bool,
) -> None:
    """`all`: every step is listed, also of many that are alike."""
    for name, value in _fields(workflow):
        print(f"{name + ':':<15} {printable(value)}")
    print()
    drawn = draw_terminal(workflow, steps, width=width, colour=colour, now=now, errors=errors)
    print(in_letters_of(sys.stdout, drawn))
    if not sys.stdout.isatty():  # there, a table begins with an empty line
        print()
    listed = _listed(steps, all=all)
    _print_steps(listed, Elements(steps), Reasons(workflow, steps, errors), now)
    if len(listed) < len(steps):
        print(f"{len(steps) - len(listed):,} more that are alike are listed with --all")
    for entry in audit:
        print(printable(say_entry(entry)))


def in_letters_of(stream: TextIO, drawn: str) -> str:
    """A picture in the letters that there are."""
    try:
        drawn.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return to_ascii(drawn)
    return drawn


def _listed(steps: Sequence[Step], *, all: bool) -> list[Step]:
    """In the order of the picture; of what is one box there, only what one may want to look at."""
    found: list[Step] = []
    for box in boxes_of(steps):
        few = all or len(box.steps) <= FEW + 1
        worth = [one for one in box.steps if one.kind == MAP_KIND or one.state in _WORTH_A_LINE]
        found += box.steps if few else worth[:FEW]
    return found


def _print_steps(
    steps: Sequence[Step], elements: Elements, reasons: Reasons, now: datetime
) -> None:
    """On a terminal a job is named by the end of its id, by which every command finds it. A small one has no room for
    times of day beside the reasons."""
    whole, small = not sys.stdout.isatty(), _is_small()
    print_table(
        [header for header in _STEPS if header != "started" or not small],
        [
            (
                step.name,
                step.state,
                *(() if small else (show_time(step.started_at),)),
                _took(step.started_at, step.finished_at, now),
                step.job if whole else step.job[-8:],
                _say_elements(elements.counts(step)) or reasons.of(step),
            )
            for step in steps
        ],
        whole=("started", "took", "job"),
        names=("step",),
    )


def _say_elements(counts: Mapping[JobState, int] | None) -> str:
    told = ", ".join(f"{count:,} {state}" for state, count in (counts or {}).items())
    return told and f"its elements: {told}"


class Reasons:
    """Why steps are as they are, in few words: `jobs explain` has more."""

    def __init__(
        self, workflow: Workflow, steps: Sequence[Step], errors: Mapping[JobId, str]
    ) -> None:
        self._workflow = workflow
        self._steps = {step.job: step for step in steps}
        self._errors = errors

    def of(self, step: Step) -> str:
        match step.state:
            case JobState.HELD:
                return self._held(step)
            case JobState.SKIPPED if step.reason == "parents":
                around = [self._steps[id] for id in step.parents if id in self._steps]
                return ruled_out_by(facts_among(self._workflow, step, around))
            case state if state in FAILED:
                return why_failed(self._workflow, step, self._errors.get(step.job)) or ""
        return "" if step.state is JobState.SUCCEEDED else step.reason or ""

    def _held(self, step: Step) -> str:
        reason = step.reason or ""
        return {
            HELD_FOR_SIGNAL: f"waits for signal {step.signal}",
            HELD_FOR_WORKFLOW: f"workflow {inner_id(step.job)} runs",
            HELD_BY_PAUSE: "the workflow is paused",
            "unknown_kind": f"the kind {step.kind!r} was unknown to its worker",
        }.get(reason, reason)


def _took(start: datetime | None, end: datetime | None, now: datetime) -> str:
    """How long, or for how long so far."""
    return "-" if start is None else took(((end or now) - start).total_seconds())


def _fields(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """What neither the picture nor its heading says."""
    yield "id", workflow.id
    for name, value in msgspec.structs.asdict(workflow).items():
        match value:
            case None | False:
                continue
            case datetime() if name not in _NOT_LISTED:
                yield name, show_time(value)
            case _ if name not in _NOT_LISTED:
                yield name, str(value)
    if workflow.waiter is not None:
        yield "job", f"{workflow.waiter} stands for it"
    if workflow.cancel_requested and not workflow.state.final:
        yield "cancel", "it was asked to end"
