"""The steps of a workflow that was drawn and is not submitted yet, as lines."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from foliot.model.workflow import SLEEP_KIND, Rule
from foliot.units import show_duration
from foliot.workflow_form import StepDraft, from_json


def steps_of(payload: bytes) -> Iterator[str]:
    """Of a job that stands for it: what each runs, with which arguments, and after what."""
    for step in from_json(msgspec.json.decode(payload)["draft"]).steps:
        over = "" if step.over is None else f", for each of {_json(step.over)}"
        after = f", after {', '.join(step.after)}" if step.after else ""
        rule = "" if step.rule is Rule.ALL_SUCCEEDED else f", if {step.rule}"
        yield f"{step.name}: {_runs_of(step)}{over}{after}{rule}"


def _runs_of(step: StepDraft) -> str:
    if step.inner is not None:
        return f"workflow of {', '.join(one.name for one in step.inner.steps)}"
    if step.signal is not None:
        return f"waits for the signal {step.signal}"
    job = step.template
    assert job is not None  # or it is one of those above
    if job.kind == SLEEP_KIND:
        return f"sleeps {show_duration(job.delay or 0.0)}"
    return f"{job.kind} {_json(step.payload)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
