"""The ledger of a schedule: for every nominal time one answer, the job or the reason why there is none.

Only what is no job is written down, and of that as little as possible: the rest follows from the versions of the
schedule, from the ids that its jobs must have, and from the gaps of the trigger that it was attached to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import msgspec

from foliot import when
from foliot.checks import check_moment, check_whole
from foliot.errors import InvalidValue
from foliot.ids import JobId, fire_id, partition_of
from foliot.model.calendar import Calendar
from foliot.model.schedule import (
    Answer,
    Entry,
    Gap,
    Misfire,
    Reason,
    Rules,
    Schedule,
    ScheduleState,
    Version,
)
from foliot.schedule_draft import timetable_of, trigger_number
from foliot.schedule_looks import calendars_of, get
from foliot.store.port import Store
from foliot.store.scheduling import GRACE, Run
from foliot.when.zones import local_date

_MOST: Final = 10_000
_AHEAD: Final = int(GRACE) + 1  # times that may not have an answer yet
_NO_RECORD: Final = "nothing is left of it: its job ended before history goes back"
_NOT_YET: Final = "no scheduler has fired it yet"


class Span(msgspec.Struct, frozen=True):
    """A version of a schedule, in whole seconds: it answers for what is after `low`, up to `high`."""

    rules: Rules
    trigger: int
    low: int
    high: int


class Records(msgspec.Struct, frozen=True):
    """What the store knows of the nominal times of one span."""

    runs: dict[JobId, Run]
    ledger: list[Entry]
    gaps: list[Gap]
    calendars: list[Calendar]
    done: int  # how far the trigger has come
    now: float


async def fires(
    store: Store,
    name: str,
    *,
    start: datetime | None = None,
    to: datetime | None = None,
    limit: int = 100,
    namespace: str = "default",
) -> list[Answer]:
    """The answers for the last `limit` nominal times of a span of time, by default up to now; the newest last."""
    check_whole("limit", limit, 1, _MOST, example="limit=100")
    schedule = await get(store, name, namespace=namespace)
    if schedule.rules.after_completion is not None:
        return await _runs(store, schedule, limit)
    now = (await store.schedules.now()).timestamp()
    low = 0 if start is None else int(check_moment("start", start).timestamp()) - 1
    high = int(now if to is None else min(check_moment("to", to).timestamp(), now))
    if start is not None and to is not None and to < start:
        raise InvalidValue("to", to, f"is before start, {start}")
    answers: list[Answer] = []
    for span in reversed(await spans_of(store, schedule, now=now)):
        wanted = limit - len(answers)
        bounded = msgspec.structs.replace(span, low=max(span.low, low), high=min(span.high, high))
        times = (
            last_times(bounded, wanted + _AHEAD) if wanted and bounded.low < bounded.high else []
        )
        if times:
            records = await _records(store, schedule, bounded, times, now)
            answers[:0] = _answers(schedule, bounded, times, records)[-wanted:]
    return answers


async def spans_of(store: Store, schedule: Schedule, *, now: float) -> list[Span]:
    """Its versions, first first."""
    versions = await store.schedules.versions(schedule.id)
    versions.append(
        Version(schedule.version, schedule.since, None, schedule.trigger, schedule.rules)
    )
    return [
        Span(
            version.rules,
            trigger_number(schedule.id, version.rules),
            *_bounds(version, now),
        )
        for version in versions
        if version.rules.after_completion is None
    ]


def last_times(span: Span, count: int) -> list[int]:
    """The last so many nominal times of a span, first first."""
    timetable = timetable_of(span.rules)
    assert timetable is not None
    return when.last_between(timetable, span.low, span.high, count)


def first_times(span: Span, count: int) -> list[int]:
    timetable = timetable_of(span.rules)
    assert timetable is not None
    return list(islice(when.between(timetable, span.low, span.high), count))


def _bounds(version: Version, now: float) -> tuple[int, int]:
    since = version.active_from.timestamp()
    low = int(since) - 1 if since == int(since) else int(since)
    until = now if version.until is None else version.until.timestamp()
    # What is at the very moment of a change belongs to what comes then.
    high = int(until) - 1 if version.until is not None and until == int(until) else int(until)
    rules = version.rules
    if rules.start is not None:
        low = max(low, rules.start - 1)
    return low, high if rules.end is None else min(high, rules.end)


async def _records(
    store: Store, schedule: Schedule, span: Span, times: Sequence[int], now: float
) -> Records:
    partition = partition_of(schedule.id, store.partitions)
    start, to = times[0], times[-1]
    schedules = store.schedules
    gaps = await schedules.gaps_of(partition, span.trigger, start=start, to=to)
    # What was left out may have gone into a job of its own time, which is the last of a gap.
    ids = [fire_id(schedule.id, at) for at in {*times, *(gap.to for gap in gaps)}]
    current = span.trigger == schedule.trigger
    done = schedule.fired_at if current else None
    return Records(
        await schedules.runs(partition, ids),
        await schedules.ledger(schedule.id, start=start, to=to),
        gaps,
        await calendars_of(store, span.rules.calendars),
        int(now) if not current else -1 if done is None else done,
        now,
    )


def _answers(
    schedule: Schedule, span: Span, times: Sequence[int], records: Records
) -> list[Answer]:
    answers = [_answer(schedule, span.rules, at, records) for at in times]
    if schedule.state is ScheduleState.ENDED:
        while answers and answers[-1] is not None and answers[-1].note == _NO_RECORD:
            answers.pop()  # it had ended by then
    return [answer for answer in answers if answer is not None]


def _answer(schedule: Schedule, rules: Rules, at: int, records: Records) -> Answer | None:
    """None: its time has only just come."""
    nominal = datetime.fromtimestamp(at, UTC)
    run = records.runs.get(fire_id(schedule.id, at))
    if run is not None:
        return Answer(nominal, run.id, run.state, run.made_at, run.started_at)
    for entry in reversed(records.ledger):
        if entry.start <= at and (entry.to is None or at <= entry.to):
            return Answer(nominal, reason=entry.reason)
    for gap in records.gaps:
        if gap.start <= at <= gap.to:
            return _missed(schedule, rules, at, gap, records)
    if at <= records.done:
        return Answer(nominal, note=_NO_RECORD)
    if records.now - at > GRACE:
        return Answer(nominal, reason=Reason.MISSED, note=_NOT_YET)
    return None


def _missed(schedule: Schedule, rules: Rules, at: int, gap: Gap, records: Records) -> Answer:
    """By the rule for misfires of the version in force then."""
    nominal = datetime.fromtimestamp(at, UTC)
    day = local_date(at, rules.timezone) if records.calendars else None
    if gap.reason == "excluded" or (
        day is not None and any(one.excludes(day) for one in records.calendars)
    ):
        return Answer(nominal, reason=Reason.EXCLUDED)
    if rules.misfire is Misfire.SKIP:
        return Answer(nominal, reason=Reason.MISFIRE)
    last = fire_id(schedule.id, gap.to)
    if rules.misfire is Misfire.LATEST and at < gap.to and last in records.runs:
        return Answer(nominal, reason=Reason.COALESCED, into=last)
    if gap.done:
        return Answer(nominal, reason=Reason.MISFIRE)
    return Answer(nominal, reason=Reason.MISSED, note="it is being caught up with")


async def _runs(store: Store, schedule: Schedule, limit: int) -> list[Answer]:
    """Of a schedule whose times follow from its runs: these."""
    found: Iterable[Run] = await store.schedules.recent_runs(schedule.id, limit=limit)
    return [
        Answer(
            datetime.fromtimestamp(run.nominal, UTC) if run.nominal is not None else run.made_at,
            run.id,
            run.state,
            run.made_at,
            run.started_at,
        )
        for run in reversed(list(found))
    ]
