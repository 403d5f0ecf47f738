"""Of everything a user may ask (commands.py), what only looks at schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from math import ceil
from typing import Final, cast

import msgspec

from foliot import when
from foliot.checks import check_moment, check_whole
from foliot.clock import Clock
from foliot.errors import InvalidValue, UnknownSchedule
from foliot.ids import ScheduleId, schedule_id
from foliot.model.calendar import Calendar, read_calendar
from foliot.model.schedule import DstGap, DstOverlap, Schedule, ScheduleState
from foliot.schedule_draft import expression_of
from foliot.schedule_options import ScheduleOptions, check_schedule_options
from foliot.shown import did_you_mean
from foliot.store.port import Store
from foliot.store.scheduling import Wanted

PAGE: Final = 1000
_LONGEST_LIST: Final = 100_000
_MOST_FIRES: Final = 10_000
_NAMES_LOOKED_AT: Final = 5000  # for the nearest to one that is unknown


async def get(store: Store, name: str, *, namespace: str = "default") -> Schedule:
    found = await store.schedules.get([schedule_id(namespace, str(name))])
    if not found:
        raise await unknown(store, name, namespace)
    return (await _as_of_now(store, found))[0]


async def _as_of_now(store: Store, found: list[Schedule]) -> list[Schedule]:
    """One whose end is behind, or before its next time, has ended, though its trigger goes on for others."""
    if not any(one.rules.end is not None and one.state is ScheduleState.ACTIVE for one in found):
        return found
    now = (await store.schedules.now()).timestamp()
    return [_as_of(one, now) for one in found]


def _as_of(schedule: Schedule, now: float) -> Schedule:
    end = schedule.rules.end
    if end is None or schedule.state is not ScheduleState.ACTIVE:
        return schedule
    if end < now:
        return msgspec.structs.replace(schedule, state=ScheduleState.ENDED, next_at=None)
    over = schedule.next_at is not None and schedule.next_at > end
    return msgspec.structs.replace(schedule, next_at=None) if over else schedule


async def unknown(store: Store, name: str, namespace: str) -> UnknownSchedule:
    wanted = Wanted(namespace=namespace)
    known = await store.schedules.search(wanted, limit=_NAMES_LOOKED_AT)
    return UnknownSchedule(name, hint=did_you_mean(str(name), (one.name for one in known)))


async def search(
    store: Store,
    *,
    tag: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    name: str | None = None,
    namespace: str | None = None,
    limit: int = 1000,
) -> list[Schedule]:
    """Those that all of this is true of, by name; `name` may have * for any characters."""
    check_whole("limit", limit, 1, _LONGEST_LIST, example="limit=100")
    wanted = wanted_of(tag=tag, kind=kind, state=state, name=name, namespace=namespace)
    found = await _as_of_now(store, await store.schedules.search(wanted, limit=limit))
    return sorted(found, key=lambda one: (one.namespace, one.name))


async def walk(store: Store, wanted: Wanted) -> AsyncIterator[list[Schedule]]:
    """All that are wanted, page by page."""
    after: ScheduleId | None = None
    while found := await store.schedules.search(wanted, limit=PAGE, after=after):
        yield found
        after = found[-1].id


def wanted_of(
    *,
    tag: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    name: str | None = None,
    namespace: str | None = None,
    origin: str | None = None,
) -> Wanted:
    states = [one.value for one in ScheduleState]
    if state is not None and state not in states:
        problem = f"is not one of {', '.join(states)}"
        raise InvalidValue("state", state, problem, example='state="paused"')
    return Wanted(
        namespace=namespace,
        tag=tag,
        kind=kind,
        state=None if state is None else ScheduleState(state),
        origin=origin,
        name=name,
    )


def preview(
    text: str,
    *,
    timezone: str | None = None,
    after: datetime | None = None,
    count: int = 10,
    dst_gap: DstGap | None = None,
    dst_overlap: DstOverlap | None = None,
    seed: str | None = None,
    anchor: datetime | None = None,
    clock: Clock,
) -> when.Preview:
    """What an expression will do: in English, its next fires, and the clock changes among them. `seed` is the name of
    the schedule, by which H picks its values."""
    check_whole("count", count, 1, _MOST_FIRES, example="count=10")
    options = {
        "timezone": timezone,
        "dst_gap": dst_gap,
        "dst_overlap": dst_overlap,
        "anchor": anchor,
    }
    checked = check_schedule_options(cast(ScheduleOptions, options))
    now = clock.now() if after is None else check_moment("after", after)
    moment = int(now.timestamp())
    expression = when.parse(
        text, timezone=timezone, now=moment, seed=seed or "preview", anchor=checked.get("anchor")
    )
    return when.preview(
        expression, after=moment, count=count, dst_gap=dst_gap, dst_overlap=dst_overlap
    )


async def next_fires(
    store: Store, name: str, count: int = 10, *, namespace: str = "default"
) -> list[when.Fire]:
    """The times at which it will fire next, unless it is changed; none if it is not active."""
    check_whole("count", count, 1, _MOST_FIRES, example="count=10")
    schedule = await get(store, name, namespace=namespace)
    rules = schedule.rules
    if schedule.state is not ScheduleState.ACTIVE or rules.after_completion is not None:
        return []
    now = ceil((await store.schedules.now()).timestamp())
    done = -1 if schedule.fired_at is None else schedule.fired_at
    after = max(now - 1, done, (rules.start or 0) - 1)
    free = await calendars_of(store, rules.calendars)
    last = None if rules.max_runs is None else rules.max_runs - schedule.runs
    wanted = count if last is None else min(count, max(last, 0))
    expression = expression_of(rules)
    found: list[when.Fire] = []
    while len(found) < wanted:
        ahead = when.preview(
            expression,
            after=after,
            count=max(wanted, 100) if free else wanted,
            dst_gap=rules.dst_gap,
            dst_overlap=rules.dst_overlap,
        ).fires
        for fire in ahead:
            after = int(fire.at.timestamp())
            if rules.end is not None and after > rules.end:
                return found
            if not any(one.excludes(fire.local.date()) for one in free):
                found.append(fire)
        if not ahead:
            break
    return found[:wanted]


async def calendars_of(store: Store, names: tuple[str, ...]) -> list[Calendar]:
    """Those that there are: a schedule may name one before it is made."""
    if not names:
        return []
    return [read_calendar(one.dates) for one in await store.calendars.all() if one.name in names]
