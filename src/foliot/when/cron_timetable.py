"""A cron expression compiled: the next wall time that matches, by bit masks and two binary searches."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache

from foliot.when.civil import DAY, MONTH_SHAPES, MONTH_STARTS, MONTHS
from foliot.when.cron import day_masks
from foliot.when.cron_fields import values_of
from foliot.when.forms import Cron, Wall


@lru_cache(maxsize=4096)
def _minutes_of_day(hours: int, minutes: int) -> array[int]:
    wanted = values_of(minutes)
    return array("H", [hour * 60 + minute for hour in values_of(hours) for minute in wanted])


@lru_cache(maxsize=4096)
def _seconds(mask: int) -> tuple[int, ...]:
    return tuple(values_of(mask))


@lru_cache(maxsize=4096)
def _months_ahead(months: int) -> tuple[int, ...]:
    """From each month of the year, January first, how many months to the next one that matches."""
    wanted = [month - 1 for month in values_of(months)]
    return tuple(min((month - here - 1) % 12 + 1 for month in wanted) for here in range(12))


class CronWalls:
    """The wall times of a cron expression."""

    __slots__ = ("_ahead", "_days", "_first", "_minutes", "_months", "_seconds")

    def __init__(self, cron: Cron) -> None:
        self._minutes = _minutes_of_day(cron.hours.mask, cron.minutes.mask)
        self._seconds = _seconds(cron.seconds.mask)
        self._first = self._minutes[0] * 60 + self._seconds[0]
        self._days = day_masks(cron.days, cron.weekdays)
        self._months = cron.months.mask >> 1
        self._ahead = _months_ahead(cron.months.mask)

    def next_from(self, wall: Wall) -> Wall | None:
        """The first that matches, at this wall time or later."""
        day, second = divmod(wall, DAY)
        month = bisect_right(MONTH_STARTS, day) - 1
        if month >= MONTHS:
            return None
        left = 0
        if self._months >> month % 12 & 1:
            left = self._days[MONTH_SHAPES[month]] >> day - MONTH_STARTS[month]
            if left & 1:
                found = self._next_time(second)
                if found is not None:
                    return day * DAY + found
        left >>= 1
        day += 1
        while not left:
            month += self._ahead[month % 12]
            if month >= MONTHS:
                return None
            left = self._days[MONTH_SHAPES[month]]
            day = MONTH_STARTS[month]
        return (day + (left & -left).bit_length() - 1) * DAY + self._first

    def _next_time(self, second_of_day: int) -> int | None:
        """The first time of a day that matches, at this second or later."""
        minute, second = divmod(second_of_day, 60)
        minutes, seconds = self._minutes, self._seconds
        place = bisect_left(minutes, minute)
        if place == len(minutes):
            return None
        found = minutes[place]
        if found == minute:
            if second <= seconds[-1]:
                return minute * 60 + seconds[bisect_left(seconds, second)]
            if place + 1 == len(minutes):
                return None
            found = minutes[place + 1]
        return found * 60 + seconds[0]
