"""Time zones as plain tables: from which instant on which offset from UTC.

They are read from the tzdata package, so that all machines agree, and from the system only where that is missing.
A zone's rule for the future is written out until civil.END_YEAR. Names are looked up in the list of zones before any
file is touched.
"""

from __future__ import annotations

import difflib
import re
import struct
from bisect import bisect_right
from datetime import date
from functools import cache, lru_cache
from importlib import import_module, resources
from pathlib import Path
from zoneinfo import TZPATH, available_timezones

from foliot.errors import InvalidValue
from foliot.when.civil import (
    DAY,
    EARLIEST,
    END_YEAR,
    date_of,
    day_of,
    is_leap,
    month_length,
    weekday_of,
)

_LONGEST_NAME = 64
_HEADER = struct.Struct(">4sc15x6L")
_GMT = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2})", re.ASCII | re.IGNORECASE)


class Zone:
    """`offsets[i]` holds before `changes[i]`, and `offsets[i + 1]` from it on; both in seconds."""

    __slots__ = ("changes", "name", "offsets")

    def __init__(self, name: str, changes: list[int], offsets: list[int]) -> None:
        self.name = name
        self.changes = changes
        self.offsets = offsets

    def offset_at(self, moment: int) -> int:
        return self.offsets[bisect_right(self.changes, moment)]


def check_zone(name: object) -> str:
    """The name, if there is a zone of this name."""
    if not isinstance(name, str):
        raise InvalidValue(
            "timezone", name, "is not the name of a time zone", example="Europe/Berlin"
        )
    if name not in zone_names():
        hint = _near(name) if len(name) <= _LONGEST_NAME else None
        raise InvalidValue(
            "timezone", name, "is not a known time zone", example="Europe/Berlin", hint=hint
        )
    return name


@lru_cache(maxsize=1024)
def load_zone(name: str) -> Zone:
    changes, offsets, rule = _read(_file(check_zone(name)))
    if rule:
        _extend(changes, offsets, rule)
    return Zone(name, *_from_earliest(changes, offsets))


def local_date(moment: int, timezone: str) -> date:
    """The day that it is in the zone."""
    year, month, day = date_of((moment + load_zone(timezone).offset_at(moment)) // DAY)
    return date(year, month, day)


@cache
def zone_names() -> frozenset[str]:
    try:
        listed = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return frozenset(available_timezones())
    return frozenset(listed.split())


@cache
def tzdata_version() -> str:
    """Of the rules in use, as IANA counts them: 2026a."""
    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ModuleNotFoundError:
        return _system_version()


def _system_version() -> str:
    for folder in TZPATH:
        rules = Path(folder, "tzdata.zi")
        if rules.is_file():
            with rules.open(encoding="utf-8") as lines:
                return lines.readline().removeprefix("# version ").strip()
    return "unknown"


def _file(name: str) -> bytes:
    try:
        return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        found = next(path for folder in TZPATH if (path := Path(folder, name)).is_file())
        return found.read_bytes()


def _near(name: str) -> str | None:
    if found := _GMT.fullmatch(name):
        sign, hours = found.groups()
        swapped = "-" if sign == "+" else "+"
        return f"Etc/GMT{swapped}{int(hours)} is UTC{sign}{int(hours)}"
    folded = name.casefold().replace(" ", "_")
    names = zone_names()
    alike = [
        known
        for known in names
        if folded in (known.casefold(), known.casefold().rpartition("/")[2])
    ]
    if not alike:
        letters = {part[:1] for part in folded.split("/")}
        city = folded.rpartition("/")[2]
        by_city = {known.casefold().rpartition("/")[2]: known for known in names}
        pool = [place for place in by_city if place[:1] in letters]
        alike = [by_city[place] for place in difflib.get_close_matches(city, pool, n=3, cutoff=0.4)]
    return f"did you mean {' or '.join(sorted(alike)[:3])}?" if alike else None


def _read(data: bytes) -> tuple[list[int], list[int], str]:
    """Changes, offsets and the rule for what comes after, of a TZif file of version 2 or later (RFC 8536)."""
    _, _, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data)
    start = _HEADER.size + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    _, _, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data, start)
    start += _HEADER.size
    changes = list(struct.unpack_from(f">{times}q", data, start))
    start += times * 8
    kinds = data[start : start + times]
    start += times
    known = [struct.unpack_from(">l", data, start + 6 * index)[0] for index in range(types)]
    start += types * 6 + chars + leap * 12 + isstd + isut
    rule = data[start:].strip().decode("ascii")
    return changes, [known[0], *(known[kind] for kind in kinds)], rule


_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"[+-]?\d+(?::\d+){0,2}"
_RULE = re.compile(rf"{_NAME}({_TIME})(?:{_NAME}({_TIME})?,([^,]+),([^,]+))?", re.ASCII)


def _extend(changes: list[int], offsets: list[int], rule: str) -> None:
    """Write out a rule such as CET-1CEST,M3.5.0,M10.5.0/3 (POSIX TZ, RFC 8536 section 3.3)."""
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"not a rule of a time zone: {rule}")
    standard = -_seconds(found[1])
    if found[3] is None:
        changes.append(changes[-1] + 1 if changes else EARLIEST)
        offsets.append(standard)
        return
    summer = -_seconds(found[2]) if found[2] else standard + 3600
    last = changes[-1] if changes else EARLIEST
    coming = []
    for year in range(1970 + last // 31_556_952 - 1, END_YEAR):
        coming.append((_moment(year, found[3]) - standard, summer))
        coming.append((_moment(year, found[4]) - summer, standard))
    for moment, offset in sorted(coming):
        if moment > last:
            changes.append(moment)
            offsets.append(offset)


def _moment(year: int, rule: str) -> int:
    """The wall time at which a rule changes the clock: M3.5.0/3, the last (5.) Sunday of March at three; J60, 59."""
    when, _, time = rule.partition("/")
    second = _seconds(time) if time else 7200
    if when.startswith("M"):
        month, week, weekday = (int(part) for part in when[1:].split("."))
        first = day_of(year, month, 1)
        day = (weekday - weekday_of(first)) % 7 + 7 * (week - 1)
        while day >= month_length(year, month):
            day -= 7
        return (first + day) * DAY + second
    if when.startswith("J"):
        day = int(when[1:]) - 1
        return (day_of(year, 1, 1) + day + (is_leap(year) and day >= 59)) * DAY + second
    return (day_of(year, 1, 1) + int(when)) * DAY + second


def _seconds(text: str) -> int:
    hours, *rest = text.lstrip("+-").split(":")
    minutes, seconds = (int(part) for part in (*rest, "0", "0")[:2])
    total = int(hours) * 3600 + minutes * 60 + seconds
    return -total if text.startswith("-") else total


def _from_earliest(changes: list[int], offsets: list[int]) -> tuple[list[int], list[int]]:
    """Without what lies before the first year known, and without changes that leave the offset alone."""
    first = bisect_right(changes, EARLIEST)
    kept, known = [], [offsets[first]]
    for change, offset in zip(changes[first:], offsets[first + 1 :], strict=True):
        if offset != known[-1]:
            kept.append(change)
            known.append(offset)
    return kept, known
