"""What workflows returned, or what they failed of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from foliot.errors import WorkflowFailed
from foliot.explain_step import why_cancelled
from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import FAILED, Step, Workflow, WorkflowState
from foliot.store.port import Store
from foliot.workflow_commands import get_workflow, workflow_steps

_MOST_ERRORS: Final = 100


async def result_of(store: Store, id: str) -> dict[str, Any]:
    """What its last steps returned, by their names; of one that runs, as far as they have. Raises WorkflowFailed if it
    failed or was cancelled."""
    workflow = await get_workflow(store, id)
    steps = await workflow_steps(store, id)
    if workflow.state in (WorkflowState.FAILED, WorkflowState.CANCELLED):
        raise await _failure(store, workflow, steps)
    return leaf_results(steps)


def leaf_results(steps: Sequence[Step]) -> dict[str, Any]:
    """Of the steps that nothing follows and that succeeded; of a map, the list of its elements' results."""
    elements: dict[JobId, list[Step]] = {}
    for step in steps:
        if step.mapped is not None:
            elements.setdefault(step.mapped, []).append(step)
    known = {step.job: step for step in steps}
    followed = _followed(known)
    found: dict[str, Any] = {}
    for step in steps:
        parts = elements.get(step.job, [])
        if step.mapped in known or followed.intersection([step.job, *(one.job for one in parts)]):
            continue
        if parts:
            found[step.name] = [_result(one) for one in parts]
        elif step.state is JobState.SUCCEEDED:
            found[step.name] = _result(step)
    return found


def _followed(steps: Mapping[JobId, Step]) -> set[JobId]:
    """Those that something follows that was not skipped, be it behind others that were: a step that is there for
    failures follows nothing if there were none."""
    found: set[JobId] = set()
    ahead = [step for step in steps.values() if step.state is not JobState.SKIPPED]
    while ahead:
        step = ahead.pop()
        above = {id for id in step.parents if id != step.mapped} - found
        found |= above
        skipped = (steps[id] for id in above if id in steps)
        ahead += [one for one in skipped if one.state is JobState.SKIPPED]
    return found


async def errors_of(
    store: Store, steps: Sequence[Step], *, most: int = _MOST_ERRORS
) -> dict[JobId, str]:
    """What the first of the dead among these died of; each is a statement of its own, so the others can be asked."""
    found: dict[JobId, str] = {}
    for step in [step for step in steps if step.state is JobState.DEAD][:most]:
        attempts = await store.jobs.attempts(step.job)
        if attempts and attempts[-1].error:
            found[step.job] = attempts[-1].error
    return found


async def _failure(store: Store, workflow: Workflow, steps: Sequence[Step]) -> WorkflowFailed:
    failed = [step for step in steps if step.state in FAILED]
    error = None
    if failed:
        first = min(failed, key=lambda step: (step.finished_at is None, step.finished_at, step.job))
        attempts = await store.jobs.attempts(first.job)
        why = attempts[-1].error if attempts else why_cancelled(workflow, first)
        error = f"step {first.name} is {first.state}" + (f": {why}" if why else "")
    return WorkflowFailed(
        workflow.id,
        workflow.state,
        name=workflow.name,
        error=error,
        reason=workflow.reason,
        steps=tuple(step.name for step in failed),
    )


def _result(step: Step) -> Any:
    return None if step.result is None else msgspec.json.decode(step.result)
