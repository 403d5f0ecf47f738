"""English: a closed grammar that understands a whole sentence, or says where it stopped.

`read` turns a sentence into an expression of another form: cron, an interval, an instant. It is never an engine of
its own, and what can be understood in two ways is refused.
"""

from __future__ import annotations

from msgspec import Struct

from foliot.errors import InvalidExpression, InvalidValue
from foliot.when.iso8601 import write_instant
from foliot.when.natural_cron import expression_of
from foliot.when.natural_grammar import read_sentence
from foliot.when.natural_moments import Now, read_moment
from foliot.when.natural_rule import read_rule_sentence
from foliot.when.natural_words import Cursor, Stop, tokens_of
from foliot.when.zones import check_zone, load_zone, zone_names

_ZONES_OF = {
    "ist": "Asia/Kolkata, Europe/Dublin or Asia/Jerusalem",
    "cst": "America/Chicago or Asia/Shanghai",
    "bst": "Europe/London or Asia/Dhaka",
    "est": "America/New_York",
    "edt": "America/New_York",
    "pst": "America/Los_Angeles",
    "pdt": "America/Los_Angeles",
    "mst": "America/Denver or America/Phoenix",
    "mdt": "America/Denver",
    "cdt": "America/Chicago",
    "et": "America/New_York",
    "pt": "America/Los_Angeles",
    "cet": "Europe/Berlin",
    "cest": "Europe/Berlin",
    "jst": "Asia/Tokyo",
    "aest": "Australia/Sydney",
}


class Reading(Struct, frozen=True):
    """What a sentence says, as the text of another form, and the zone it is in."""

    text: str
    timezone: str


def read(text: str, *, timezone: str | None = None, now: int | None = None) -> Reading:
    """Read a sentence; `now` is what "in 10 minutes" and "tomorrow" count from."""
    sentence, zone = _without_zone(text, timezone)
    try:
        return Reading(_read(sentence, zone, now), zone)
    except Stop as stop:
        raise InvalidExpression(text, _problem(text, stop), position=stop.position) from None


def _read(sentence: str, zone: str, now: int | None) -> str:
    cursor = Cursor(tokens_of(sentence))
    if cursor.peek().kind == "end":
        raise Stop(0, "is empty")
    instant = read_moment(cursor, Now(now, load_zone(zone), sentence))
    if instant is not None:
        return write_instant(instant)
    return read_rule_sentence(cursor) or expression_of(read_sentence(cursor))


def _without_zone(text: str, timezone: str | None) -> tuple[str, str]:
    """The sentence without the zone it may end with, and the zone it is in."""
    body = text.rstrip()
    bracket = body.endswith(")")
    body = body.removesuffix(")")
    start = max(body.rfind(" "), body.rfind("(")) + 1
    word = body[start:]
    zone = _zone_of(text, word, start)
    if zone is None:
        return text, timezone or "UTC"
    if timezone is not None and timezone != zone:
        problem = f"names the zone {zone}, and timezone is {timezone}"
        raise InvalidExpression(text, problem, position=start)
    rest = body[:start].rstrip()
    if bracket != rest.endswith("("):
        raise InvalidExpression(text, "has one bracket of two", position=start)
    rest = rest.removesuffix("(").rstrip()
    return (rest[:-3] if rest.lower().endswith(" in") else rest).rstrip(" ,"), zone


def _zone_of(text: str, word: str, start: int) -> str | None:
    if word.upper() in ("UTC", "GMT"):
        return word.upper()
    if "/" not in word or not word[0].isalpha() or word.startswith("R/"):
        return None
    try:
        return _by_small_letters(word) or check_zone(word)
    except InvalidValue as error:
        problem = f"{word!r} is not a known time zone"
        raise InvalidExpression(text, problem, position=start, hint=error.hint) from None


def _by_small_letters(word: str) -> str | None:
    if word in zone_names():
        return word
    small = word.lower()
    return next((name for name in zone_names() if name.lower() == small), None)


def _problem(text: str, stop: Stop) -> str:
    words = text[stop.position :].lower().split(maxsplit=1)
    zones = _ZONES_OF.get(words[0].strip("(),.")) if words else None
    if zones is None:
        return stop.problem
    return f"names the zone by an abbreviation: write {zones}"
