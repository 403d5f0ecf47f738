"""Intervals: seconds of elapsed time, and months and days by the calendar. Their texts are in iso8601.py."""

from __future__ import annotations

from foliot.when.civil import (
    DAY,
    EPOCH_MONTH,
    FIRST_YEAR,
    LATEST,
    MONTH_STARTS,
    MONTHS,
    date_of,
    wall_time,
)
from foliot.when.forms import CalendarInterval, Interval, Wall

LONGEST = 36_500 * DAY
_MONTH = 2_629_746  # seconds, on average
_MONDAY = wall_time(1970, 1, 5)


class IntervalTimetable:
    __slots__ = ("_count", "_every", "_least", "_start")

    def __init__(self, interval: Interval) -> None:
        self._every = interval.every
        self._start = interval.start or 0
        self._least = None if interval.start is None else 0
        self._count = interval.count

    def next_after(self, moment: int) -> int | None:
        number = (moment - self._start) // self._every + 1
        if self._least is not None and number < 0:
            number = 0
        if self._count is not None and number >= self._count:
            return None
        found = self._start + number * self._every
        return found if found <= LATEST else None


def calendar_start(interval: CalendarInterval) -> Wall:
    """What is counted from: 1970 unless it is said otherwise, and of whole weeks its first Monday."""
    if interval.start is not None:
        return interval.start
    weeks = not interval.months and not interval.seconds and interval.days % 7 == 0
    return _MONDAY if weeks else MONTH_STARTS[EPOCH_MONTH] * DAY


class CalendarWalls:
    """The wall times of a calendar interval."""

    def __init__(self, interval: CalendarInterval) -> None:
        self._interval = interval
        self._start = calendar_start(interval)
        day, self._second = divmod(self._start, DAY)
        year, month, self._date = date_of(day)
        self._month = (year - FIRST_YEAR) * 12 + month - 1
        self._length = interval.months * _MONTH + interval.days * DAY + interval.seconds

    def next_from(self, wall: Wall) -> Wall | None:
        number = max(0, (wall - self._start) // self._length - 2)
        count = self._interval.count
        while count is None or number < count:
            found = self._at(number)
            if found is None or found >= wall:
                return found
            number += 1
        return None

    def _at(self, number: int) -> Wall | None:
        """Always counted from the start: the 31st stays the 31st where a month has one."""
        month = self._month + number * self._interval.months
        if month >= MONTHS:
            return None
        start, end = MONTH_STARTS[month], MONTH_STARTS[month + 1]
        day = min(start + self._date, end) - 1 + number * self._interval.days
        found = day * DAY + self._second + number * self._interval.seconds
        return found if found <= LATEST else None
