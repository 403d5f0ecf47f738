"""Of everything a user may ask (commands.py), what is about schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from foliot.author import Author
from foliot.bulk import tell_cancelled
from foliot.checks import check_note
from foliot.errors import InvalidValue
from foliot.ids import Ids, JobId, ScheduleId, partition_of, schedule_id, slot_of
from foliot.model.schedule import Overlap, Schedule
from foliot.schedule_backfill import backfill
from foliot.schedule_calendars import calendars, delete_calendar, set_calendar
from foliot.schedule_draft import Draft, check_draft
from foliot.schedule_explain import explain
from foliot.schedule_fires import fires
from foliot.schedule_forecast import Forecast, forecast
from foliot.schedule_jobs import job_of
from foliot.schedule_looks import (
    PAGE,
    get,
    next_fires,
    preview,
    search,
    unknown,
    walk,
    wanted_of,
)
from foliot.schedule_making import Put, attach, by_partition, compare, create, record_of, update
from foliot.schedule_options import ScheduleOptions
from foliot.store.port import Store, Wake
from foliot.store.searching import Record

__all__ = [
    "Draft",
    "Forecast",
    "Put",
    "ScheduleOptions",
    "backfill",
    "calendars",
    "check_draft",
    "compare",
    "create",
    "delete",
    "delete_calendar",
    "explain",
    "fires",
    "forecast",
    "get",
    "next_fires",
    "pause",
    "preview",
    "resume",
    "search",
    "set_calendar",
    "trigger",
    "update",
]

Names = str | Iterable[str]


async def pause(
    store: Store,
    names: Names | None = None,
    *,
    tag: str | None = None,
    kind: str | None = None,
    namespace: str | None = None,
    note: str | None = None,
    by: Author | str | None = None,
) -> list[str]:
    """When this returns they do not fire. Returns the names of those that were active."""
    note = check_note(note, "until the outage is over")

    async def act(partition: int, some: Sequence[Schedule], record: Record | None) -> Any:
        ids = [one.id for one in some]
        who = by.name if isinstance(by, Author) else by
        return await store.schedules.pause(partition, ids, by=who, note=note, record=record)

    chosen = (names, tag, kind, namespace)
    return await _each(store, chosen, act, lambda ids: record_of(by, "pause", ids, note=note))


async def resume(
    store: Store,
    names: Names | None = None,
    *,
    tag: str | None = None,
    kind: str | None = None,
    namespace: str | None = None,
    by: Author | str | None = None,
) -> list[str]:
    """From now on: what was to fire meanwhile is not made up for. Returns the names of those that were paused or
    parked."""

    async def act(partition: int, some: Sequence[Schedule], record: Record | None) -> Any:
        return await attach(store, partition, some, record)

    chosen = (names, tag, kind, namespace)
    resumed = await _each(store, chosen, act, lambda ids: record_of(by, "resume", ids))
    if resumed:
        store.wake(Wake(due=True))
    return resumed


async def delete(
    store: Store,
    names: Names | None = None,
    *,
    tag: str | None = None,
    kind: str | None = None,
    namespace: str | None = None,
    by: Author | str | None = None,
) -> list[str]:
    """With what is known of their past; their jobs stay. Returns the names of those that there were."""

    async def act(partition: int, some: Sequence[Schedule], record: Record | None) -> Any:
        return await store.schedules.delete(partition, [one.id for one in some], record=record)

    chosen = (names, tag, kind, namespace)
    return await _each(store, chosen, act, lambda ids: record_of(by, "delete", ids))


async def trigger(
    store: Store,
    name: str,
    *,
    overlap: str | None = None,
    namespace: str = "default",
    ids: Ids,
    by: Author | str | None = None,
) -> JobId | None:
    """Run it now, whatever its times; under its rule of overlap, or this one. None: a run that has not ended forbids
    it, or a live job has its unique key."""
    rule = None if overlap is None else check_overlap(overlap)
    schedule = await get(store, name, namespace=namespace)
    partition = partition_of(schedule.id, store.partitions)
    job = job_of(schedule, ids.job(slot_of(schedule.id)), overlap=rule or schedule.rules.overlap)
    fired = await store.schedules.run_now(partition, schedule.id, job, overlap=rule)
    if fired is None:
        return None
    if isinstance(by, Author):
        await store.audit.write([by.deed("trigger", f"schedule:{name}", job=job.id)])
    store.wake(Wake(ready=((partition, job.lane),), due=True))
    if fired.cancelled:
        await tell_cancelled(store, partition, fired.cancelled)
    return job.id


def check_overlap(value: object) -> Overlap:
    known = [one.value for one in Overlap]
    if value not in known:
        problem = f"is not one of {', '.join(known)}"
        raise InvalidValue("overlap", value, problem, example='overlap="allow"')
    return Overlap(value)


Chosen = tuple[Names | None, str | None, str | None, str | None]


async def _each(
    store: Store,
    chosen: Chosen,
    act: Callable[[int, Sequence[Schedule], Record | None], Any],
    record: Callable[[dict[ScheduleId, str]], Record | None],
) -> list[str]:
    """The act, page by page, on those that are chosen by name, or by tag and kind. Returns whom it changed."""
    changed: list[str] = []
    async for page in _pages(store, chosen):
        for partition, some in by_partition(store, page, lambda one: one.id):
            known = {one.id: one.name for one in some}
            changed += [known[id] for id in await act(partition, some, record(known))]
    return sorted(changed)


async def _pages(store: Store, chosen: Chosen) -> AsyncIterator[list[Schedule]]:
    names, tag, kind, namespace = chosen
    if names is not None:
        if tag is not None or kind is not None:
            raise InvalidValue("names", names, "cannot be given together with tag or kind")
        yield await _named(store, names, namespace or "default")
        return
    if tag is None and kind is None:
        raise InvalidValue("schedule", problem="is not said: which one?", example='tag="shop"')
    async for page in walk(store, wanted_of(tag=tag, kind=kind, namespace=namespace)):
        yield page


async def _named(store: Store, names: Names, namespace: str) -> list[Schedule]:
    wanted = dict.fromkeys([names] if isinstance(names, str) else names)
    found: dict[str, Schedule] = {}
    every = list(wanted)
    for start in range(0, len(every), PAGE):
        ids = [schedule_id(namespace, str(name)) for name in every[start : start + PAGE]]
        found |= {one.name: one for one in await store.schedules.get(ids)}
    for name in every:
        if name not in found:
            raise await unknown(store, name, namespace)
    return list(found.values())
