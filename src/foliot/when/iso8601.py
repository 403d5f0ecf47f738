"""ISO 8601 and what is like it: instants, durations, repeating intervals, rate(5 minutes), at(…), @every 90s.

A duration of hours, minutes and seconds is elapsed time. One with years, months, weeks or days goes by the calendar.
`R5/start/PT1H` fires five times, the first time at its start; `R/start/PT1H` without end.
"""

from __future__ import annotations

import re
from datetime import datetime

from foliot.units import read_duration
from foliot.when.civil import DAY, END_YEAR, FIRST_YEAR, show_wall, wall_time
from foliot.when.forms import CalendarInterval, Instant, Interval
from foliot.when.interval import LONGEST
from foliot.when.part import Part
from foliot.when.wall import instant_of
from foliot.when.zones import load_zone

MOST_FIRES = 1_000_000_000

_DURATION = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII
)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]0+)?)?(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_LOOKS_LIKE_TIME = re.compile(r"\d{4,}-\d\d?-\d", re.ASCII)
_RATE = re.compile(r"RATE\(\s*(\d+)\s+(SECOND|MINUTE|HOUR|DAY)S?\s*\)", re.ASCII)
_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": DAY}


def read_iso(part: Part) -> Interval | CalendarInterval | Instant | None:
    """None if it is none of these; an error if it is one, and wrong."""
    text = part.text.upper()
    if text.startswith("@EVERY"):
        return Interval(_every(part))
    if text.startswith("RATE("):
        return Interval(_rate(part, text))
    if text.startswith("AT(") and text.endswith(")"):
        return Instant(_instant(part.part(part.text[3:-1], 3)))
    if re.match(r"P\d|PT|P$", text, re.ASCII):
        return _duration(part)
    if re.match(r"R-?\d*/", text, re.ASCII):
        return _repeating(part)
    if _LOOKS_LIKE_TIME.match(text):
        return Instant(_instant(part))
    return None


def write_instant(at: int) -> str:
    return show_wall(at) + "Z"


def write_iso(form: Interval | CalendarInterval | Instant) -> str:
    if isinstance(form, Instant):
        return write_instant(form.at)
    if isinstance(form, Interval):
        duration = "P" + _clock(form.every)
        start = None if form.start is None else write_instant(form.start)
    else:
        duration = _calendar(form)
        start = None if form.start is None else show_wall(form.start)
    count = "" if form.count is None else form.count
    return duration if start is None else f"R{count}/{start}/{duration}"


def read_wall(part: Part) -> tuple[int, bool]:
    """Seconds of a date and time, and whether they are an instant: it came with Z or an offset."""
    found = _TIME.fullmatch(part.text)
    if found is None:
        hint = "write it as 2026-11-20T10:00:00Z"
        raise part.refuse("is not a date and time of whole seconds", hint=hint)
    year, month, day, hour, minute = (int(number) for number in found.groups()[:5])
    if not FIRST_YEAR + 1 <= year < END_YEAR - 1:
        problem = f"year {year} is not between {FIRST_YEAR + 1} and {END_YEAR - 2}"
        raise part.refuse(problem, code="range")
    try:
        datetime(year, month, day, hour, minute, int(found[6] or 0))  # noqa: DTZ001 - checked only
    except ValueError as error:
        raise part.refuse(f"is not a date and time: {error}", code="range") from None
    wall = wall_time(year, month, day, hour * 3600 + minute * 60 + int(found[6] or 0))
    if found[7] is None:
        return wall, False
    return wall - _offset(part, found[7]), True


def _offset(part: Part, text: str) -> int:
    if text.upper() == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[3:].lstrip(":") or 0)
    if minutes > 18 * 60 or int(text[3:].lstrip(":") or 0) > 59:
        raise part.refuse(f"{text} is not an offset from UTC", code="range")
    return -minutes * 60 if text[0] == "-" else minutes * 60


def _instant(part: Part) -> int:
    seconds, is_instant = read_wall(part)
    return seconds if is_instant else instant_of(seconds, load_zone(part.timezone))


def _every(part: Part) -> int:
    _, _, given = part.text.partition(" ")
    try:
        seconds = read_duration(given)
    except ValueError as error:
        raise part.part("", 7).refuse(f"{given!r} {error}", hint="write @every 90s") from None
    if seconds != int(seconds):
        raise part.part("", 7).refuse("has a fraction of a second", code="range")
    return _bounded(part, int(seconds))


def _rate(part: Part, text: str) -> int:
    found = _RATE.fullmatch(text)
    if found is None:
        raise part.refuse("is not a rate", hint="write rate(5 minutes)")
    return _bounded(part, _whole(part, found[1]) * _UNITS[found[2]])


def _bounded(part: Part, seconds: int) -> int:
    if not 1 <= seconds <= LONGEST:
        problem = f"is not an interval between 1 second and {LONGEST // DAY} days"
        raise part.refuse(problem, code="range")
    return seconds


def _whole(part: Part, digits: str | None) -> int:
    if digits is not None and len(digits) > 12:
        raise part.refuse("has a number of more than 12 digits", code="range")
    return int(digits or 0)


def _duration(part: Part) -> Interval | CalendarInterval:
    found = _DURATION.fullmatch(part.text.upper())
    if found is None or part.text.upper().endswith(("P", "T")):
        hint = "write PT15M, P1D or P1M: whole numbers, largest unit first"
        raise part.refuse("is not an ISO 8601 duration", hint=hint)
    years, months, weeks, days = (_whole(part, digits) for digits in found.groups()[:4])
    hours, minutes, seconds = (_whole(part, digits) for digits in found.groups()[5:])
    seconds += hours * 3600 + minutes * 60
    months, days = years * 12 + months, weeks * 7 + days
    _bounded(part, months * 30 * DAY + days * DAY + seconds)
    if not months and not days:
        return Interval(seconds)
    return CalendarInterval(months, days, seconds)


def _repeating(part: Part) -> Interval | CalendarInterval:
    pieces = part.text.split("/")
    count = pieces[0][1:]
    if count.startswith("-") or len(pieces) > 3:
        hint = "write R5/2026-01-01T00:00:00Z/PT1H, or R/… without end"
        raise part.refuse("is not a repeating interval", hint=hint)
    fires = _fires(part, count)
    second = part.part(pieces[1], len(pieces[0]) + 1)
    if len(pieces) == 2:
        if fires is not None:
            raise second.refuse(
                "needs a start to count from", hint="write R5/2026-01-01T00:00:00Z/PT1H"
            )
        return _duration(second)
    start, is_instant = read_wall(second)
    third = part.part(pieces[2], len(pieces[0]) + len(pieces[1]) + 2)
    zone = load_zone(part.timezone)
    if not pieces[2].upper().startswith("P"):
        begin, end = _instant(second), _instant(third)
        return Interval(_bounded(third, end - begin), begin, fires)
    form = _duration(third)
    if isinstance(form, Interval):
        return Interval(form.every, start if is_instant else instant_of(start, zone), fires)
    wall = start + zone.offset_at(start) if is_instant else start
    return CalendarInterval(form.months, form.days, form.seconds, wall, fires)


def _fires(part: Part, count: str) -> int | None:
    if not count:
        return None
    fires = _whole(part, count)
    if fires == 0:
        raise part.part("", 1).refuse("never fires: it repeats 0 times", code="never_fires")
    if fires > MOST_FIRES:
        raise part.part("", 1).refuse(f"repeats more than {MOST_FIRES:,} times", code="range")
    return fires


def _clock(seconds: int) -> str:
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    units = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    return "T" + "".join(f"{number}{unit}" for number, unit in units if number)


def _calendar(form: CalendarInterval) -> str:
    if not form.months and not form.seconds and form.days % 7 == 0:
        return f"P{form.days // 7}W"
    years, months = divmod(form.months, 12)
    units = ((years, "Y"), (months, "M"), (form.days, "D"))
    text = "P" + "".join(f"{number}{unit}" for number, unit in units if number)
    return text + _clock(form.seconds) if form.seconds else text
