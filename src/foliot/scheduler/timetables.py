"""Timetables of triggers, compiled once, and the calendars on whose days they do not fire."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.errors import FoliotError
from foliot.model.calendar import Calendar, read_calendar
from foliot.model.schedule import DstGap, DstOverlap
from foliot.store.port import Store
from foliot.store.scheduling import Due
from foliot.when import Timetable, parse
from foliot.when.zones import local_date

log = logging.getLogger("foliot.scheduler")
_NO_DAYS: Final = Calendar()
_FRESH: Final = 5.0  # seconds that calendars are trusted


class Timetables:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._calendars: dict[str, Calendar | None] = {}  # None: it cannot be read here
        self._read_at = float("-inf")
        self._strange: set[int] = set()  # triggers that cannot be read here

    async def refresh(self, found: Sequence[Due]) -> None:
        """Look at the calendars again, if any is named."""
        if not any(due.calendars for due in found):
            return
        if self._clock.monotonic() - self._read_at > _FRESH:
            self._calendars.clear()
            for one in await self._store.calendars.all():
                self._calendars[one.name] = _read(one.name, one.dates)
            self._read_at = self._clock.monotonic()

    def knows(self, due: Due) -> bool:
        """Whether this process can read the trigger. One that a newer version made, or whose zone is not known here, is
        left to others and must not keep the rest from firing; if nobody can, it is overdue, and doctor says so."""
        if due.delay is not None or due.id in self._strange:
            return due.delay is not None
        if any(self._calendars.get(name, _NO_DAYS) is None for name in due.calendars):
            return False
        try:
            self.of(due)
        except FoliotError as error:
            log.warning(
                "trigger %r (%s) cannot be read here: %s", due.expression, due.timezone, error
            )
            self._strange.add(due.id)
            return False
        return True

    def of(self, due: Due) -> Timetable:
        return compiled(due.expression, due.timezone, due.dst_gap, due.dst_overlap)

    def excludes(self, due: Due, nominal: int) -> bool:
        """Whether a calendar of the trigger has this day. One that was deleted has none."""
        if not due.calendars:
            return False
        day = local_date(nominal, due.timezone)
        calendars = [self._calendars.get(name) for name in due.calendars]
        return any(calendar is not None and calendar.excludes(day) for calendar in calendars)


def _read(name: str, dates: str) -> Calendar | None:
    try:
        return read_calendar(dates)
    except (FoliotError, msgspec.DecodeError) as error:
        log.warning(
            "calendar %r cannot be read here, those who name it do not fire: %s", name, error
        )
        return None


@lru_cache(maxsize=16_384)
def compiled(
    expression: str, timezone: str, dst_gap: DstGap | None, dst_overlap: DstOverlap | None
) -> Timetable:
    parsed = parse(expression, timezone=timezone)
    return parsed.timetable(dst_gap=dst_gap, dst_overlap=dst_overlap)
