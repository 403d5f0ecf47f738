"""Months and days as whole numbers: no datetime objects where fires are computed.

A day is counted from 1970-01-01, a month from January 1900. All that a rule about the days of a month can
depend on is the month's shape: its length and the weekday it begins with. There are 28 of them.
"""

from __future__ import annotations

from bisect import bisect_right

DAY = 86_400
FIRST_YEAR = 1900
END_YEAR = 2500  # nothing fires from then on
MONTHS = (END_YEAR - FIRST_YEAR) * 12
SHAPES = 28
EPOCH_MONTH = (1970 - FIRST_YEAR) * 12

_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else _LENGTHS[month - 1]


def weekday_of(day: int) -> int:
    """0 is Sunday."""
    return (day + 4) % 7


def shape_of(length: int, first_weekday: int) -> int:
    return (length - 28) * 7 + first_weekday


def shapes_in(month: int) -> range:
    """The shapes that a month of the year has in some year."""
    longest = _LENGTHS[month - 1]
    return range(shape_of(longest, 0), shape_of(29 if month == 2 else longest, 6) + 1)


def _build() -> tuple[list[int], list[int]]:
    starts, shapes = [], []
    day = -25_567  # 1900-01-01
    for year in range(FIRST_YEAR, END_YEAR):
        for month in range(1, 13):
            length = month_length(year, month)
            starts.append(day)
            shapes.append(shape_of(length, weekday_of(day)))
            day += length
    return [*starts, day], shapes


MONTH_STARTS, MONTH_SHAPES = _build()
EARLIEST = MONTH_STARTS[0] * DAY
LATEST = MONTH_STARTS[-1] * DAY - 1


def day_of(year: int, month: int, day: int) -> int:
    return MONTH_STARTS[(year - FIRST_YEAR) * 12 + month - 1] + day - 1


def date_of(day: int) -> tuple[int, int, int]:
    index = bisect_right(MONTH_STARTS, day) - 1
    year, month = divmod(index, 12)
    return year + FIRST_YEAR, month + 1, day - MONTH_STARTS[index] + 1


def wall_time(year: int, month: int, day: int, second: int = 0) -> int:
    return day_of(year, month, day) * DAY + second


def show_wall(wall: int) -> str:
    """2026-11-20T10:00:00, as ISO 8601 has it."""
    day, second = divmod(wall, DAY)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    year, month, date = date_of(day)
    return f"{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}"
