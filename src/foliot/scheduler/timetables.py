"""Timetables of triggers, compiled once, and the calendars on whose days they do not fire."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from foliot.clock import Clock
from foliot.errors import FoliotError
from foliot.model.calendar import Calendar, read_calendar
from foliot.model.schedule import DstGap, DstOverlap
from foliot.store.port import Store
from foliot.store.scheduling import Due
from foliot.when import Timetable, parse
from foliot.when.zones import local_date

log = logging.getLogger("foliot.scheduler")
_FRESH: Final = 5.0  # seconds that calendars are trusted


class Timetables:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._calendars: dict[str, Calendar] = {}
        self._read_at = float("-inf")
        self._strange: set[int] = set()  # triggers that cannot be read here

    async def refresh(self, found: Sequence[Due]) -> None:
        """Look at the calendars again, if any is named."""
        if not any(due.calendars for due in found):
            return
        if self._clock.monotonic() - self._read_at > _FRESH:
            known = await self._store.calendars.all()
            self._calendars = {one.name: read_calendar(one.dates) for one in known}
            self._read_at = self._clock.monotonic()

    def knows(self, due: Due) -> bool:
        """Whether this process can read the trigger. One that a newer version made, or whose zone is not known here, is
        left to others and must not keep the rest from firing; if nobody can, it is overdue, and doctor says so."""
        if due.delay is not None or due.id in self._strange:
            return due.delay is not None
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
        return any(
            name in self._calendars and self._calendars[name].excludes(day)
            for name in due.calendars
        )


@lru_cache(maxsize=16_384)
def compiled(
    expression: str, timezone: str, dst_gap: DstGap | None, dst_overlap: DstOverlap | None
) -> Timetable:
    parsed = parse(expression, timezone=timezone)
    return parsed.timetable(dst_gap=dst_gap, dst_overlap=dst_overlap)
