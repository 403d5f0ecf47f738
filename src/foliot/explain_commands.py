"""Of everything a user may ask (commands.py), why something does not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec

from foliot import commands
from foliot.explain import Explanation, explain
from foliot.explain_around import gates_around, waits_for
from foliot.explain_facts import MOST_AHEAD, Facts
from foliot.explain_signal import payload_option
from foliot.explain_step import MOST_NAMED, StepFacts, facts_around, say_skipped, why_cancelled
from foliot.ids import JobId, inner_id
from foliot.model.job import Job, JobState
from foliot.model.session import Claim
from foliot.model.workflow import HELD_FOR_SIGNAL, WORKFLOW_KIND, Step
from foliot.stats import read_pace
from foliot.store.port import Store

_MOST_USERS: Final = 100  # of what a signal brings: they say what that is to be
_MOST_STEPS: Final = 1000  # of a workflow of which all are read for one sentence
_LOOKS: Final = 3
_WAITS: Final = "waits for "  # reads on from the name of what does
# Those that wait for their parents wait for one of the others.
NOT_BEGUN: Final = (JobState.HELD, JobState.READY, JobState.SCHEDULED)
_UNENDED: Final = (*NOT_BEGUN, JobState.RUNNING, JobState.WAITING)


async def explain_job(store: Store, id: str) -> Explanation:
    """Why it is not running, or how it ended."""
    job, claim = await _held(store, id)
    now = await store.schedules.now()  # whatever the clock of the caller says
    gates, held_for = await gates_around(store, job), waits_for(job)
    queues = {queue.name: queue for queue in await store.queues.all()}
    failures = await store.jobs.attempts(job.id) if job.attempt or job.losses else []
    flow = await _among_steps(store, job)
    facts = Facts(
        job=job,
        now=now,
        sessions=await store.sessions.all(),
        queue=queues.get(job.queue),
        standing=await store.search.standing(job.id, limit=MOST_AHEAD),
        failure=failures[-1] if failures else None,
        flow=flow,
        inner=await store.workflows.get(inner_id(job.id)) if job.kind == WORKFLOW_KIND else None,
        claim=claim,
        gate=next((gate for gate in gates if gate.name == held_for), None),
        gates=[gate for gate in gates if gate.name != held_for],
        signal_payload="" if flow is None else await _signal_payload(store, job, flow),
        pace=await _pace(store, job, now) if job.state is JobState.READY else None,
    )
    return explain(facts)


async def what_holds_up(store: Store, id: str) -> str | None:
    """The first reason why the job has not ended, in one sentence. None: it has."""
    found = await explain_job(store, id)
    return None if found.state.final else found.why


async def what_holds_up_workflow(store: Store, id: JobId) -> str | None:
    """The same of the step that most needs somebody. None: all have ended, or to read so many would take too long."""
    workflow = await store.workflows.get(id)
    if workflow is None or workflow.total > _MOST_STEPS:
        return None
    step = first_held_up(await store.workflows.steps(id))
    why = None if step is None else await what_holds_up(store, step.job)
    return None if step is None or why is None else of_step(step, why)


def first_held_up(steps: Iterable[Step], among: Sequence[JobState] = _UNENDED) -> Step | None:
    """Of these states, the earlier the more telling."""
    found = [step for step in steps if step.state in among]
    return min(found, key=lambda step: (among.index(step.state), step.number), default=None)


def of_step(step: Step, why: str) -> str:
    joined = " " if why.startswith(_WAITS) else ": "
    return f"step {step.name}{joined}{why}"


async def _held(store: Store, id: str) -> tuple[Job, Claim | None]:
    """It, and how its worker has it: one that is given back in between is looked at again."""
    job, claim = await commands.get(store, id), None
    for _ in range(_LOOKS):
        if job.state is not JobState.RUNNING or (claim := await store.sessions.claim(job.id)):
            break
        job = await commands.get(store, id)
    return job, claim


async def why_ended(store: Store, job: Job) -> str | None:
    """What it was skipped or cancelled for: of a step, as far as its workflow knows more."""
    flow = await _among_steps(store, job)
    if flow is None:
        return job.reason
    return (
        say_skipped(flow)
        if job.state is JobState.SKIPPED
        else why_cancelled(flow.workflow, flow.step)
    )


async def _pace(store: Store, job: Job, now: datetime) -> float | None:
    """Of its queue. None as well where others of it require something else: how fast each lane is nobody counts."""
    pace = await read_pace(store, job.queue, now=now)
    if pace is None:
        return None
    lanes = [lane for _, lane in (await store.jobs.peek()).ready if lane.queue == job.queue]
    kinds = [one.options for one in await store.definitions.all() if one.queue == job.queue]
    required = {frozenset(lane.requires) for lane in lanes}
    required |= {frozenset(kind.requires) for kind in kinds}
    return pace if required <= {frozenset(job.requires)} else None


async def _among_steps(store: Store, job: Job) -> StepFacts | None:
    if job.workflow is None or (workflow := await store.workflows.get(job.workflow)) is None:
        return None
    around = await store.workflows.around(job.id, most=MOST_NAMED)
    return None if around is None else facts_around(workflow, around)


async def _signal_payload(store: Store, job: Job, flow: StepFacts) -> str:
    if job.state is not JobState.HELD or job.reason != HELD_FOR_SIGNAL:
        return ""
    users = await store.workflows.children(job.id, most=_MOST_USERS)
    known = {one.kind: one.schema for one in await store.definitions.all()}

    @cache
    def schema_of(kind: str) -> dict[str, Any]:
        return msgspec.json.decode(known[kind], type=dict[str, Any]) if kind in known else {}

    return payload_option(flow.step.name, users, schema_of)
