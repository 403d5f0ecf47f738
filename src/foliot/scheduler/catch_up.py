"""Catch up: times at which nobody fired are made up for, as each schedule's misfire rule wants it.

A gap is walked once: first each of its times for the schedules that want them all, then its last time for those that
want only that. After every chunk the gap's place is stored, so that any process can go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from foliot.model.schedule import Gap, Misfire
from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.fire import CHUNK, tell
from foliot.scheduler.timetables import Timetables
from foliot.store.port import Peek
from foliot.store.scheduling import CatchUp, Due, OpenGap
from foliot.when import Timetable, last_between

_SELDOM: Final = 60.0
_PAUSE: Final = 0.01  # between two chunks: what is due goes first
_GAPS: Final = 500  # that are looked at
_LAST_ONLY: Final = (Misfire.LATEST, 0)
MOST: Final = 10_000  # times of one gap that are made up for, the last ones


class CatchingUp(Duty):
    name = "catch_up"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._timetables = Timetables(office.store, office.clock)
        self._missed: set[int] = set()  # partitions

    def see(self, peek: Peek) -> None:
        self._missed = set(peek.missed)
        if self._missed:
            self.wake()

    async def tick(self) -> float:
        for partition in sorted(self._missed & self._partitions.held):
            found = await self._store.schedules.gaps(partition, limit=_GAPS, chunk=CHUNK)
            known = [one for one in found if one.due is None or self._timetables.knows(one.due)]
            if known:
                await self._catch_up(partition, known)
            else:
                self._missed.discard(partition)
        return _PAUSE if self._missed & self._partitions.held else _SELDOM

    async def _catch_up(self, partition: int, found: Sequence[OpenGap]) -> None:
        await self._timetables.refresh([one.due for one in found if one.due is not None])
        alike = [*found[:1], *(one for one in found[1:] if not _repeats(one))]
        steps = together([self._plan(one) for one in alike], [_size(one) for one in alike])
        fired = await self._store.schedules.catch_up(partition, steps)
        tell(self._announce, partition, fired)

    def _plan(self, found: OpenGap) -> CatchUp:
        gap, due = found.gap, found.due
        if due is None:
            return CatchUp(gap)
        last = self._timetables.of(due).next_after(gap.to) is None
        times = self._times(gap, due) if _repeats(found) else ()
        place = 0 if gap.nominal is None else bisect_left(times, gap.nominal)
        if place == len(times):
            return self._latest(gap, due, ends=last)
        at = times[place]
        whole = due.upper is None
        # After the last of its times comes one that is none: the place of those that want the last one only.
        then = (times[place + 1] if place + 1 < len(times) else gap.to + 1) if whole else at
        return CatchUp(
            gap,
            due.stateful,
            nominal=at,
            policy=Misfire.ALL,
            place=place,
            upper=due.upper,
            then=then,
            after=due.upper,
        )

    def _latest(self, gap: Gap, due: Due, *, ends: bool) -> CatchUp:
        whole = due.upper is None
        return CatchUp(
            gap,
            due.stateful,
            nominal=None if self._timetables.excludes(due, gap.to) else gap.to,
            policy=Misfire.LATEST,
            upper=due.upper,
            then=None if whole else gap.to + 1,
            after=due.upper,
            ends=whole and ends,
        )

    def _times(self, gap: Gap, due: Due) -> Sequence[int]:
        times = _last_times(self._timetables.of(due), gap.start, gap.to)
        if not due.calendars:
            return times
        return [at for at in times if not self._timetables.excludes(due, at)]


@lru_cache(maxsize=16)  # a gap is walked in as many steps as it has times
def _last_times(timetable: Timetable, start: int, to: int) -> Sequence[int]:
    return last_between(timetable, start - 1, to, MOST)


def together(steps: Sequence[CatchUp], sizes: Sequence[int]) -> list[CatchUp]:
    """The first, and with one that wants only the last time the others that do, of other triggers, a chunk full."""
    first, room = steps[0], CHUNK - sizes[0]
    made, triggers = [first], {first.gap.trigger}
    for step, size in zip(steps[1:], sizes[1:], strict=True):
        fits = size <= room and step.gap.trigger not in triggers
        if fits and (step.policy, step.place) == (first.policy, first.place) == _LAST_ONLY:
            made.append(step)
            triggers.add(step.gap.trigger)
            room -= size
    return made


def _repeats(found: OpenGap) -> bool:
    """Whether each of its times is still to be made up for, not only the last."""
    gap = found.gap
    return found.repeats if gap.nominal is None else gap.nominal <= gap.to


def _size(found: OpenGap) -> int:
    return 0 if found.due is None else found.due.count
