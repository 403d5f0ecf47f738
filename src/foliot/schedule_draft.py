"""Draft: a schedule as somebody says it. Here it is checked and becomes what a store takes.

Millions are made of few expressions and options: what follows from these alone is worked out once and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice, pairwise
from math import ceil
from typing import Any, Final, cast

import msgspec

from foliot import when
from foliot.errors import InvalidExpression, InvalidValue
from foliot.ids import ScheduleId, phase_of, schedule_id, trigger_id
from foliot.model.job import NewJob
from foliot.model.schedule import NewSchedule, NewTrigger, Overlap, Rules, ScheduleState
from foliot.schedule_options import (
    ScheduleOptions,
    check_schedule_name,
    check_schedule_options,
    check_schedule_tags,
)
from foliot.when.civil import LATEST
from foliot.when.cron import is_cron
from foliot.when.forms import Cron

_TIMES_LOOKED_AT: Final = 20


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A schedule as it was said. `job` is its template: kind, payload and options, without id and times."""

    name: str
    job: NewJob
    expression: str | None = None
    options: ScheduleOptions = ScheduleOptions()
    origin: str | None = None  # the module whose code declares it


class Plan(msgspec.Struct):
    """What follows from an expression and options, whatever the schedule is called."""

    rules: Rules
    trigger: NewTrigger | None  # of any schedule with these; None: each has its own
    timetable: when.Timetable | None  # None: it follows its runs
    known: tuple[int, int | None] = (0, 0)  # the first nominal time at or after a moment

    def next_at(self, moment: int) -> int | None:
        """The first nominal time that is not before this moment."""
        assert self.timetable is not None
        since, next = self.known
        if moment < since or (next is not None and moment > next):
            next = self.timetable.next_after(moment - 1)
            self.known = moment, next
        return next


def check_draft(draft: Draft, *, now: float) -> NewSchedule:
    """The schedule, as it is to be stored. `now` is the store's, in seconds since 1970."""
    name = check_schedule_name(draft.name)
    job, options = draft.job, draft.options
    _check_template(job)
    plan = plan_of(draft.expression, options, name=name, now=now)
    if job.key is not None:
        plan = _stored_plan(msgspec.structs.replace(plan.rules, keyed=True))
    id = schedule_id(job.namespace, name)
    trigger = _trigger(plan, id, ceil(now))
    rules, tags = plan.rules, options.get("tags")
    if rules.jitter and plan.timetable is not None:
        _check_jitter(rules.jitter, plan.timetable, ceil(now))
    if rules.overlap.waits or rules.carry_result:
        _check_together(job, rules)
    return NewSchedule(
        id=id,
        name=name,
        template=job,
        rules=rules,
        trigger=trigger,
        phase=phase_of(id, rules.spread) if rules.spread else None,
        tags=() if not tags else check_schedule_tags(tags),
        origin=draft.origin,
        state=ScheduleState.ENDED if trigger is None else ScheduleState.ACTIVE,
    )


def check_declared(
    name: str, job: NewJob, expression: str | None, options: Mapping[str, Any]
) -> None:
    """As far as that can be done without a now, which what code declares must not count from."""
    plan = plan_of(expression, cast(ScheduleOptions, options), name=name)
    check_schedule_tags(options.get("tags") or ())
    _check_together(job, plan.rules)


def trigger_of(id: ScheduleId, rules: Rules, *, now: float) -> NewTrigger | None:
    """What a stored schedule is attached to; None if none of its times is ahead."""
    return _trigger(_stored_plan(rules), id, ceil(now))


def timetable_of(rules: Rules) -> when.Timetable | None:
    """None: its times follow from its runs."""
    return _stored_plan(rules).timetable


def trigger_number(id: ScheduleId, rules: Rules) -> int:
    """Of the trigger that a schedule with these rules is attached to while it is active."""
    shared = _stored_plan(rules).trigger
    return trigger_id("after", id) if shared is None else shared.id


def expression_of(rules: Rules) -> when.Expression:
    """Of a stored schedule that has one."""
    return _parsed(rules.text, rules.timezone)


@lru_cache(maxsize=16_384)
def _parsed(text: str, timezone: str) -> when.Expression:
    return when.parse(text, timezone=timezone)


def plan_of(
    expression: str | None,
    options: ScheduleOptions,
    *,
    name: str | None = None,
    now: float | None = None,
) -> Plan:
    """Checks all that is said of times. What counts from a name or from now cannot be kept."""
    given = {key: value for key, value in options.items() if key != "tags"}
    items = tuple(given.items())
    try:
        # True and 1 are equal keys, and not both right.
        return _kept_plan(expression, items, tuple(map(type, given.values())))
    except TypeError:  # a list among them
        return _plan(expression, check_schedule_options(given), name, now)
    except InvalidExpression:
        if name is None and now is None:
            raise
        return _plan(expression, check_schedule_options(given), name, now)


@lru_cache(maxsize=16_384)
def _kept_plan(
    expression: str | None, items: tuple[tuple[str, Any], ...], types: tuple[type, ...]
) -> Plan:
    return _plan(expression, _kept_options(items, types), None, None)


@lru_cache(maxsize=1024)
def _kept_options(
    items: tuple[tuple[str, Any], ...], _types: tuple[type, ...]
) -> Mapping[str, Any]:
    return check_schedule_options(dict(items))


def _plan(
    expression: str | None, options: Mapping[str, Any], name: str | None, now: float | None
) -> Plan:
    checked = dict(options)
    anchor, timezone = checked.pop("anchor", None), checked.pop("timezone", None)
    if "after_completion" in checked:
        _check_after_completion(expression, checked, anchor)
        return Plan(Rules(timezone=timezone or "UTC", **checked), None, None)
    if expression is None:
        raise InvalidValue(
            "expression",
            problem="is missing",
            example='app.schedule("report", job, "0 9 * * MON-FRI")',
            hint='or say after_completion="10m"',
        )
    read = None if anchor is not None else _read_cron(expression, timezone or "UTC")
    if read is None:
        moment = None if now is None else ceil(now)
        read = when.parse(expression, timezone=timezone, now=moment, seed=name, anchor=anchor)
    rules = Rules(expression=expression, text=read.text, timezone=read.timezone, **checked)
    return _plan_of_times(rules, read)


def _read_cron(text: str, timezone: str) -> when.Expression | None:
    """The fields of cron mean the same in every zone: they are read once for all. H follows the name, and = names a
    zone: these are not."""
    if not isinstance(text, str) or "H" in text or "=" in text or not is_cron(text):
        return None
    read = _read_in_utc(text)
    return when.Expression(read.text, timezone, read.form) if isinstance(read.form, Cron) else None


@lru_cache(maxsize=65_536)
def _read_in_utc(text: str) -> when.Expression:
    return when.parse(text)


@lru_cache(maxsize=16_384)
def _stored_plan(rules: Rules) -> Plan:
    if rules.after_completion is not None:
        return Plan(rules, None, None)
    return _plan_of_times(rules, expression_of(rules))


def _plan_of_times(rules: Rules, read: when.Expression) -> Plan:
    timetable = read.timetable(dst_gap=rules.dst_gap, dst_overlap=rules.dst_overlap)
    gap, overlap = rules.dst_gap, rules.dst_overlap
    stateful = rules.stateful
    calendars = "\0".join(rules.calendars)
    shared = trigger_id(
        rules.text, rules.timezone, gap or "", overlap or "", calendars, "s" if stateful else "p"
    )
    trigger = NewTrigger(
        shared,
        stateful,
        rules.text,
        rules.timezone,
        gap,
        overlap,
        rules.calendars,
        None,
        0,
        when.tzdata_version(),
    )
    return Plan(rules, trigger, timetable)


def _trigger(plan: Plan, id: ScheduleId, now: int) -> NewTrigger | None:
    rules, shared = plan.rules, plan.trigger
    first = now if rules.start is None else max(now, rules.start)
    if shared is None:
        if rules.end is not None and first > rules.end:
            return None
        number = trigger_id("after", id)
        delay, zone, tzdata = rules.after_completion, rules.timezone, when.tzdata_version()
        stateful = rules.stateful
        return NewTrigger(number, stateful, "", zone, None, None, (), delay, first, tzdata)
    next = plan.next_at(now)
    own = next if first == now else _next_from(plan, first)
    if next is None or own is None or (rules.end is not None and own > rules.end):
        return None
    # Its first time, not that of this schedule: others share it.
    return NewTrigger(
        shared.id,
        shared.stateful,
        shared.expression,
        shared.timezone,
        shared.dst_gap,
        shared.dst_overlap,
        shared.calendars,
        None,
        next,
        shared.tzdata,
    )


def _next_from(plan: Plan, moment: int) -> int | None:
    assert plan.timetable is not None
    return plan.timetable.next_after(moment - 1)


def _check_after_completion(
    expression: str | None, checked: Mapping[str, Any], anchor: int | None
) -> None:
    others = {"expression": expression, "anchor": anchor} | {
        name: checked.get(name) for name in ("calendars", "dst_gap", "dst_overlap")
    }
    for name, value in others.items():
        if value:
            raise InvalidValue(
                name,
                value,
                "cannot be given together with after_completion",
                hint="one names times, the other counts from the end of the last run",
            )
    if checked.get("overlap", Overlap.SKIP) is not Overlap.SKIP:
        raise InvalidValue(
            "overlap",
            checked["overlap"].value,
            "is of no use with after_completion: a run starts only after the last one's end",
        )


def _check_jitter(jitter: int, timetable: when.Timetable, now: int) -> None:
    """Runs keep the order of their times: as far as the next ones tell."""
    times = list(islice(when.between(timetable, now - 1, LATEST), _TIMES_LOOKED_AT))
    apart = min((after - before for before, after in pairwise(times)), default=jitter + 1)
    if jitter >= apart:
        raise InvalidValue(
            "jitter",
            jitter,
            f"is not less than the time between two fires, {apart} s",
            example='jitter="10s"',
        )


def _check_template(job: NewJob) -> None:
    """A schedule says when its jobs run, and makes any number of them."""
    if job.run_at is not None or job.delay is not None:
        field = "delay" if job.run_at is None else "run_at"
        raise InvalidValue(
            field,
            job.delay if job.run_at is None else job.run_at,
            "is not for the job of a schedule: the schedule says when it runs",
            example='spread="5m"',
        )
    if job.key_mode != "keep":
        raise InvalidValue(
            "key_mode", job.key_mode, "is not for the job of a schedule", example='key_mode="keep"'
        )
    extras = None if job.more is None else job.more.extras
    if extras is not None and extras.idempotency_key is not None:
        raise InvalidValue(
            "idempotency_key",
            extras.idempotency_key,
            "is not for the job of a schedule: every nominal time has a job of its own",
        )


def _check_together(job: NewJob, rules: Rules) -> None:
    """What the rules and the job's options say of the same thing."""
    more = job.more
    if more is None:
        return
    if rules.overlap.waits and more.ordering_key is not None:
        raise InvalidValue(
            "ordering_key",
            more.ordering_key,
            f"cannot be given together with overlap={rules.overlap.value}, which orders the runs",
            example='overlap="allow"',
        )
    if rules.carry_result and more.extras is not None and more.extras.ignore_result:
        raise InvalidValue(
            "carry_result", problem="needs the result, which ignore_result does not keep"
        )
