"""What of a store stands in the way of a job that is there, or is still to be made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

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
    found = await store.limits.gates(names, most=MOST_AHEAD, holders=_MOST_HOLDERS)
    guarded = any(name.startswith(f"{BREAKER}:") for name in found)
    known = await store.breakers.all(most=0) if guarded else []
    breakers = {f"{BREAKER}:{one.breaker.name}": one.breaker for one in known}
    return [
        GateFacts(name=name, breaker=breakers.get(name), **msgspec.structs.asdict(standing))
        for name, standing in found.items()
    ]
