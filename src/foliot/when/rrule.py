"""RRULE: the text of RFC 5545 to a Rule, and back. When a rule fires is in rrule_timetable.py.

The properties DTSTART, RRULE, RDATE and EXDATE, in lines or with spaces between them; FREQ=… alone will do. Times
without Z are in the zone of the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from foliot.when.civil import DAY, END_YEAR, FIRST_YEAR, show_wall, wall_time
from foliot.when.forms import Rule, Wall
from foliot.when.part import Part
from foliot.when.zones import load_zone

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
MOST_FIRES = 10_000  # with COUNT they are counted from the start

_START = re.compile(
    r"(DTSTART|RRULE|RDATE|EXDATE|EXRULE)\s*[;:]|FREQ\s*=", re.ASCII | re.IGNORECASE
)
_ZONE = re.compile(r"TZID=([^:;\s]*)", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_PLACE = re.compile(r"([+-]?\d{1,2})?(SU|MO|TU|WE|TH|FR|SA)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_WEEKDAY = re.compile(r"SU|MO|TU|WE|TH|FR|SA")

# In the order in which they are written: the highest number, and whether it may count from the end.
_PARTS = {
    "BYMONTH": (12, False),
    "BYWEEKNO": (53, True),
    "BYYEARDAY": (366, True),
    "BYMONTHDAY": (31, True),
    "BYDAY": (53, True),
    "BYHOUR": (23, False),
    "BYMINUTE": (59, False),
    "BYSECOND": (59, False),
    "BYSETPOS": (366, True),
    "WKST": (0, False),
}
_FROM_ZERO = {"BYHOUR", "BYMINUTE", "BYSECOND"}
# What RFC 5545 rules out.
_NOT_WITH = {
    "BYWEEKNO": FREQUENCIES[1:],
    "BYYEARDAY": ("MONTHLY", "WEEKLY", "DAILY"),
    "BYMONTHDAY": ("WEEKLY",),
}


def is_rule(text: str) -> bool:
    return _START.match(text) is not None


def zone_in(text: str) -> str | None:
    """The zone that the properties name; the first, if they disagree."""
    found = _ZONE.search(text)
    return found[1] if found else None


def read_rule(part: Part) -> Rule:
    rule: Rule | None = None
    times: dict[str, list[Wall]] = {"DTSTART": [], "RDATE": [], "EXDATE": []}
    for name, value in _properties(part):
        if name in times:
            times[name] += _times(value)
        elif name == "RRULE" and rule is None:
            rule = _read(value)
        else:
            raise value.refuse(
                f"{name} is not read, or comes twice", hint="one RRULE, RDATE and EXDATE"
            )
    if rule is None:
        raise part.refuse("has no RRULE", hint="write RRULE:FREQ=WEEKLY;BYDAY=MO")
    if len(times["DTSTART"]) > 1:
        raise part.refuse("has more than one DTSTART")
    return Rule(
        rule.frequency,
        rule.interval,
        rule.parts,
        rule.count,
        rule.until,
        times["DTSTART"][0] if times["DTSTART"] else None,
        tuple(sorted(set(times["RDATE"]))),
        tuple(sorted(set(times["EXDATE"]))),
    )


def write_rule(rule: Rule) -> str:
    lines = [] if rule.start is None else [f"DTSTART:{_show(rule.start)}"]
    fields = [f"FREQ={rule.frequency}"]
    fields += [f"UNTIL={_show(rule.until)}"] if rule.until is not None else []
    fields += [f"COUNT={rule.count}"] if rule.count is not None else []
    fields += [f"INTERVAL={rule.interval}"] if rule.interval != 1 else []
    fields += [f"{name}={','.join(values)}" for name, values in rule.parts]
    lines.append("RRULE:" + ";".join(fields))
    for name, walls in (("RDATE", rule.dates), ("EXDATE", rule.exceptions)):
        lines += [f"{name}:{','.join(map(_show, walls))}"] if walls else []
    return "\n".join(lines)


def _show(wall: Wall) -> str:
    return show_wall(wall).replace("-", "").replace(":", "")


def _properties(part: Part) -> list[tuple[str, Part]]:
    """Name and value of each; parameters other than the zone say nothing that the value does not."""
    properties = []
    for found in re.finditer(r"\S+", part.text):
        word = part.part(found.group(), found.start())
        if word.text.upper().startswith("FREQ="):
            properties.append(("RRULE", word))
            continue
        head, colon, value = word.text.partition(":")
        name, *parameters = head.upper().split(";")
        if not colon or name not in {"DTSTART", "RRULE", "RDATE", "EXDATE", "EXRULE"}:
            raise word.refuse("is not a property of a rule", hint="DTSTART, RRULE, RDATE or EXDATE")
        for parameter in parameters:
            _check_parameter(word, parameter)
        properties.append((name, word.part(value, len(head) + 1)))
    return properties


def _check_parameter(word: Part, parameter: str) -> None:
    name, _, value = parameter.partition("=")
    if name == "TZID" and value == word.timezone.upper():
        return
    if name == "TZID":
        raise word.refuse(f"names another zone than {word.timezone}")
    if name != "VALUE" or value not in {"DATE", "DATE-TIME"}:
        raise word.refuse(f"{parameter} is not read")


def _times(value: Part) -> list[Wall]:
    walls, offset = [], 0
    for text in value.text.split(","):
        walls.append(_time(value.part(text, offset)))
        offset += len(text) + 1
    return walls


def _time(part: Part, *, second: int = 0) -> Wall:
    """A wall time, of a date the time given by `second`."""
    found = _TIME.fullmatch(part.text.upper())
    if found is None:
        raise part.refuse("is not a date and time", hint="write 20260101T090000, or with Z for UTC")
    year, month, day = (int(number) for number in found.groups()[:3])
    if not FIRST_YEAR < year < END_YEAR - 1:
        problem = f"year {year} is not between {FIRST_YEAR + 1} and {END_YEAR - 2}"
        raise part.refuse(problem, code="range")
    hour, minute, seconds = (int(number or 0) for number in found.groups()[3:6])
    try:
        datetime(year, month, day, hour, minute, seconds)  # noqa: DTZ001 - checked only
    except ValueError as error:
        raise part.refuse(f"is not a date and time: {error}", code="range") from None
    if found[4] is not None:
        second = hour * 3600 + minute * 60 + seconds
    wall = wall_time(year, month, day, second)
    return wall + load_zone(part.timezone).offset_at(wall) if found[7] else wall


def _read(value: Part) -> Rule:
    fields = _fields(value)
    if "FREQ" not in fields or fields["FREQ"].text not in FREQUENCIES:
        given = fields.get("FREQ", value)
        raise given.refuse("has no known FREQ", hint=f"one of {', '.join(FREQUENCIES)}")
    if "COUNT" in fields and "UNTIL" in fields:
        raise fields["UNTIL"].refuse("has UNTIL and COUNT, and only one can end it")
    frequency = fields.pop("FREQ").text
    interval = _whole(fields.pop("INTERVAL", None), 100_000) or 1
    count = _whole(fields.pop("COUNT", None), MOST_FIRES)
    until = _time(fields.pop("UNTIL"), second=DAY - 1) if "UNTIL" in fields else None
    read = {name: _values(frequency, name, fields.pop(name)) for name in _PARTS if name in fields}
    parts = tuple((name, values) for name, values in read.items() if values)
    if fields:
        name, given = fields.popitem()
        raise given.refuse(f"{name} is not a part of an RRULE")
    if parts and parts[0][0] == "BYSETPOS":
        raise value.refuse("BYSETPOS needs another BY part to pick from")
    return Rule(frequency, interval, parts, count, until)


def _fields(value: Part) -> dict[str, Part]:
    fields: dict[str, Part] = {}
    offset = 0
    for text in value.text.upper().split(";"):
        name, equals, given = text.partition("=")
        if not equals or not given or name in fields:
            raise value.part("", offset).refuse(f"{name or 'a part'} has no value, or comes twice")
        fields[name] = value.part(given, offset + len(name) + 1)
        offset += len(text) + 1
    return fields


def _whole(given: Part | None, most: int) -> int | None:
    if given is None:
        return None
    if not re.fullmatch(r"\d{1,9}", given.text, re.ASCII) or not 1 <= int(given.text) <= most:
        raise given.refuse(f"is not a whole number from 1 to {most:,}", code="range")
    return int(given.text)


def _values(frequency: str, name: str, given: Part) -> tuple[str, ...]:
    """The values of a part as they are written in a canonical text; none for what is so anyway."""
    if frequency in _NOT_WITH.get(name, ()):
        raise given.refuse(f"{name} has no meaning with FREQ={frequency}")
    if name == "WKST":
        if not _WEEKDAY.fullmatch(given.text):
            raise given.refuse("WKST is not a weekday", hint="write WKST=MO")
        return () if given.text == "MO" else (given.text,)
    read: Callable[[str, str, str], str | None] = _read_place if name == "BYDAY" else _read_number
    values: list[str] = []
    offset = 0
    for text in given.text.split(","):
        value = read(frequency, name, text)
        if value is None:
            raise given.part("", offset).refuse(f"{text!r} is not a value of {name}", code="range")
        values += [] if value in values else [value]
        offset += len(text) + 1
    return tuple(values)


def _read_number(_: str, name: str, text: str) -> str | None:
    most, from_end = _PARTS[name]
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    if number == 0:
        return "0" if name in _FROM_ZERO else None
    return str(number) if abs(number) <= most and (number > 0 or from_end) else None


def _read_place(frequency: str, _: str, text: str) -> str | None:
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    if found[1] is None:
        return found[2]
    most = {"MONTHLY": 5, "YEARLY": 53}.get(frequency, 0)
    return f"{int(found[1])}{found[2]}" if 1 <= abs(int(found[1])) <= most else None
