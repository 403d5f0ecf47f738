"""Forecast: how many fires are ahead, minute by minute, and the seconds with the most."""

from __future__ import annotations

from itertools import islice
from math import ceil
from typing import Final

import msgspec

from foliot import when
from foliot.checks import check_whole
from foliot.store.port import Store
from foliot.store.scheduling import Group

_HOUR: Final = 3600
_MINUTE: Final = 60
_GROUPS: Final = 20_000
_MOST_STEPS: Final = 2_000_000  # fires that are computed; what is left is left out
_HERDS: Final = 10


class Forecast(msgspec.Struct, frozen=True):
    """`minutes`: the fires of each minute from `start` on. `herds`: the seconds with the most, first first. Not
    `exact`: there were more groups of schedules than were looked at, and these are the largest."""

    start: int
    minutes: list[int]
    herds: list[tuple[int, int]]
    exact: bool
    schedules: int = 0  # that were looked at

    @property
    def total(self) -> int:
        return sum(self.minutes)


async def forecast(store: Store, *, hours: int = 24) -> Forecast:
    """What active schedules will fire. Those that follow their own runs are not foreseen."""
    check_whole("hours", hours, 1, 168, example="hours=24")
    now = ceil((await store.schedules.now()).timestamp())
    groups, _ = await store.schedules.forecast(limit=_GROUPS)
    start = now - now % _MINUTE
    length = hours * _HOUR
    seconds = [0] * length
    steps, seen = 0, 0
    for group in groups:
        if steps >= _MOST_STEPS:
            break
        steps += _count(group, start, now, seconds)
        seen += 1
    minutes = [sum(seconds[at : at + _MINUTE]) for at in range(0, length, _MINUTE)]
    return Forecast(
        start,
        minutes,
        _herds(seconds, start),
        exact=seen == len(groups) < _GROUPS,
        schedules=sum(group.size for group in groups[:seen]),
    )


def _count(group: Group, start: int, now: int, seconds: list[int]) -> int:
    """Adds the fires of a group to their seconds. Returns how many times it has."""
    timetable = when.parse(group.expression, timezone=group.timezone).timetable(
        dst_gap=group.dst_gap, dst_overlap=group.dst_overlap
    )
    end = start + len(seconds) - 1
    times = 0
    for at in when.between(timetable, max(now, group.next) - 1, end):
        seconds[at - start] += group.size
        times += 1
    return times


def _herds(seconds: list[int], start: int) -> list[tuple[int, int]]:
    busiest = sorted(((count, -at) for at, count in enumerate(seconds) if count > 1), reverse=True)
    return [(start - at, count) for count, at in islice(busiest, _HERDS)]
