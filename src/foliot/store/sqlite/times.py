"""Times as SQLite keeps them: whole microseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from foliot.clock import Clock

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def store_now(clock: Clock) -> int:
    """A file has no clock of its own: this process's is the store's."""
    return to_microseconds(clock.now_for_store() or clock.now())


def to_microseconds(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def from_microseconds(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)
