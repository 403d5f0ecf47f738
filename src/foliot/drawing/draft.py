"""A workflow that was not submitted, as it is drawn: it has no id, and all its steps wait."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Final

from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import NewWorkflow, Step, Workflow, WorkflowState

_NOBODY: Final = JobId("")
_NEVER: Final = datetime.fromtimestamp(0, UTC)


def not_submitted(made: NewWorkflow) -> tuple[Workflow, list[Step]]:
    children: defaultdict[JobId, list[JobId]] = defaultdict(list)
    for step in made.steps:
        for parent in step.parents:
            children[parent].append(step.job.id)
    steps = [
        Step(
            job=step.job.id,
            number=number,
            name=step.name,
            kind=step.job.kind,
            rule=step.rule,
            state=JobState.WAITING,
            parents=step.parents,
            children=tuple(children[step.job.id]),
            signal=step.signal,
            mapped=step.mapped,
        )
        for number, step in enumerate(made.steps)
    ]
    workflow = Workflow(
        id=_NOBODY,
        name=made.name,
        namespace=made.namespace,
        state=WorkflowState.RUNNING,
        policy=made.policy,
        total=len(steps),
        remaining=len(steps),
        failed=0,
        created_at=_NEVER,
    )
    return workflow, steps
