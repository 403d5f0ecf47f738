"""The part of a store's contract that is about calendars: the days on which schedules do not fire."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from foliot.store.searching import Record


class Calendar(msgspec.Struct, frozen=True):
    """Days on which schedules that name it do not fire."""

    name: str
    dates: str  # JSON
    updated_at: datetime
    updated_by: str | None = None


class Calendars(Protocol):
    async def put(
        self, name: str, dates: str, *, by: str | None = None, record: Record | None = None
    ) -> None: ...

    async def delete(self, name: str, *, record: Record | None = None) -> bool:
        """Whether there was one."""
        ...

    async def all(self) -> list[Calendar]: ...
