"""Every form in English, such that the sentence, read in the same zone, fires at the same times."""

from __future__ import annotations

from functools import lru_cache

from foliot.when.civil import DAY, show_wall, weekday_of
from foliot.when.describe_cron import describe_cron, joined
from foliot.when.describe_rule import describe_rule
from foliot.when.forms import CalendarInterval, Cron, Form, Instant, Interval, Wall
from foliot.when.interval import calendar_start
from foliot.when.iso8601 import write_instant
from foliot.when.natural_words import WEEKDAYS
from foliot.when.wall import instant_of
from foliot.when.zones import load_zone

_CLOCK = ((3600, "hour"), (60, "minute"), (1, "second"))


@lru_cache(maxsize=4096)
def describe(form: Form, timezone: str) -> str:
    """The form as a sentence, in the zone it is in."""
    if isinstance(form, Cron):
        return describe_cron(form)
    if isinstance(form, Interval):
        return _interval(form, timezone)
    if isinstance(form, CalendarInterval):
        return _calendar(form)
    if isinstance(form, Instant):
        return _instant(form.at, timezone)
    return describe_rule(form)


def _interval(interval: Interval, timezone: str) -> str:
    every = f"every {_amount(interval.every)}"
    if interval.start is None:
        return every
    return f"{every}{_times(interval.count)} starting {_moment(interval.start, timezone)}"


def _amount(seconds: int) -> str:
    """As one number, and not of 1: every hour is a matter of the clock, every 60 minutes is not."""
    for size, unit in _CLOCK:
        if seconds % size == 0 and seconds > size:
            return f"{seconds // size} {unit}s"
    return "second"


def _times(count: int | None) -> str:
    return "" if count is None else f", {count} {'time' if count == 1 else 'times'},"


def _calendar(form: CalendarInterval) -> str:
    amounts = _counted(form)
    start = calendar_start(form)
    if form.start is None and (known := _from_1970(form)) is not None:
        return known
    if len(amounts) == 1 and (weekly := _fortnight(form, start)) is not None:
        return weekly
    every = amounts[0].removeprefix("1 ") if len(amounts) == 1 else joined(amounts)
    return f"every {every}{_times(form.count)} starting {_wall(start)}"


def _counted(form: CalendarInterval) -> list[str]:
    years, months = divmod(form.months, 12)
    weeks, days = divmod(form.days, 7) if not form.months and not form.seconds else (0, form.days)
    if days:
        weeks, days = 0, form.days
    hours, rest = divmod(form.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    counts = (years, months, weeks, days, hours, minutes, seconds)
    units = ("year", "month", "week", "day", "hour", "minute", "second")
    return [
        f"{count} {unit}{'s' if count > 1 else ''}"
        for count, unit in zip(counts, units, strict=True)
        if count
    ]


def _from_1970(form: CalendarInterval) -> str | None:
    """Durations without a start, which begin with a year, a month, a day."""
    if (form.months, form.days, form.seconds) == (0, 1, 0):
        return "every day at 00:00"
    if (form.months, form.days, form.seconds) == (0, 7, 0):
        return "every monday at 00:00"
    if (form.months, form.days, form.seconds) == (1, 0, 0):
        return "on the 1st of the month at 00:00"
    return None


def _fortnight(form: CalendarInterval, start: Wall) -> str | None:
    """every 2 weeks on tuesday at 12:00: if it is counted from where everyone counts."""
    day, second = divmod(start, DAY)
    if form.count is not None or form.months or form.seconds or form.days % 7 or not 4 <= day <= 10:
        return None
    weeks = form.days // 7
    if weeks < 2:
        return None
    return f"every {weeks} weeks on {WEEKDAYS[weekday_of(day)]} at {_clock(second)}"


def _instant(at: int, timezone: str) -> str:
    moment = _moment(at, timezone)
    return f"on {moment}" if " " in moment else f"at {moment}"


def _moment(at: int, timezone: str) -> str:
    """In the zone; an instant whose wall time comes twice or never is one of UTC."""
    zone = load_zone(timezone)
    wall = at + zone.offset_at(at)
    return _wall(wall) if instant_of(wall, zone) == at else write_instant(at)


def _wall(wall: Wall) -> str:
    return f"{show_wall(wall)[:10]} at {_clock(wall % DAY)}"


def _clock(second: int) -> str:
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
