"""A clock that stands still until it is told to move, so that tests decide when a lease or a delay is over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final

_NOON: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)


class ManualClock:
    """Foliot asks it for every time, the store included. It may be read from any thread."""

    def __init__(self, start: datetime = _NOON) -> None:
        if start.utcoffset() is None:
            raise ValueError(f"start: {start!r} has no time zone, for example {_NOON!r}")
        self._start = start.astimezone(UTC)
        self._elapsed = timedelta()
        self._lock = Lock()

    def now(self) -> datetime:
        return self._start + self._elapsed

    def now_for_store(self) -> datetime | None:
        return self.now()

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Moves the clock to where the sleep ends; sleeps at the same time overlap, as real ones do."""
        end = self._elapsed + timedelta(seconds=max(0.0, seconds))
        await asyncio.sleep(0)
        with self._lock:
            self._elapsed = max(self._elapsed, end)

    def advance(self, seconds: float) -> datetime:
        """Move it on. Returns what time it is then."""
        if seconds < 0:
            raise ValueError(f"seconds: {seconds!r} is negative; a clock of ours never goes back")
        with self._lock:
            self._elapsed += timedelta(seconds=seconds)
        return self.now()
