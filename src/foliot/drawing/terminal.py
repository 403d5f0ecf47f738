"""A workflow in a terminal: boxes where they fit, else a line for each step with the edges beside it, else a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from foliot.drawing.boxes import MARKS, Box, boxes_of, printable, took
from foliot.drawing.ink import LINE, PLAIN, TITLE, Piece, paint, wrap
from foliot.drawing.lanes import draw_lanes, draw_list
from foliot.drawing.panels import draw_panels
from foliot.explain_step import why_cancelled
from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import FAILED, Step, Workflow, WorkflowState

NARROWEST: Final = 40
_MOST_NAMED: Final = 5
_PLAIN_FAILURE: Final = "failed"  # the reason of a step whose attempts have all raised
_BAD_ENDS: Final = {JobState.DEAD: "failed", JobState.CANCELLED: "cancelled"}
_NONE: Final[Mapping[JobId, str]] = {}
_LOOKS: Final = {
    WorkflowState.RUNNING: JobState.RUNNING,
    WorkflowState.SUCCEEDED: JobState.SUCCEEDED,
    WorkflowState.FAILED: JobState.DEAD,
    WorkflowState.CANCELLED: JobState.CANCELLED,
}


def draw_terminal(
    workflow: Workflow,
    steps: Sequence[Step],
    *,
    width: int,
    colour: bool,
    now: datetime | None = None,
    errors: Mapping[JobId, str] = _NONE,
    steady: bool = False,
) -> str:
    """`now`: for how long what has not ended has been going on. `errors`: what steps died of, as far as it is known.
    `steady`: it is drawn again and again, and should not jump. Colours are ANSI's."""
    width = max(width, NARROWEST)
    boxes = boxes_of(steps, now=now)
    picture = draw_panels(boxes, width=width, steady=steady)
    if picture is None:
        picture = draw_lanes(boxes, width=width)
    if picture is None:
        picture = draw_list(boxes, width=width)
    head, failures = _head(workflow, boxes, width, now), _failures(workflow, boxes, errors, width)
    lines = [*head, [], *picture, *failures]
    return "\n".join(paint(line, colour=colour) for line in lines)


def summary(workflow: Workflow, boxes: Sequence[Box], now: datetime | None = None) -> list[str]:
    """How it stands: state, steps, duration."""
    steps = "1 step" if workflow.total == 1 else f"{workflow.total:,} steps"
    if not workflow.id:
        return ["not submitted", steps]
    done = workflow.total - workflow.remaining
    said = [workflow.state.value]
    if workflow.reason is not None:
        said[0] += f" ({printable(workflow.reason)})"
    said.append(steps if not workflow.remaining else f"{done:,} of {steps} done")
    ends = Counter(step.state for box in boxes for step in box.steps)
    for state, word in _BAD_ENDS.items():
        if ends[state]:
            said.append(f"{ends[state]:,} {word}")
    until = workflow.finished_at or now
    if until is not None:
        said.append(took((until - workflow.created_at).total_seconds()))
    return said


def look_of(workflow: Workflow) -> JobState:
    """The state of a step that looks as the whole does."""
    if not workflow.id:
        return JobState.WAITING
    return _LOOKS[workflow.state] if workflow.paused_at is None else JobState.HELD


def said_of_pause(workflow: Workflow) -> str:
    by = "" if workflow.paused_by is None else f" by {workflow.paused_by}"
    note = "" if workflow.note is None else f": {workflow.note}"
    return printable(f"paused{by}{note}")


def _head(
    workflow: Workflow, boxes: Sequence[Box], width: int, now: datetime | None
) -> list[list[Piece]]:
    look = look_of(workflow)
    title, said = printable(workflow.name), " · ".join(summary(workflow, boxes, now))
    one_line = len(wrap(f"{title}   {said}", width)) == 1
    if one_line:
        lines: list[list[Piece]] = [[(title, TITLE), ("   ", PLAIN), (said, look)]]
    else:
        lines = [
            *([(line, TITLE)] for line in wrap(title, width)),
            *([(line, str(look))] for line in wrap(said, width)),
        ]
    if workflow.paused_at is not None:
        text = f"{MARKS[JobState.HELD]} {said_of_pause(workflow)}"
        lines += [[(line, str(JobState.HELD))] for line in wrap(text, width)]
    return lines


def _failures(
    workflow: Workflow, boxes: Sequence[Box], errors: Mapping[JobId, str], width: int
) -> list[list[Piece]]:
    """Those that one cannot see in the picture, and why others failed."""
    failed = [
        (step, why)
        for box in boxes
        for step in box.steps
        if step.state in FAILED
        and ((why := why_failed(workflow, step, errors.get(step.job))) or len(box.steps) > 1)
    ]
    lines: list[list[Piece]] = [[]] if failed else []
    for step, why in failed[:_MOST_NAMED]:
        text = printable(f"{MARKS[step.state]} {step.name} {step.state}{f': {why}' if why else ''}")
        lines += [[(line, str(step.state))] for line in wrap(text, width)]
    if len(failed) > _MOST_NAMED:
        lines.append([(f"  and {len(failed) - _MOST_NAMED:,} more", LINE)])
    return lines


def why_failed(workflow: Workflow, step: Step, error: str | None) -> str | None:
    """The error, and the reason if it says more than that there was one."""
    reason = None if step.reason == _PLAIN_FAILURE else why_cancelled(workflow, step)
    return f"{reason}: {error}" if reason and error else error or reason
