"""Spans of time as a test writes them: "3 days", "1 hour 30 minutes", "1h30m", 90, timedelta(minutes=1)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from foliot.errors import InvalidValue
from foliot.units import read_duration

_UNITS: Final = {
    "week": 7 * 86_400.0,
    "day": 86_400.0,
    "hour": 3600.0,
    "minute": 60.0,
    "second": 1.0,
    "millisecond": 0.001,
}
_PART: Final = rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?"
_WORDS: Final = re.compile(rf"{_PART}(?:(?:\s*,\s*|\s+|\s+and\s+){_PART})*", re.ASCII)


def read_span(given: float | str | timedelta) -> float:
    """Seconds."""
    text = given.strip().lower() if isinstance(given, str) else ""
    if _WORDS.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in re.findall(_PART, text))
    try:
        return read_duration(given)
    except ValueError as error:
        raise InvalidValue("span", given, str(error), example='advance("3 days")') from None
