"""What is typed for a time, a wait, a priority or a file to write."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from foliot.errors import InvalidValue
from foliot.model.job import Priority
from foliot.units import LONGEST, read_duration, show_duration


def read_wait(
    field: str, text: str | None, *, least: float = 0.0, most: float = LONGEST
) -> float | None:
    """Seconds, of a text like 10m."""
    if text is None:
        return None
    try:
        seconds = read_duration(text)
        if not least <= seconds <= most:
            raise ValueError(f"is not between {show_duration(least)} and {show_duration(most)}")
    except ValueError as error:
        raise InvalidValue(field, text, str(error), example=f"{field} 10m") from None
    return seconds


def check_unwritten(field: str, path: Path, *, force: bool) -> None:
    """What is in a file is not lost by a slip. Devices and pipes lose nothing."""
    if not force and path.is_file():
        raise InvalidValue(field, str(path), "is there already", hint="--force overwrites it")


def read_time(field: str, text: str | None) -> datetime | None:
    """A time with its zone."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        example = f"{field} 2027-01-01T09:00+01:00"
        raise InvalidValue(field, text, "is not a time with its zone", example=example)
    return time


def read_priority(text: str | None) -> int | None:
    """high, medium, low, or a number."""
    if text is None:
        return None
    if text.upper() in Priority.__members__:
        return int(Priority[text.upper()])
    if not text.isascii() or not text.isdigit():
        problem = "is not high, medium, low or a number from 0 to 9"
        raise InvalidValue("priority", text, problem, example="--priority high")
    return int(text)
