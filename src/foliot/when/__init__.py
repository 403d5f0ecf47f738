"""When something is to run: from text to instants. Pure: no clock, no store, no randomness.

`parse(text)` reads any form (cron, intervals, ISO 8601, RRULE, English) and gives an Expression; its `timetable()` says
when it fires. All times are whole seconds since 1970 in UTC.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from foliot.errors import InvalidExpression, InvalidValue
from foliot.when import natural
from foliot.when.civil import DAY, EARLIEST, LATEST
from foliot.when.cron import is_cron, read_cron
from foliot.when.expression import Expression, write
from foliot.when.forms import CalendarInterval, Form, Instant, Interval, Rule
from foliot.when.iso8601 import read_iso
from foliot.when.part import Part
from foliot.when.preview import ClockChange, Fire, Preview, preview
from foliot.when.rrule import is_rule, read_rule, zone_in
from foliot.when.rrule_timetable import can_fire
from foliot.when.timetable import Timetable, between, count_between, last_between, last_until
from foliot.when.wall import DstGap, DstOverlap
from foliot.when.zones import check_zone, load_zone, tzdata_version, zone_names

__all__ = [
    "ClockChange",
    "DstGap",
    "DstOverlap",
    "Expression",
    "Fire",
    "Preview",
    "Timetable",
    "between",
    "check_zone",
    "count_between",
    "last_between",
    "last_until",
    "parse",
    "preview",
    "tzdata_version",
    "zone_names",
]

LONGEST_TEXT = 1000

_ZONE = re.compile(r"(?:CRON_TZ|TZ)=(\S*)\s*", re.ASCII)


def parse(
    text: str,
    *,
    timezone: str | None = None,
    now: int | None = None,
    seed: str | None = None,
    anchor: int | None = None,
) -> Expression:
    """Read an expression; what is not understood whole, or can never fire, is refused.

    `timezone`: where its wall times are; a zone in the text must not contradict it, and without either it is UTC.
    `now`: what "in 10 minutes" counts from. `seed`: what H picks its values by. `anchor`: the instant an interval
    without a start of its own is counted from.
    """
    if timezone is not None:
        check_zone(timezone)
    part = _part_of(_checked(text), timezone)
    form = _read(part, seed)
    if form is None:
        part, form = _read_sentence(part, timezone, now)
    if anchor is not None:
        form = _anchored(form, anchor, part.timezone)
    if isinstance(form, Rule):
        _check_fires(part, form)
    return Expression(write(form), part.timezone, form)


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidExpression(text, "is not a text", code="type")
    if len(text) > LONGEST_TEXT:
        problem = f"has {len(text):,} characters, more than {LONGEST_TEXT:,}"
        raise InvalidExpression(text[:40], problem, code="too_long")
    given = text.replace("\t", " ")
    if is_rule(given.lstrip()):  # its properties may stand in lines
        given = given.replace("\r", " ").replace("\n", " ")
    if not given.strip(" "):
        raise InvalidExpression(text, "is empty", code="empty")
    if not given.isprintable():
        place = next(index for index, char in enumerate(given) if not char.isprintable())
        raise InvalidExpression(text, "has a line break or a control character", position=place)
    return given


def _part_of(text: str, timezone: str | None) -> Part:
    """The expression without the zone it may begin with."""
    start = len(text) - len(text.lstrip())
    part = Part(text.strip(), text, start, timezone or "UTC")
    found = _ZONE.match(part.text)
    named = found[1] if found else zone_in(part.text) if is_rule(part.text) else None
    if named is None:
        return part
    zone = check_zone(named)
    if timezone is not None and timezone != zone:
        raise part.refuse(f"names the zone {zone}, and timezone is {timezone}")
    skipped = found.end() if found else 0
    return Part(part.text[skipped:], text, start + skipped, zone)


def _read(part: Part, seed: str | None) -> Form | None:
    """None if it is none of these forms; an error if it is one, and wrong."""
    if is_rule(part.text):
        return read_rule(part)
    form = read_iso(part)
    if form is not None:
        return form
    if is_cron(part.text):
        return read_cron(part, seed=seed)
    return None


def _read_sentence(part: Part, timezone: str | None, now: int | None) -> tuple[Part, Form]:
    """English becomes another form. What that refuses is told of the whole sentence."""
    reading = natural.read(part.whole, timezone=timezone, now=now)
    said = Part(reading.text, part.whole, part.position, reading.timezone)
    try:
        form = _read(said, None)
    except InvalidExpression as error:
        problem = error.problem.partition(": ")[2]
        raise part.refuse(problem, code=error.code, hint=error.hint) from None
    assert form is not None
    return said, form


def _check_fires(part: Part, rule: Rule) -> None:
    try:
        fires = can_fire(rule)
    except ValueError:  # dateutil's own finding that a part leaves nothing
        fires = False
    if not fires:
        raise part.refuse("never fires: nothing fits all its parts", code="never_fires")


def _anchored(form: Form, anchor: int, timezone: str) -> Form:
    whole = isinstance(anchor, int) and not isinstance(anchor, bool)
    if not whole or not EARLIEST + DAY <= anchor <= LATEST - DAY:
        raise InvalidValue("anchor", anchor, "is not an instant in whole seconds since 1970")
    if isinstance(form, Interval) and form.start is None:
        return replace(form, start=anchor)
    if isinstance(form, CalendarInterval | Rule) and form.start is None:
        return replace(form, start=anchor + load_zone(timezone).offset_at(anchor))
    what = "once" if isinstance(form, Instant) else "at times of its own"
    raise InvalidValue("anchor", anchor, f"is of no use: the expression fires {what}")
