"""Why a schedule fires or does not, in words: what it waits for, and how its last times were answered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from foliot import when
from foliot.explain_gate import Reason, show_time
from foliot.model.schedule import Answer, Rules, Schedule, ScheduleState
from foliot.schedule_fires import fires
from foliot.schedule_looks import get
from foliot.store.port import Store
from foliot.store.scheduling import GRACE
from foliot.units import show_duration

_LAST: Final = 5  # times that are looked back at


class ScheduleExplanation(msgspec.Struct, frozen=True):
    """Why it fires when it does or does not at all, the most decisive first; and its last times, newest first."""

    state: ScheduleState
    reasons: list[Reason]
    last: list[Answer]

    @property
    def why(self) -> str:
        return self.reasons[0].why

    def __str__(self) -> str:
        first, *others = self.reasons
        lines = [f"{self.state}: {first}", *map(str, others)]
        return "\n".join([*lines, *(f"last: {_said(answer)}" for answer in self.last)])


async def explain(store: Store, name: str, *, namespace: str = "default") -> ScheduleExplanation:
    schedule = await get(store, name, namespace=namespace)
    now = await store.schedules.now()
    reasons = [_why(schedule, now), Reason(f"{_what(schedule.rules)}, {schedule.rules.timezone}")]
    last = await fires(store, name, limit=_LAST, namespace=namespace)
    return ScheduleExplanation(schedule.state, reasons, last[::-1])


def _what(rules: Rules) -> str:
    if rules.after_completion is not None:
        return f"{rules.after_completion:g} s after the end of the last run"
    return when.parse(rules.text, timezone=rules.timezone).english


def _why(schedule: Schedule, now: datetime) -> Reason:
    match schedule.state:
        case ScheduleState.ACTIVE:
            return _next(schedule, now)
        case ScheduleState.PAUSED:
            by = f" by {schedule.paused_by}" if schedule.paused_by else ""
            note = f": {schedule.note}" if schedule.note else ""
            change = f"foliot schedules resume {schedule.name}"
            return Reason(f"paused{by}{note}", since=schedule.paused_at, change=change)
        case ScheduleState.PARKED:
            why = f"the code of {schedule.origin} declares it no longer"
            return Reason(why, change=f"it does again, or: foliot schedules resume {schedule.name}")
        case ScheduleState.ENDED:
            why = "none of its times is ahead, or it has run as often as it may"
            return Reason(why, change=f"it is changed: foliot schedules update {schedule.name}")


def _next(schedule: Schedule, now: datetime) -> Reason:
    if schedule.next_at is None:
        return Reason("it fires at its times")
    at = datetime.fromtimestamp(schedule.next_at, UTC)
    wait = (at - now).total_seconds()
    if wait > 0:
        return Reason(f"next at {show_time(at)}, in {show_duration(float(max(1, round(wait))))}")
    if wait > -GRACE:
        return Reason(f"next at {show_time(at)}: about to fire")
    why = f"its time {show_time(at)} is overdue: no live process does the scheduler's duties"
    return Reason(why, since=at, change="a worker starts, or: foliot scheduler")


def _said(answer: Answer) -> str:
    told = answer.reason or answer.note or "unknown"
    if answer.job is not None:
        told = f"job {answer.job}" + (f" {answer.state}" if answer.state else "")
    return f"{show_time(answer.nominal)}: {told}"
