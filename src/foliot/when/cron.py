"""Cron expressions: five fields, or six with the seconds first.

Numbers, names, ranges, steps, lists; `L`, `L-3`, `15W`, `LW` among the days of the month; `5#3`, `5L` among the days
of the week (0 and 7 are Sunday); `?` for any day; `H` for a value picked by the schedule's name; `@daily` and its
like. What can never fire is refused here.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from foliot.errors import InvalidExpression
from foliot.shown import did_you_mean
from foliot.when.civil import SHAPES, shapes_in
from foliot.when.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Item,
    Kind,
    read_days,
    read_field,
    read_weekdays,
    show_days,
    show_field,
    show_weekdays,
    values_of,
)
from foliot.when.forms import Cron, Days, Field, Weekdays
from foliot.when.part import Part

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_READERS: Final[dict[Kind, Any]] = {DAY_OF_MONTH: read_days, DAY_OF_WEEK: read_weekdays}
_FIELDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_WORD = re.compile(r"\S+")
_SURE = re.compile(r"[*?]|[*?H]/.*|.*\*/.*")
_FIELD = re.compile(
    r"(?:[\d*?,/#LWH()-]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)+"
)


def is_cron(text: str) -> bool:
    """Whether the text is meant as cron, right or wrong."""
    words = text.upper().split()
    if text.startswith("@") or any(_SURE.fullmatch(word) for word in words):
        return True
    return len(words) > 3 and all(_FIELD.fullmatch(word) for word in words)


def read_cron(part: Part, *, seed: str | None = None) -> Cron:
    if part.text.startswith("@"):
        part = Part(_alias(part), part.whole, part.position, part.timezone)
    words = [part.part(found.group().upper(), found.start()) for found in _WORD.finditer(part.text)]
    if len(words) not in {5, 6}:
        comment = any(word.text == "#" for word in words)
        problem = f"has {len(words)} fields, not 5, or 6 with the seconds first"
        hint = "a comment is not part of an expression" if comment else None
        raise part.part("", len(part.text)).refuse(problem, hint=hint)
    kinds = _FIELDS[-len(words) :]
    fields = [_field(kind, word, seed) for kind, word in zip(kinds, words, strict=True)]
    minutes, hours, days, months, weekdays = fields[-5:]
    seconds = fields[0] if len(fields) == 6 else Field(1)
    cron = Cron(minutes, hours, days, months, weekdays, seconds)
    if not _can_fire(days, months, weekdays):
        raise words[-3].refuse("never fires: no year has such a day", code="never_fires")
    return cron


def write_cron(cron: Cron) -> str:
    fields = [
        show_field(MINUTE, cron.minutes),
        show_field(HOUR, cron.hours),
        show_days(cron.days),
        show_field(MONTH, cron.months),
        show_weekdays(cron.weekdays),
    ]
    if cron.seconds != Field(1):
        fields.insert(0, show_field(SECOND, cron.seconds))
    return " ".join(fields)


def _alias(part: Part) -> str:
    name = part.text.lower()
    if name not in ALIASES:
        raise part.refuse("is not a known alias", hint=did_you_mean(name, [*ALIASES, "@every 90s"]))
    return ALIASES[name]


def _field(kind: Kind, word: Part, seed: str | None) -> Any:
    """A Field, Days or Weekdays."""
    if "H" not in word.text:
        with suppress(InvalidExpression):  # then it is read again, at its place
            return _known_field(kind, word.text)
    return _READERS.get(kind, read_field)(_items(kind, word, seed))


@lru_cache(maxsize=4096)
def _known_field(kind: Kind, text: str) -> Any:
    """Millions of expressions are made of few different fields."""
    return _READERS.get(kind, read_field)(_items(kind, Part(text, text, 0, "UTC"), None))


def _items(kind: Kind, word: Part, seed: str | None) -> list[Item]:
    items, offset = [], 0
    for text in word.text.split(","):
        item = Item(kind, word.part(text, offset), seed)
        if not text:
            raise item.refuse(f"an item of the {kind.name} field is missing")
        items.append(item)
        offset += len(text) + 1
    return items


@lru_cache(maxsize=4096)
def _can_fire(days: Days, months: Field, weekdays: Weekdays) -> bool:
    masks = day_masks(days, weekdays)
    return any(masks[shape] for month in values_of(months.mask) for shape in shapes_in(month))


@lru_cache(maxsize=4096)
def day_masks(days: Days, weekdays: Weekdays) -> tuple[int, ...]:
    """For each shape of a month the days that match; bit 0 is the first."""
    return tuple(_matching(days, weekdays, shape % 7, shape // 7 + 28) for shape in range(SHAPES))


def _matching(days: Days, weekdays: Weekdays, first: int, length: int) -> int:
    by_date = _matching_dates(days, first, length)
    by_weekday = _matching_weekdays(weekdays, first, length)
    if days.star or weekdays.star:
        return by_date & by_weekday
    return by_date | by_weekday


def _matching_dates(days: Days, first: int, length: int) -> int:
    mask = days.mask >> 1
    for back in days.last:
        if back < length:
            mask |= 1 << (length - 1 - back)
    for day in days.nearest:
        if day <= length:
            mask |= 1 << (_nearest_weekday(day, first, length) - 1)
    if days.last_weekday:
        mask |= 1 << (_nearest_weekday(length, first, length) - 1)
    return mask & (1 << length) - 1


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The day from Monday to Friday that is nearest, in the same month."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _matching_weekdays(weekdays: Weekdays, first: int, length: int) -> int:
    twice = weekdays.mask << 7 | weekdays.mask
    mask = (twice >> first & 0x7F) * 0x10204081  # the same week five times
    for weekday, place in weekdays.nth:
        mask |= 1 << ((weekday - first) % 7 + 7 * (place - 1))
    for weekday in values_of(weekdays.last):
        mask |= 1 << (length - 1 - (first + length - 1 - weekday) % 7)
    return mask & (1 << length) - 1
