"""Clock changes the slow way: minute by minute, with the datetime and zoneinfo of Python itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)

Match = Callable[[datetime], bool]


@cache
def zone_info(name: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def wall_at(moment: int, zone: str) -> datetime:
    return datetime.fromtimestamp(moment, zone_info(zone)).replace(tzinfo=None, fold=0)


@cache
def real_minutes(zone: str, start: int, end: int) -> list[tuple[int, datetime]]:
    return [(moment, wall_at(moment, zone)) for moment in range(start, end + 1, 60)]


def following_real_time(match: Match, zone: str, start: int, end: int) -> list[int]:
    """Every minute that has such a wall time."""
    return [
        moment for moment, wall in real_minutes(zone, start, end) if moment > start and match(wall)
    ]


def at_fixed_times(
    match: Match, zone: str, start: int, end: int, *, gap: str, overlap: str
) -> list[int]:
    """Every wall time that matches, whether it exists once, twice or not at all."""
    minutes = real_minutes(zone, start - 2 * 86_400, end + 2 * 86_400)
    by_wall: dict[datetime, list[int]] = {}
    for moment, wall in minutes:
        by_wall.setdefault(wall, []).append(moment)
    fires = set[int]()
    for wall, moments in by_wall.items():
        if match(wall):
            fires |= set({"first": moments[:1], "second": moments[-1:], "both": moments}[overlap])
    for (before, left), (moment, right) in pairwise(minutes):
        wall = left + MINUTE
        while wall < right:  # the clock jumps over it
            if match(wall):
                elapsed = int((wall - left).total_seconds())
                fires |= {
                    "skip": set(),
                    "shift": {before + elapsed},
                    "run_at_transition": {moment},
                }[gap]
            wall += MINUTE
    return sorted(fire for fire in fires if start < fire <= end)
