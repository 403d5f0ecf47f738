"""Runs that are given the last result of their schedule: looked up after the claim, for those few that want it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from foliot.ids import schedule_id
from foliot.model.job import ClaimedJob

# The last results of these schedules, by their ids.
Read = Callable[[Sequence[str]], Awaitable[dict[str, str]]]


async def with_last_results(claimed: list[ClaimedJob], read: Read) -> list[ClaimedJob]:
    wanting = {
        job.id: schedule_id(facts.namespace, facts.extras.schedule)
        for job in claimed
        if job.more is not None and '"carry"' in job.more
        if (facts := job.facts).extras.carry and facts.extras.schedule is not None
    }
    if not wanting:
        return claimed
    results = await read(sorted(set(wanting.values())))
    return [
        _given(job, results[wanting[job.id]]) if wanting.get(job.id) in results else job
        for job in claimed
    ]


def _given(job: ClaimedJob, result: str) -> ClaimedJob:
    facts = msgspec.structs.replace(job.facts, last_result=result)
    return msgspec.structs.replace(job, more=msgspec.json.encode(facts).decode())
