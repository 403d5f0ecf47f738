"""Durations and sizes as people write them: "15s", "1h30m", "250ms", "256KiB".

The readers raise ValueError with the end of a sentence ("is not a duration …"); the caller, who
knows the field, puts it into an InvalidValue.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta

LONGEST = 36_500 * 86_400.0

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_DURATION = re.compile(
    "".join(rf"(?:(\d{{1,15}}(?:\.\d{{1,9}})?){unit})?" for unit, _ in _UNITS), re.ASCII
)
_NOT_A_DURATION = "is not a duration (units: d, h, m, s, ms)"

_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(\d{1,18})([A-Za-z]*)", re.ASCII)


def read_duration(given: object) -> float:
    """Seconds, of a text like "1h30m", a number of seconds (also as text) or a timedelta."""
    seconds: float
    match given:
        case bool():
            raise ValueError(_NOT_A_DURATION)
        case int() | float():
            seconds = given
        case timedelta():
            seconds = given.total_seconds()
        case str():
            seconds = _read_duration_text(given.strip())
        case _:
            raise ValueError(_NOT_A_DURATION)
    if seconds != seconds:  # noqa: PLR0124 - not a number; math.isnan() fails on a huge int
        raise ValueError(_NOT_A_DURATION)
    if seconds < 0:
        raise ValueError("is negative")
    if seconds > LONGEST:
        raise ValueError(f"is longer than {show_duration(LONGEST)}")
    return float(seconds)


def _read_duration_text(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    if text.startswith("-"):
        raise ValueError("is negative" if text[1:2].isdigit() else _NOT_A_DURATION)
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(_NOT_A_DURATION)
    parts = zip(found.groups(), _UNITS, strict=True)
    return sum(float(count) * size for count, (_, size) in parts if count) / 1000


def show_duration(seconds: float) -> str:
    """The shortest text that reads back as these seconds: 5400 is "1h30m"."""
    left = round(seconds * 1000)
    if left == 0 or not math.isclose(left, seconds * 1000, rel_tol=1e-12):
        return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
    text = ""
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text


def read_size(given: object) -> int:
    """Bytes, of a text like "256KiB" or a number of bytes (also as text)."""
    match given:
        case bool():
            raise ValueError("is not a size")
        case int():
            size = given
        case str():
            size = _read_size_text(given.strip())
        case _:
            raise ValueError("is not a size")
    if size < 0:
        raise ValueError("is negative")
    return size


def _read_size_text(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("is not a size (units: B, KiB, MiB, GiB)")
    count, unit = found.groups()
    if unit in _SIZES:
        return int(count) * _SIZES[unit]
    if not unit:
        return int(count)
    letter = unit[0].upper()
    if letter in "KMG":
        raise ValueError(f"is not a size: use {letter}iB")
    raise ValueError("is not a size (units: B, KiB, MiB, GiB)")


def show_size(size: int) -> str:
    """The shortest text that reads back as this many bytes: 262144 is "256KiB"."""
    for unit, scale in reversed(_SIZES.items()):
        if size >= scale and size % scale == 0:
            return f"{size // scale}{unit}"
    return f"{size}B"
