"""When an RRULE fires. The rules are dateutil's; here they are kept from being walked through from their start.

Without COUNT all periods are alike, so a rule can begin in any period that it would reach: the one before the wall
time asked for. For that, what a rule takes from its start is made explicit first.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from dateutil import rrule as dateutil_rules

from foliot.when.civil import (
    DAY,
    FIRST_YEAR,
    LATEST,
    date_of,
    day_of,
    is_leap,
    month_length,
    wall_time,
)
from foliot.when.forms import Rule, Wall
from foliot.when.rrule import FREQUENCIES

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times have no zone
# No two days that match lie further apart: 29 February is a Monday every 28 years, or 40.
_DAYS = 41 * 366
_DAY_PARTS = ("bymonth", "bymonthday", "byyearday", "byweekday")
_WEEKDAYS = {
    name: getattr(dateutil_rules, name) for name in ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
}
_NAMES = {"BYDAY": "byweekday", "WKST": "wkst"}
# How many days of a period one value of a part can stand for.
_MOST_DAYS = {
    "YEARLY": {"BYDAY": 53, "BYMONTHDAY": 12, "BYYEARDAY": 1, "BYWEEKNO": 7, "BYMONTH": 1},
    "MONTHLY": {"BYDAY": 5, "BYMONTHDAY": 1},
    "WEEKLY": {"BYDAY": 1},
}
_UNITS = {"DAILY": DAY, "HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}


def follows_real_time(rule: Rule) -> bool:
    """Hourly and finer: as cron's `*`."""
    return rule.frequency in {"HOURLY", "MINUTELY", "SECONDLY"}


def rule_start(rule: Rule) -> Wall:
    """What is counted from: 1970 unless it is said otherwise, and for weeks its first Monday."""
    if rule.start is not None:
        return rule.start
    return wall_time(1970, 1, 5 if rule.frequency == "WEEKLY" else 1)


def can_fire(rule: Rule) -> bool:
    """Most that can never fire is found by looking at its parts, the rest by a search."""
    if not rule.dates and not (_has_days(rule) and _has_places(rule) and _is_reached(rule)):
        return False
    return RuleWalls(rule, chunk=1).next_from(rule_start(rule)) is not None


def _has_days(rule: Rule) -> bool:
    """Whether its months have its days: what most rules that never fire are missing, found without a search."""
    parts = dict(rule.parts)
    if "BYMONTHDAY" not in parts:
        return True
    months = [int(month) for month in parts.get("BYMONTH", ())] or list(range(1, 13))
    longest = max(month_length(2000, month) for month in months)
    return min(abs(int(day)) for day in parts["BYMONTHDAY"]) <= longest


def _has_places(rule: Rule) -> bool:
    """Whether a period can hold as many times as BYSETPOS counts."""
    parts = dict(rule.parts)
    if "BYSETPOS" not in parts:
        return True
    size = 1
    for name, least in (("BYHOUR", "DAILY"), ("BYMINUTE", "HOURLY"), ("BYSECOND", "MINUTELY")):
        if FREQUENCIES.index(rule.frequency) <= FREQUENCIES.index(least):
            size *= len(parts.get(name, "1"))
    most = _MOST_DAYS.get(rule.frequency, {})
    size *= max([1, *(len(parts.get(name, ())) * days for name, days in most.items())])
    return min(abs(int(place)) for place in parts["BYSETPOS"]) <= size


def _is_reached(rule: Rule) -> bool:
    """Whether steps of its interval ever come to its months, leap years and weekdays."""
    parts = dict(rule.parts)
    start = _datetime(rule_start(rule))
    steps = range(0, 400 * rule.interval, rule.interval)  # the calendar repeats after 400 years
    months = [int(month) for month in parts.get("BYMONTH", ())]
    if rule.frequency == "MONTHLY" and months:
        return any((start.month - 1 + step) % 12 + 1 in months for step in steps)
    leap_day = parts.get("BYMONTHDAY") == ("29",) and months == [2]
    if rule.frequency == "YEARLY" and (leap_day or parts.get("BYYEARDAY") in {("366",), ("-366",)}):
        return any(is_leap(start.year + step) for step in steps)
    if rule.frequency == "DAILY" and "BYDAY" in parts:
        wanted = [list(_WEEKDAYS).index(day) for day in parts["BYDAY"]]
        return any((start.weekday() + step) % 7 in wanted for step in steps)
    return True


class RuleWalls:
    """The wall times of a rule. They are found by the `chunk`, and kept until others are asked for."""

    def __init__(self, rule: Rule, *, chunk: int = 32) -> None:
        self._rule = rule
        self._size = chunk
        self._start = rule_start(rule)
        self._options = _options(rule, _datetime(self._start))
        self._days = _Days(self._options)
        if rule.frequency in _UNITS:  # its days are looked up there
            self._options = {
                key: self._options[key] for key in self._options if key not in _DAY_PARTS
            }
        self._exceptions = frozenset(rule.exceptions)
        self._chunk: tuple[Wall, list[Wall]] = (
            LATEST,
            [],
        )  # replaced as a whole: threads may share it

    def next_from(self, wall: Wall) -> Wall | None:
        low, walls = self._chunk
        if not (low <= wall and walls and wall <= walls[-1]):
            walls = self._from(wall)
            self._chunk = (wall, walls)
        place = bisect_left(walls, wall)
        return walls[place] if place < len(walls) else None

    def _from(self, wall: Wall) -> list[Wall]:
        """The next few wall times, with those added and without those taken out."""
        few = self._counted(wall) if self._rule.count is not None else self._searched(wall)
        few += [date for date in self._rule.dates if date >= wall and (not few or date <= few[-1])]
        if not few:
            few = [date for date in self._rule.dates if date >= wall]
        left = sorted(set(few) - self._exceptions)
        if few and not left:
            return self._from(max(few) + 1)
        return left

    def _counted(self, wall: Wall) -> list[Wall]:
        place = bisect_left(self._all, wall)
        return self._all[place : place + self._size]

    @cached_property
    def _all(self) -> list[Wall]:
        walls: list[Wall] = []
        count = self._rule.count or 0
        while len(walls) < count:
            few = self._searched(walls[-1] + 1 if walls else self._start)
            if not few:
                break
            walls += few
        return walls[:count]

    def _searched(self, wall: Wall) -> list[Wall]:
        wall = max(wall, self._start)
        last = LATEST if self._rule.until is None else min(LATEST, self._rule.until)
        if self._rule.frequency in _UNITS and self._days:
            return self._by_day(wall, last)
        return self._run(wall, last) if wall <= last else []

    def _by_day(self, wall: Wall, last: Wall) -> list[Wall]:
        """Day by day: dateutil would walk through all that lies between two days that match."""
        step = self._rule.interval if self._rule.frequency == "DAILY" else 1
        day = wall // DAY
        day += (self._start // DAY - day) % step
        for _ in range(_DAYS):
            if day * DAY > last:
                break
            if self._days.match(day):
                few = self._run(max(wall, day * DAY), min(last, day * DAY + DAY - 1))
                if few:
                    return few
            day += step
        return []

    def _run(self, wall: Wall, last: Wall) -> list[Wall]:
        begin = _datetime(self._period_before(wall))
        rule = dateutil_rules.rrule(dtstart=begin, until=_datetime(last), **self._options)
        return [_wall(found) for found in rule.xafter(_datetime(wall), count=self._size, inc=True)]

    def _period_before(self, wall: Wall) -> Wall:
        """The beginning of a period of the rule, at or shortly before this wall time."""
        rule, start = self._rule, _datetime(self._start)
        given = _datetime(wall)
        if rule.frequency == "YEARLY":
            year = given.year - (given.year - start.year) % rule.interval
            return wall_time(max(year, FIRST_YEAR + 1), 1, 1)
        if rule.frequency == "MONTHLY":
            month = given.year * 12 + given.month - 1
            month -= (month - start.year * 12 - start.month + 1) % rule.interval
            return wall_time(month // 12, month % 12 + 1, 1)
        if rule.frequency == "WEEKLY":
            unit = 7 * DAY
            first = dict(rule.parts).get("WKST", ("MO",))[0]
            back = (start.weekday() - list(_WEEKDAYS).index(first)) % 7
            origin = (self._start // DAY - back) * DAY
        else:
            unit = _UNITS[rule.frequency]
            origin = self._start // unit * unit
        return wall - (wall - origin) % (unit * rule.interval)


class _Days:
    """The days on which a rule of days, hours or less may fire."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._months = options.get("bymonth")
        self._dates = options.get("bymonthday")
        self._places = options.get("byyearday")
        self._weekdays = [day.weekday for day in options.get("byweekday", ())]

    def __bool__(self) -> bool:
        return bool(self._months or self._dates or self._places or self._weekdays)

    def match(self, day: int) -> bool:
        year, month, date = date_of(day)
        if self._months and month not in self._months:
            return False
        if self._weekdays and (day + 3) % 7 not in self._weekdays:
            return False
        return self._has(self._dates, date, month_length(year, month)) and self._has(
            self._places, day - day_of(year, 1, 1) + 1, 366 if is_leap(year) else 365
        )

    @staticmethod
    def _has(wanted: list[int] | None, number: int, length: int) -> bool:
        """Counted from the beginning, or from the end."""
        return not wanted or number in wanted or number - length - 1 in wanted


def _options(rule: Rule, start: datetime) -> dict[str, Any]:
    """The arguments for dateutil, with what a rule takes from its start written out."""
    options: dict[str, Any] = {"freq": FREQUENCIES.index(rule.frequency), "interval": rule.interval}
    for name, values in rule.parts:
        read = [_weekday(value) if name in _NAMES else int(value) for value in values]
        options[_NAMES.get(name, name.lower())] = read[0] if name == "WKST" else read
    if not options.keys() & {"byweekno", "byyearday", "bymonthday", "byweekday"}:
        if rule.frequency == "YEARLY":
            options.setdefault("bymonth", [start.month])
        if rule.frequency in {"YEARLY", "MONTHLY"}:
            options["bymonthday"] = [start.day]
        if rule.frequency == "WEEKLY":
            options["byweekday"] = [list(_WEEKDAYS.values())[start.weekday()]]
    for place, unit in enumerate(("hour", "minute", "second")):
        if FREQUENCIES.index(rule.frequency) < 4 + place:
            options.setdefault(f"by{unit}", getattr(start, unit))
    return options


def _weekday(text: str) -> object:
    weekday = _WEEKDAYS[text[-2:]]
    return weekday(int(text[:-2])) if text[:-2] else weekday


def _datetime(wall: Wall) -> datetime:
    return _EPOCH + timedelta(seconds=wall)


def _wall(moment: datetime) -> Wall:
    return int((moment - _EPOCH).total_seconds())
