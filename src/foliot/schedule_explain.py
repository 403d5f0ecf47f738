"""Why a schedule fires or does not, in words: what it waits for, and how its last times were answered."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

import msgspec

from foliot import when
from foliot.explain_around import obstacles_ahead
from foliot.explain_gate import Reason, show_time
from foliot.explain_worker import missing_duties
from foliot.model.job import Extras, Job, JobState, More
from foliot.model.schedule import Answer, Rules, Schedule, ScheduleState
from foliot.schedule_draft import timetable_of
from foliot.schedule_fires import fires
from foliot.schedule_jobs import template_of
from foliot.schedule_looks import get, next_fires
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

    @property
    def lines(self) -> list[str]:
        first, *others = [line for reason in self.reasons for line in reason.lines]
        last = [f"last: {_said(answer)}" for answer in self.last]
        return [f"{self.state}: {first}", *others, *last]

    def __str__(self) -> str:
        return "\n".join(self.lines)


async def explain(store: Store, name: str, *, namespace: str = "default") -> ScheduleExplanation:
    schedule = await get(store, name, namespace=namespace)
    now = await store.schedules.now()
    last = (await fires(store, name, limit=_LAST, namespace=namespace))[::-1]
    reasons = [*await _why(store, schedule, last, now), Reason(_what(schedule.rules))]
    return ScheduleExplanation(schedule.state, reasons, last)


def _what(rules: Rules) -> str:
    if rules.after_completion is not None:
        return f"{rules.after_completion:g} s after the end of the last run, {rules.timezone}"
    return f"{when.parse(rules.text, timezone=rules.timezone).english}, {rules.timezone}"


async def _why(
    store: Store, schedule: Schedule, last: Sequence[Answer], now: datetime
) -> list[Reason]:
    match schedule.state:
        case ScheduleState.ACTIVE:
            return await _ahead(store, schedule, last, now)
        case ScheduleState.PAUSED:
            by = f" by {schedule.paused_by}" if schedule.paused_by else ""
            note = f": {schedule.note}" if schedule.note else ""
            change = _command("resume", schedule)
            return [Reason(f"paused{by}{note}", since=schedule.paused_at, change=change)]
        case ScheduleState.PARKED:
            why = f"the code of {schedule.origin} declares it no longer"
            change = f"it does again, or: {_command('resume', schedule)}"
            return [Reason(why, since=schedule.paused_at, change=change)]
        case ScheduleState.ENDED:
            return _over(schedule, last, now)


async def _ahead(
    store: Store, schedule: Schedule, last: Sequence[Answer], now: datetime
) -> list[Reason]:
    """Its next time, and what will keep it from firing then, or its job from running."""
    at, reason = await _next(store, schedule, now)
    if at is None:
        return _over(schedule, last, now)
    sessions = await store.sessions.all()
    nobody = missing_duties(sessions, at, now)
    found = [reason or _due(at, now, nobody)]
    if nobody is not None:
        found.insert(0 if reason is None else 1, nobody)
    return [*found, *await obstacles_ahead(store, _run(schedule, at), sessions, now)]


def _run(schedule: Schedule, at: datetime) -> Job:
    """The one that it will make."""
    job = template_of(schedule)
    more = job.more or More()
    return Job(
        id=job.id,
        kind=job.kind,
        state=JobState.SCHEDULED,
        queue=job.queue,
        namespace=job.namespace,
        priority=job.priority,
        attempt=0,
        losses=0,
        generation=0,
        fence=0,
        created_at=at,
        run_at=at,
        requires=more.requires,
        extras=more.extras or Extras(),
    )


def _due(at: datetime, now: datetime, nobody: Reason | None) -> Reason:
    if nobody is not None:
        return Reason(f"its time {show_time(at)} is overdue", since=at)
    if (now - at).total_seconds() < GRACE:
        return Reason(f"next at {show_time(at)}: about to fire")
    why = f"its time {show_time(at)} is overdue: the scheduler is behind"
    return Reason(why, since=at, change="it catches up")


async def _next(
    store: Store, schedule: Schedule, now: datetime
) -> tuple[datetime | None, Reason | None]:
    """The time that is due, or comes next for this one, with what is said of one that comes: its trigger has the times
    of others as well."""
    at = None if schedule.next_at is None else datetime.fromtimestamp(schedule.next_at, UTC)
    delay = schedule.rules.after_completion
    if delay is not None and (run := await _last_run(store, schedule)) is not None:
        if run.finished_at is None:
            why = f"the next run begins {show_duration(delay)} after the end of job {run.id}"
            change = f"it has ended; see: foliot jobs explain {run.id}"
            reason = Reason(f"{why}, which is {run.state}", since=run.created_at, change=change)
            return now + timedelta(seconds=delay), reason
        due = max(schedule.active_from, run.finished_at + timedelta(seconds=delay))
        at = datetime.fromtimestamp(ceil(due.timestamp()), UTC)
    if at is not None and schedule.active_from <= at <= now:
        return at, None
    if delay is None:
        ahead = await next_fires(store, schedule.name, 1, namespace=schedule.namespace)
        at = ahead[0].at.astimezone(UTC) if ahead else None
    end = schedule.rules.end
    if at is None or (end is not None and at.timestamp() > end):
        return None, None
    wait = float(max(1, round((at - now).total_seconds())))
    why = f"next at {show_time(at)}, in {show_duration(wait)}"
    change = f"its time comes; one more, now: {_command('trigger', schedule)}"
    return at, Reason(why, change=change)


async def _last_run(store: Store, schedule: Schedule) -> Job | None:
    found = await store.schedules.recent_runs(schedule.id, limit=1)
    return await store.jobs.get(found[0].id) if found else None


def _over(schedule: Schedule, last: Sequence[Answer], now: datetime) -> list[Reason]:
    """All that keeps it from ever firing again; since its last run, or since the last of its times."""
    rules, runs, found = schedule.rules, schedule.runs, list[Reason]()
    update = _command("update", schedule)
    done = last[0].nominal if last else schedule.since
    if rules.max_runs is not None and runs >= rules.max_runs:
        many = "once" if runs == 1 else f"{runs:,} times"
        why = f"it has run {many}, as often as it may"
        ran = next((one.fired_at for one in last if one.job is not None), None)
        found.append(Reason(why, since=ran, change=f"{update} --max-runs {runs + 1}"))
    end = None if rules.end is None else datetime.fromtimestamp(rules.end, UTC)
    if end is not None and end <= now:
        why = f"its end has passed: {show_time(end)}"
        found.append(Reason(why, since=end, change=f"{update} --clear end"))
    elif not _goes_on(rules, now):
        change = f"it is given another, such as: {update} --expression 'every day at 9am'"
        found.append(Reason("its expression names no further time", since=done, change=change))
    elif end is not None and not found:
        why = f"none of its times is left before its end: {show_time(end)}"
        found.append(Reason(why, since=done, change=f"{update} --clear end"))
    return found or [Reason("none of its times is ahead", since=done)]


def _goes_on(rules: Rules, now: datetime) -> bool:
    timetable = timetable_of(rules)
    since = max(int(now.timestamp()), rules.start or 0)
    return timetable is None or timetable.next_after(since) is not None


def _command(verb: str, schedule: Schedule) -> str:
    said = f"foliot schedules {verb} {shlex.quote(schedule.name)}"
    if schedule.namespace != "default":
        said += f" --namespace {schedule.namespace}"
    return said


def _said(answer: Answer) -> str:
    told = answer.reason or answer.note or "unknown"
    if answer.job is not None:
        told = f"job {answer.job}" + (f" {answer.state}" if answer.state else "")
    return f"{show_time(answer.nominal)}: {told}"
