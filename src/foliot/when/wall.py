"""From wall times to instants: the one place that knows what a clock change does to a fire.

A zone is a row of periods of one offset each. Where the clock goes forward, a gap of wall times does not exist: what
falls into it is left out (skip), fires as long after the change as it lies in the gap (shift), or once at the change
(run_at_transition). Where it goes back, a stretch of wall times comes twice: it counts the first time, the second, or
both. So in each period the wall times from `lows` up to `highs` fire, and a gap may add some at the period's beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import Literal, Protocol

from foliot.when.civil import DAY, EARLIEST, LATEST
from foliot.when.forms import Wall
from foliot.when.zones import Zone, load_zone

DstGap = Literal["skip", "shift", "run_at_transition"]
DstOverlap = Literal["first", "second", "both"]

DEFAULT_GAP: DstGap = "run_at_transition"
DEFAULT_OVERLAP: DstOverlap = "first"
_BEGIN = EARLIEST + DAY  # whatever the offset, the wall is not before the first year known
_END = LATEST + DAY


class Walls(Protocol):
    """Wall times in order."""

    def next_from(self, wall: Wall) -> Wall | None:
        """The first at this wall time or later."""
        ...


@lru_cache(maxsize=4096)
def _windows(name: str, overlap: DstOverlap) -> tuple[list[int], list[int]]:
    """For each period of a zone, the first of its wall times that counts and the one with which they end."""
    zone = load_zone(name)
    lows, highs = [EARLIEST], []
    for index, change in enumerate(zone.changes):
        before, after = zone.offsets[index], zone.offsets[index + 1]
        highs.append(change + (min(before, after) if overlap == "second" else before))
        lows.append(
            change + (max(before, after) if overlap == "first" and after < before else after)
        )
    return lows, [*highs, _END]


class WallTimetable:
    """The instants at which wall times fire in a zone."""

    __slots__ = ("_changes", "_gap", "_highs", "_lows", "_next_from", "_offsets", "_shifts")

    def __init__(self, walls: Walls, zone: Zone, *, gap: DstGap, overlap: DstOverlap) -> None:
        self._next_from = walls.next_from
        self._changes = zone.changes
        self._offsets = zone.offsets
        self._lows, self._highs = _windows(zone.name, overlap)
        self._gap = gap
        self._shifts = gap == "shift"

    def next_after(self, moment: int) -> int | None:
        """The first instant after this one, None if there is none before civil.END_YEAR."""
        moment = max(moment, _BEGIN)
        period = bisect_right(self._changes, moment)
        offset = self._offsets[period]
        # Where gaps are shifted, the beginning of a period may hold more than its own.
        if not self._shifts or period == 0 or moment >= self._changes[period - 1] + 2 * DAY:
            wall = moment + 1 + offset
            low = self._lows[period]
            found = self._next_from(max(low, wall))
            if found is not None and found < self._highs[period]:
                return found - offset
        return self._search(moment, period)

    def moved_from(self, fire: int) -> Wall | None:
        """The wall time in a gap that a fire stands for."""
        period = bisect_right(self._changes, fire)
        if period == 0 or self._gap == "skip":
            return None
        change, before = self._changes[period - 1], self._offsets[period - 1]
        begin, end = change + before, change + self._offsets[period]
        if self._shifts:
            begin = fire + before
            end = min(end, begin + 1)
        elif fire != change:
            return None
        found = self._next_from(begin)
        return found if found is not None and found < end else None

    def _search(self, moment: int, first: int) -> int | None:
        """Period by period, with what the gaps between them add."""
        period = first
        while period < len(self._offsets):
            offset = self._offsets[period]
            found = self._next_from(max(moment + 1 + offset, self._lows[period]))
            fires = [] if found is None or found >= self._highs[period] else [found - offset]
            fires += self._of_gap(moment, period)
            if fires:
                return min(fires)
            period += 1
            if period > first + 1:  # the change next to `moment` is behind: what lies ahead counts
                ahead = _END if found is None else found
                period = max(period, bisect_right(self._changes, ahead - 2 * DAY))
                if found is None:
                    return None
        return None

    def _of_gap(self, moment: int, period: int) -> list[int]:
        """What the gap at the beginning of a period adds: one instant at most."""
        if period == 0 or self._gap == "skip":
            return []
        change, before = self._changes[period - 1], self._offsets[period - 1]
        begin, end = change + before, change + self._offsets[period]
        if self._shifts:
            begin = max(begin, moment + 1 + before)
        elif change <= moment:
            return []
        if begin >= end:
            return []
        found = self._next_from(begin)
        if found is None or found >= end:
            return []
        return [found - before if self._shifts else change]


def instant_of(wall: Wall, zone: Zone) -> int:
    """The instant of one wall time by the default rules: in a gap the change, of two the first."""
    near = bisect_right(zone.changes, wall - 2 * DAY)
    for period in range(near, len(zone.offsets)):
        instant = wall - zone.offsets[period]
        begin = zone.changes[period - 1] if period else EARLIEST - 2 * DAY
        if instant < begin:
            return begin
        if period == len(zone.changes) or instant < zone.changes[period]:
            return instant
    raise AssertionError("the last period has no end")
