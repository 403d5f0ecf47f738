"""Time. The only module that reads a clock or sleeps.

The database decides when something is due: statements compare with `coalesce(:now, now())`, and
`Clock.now_for_store` says what to pass. In production that is nothing; a manual clock passes its own time.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def now_for_store(self) -> datetime | None:
        """What statements compare with: None for the database's own clock."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back. The only clock to wait on."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def now_for_store(self) -> datetime | None:
        return None

    monotonic = staticmethod(time.monotonic)  # asked several times for every job

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
