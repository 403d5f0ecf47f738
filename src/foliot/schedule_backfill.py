"""Backfill: jobs for nominal times that are over, by the versions of the schedule that were in force then."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from foliot.author import Author
from foliot.checks import check_moment
from foliot.errors import InvalidValue
from foliot.ids import JobId, fire_id, partition_of
from foliot.model.schedule import Overlap, Schedule
from foliot.schedule_fires import Span, first_times, spans_of
from foliot.schedule_jobs import job_of
from foliot.schedule_looks import calendars_of, get
from foliot.store.port import Store, Wake
from foliot.units import show_duration
from foliot.when.zones import local_date

MOST: Final = 10_000


async def backfill(
    store: Store,
    name: str,
    start: datetime,
    to: datetime,
    *,
    overlap: str | None = None,
    force: bool = False,
    retention: float | None = None,
    namespace: str = "default",
    by: Author | str | None = None,
) -> list[JobId]:
    """Submit a job for each nominal time from `start` to `to`, both included, that has none: one after the other, or
    with overlap="allow" all at once. Times that have come but were not yet fired are left to the scheduler. Returns
    their ids. What is further back than `retention`, the seconds that history
    is kept, needs `force`: whether it ran is not known any more."""
    rule = _check_overlap(overlap)
    schedule = await get(store, name, namespace=namespace)
    now = (await store.schedules.now()).timestamp()
    low, high = _check_range(schedule, start, to, now)
    if retention is not None and low < now - retention and not force:
        raise InvalidValue(
            "start",
            start,
            f"is further back than history goes, {show_duration(retention)}: what ran then may run again",
            hint="if that does no harm, say force",
        )
    times = await _times(store, schedule, low, high, now)
    jobs = [job_of(schedule, fire_id(schedule.id, at), overlap=rule, nominal=at) for at in times]
    if not jobs:
        return []
    partition = partition_of(schedule.id, store.partitions)
    made = await store.schedules.backfill(partition, schedule.id, jobs)
    if made:
        if isinstance(by, Author):
            told: dict[str, Any] = {"start": str(start), "to": str(to), "jobs": len(made)}
            await store.audit.write([by.deed("backfill", f"schedule:{name}", **told)])
        store.wake(Wake(ready=((partition, jobs[0].lane),), due=True))
    return made


def _check_overlap(overlap: str | None) -> Overlap:
    if overlap not in (None, Overlap.BUFFER_ALL, Overlap.ALLOW):
        problem = "is neither buffer_all, one after the other, nor allow"
        raise InvalidValue("overlap", overlap, problem, example='overlap="allow"')
    return Overlap.BUFFER_ALL if overlap is None else Overlap(overlap)


def _check_range(schedule: Schedule, start: object, to: object, now: float) -> tuple[int, int]:
    first, last = check_moment("start", start), check_moment("to", to)
    if last < first:
        raise InvalidValue("to", to, f"is before start, {start}")
    if last.timestamp() > now:
        raise InvalidValue("to", to, "is ahead: it will fire by itself then")
    if schedule.rules.after_completion is not None:
        raise InvalidValue(
            "schedule", schedule.name, "follows its runs: it has no times to make up for"
        )
    return int(first.timestamp()), int(last.timestamp())


async def _times(store: Store, schedule: Schedule, low: int, high: int, now: float) -> list[int]:
    spans = await spans_of(store, schedule, now=now)
    if spans:  # what it was first is what it would have been before
        first = spans[0]
        began = (first.rules.start or 0) - 1
        spans[0] = msgspec.structs.replace(first, low=max(began, low - 1))
    times: list[int] = []
    for span in spans:
        times += await _times_of(store, span, max(span.low, low - 1), min(span.high, high))
        if len(times) > MOST:
            raise InvalidValue(
                "to", problem=f"is too far from start: more than {MOST:,} times are between them"
            )
    return times


async def _times_of(store: Store, span: Span, low: int, high: int) -> list[int]:
    found = first_times(msgspec.structs.replace(span, low=low, high=high), MOST + 1)
    calendars = await calendars_of(store, span.rules.calendars)
    if not calendars:
        return found
    zone = span.rules.timezone
    return [at for at in found if not any(one.excludes(local_date(at, zone)) for one in calendars)]
