"""Calendar: days on which the schedules that name it do not fire.

An entry is a day, "2026-12-25"; days in a row, "2026-12-24..2027-01-01"; a day of every year, "12-25"; or an
expression, whose days are those on which it fires: "0 0 * * SAT,SUN". Which day it is depends on the schedule's zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Final

import msgspec

from foliot.errors import InvalidValue
from foliot.when import Timetable, parse

_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1)
_YEARLY: Final = re.compile(r"(\d{2})-(\d{2})", re.ASCII)
_LEAP_YEAR: Final = 2024
_decode: Final = msgspec.json.Decoder(tuple[str, ...]).decode
MOST_ENTRIES: Final = 10_000


class Yearly(msgspec.Struct, frozen=True):
    month: int
    day: int


class Calendar(msgspec.Struct, frozen=True):
    days: frozenset[date] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()  # month and day
    ranges: tuple[tuple[date, date], ...] = ()  # both ends included
    rules: tuple[Timetable, ...] = ()

    def excludes(self, day: date) -> bool:
        if day in self.days or (day.month, day.day) in self.yearly:
            return True
        if any(first <= day <= last for first, last in self.ranges):
            return True
        start = (day - _EPOCH).days * _DAY
        return any(
            (fire := rule.next_after(start - 1)) is not None and fire < start + _DAY
            for rule in self.rules
        )


def read_calendar(dates: str) -> Calendar:
    """Of what is stored: a JSON array of entries."""
    return calendar_of(_decode(dates))


def write_entries(entries: Iterable[str]) -> str:
    """As they are stored, if they can be read."""
    given = tuple(entries)
    calendar_of(given)
    return msgspec.json.encode(given).decode()


def calendar_of(entries: Iterable[str]) -> Calendar:
    days: set[date] = set()
    yearly: set[tuple[int, int]] = set()
    ranges: list[tuple[date, date]] = []
    rules: list[Timetable] = []
    for number, entry in enumerate(entries):
        if number >= MOST_ENTRIES:
            raise InvalidValue("calendar", problem=f"has more than {MOST_ENTRIES} entries")
        read = _read(entry)
        if isinstance(read, date):
            days.add(read)
        elif isinstance(read, Yearly):
            yearly.add((read.month, read.day))
        elif isinstance(read, tuple):
            ranges.append(read)
        else:
            rules.append(read)
    return Calendar(frozenset(days), frozenset(yearly), tuple(ranges), tuple(rules))


def _read(entry: object) -> date | Yearly | tuple[date, date] | Timetable:
    if not isinstance(entry, str) or not entry.strip():
        raise InvalidValue("calendar", entry, "is no entry", example='"2026-12-25"')
    text = entry.strip()
    if (found := _YEARLY.fullmatch(text)) is not None:
        _day(f"{_LEAP_YEAR}-{text}", entry)
        return Yearly(int(found[1]), int(found[2]))
    first, dots, last = text.partition("..")
    if dots:
        span = _day(first.strip(), entry), _day(last.strip(), entry)
        if span[0] > span[1]:
            raise InvalidValue(
                "calendar", entry, "ends before it begins", example='"2026-12-24..2027-01-01"'
            )
        return span
    if text[:4].isdigit() and text[4:5] == "-":
        return _day(text, entry)
    return _rule(text, entry)


def _rule(text: str, entry: str) -> Timetable:
    expression = parse(text)
    if expression.timezone != "UTC":
        raise InvalidValue(
            "calendar",
            entry,
            f"names the zone {expression.timezone}, but which day it is depends on each schedule's zone",
            example='"0 0 * * SAT,SUN"',
        )
    return expression.timetable()


def _day(text: str, entry: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue(
            "calendar", entry, "is not a day that there is", example='"2026-12-25"'
        ) from error
