"""Of everything a user may ask (commands.py), why something does not run."""

from __future__ import annotations

from typing import Final

from foliot import commands
from foliot.explain import MOST_AHEAD, Explanation, Facts, explain
from foliot.explain_gate import GateFacts
from foliot.explain_step import StepFacts, facts_among
from foliot.ids import inner_id
from foliot.model.job import Job, JobState
from foliot.model.limit import BREAKER, HELD_FOR_LIMIT
from foliot.model.workflow import WORKFLOW_KIND
from foliot.stats import read_pace
from foliot.store.port import Store

_MOST_HOLDERS: Final = 3


async def explain_job(store: Store, id: str) -> Explanation:
    """Why it is not running, or how it ended."""
    job = await commands.get(store, id)
    now = await store.schedules.now()  # whatever the clock of the caller says
    queues = {queue.name: queue for queue in await store.queues.all()}
    failures = await store.jobs.attempts(job.id) if job.attempt or job.losses else []
    facts = Facts(
        job=job,
        now=now,
        sessions=await store.sessions.all(),
        queue=queues.get(job.queue),
        standing=await store.search.standing(job.id, limit=MOST_AHEAD),
        failure=failures[-1] if failures else None,
        flow=await _among_steps(store, job),
        inner=await store.workflows.get(inner_id(job.id)) if job.kind == WORKFLOW_KIND else None,
        gate=await _gate_of(store, job),
        pace=await read_pace(store, job.queue, now=now) if job.state is JobState.READY else None,
    )
    return explain(facts)


async def _gate_of(store: Store, job: Job) -> GateFacts | None:
    """The limit that it is held for."""
    if job.state is not JobState.HELD or job.reason != HELD_FOR_LIMIT or job.note is None:
        return None
    standing = await store.limits.get(job.note, most=MOST_AHEAD)
    if standing is None:
        return None
    scope, _, word = job.note.partition(":")
    breakers = await store.breakers.all(most=0) if scope == BREAKER else []
    return GateFacts(
        name=job.note,
        limit=standing.limit,
        used=standing.used,
        holders=await store.limits.holders(job.note, limit=_MOST_HOLDERS),
        wait=standing.wait,
        waiting=standing.waiting,
        at_least=standing.at_least,
        breaker=next((one.breaker for one in breakers if one.breaker.name == word), None),
    )


async def _among_steps(store: Store, job: Job) -> StepFacts | None:
    if job.workflow is None or (workflow := await store.workflows.get(job.workflow)) is None:
        return None
    steps = await store.workflows.steps_around(job.id)
    own = next((step for step in steps if step.job == job.id), None)
    return None if own is None else facts_among(workflow, own, steps)
