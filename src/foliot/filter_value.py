"""The values of a filter: what may be written for each kind of field, how it is read, how it is shown."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal, TypeAlias

import msgspec

from foliot.model.job import JobState
from foliot.units import read_duration, show_duration

Kind: TypeAlias = Literal["text", "id", "state", "number", "time", "json"]

FIELDS: Final[dict[str, Kind]] = {
    "id": "id",
    "kind": "text",
    "queue": "text",
    "namespace": "text",
    "state": "state",
    "key": "text",
    "reason": "text",
    "tag": "text",
    "schedule": "text",
    "session": "id",
    "priority": "number",
    "attempt": "number",
    "losses": "number",
    "created": "time",
    "run": "time",
    "started": "time",
    "finished": "time",
    "payload": "json",
}
ID_FORM: Final = "00000000-0000-0000-0000-000000000000"
_EXAMPLES: Final = {
    "kind": "kind:send_*",
    "queue": "queue:mail",
    "namespace": "namespace:default",
    "key": "key:order-42",
    "reason": "reason:timed_out",
    "tag": "tag:vip",
    "schedule": "schedule:nightly",
    "state": "state:dead,cancelled",
    "priority": "priority<=2",
    "attempt": "attempt>3",
    "losses": "losses>0",
    "payload": "payload.customer:42",
}

_SAFE: Final = re.compile(r'[^\s,"*\\]*')
_HEX: Final = re.compile(r"[0-9a-f-]*")
_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII
)


class Text(msgspec.Struct, frozen=True):
    """What stands before, between and after the stars. One piece: exactly this text."""

    pieces: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return len(self.pieces) == 1

    def fits(self, text: str) -> bool:
        first, *middle = self.pieces
        if not middle:
            return text == first
        last = middle.pop()
        at, end = len(first), len(text) - len(last)
        if end < at or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in middle:  # the leftmost place leaves the most room: there is no need to go back
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True


class Number(msgspec.Struct, frozen=True):
    value: int | float


class Constant(msgspec.Struct, frozen=True):
    """true, false or null of JSON."""

    name: Literal["true", "false", "null"]


class Day(msgspec.Struct, frozen=True):
    """With ":" all of it in UTC, in a comparison its midnight."""

    date: date

    @property
    def last(self) -> datetime:
        return datetime.combine(self.date, time.max, UTC)


class Instant(msgspec.Struct, frozen=True):
    time: datetime  # in UTC


class Age(msgspec.Struct, frozen=True):
    """So long from now: below zero is the past."""

    microseconds: int


Value: TypeAlias = Text | Number | Constant | Day | Instant | Age
ANY: Final = Text(("", ""))


def moment(value: Value, now: datetime) -> datetime:
    """The time that a time field is compared with."""
    match value:
        case Day():
            return datetime.combine(value.date, time.min, UTC)
        case Instant():
            return value.time
        case Age():
            return now + timedelta(microseconds=value.microseconds)
    raise AssertionError(f"{value} is no time")


def is_id_prefix(text: str) -> bool:
    return len(text) <= len(ID_FORM) and all(
        (mine == "-") == (place == "-") and mine in "0123456789abcdef-"
        for mine, place in zip(text, ID_FORM, strict=False)
    )


def is_id_suffix(text: str) -> bool:
    return is_id_prefix(ID_FORM[: -len(text)] + text) if text else True


def example(field: str) -> str:
    """A term with this field that works."""
    match FIELDS[field]:
        case "id":
            return f"{field}:0192f3a4*"
        case "time":
            return f"{field}>-2h"
    return _EXAMPLES[field]


def read(text: Text, field: str, operator: str, *, quoted: bool) -> Value:
    """The value, or ValueError with the end of a sentence: "has x for created, which …"."""
    kind = FIELDS[field]
    if text == ANY and operator == ":" and kind != "state":
        return ANY
    match kind:
        case "id":
            return _read_id(text)
        case "state":
            if not any(text.fits(state) for state in JobState):
                raise ValueError(f"is none of {', '.join(JobState)}")
        case "number":
            return _read_whole(text)
        case "time":
            return _read_time(text, operator)
        case "json":
            return _read_json(text, operator, quoted=quoted)
    return text


def _read_id(text: Text) -> Text:
    lowered = Text(tuple(piece.lower() for piece in text.pieces))
    if not all(_HEX.fullmatch(piece) for piece in lowered.pieces):
        raise ValueError("has other characters than an id")
    if lowered.exact and (
        len(lowered.pieces[0]) != len(ID_FORM) or not is_id_prefix(lowered.pieces[0])
    ):
        raise ValueError("is not a whole id: end a part of one with a star")
    return lowered


def _read_whole(text: Text) -> Number:
    if not text.exact or not _WHOLE.fullmatch(text.pieces[0]):
        raise ValueError("is not a whole number")
    return Number(int(text.pieces[0]))


def _read_time(text: Text, operator: str) -> Value:
    written = text.pieces[0]
    if not text.exact:
        raise ValueError("is not a time")
    if _DATE.fullmatch(written) or _TIME.fullmatch(written):
        return _read_calendar(written)
    if written[:1] not in {"-", "+"}:
        raise ValueError("is not a date, a time with its zone (Z or +01:00), nor an age (-2h)")
    if operator == ":":
        raise ValueError("is an age: it needs < or >")
    microseconds = round(read_duration(written[1:]) * 1_000_000)
    return Age(-microseconds if written[0] == "-" else microseconds)


def _read_calendar(written: str) -> Day | Instant:
    try:
        if _DATE.fullmatch(written):
            return Day(date.fromisoformat(written))
        return Instant(datetime.fromisoformat(written).astimezone(UTC))
    except (ValueError, OverflowError):
        raise ValueError("is in no calendar") from None


def _read_json(text: Text, operator: str, *, quoted: bool) -> Value:
    written = text.pieces[0]
    number = None if quoted or not text.exact else _JSON_NUMBER.fullmatch(written)
    if number is not None:
        return Number(_number(written, whole=number[1] is None and number[2] is None))
    if operator != ":":
        raise ValueError("is not a number")
    match written:
        case "true" | "false" | "null" if text.exact and not quoted:
            return Constant(written)
    return text


def _number(written: str, *, whole: bool) -> int | float:
    """Whole numbers are exact, others are what Python and JavaScript make of them."""
    if whole:
        if len(written) > 20 or not -(2**63) <= int(written) < 2**63:
            raise ValueError("is too large")
        return int(written)
    value = float(written)
    if value in {float("inf"), float("-inf")}:
        raise ValueError("is too large")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def show(value: Value, *, json: bool) -> str:
    match value:
        case Text():
            return _show_text(value, json=json)
        case Number():
            return repr(value.value)
        case Constant():
            return value.name
        case Day():
            return value.date.isoformat()
        case Instant():
            return value.time.isoformat().replace("+00:00", "Z")
        case Age():
            sign = "+" if value.microseconds > 0 else "-"
            return sign + show_duration(abs(value.microseconds) / 1_000_000)


def _show_text(text: Text, *, json: bool) -> str:
    plain = text.pieces[0]
    scalar = json and (plain in {"true", "false", "null"} or _JSON_NUMBER.fullmatch(plain))
    if text.exact and (not plain or scalar):
        return f'"{plain}"'
    return "*".join(p if _SAFE.fullmatch(p) else quote(p) for p in text.pieces)


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
