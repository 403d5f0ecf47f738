"""RRULE in English: natural_rule.py reads every clause of it."""

from __future__ import annotations

from collections.abc import Callable

from foliot.errors import InvalidExpression
from foliot.when.civil import DAY, show_wall
from foliot.when.describe_cron import joined
from foliot.when.forms import Rule, Wall
from foliot.when.natural import read
from foliot.when.natural_words import LONGEST_SENTENCE, MONTHS, WEEKDAYS, ordinal
from foliot.when.part import Part
from foliot.when.rrule import read_rule, write_rule

_UNITS = {
    "YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day",
    "HOURLY": "hour", "MINUTELY": "minute", "SECONDLY": "second",
}  # fmt: skip
_DAYS = {name[:2].upper(): name for name in WEEKDAYS}


def describe_rule(rule: Rule) -> str:
    """A sentence that is read as this rule; if it is too long for one, the rule in one line."""
    for sentence in (_weeks(rule), _general(rule)):
        if sentence and len(sentence) <= LONGEST_SENTENCE and _says(sentence, rule):
            return sentence
    return write_rule(rule).replace("\n", " ")


def _says(sentence: str, rule: Rule) -> bool:
    try:
        text = read(sentence).text
        return read_rule(Part(text, text, 0, "UTC")) == rule
    except InvalidExpression:
        return False


def _weeks(rule: Rule) -> str | None:
    """every 2 weeks on monday and friday at 09:00: counted from where everyone counts."""
    parts = dict(rule.parts)
    if rule.frequency != "WEEKLY" or rule.start is None or not parts.get("BYDAY"):
        return None
    days = [_DAYS[day] for day in parts["BYDAY"] if day in _DAYS]
    return (
        f"every {rule.interval} weeks on {joined(days)} at {_clock(rule.start)}" if days else None
    )


def _general(rule: Rule) -> str:
    unit = _UNITS[rule.frequency]
    every = unit if rule.interval == 1 else f"{rule.interval} {unit}s"
    clauses = [f"repeating every {every}"]
    clauses += [_PARTS[name](values) for name, values in rule.parts]
    if rule.start is not None:
        clauses.append(f"starting {_moment(rule.start)}")
    if rule.until is not None:
        clauses.append(f"until {_moment(rule.until)}")
    if rule.count is not None:
        clauses.append(f"{rule.count} times")
    if rule.dates:
        clauses.append(f"also on {joined([_moment(wall) for wall in rule.dates])}")
    if rule.exceptions:
        clauses.append(f"except on {joined([_moment(wall) for wall in rule.exceptions])}")
    return ", ".join(clauses)


def _place(text: str) -> str:
    """1, last, 2nd to last."""
    number = int(text)
    if number >= 0:
        return str(number)
    return "last" if number == -1 else f"{ordinal(-number)} to last"


def _numbered(words: str) -> Callable[[tuple[str, ...]], str]:
    def clause(values: tuple[str, ...]) -> str:
        return (
            f"{words}{'s' if len(values) > 1 else ''} {joined([_place(value) for value in values])}"
        )

    return clause


def _months(values: tuple[str, ...]) -> str:
    return f"in {joined([MONTHS[int(value) - 1] for value in values])}"


def _weekdays(values: tuple[str, ...]) -> str:
    return f"on {joined([_weekday(value) for value in values])}"


def _weekday(text: str) -> str:
    place, day = text[:-2], _DAYS[text[-2:]]
    if not place:
        return day
    return f"{ordinal(int(place)) if int(place) > 0 else _place(place)} {day}"


def _week_start(values: tuple[str, ...]) -> str:
    return f"with weeks from {_DAYS[values[0]]}"


_PARTS: dict[str, Callable[[tuple[str, ...]], str]] = {
    "BYMONTH": _months,
    "BYWEEKNO": _numbered("in week"),
    "BYYEARDAY": _numbered("on year day"),
    "BYMONTHDAY": _numbered("on month day"),
    "BYDAY": _weekdays,
    "BYHOUR": _numbered("during hour"),
    "BYMINUTE": _numbered("at minute"),
    "BYSECOND": _numbered("at second"),
    "BYSETPOS": _numbered("taking number"),
    "WKST": _week_start,
}


def _moment(wall: Wall) -> str:
    return f"{show_wall(wall)[:10]} at {_clock(wall)}"


def _clock(wall: Wall) -> str:
    hour, rest = divmod(wall % DAY, 3600)
    minute, second = divmod(rest, 60)
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
