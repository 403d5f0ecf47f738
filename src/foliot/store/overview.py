"""Rows of either store to what the overview says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState, Progress, readable_note
from foliot.model.overview import ActiveJob, Failure, HeldJobs, Loads, Overdue, QueueLoad
from foliot.store.rows import Row

LONGEST_LOOK: Final = 10_000  # rows that are looked at to find those to show

_decode_progress: Final = msgspec.json.Decoder(Progress).decode


def loads(rows: Sequence[Row]) -> Loads:
    """Of (queue, state, count, age of the oldest, whether there may be more)."""
    queues: dict[str, QueueLoad] = {}
    at_least = set()
    for queue, state, count, age, capped in rows:
        load = queues.setdefault(queue, QueueLoad(queue=queue))
        setattr(load, state, int(count))
        if state == JobState.READY:
            load.oldest_ready = age
        if capped:
            at_least.add(JobState(state))
    return Loads([queues[name] for name in sorted(queues)], frozenset(at_least))


def held_jobs(rows: Sequence[Row]) -> list[HeldJobs]:
    return [
        HeldJobs(reason or "unknown", kind, count, readable_note(reason, note))
        for reason, kind, count, note in rows
    ]


def overdue(row: Row) -> Overdue:
    return Overdue(*row)


def active_job(row: Row) -> ActiveJob:
    id, kind, queue, attempt, session, seconds, progress = row
    known = None if progress is None else _decode_progress(progress)
    return ActiveJob(JobId(id), kind, queue, attempt, session, seconds, known)


def failure(row: Row) -> Failure:
    return Failure(*row)
