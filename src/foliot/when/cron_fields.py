"""The fields of a cron expression: from text to sets of numbers, and back to one canonical text."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from msgspec import Struct

from foliot.errors import InvalidExpression
from foliot.when.forms import Days, Field, Weekdays
from foliot.when.part import Part

MONTH_NAMES = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAY_NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


class Kind(Struct, frozen=True):
    """One field: what it is called, its range, and the names that stand for its numbers."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    spread: int = 0  # the highest value that H picks: no day that some months lack

    @property
    def full(self) -> int:
        return mask_of(range(self.low, self.high + 1))


SECOND = Kind("second", 0, 59, spread=59)
MINUTE = Kind("minute", 0, 59, spread=59)
HOUR = Kind("hour", 0, 23, spread=23)
DAY_OF_MONTH = Kind("day of month", 1, 31, spread=28)
MONTH = Kind("month", 1, 12, tuple(MONTH_NAMES), spread=12)
DAY_OF_WEEK = Kind("day of week", 0, 7, tuple(DAY_NAMES), spread=6)

_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_SPREAD = re.compile(r"H(?:\((\d{1,4})-(\d{1,4})\))?(?:/(\d{1,4}))?", re.ASCII)
_LAST_DAY = re.compile(r"L-(\d{1,4})", re.ASCII)
_NEAREST = re.compile(r"(\d{1,4})W", re.ASCII)
_NTH = re.compile(r"(\w{1,4})#(\d{1,4})", re.ASCII)
_LAST_WEEKDAY = re.compile(r"(\w{1,4})L", re.ASCII)


class Item(Struct, frozen=True):
    """One entry of a field's list, in capitals."""

    kind: Kind
    part: Part
    seed: str | None

    @property
    def text(self) -> str:
        return self.part.text

    def refuse(
        self, problem: str, *, code: str = "syntax", hint: str | None = None
    ) -> InvalidExpression:
        return self.part.refuse(problem, code=code, hint=hint)


def mask_of(values: range | list[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def values_of(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def read_field(items: list[Item]) -> Field:
    mask = 0
    for item in items:
        mask |= _read_numbers(item)
    return Field(mask, star=items[0].text.startswith("*"))


def read_days(items: list[Item]) -> Days:
    mask, last, nearest, last_weekday = 0, set[int](), set[int](), False
    for item in items:
        if item.text == "L":
            last.add(0)
        elif item.text == "LW":
            last_weekday = True
        elif found := _LAST_DAY.fullmatch(item.text):
            last.add(_within(item, int(found[1]), 1, 30, "days before the last"))
        elif found := _NEAREST.fullmatch(item.text):
            nearest.add(_within(item, int(found[1]), 1, 31, "day of month"))
        else:
            mask |= _read_numbers(item)
    star = items[0].text.startswith(("*", "?"))
    return Days(mask, star, tuple(sorted(last)), tuple(sorted(nearest)), last_weekday)


def read_weekdays(items: list[Item]) -> Weekdays:
    mask, nth, last = 0, set[tuple[int, int]](), 0
    for item in items:
        if found := _NTH.fullmatch(item.text):
            place = int(found[2])
            if not 1 <= place <= 5:
                raise item.refuse(
                    f"never fires: no month has a {place}. of the same weekday", code="never_fires"
                )
            nth.add((_number(item, found[1]) % 7, place))
        elif (found := _LAST_WEEKDAY.fullmatch(item.text)) and not item.text.endswith("JUL"):
            last |= 1 << _number(item, found[1]) % 7
        else:
            mask |= _read_numbers(item)
    if mask >> 7 & 1:  # Sunday is 0 and 7
        mask = mask & 0x7F | 1
    return Weekdays(mask, items[0].text.startswith(("*", "?")), tuple(sorted(nth)), last)


def _read_numbers(item: Item) -> int:
    """A number or name, a range, a star, each perhaps with a step; or H."""
    if item.text.startswith("H") and (found := _SPREAD.fullmatch(item.text)):
        return _read_spread(item, *found.groups())
    span, slash, step = item.text.partition("/")
    low, high = _read_span(item, span, open_ended=bool(slash))
    if not slash:
        return mask_of(range(low, high + 1))
    if not _NUMBER.fullmatch(step):
        raise item.refuse(f"{_shown(step)} is not a step", hint="a step is a number: */15")
    return mask_of(range(low, high + 1, _step(item, int(step), high - low)))


def _read_span(item: Item, span: str, *, open_ended: bool) -> tuple[int, int]:
    kind = item.kind
    top = min(kind.high, 6) if kind is DAY_OF_WEEK else kind.high
    if span == "*":
        return kind.low, top
    if span == "?":
        if kind is not DAY_OF_MONTH and kind is not DAY_OF_WEEK:
            raise item.refuse(f"? has no meaning in the {kind.name} field")
        return kind.low, top
    first, dash, second = span.partition("-")
    low = _number(item, first)
    if not dash:
        return low, top if open_ended else low
    high = _number(item, second)
    if kind is DAY_OF_WEEK and high == 0 < low and second == "SUN":
        high = 7
    if low > high:
        raise item.refuse(f"{span} goes backwards", code="range", hint=_unrolled(kind, low, high))
    return low, high


def _unrolled(kind: Kind, low: int, high: int) -> str:
    """The list that a range over the end would be."""
    top = 6 if kind is DAY_OF_WEEK else kind.high
    values = [*range(low, top + 1), *range(kind.low, high + 1)]
    if len(values) > 8:
        return f"write two ranges: {low}-{top},{kind.low}-{high}"
    names = [kind.names[value - kind.low] if kind.names else str(value) for value in values]
    return f"write {','.join(names)}"


def _read_spread(item: Item, low: str | None, high: str | None, step: str | None) -> int:
    """H: a value that is different for every schedule, and always the same for one."""
    kind = item.kind
    if item.seed is None:
        raise item.refuse("H needs the name of a schedule to pick a value by")
    first = kind.low if low is None else _number(item, low)
    last = kind.spread if high is None else _number(item, high)
    if first > last:
        raise item.refuse(f"{item.text} goes backwards", code="range")
    size = last - first + 1 if step is None else _step(item, int(step), last - first)
    digest = hashlib.blake2b(f"{item.seed}\0{kind.name}".encode(), digest_size=8).digest()
    first += int.from_bytes(digest) % size
    return mask_of([first] if step is None else range(first, last + 1, size))


def _step(item: Item, step: int, span: int) -> int:
    if step < 1:
        raise item.refuse("a step of 0 never moves on", code="range")
    if step > span:
        problem = f"a step of {step} is larger than the range of the {item.kind.name} field"
        raise item.refuse(problem, code="range", hint=f"the largest step here is {span}")
    return step


def _number(item: Item, text: str) -> int:
    kind = item.kind
    if text in kind.names:
        return kind.names.index(text) + kind.low
    if _NUMBER.fullmatch(text):
        return _within(item, int(text), kind.low, kind.high, kind.name)
    if text in MONTH_NAMES or text in DAY_NAMES:
        what = "month" if text in MONTH_NAMES else "day"
        raise item.refuse(f"{what} name in the {kind.name} field")
    if any(char.isdigit() and not char.isascii() for char in text):
        raise item.refuse("has digits that are not ASCII", hint="write the digits 0 to 9")
    raise item.refuse(
        f"{_shown(text)} is not a {kind.name}" if text else f"a {kind.name} is missing"
    )


def _within(item: Item, value: int, low: int, high: int, name: str) -> int:
    if not low <= value <= high:
        raise item.refuse(f"{name} {value} is not between {low} and {high}", code="range")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:20] + "...")


@lru_cache(maxsize=4096)
def show_field(kind: Kind, field: Field) -> str:
    return _show_mask(kind, field.mask, star=field.star)


@lru_cache(maxsize=4096)
def show_days(days: Days) -> str:
    parts = [_show_mask(DAY_OF_MONTH, days.mask, star=days.star)] if days.mask else []
    parts += [f"{day}W" for day in days.nearest]
    parts += ["L" if back == 0 else f"L-{back}" for back in days.last]
    return ",".join([*parts, "LW"] if days.last_weekday else parts)


@lru_cache(maxsize=4096)
def show_weekdays(weekdays: Weekdays) -> str:
    kind = Kind("day of week", 0, 6)
    parts = [_show_mask(kind, weekdays.mask, star=weekdays.star)] if weekdays.mask else []
    parts += [f"{weekday}#{place}" for weekday, place in weekdays.nth]
    return ",".join([*parts, *(f"{weekday}L" for weekday in values_of(weekdays.last))])


def _show_mask(kind: Kind, mask: int, *, star: bool) -> str:
    if not star:
        return _show_runs(values_of(mask))
    if mask == kind.full:
        return "*"
    for step in range(2, kind.high - kind.low + 1):
        steps = mask_of(range(kind.low, kind.high + 1, step))
        if mask & steps == steps:
            rest = values_of(mask & ~steps)
            return f"*/{step},{_show_runs(rest)}" if rest else f"*/{step}"
    raise AssertionError("a field with a star holds a whole range or its steps")


def _show_runs(values: list[int]) -> str:
    step = values[1] - values[0] if len(values) > 3 else 1
    if step > 1 and values == list(range(values[0], values[-1] + 1, step)):
        return f"{values[0]}-{values[-1]}/{step}"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(shown)
