"""What of a store stands in the way of a job that is there, or is still to be made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from foliot.explain_facts import MOST_AHEAD, Facts, obstacles, shut_by_hand
from foliot.explain_gate import GateFacts, Reason
from foliot.model.job import Job, JobState
from foliot.model.limit import BREAKER, HELD_FOR_LIMIT, gate_of_key
from foliot.model.session import Session
from foliot.store.port import Store

_MOST_HOLDERS: Final = 3


async def obstacles_ahead(
    store: Store, job: Job, sessions: Sequence[Session], now: datetime
) -> list[Reason]:
    """What would keep it from running, whatever it waits for before that."""
    queues = {queue.name: queue for queue in await store.queues.all()}
    facts = Facts(
        job=job,
        now=now,
        sessions=sessions,
        queue=queues.get(job.queue),
        gates=await gates_around(store, job),
    )
    return [*obstacles(facts), *shut_by_hand(facts)]


def waits_for(job: Job) -> str | None:
    """The limit or breaker that it is held for."""
    return job.note if job.state is JobState.HELD and job.reason == HELD_FOR_LIMIT else None


async def gates_around(store: Store, job: Job) -> list[GateFacts]:
    """Those that a job is under which may still be claimed: whoever does will ask them."""
    held_for = waits_for(job)
    if job.state not in (JobState.SCHEDULED, JobState.HELD, JobState.READY):
        return []
    key, breaker = job.extras.limit_key, job.extras.breaker
    names = [f"queue:{job.queue}", f"kind:{job.kind}", f"namespace:{job.namespace}"]
    names += [] if key is None else [gate_of_key(key, job.namespace)]
    names += [] if breaker is None else [f"{BREAKER}:{breaker}"]
    names = [name for name in dict.fromkeys([*names, held_for]) if name is not None]
    found = [await _gate(store, name) for name in names]
    return [gate for gate in found if gate is not None]


async def _gate(store: Store, name: str) -> GateFacts | None:
    standing = await store.limits.get(name, most=MOST_AHEAD)
    if standing is None:
        return None
    scope, _, word = name.partition(":")
    breakers = await store.breakers.all(most=0) if scope == BREAKER else []
    return GateFacts(
        name=name,
        limit=standing.limit,
        used=standing.used,
        holders=await store.limits.holders(name, limit=_MOST_HOLDERS),
        wait=standing.wait,
        waiting=standing.waiting,
        at_least=standing.at_least,
        breaker=next((one.breaker for one in breakers if one.breaker.name == word), None),
    )
