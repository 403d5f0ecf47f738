"""Rules in English: "repeating every month, on last friday, starting 2026-01-01 at 09:00", as an RRULE.

They have clauses of their own, one for each part of RFC 5545, with commas between them.
"""

from __future__ import annotations

from collections.abc import Callable

from foliot.when.natural_times import read_time
from foliot.when.natural_words import DAY_NAMES, MONTH_NAMES, WEEKDAYS, Cursor

_FREQUENCIES = {
    "year": "YEARLY", "month": "MONTHLY", "week": "WEEKLY", "day": "DAILY",
    "hour": "HOURLY", "minute": "MINUTELY", "second": "SECONDLY",
}  # fmt: skip
_NUMBERED = {
    ("in", "week"): "BYWEEKNO",
    ("on", "year", "day"): "BYYEARDAY",
    ("on", "month", "day"): "BYMONTHDAY",
    ("during", "hour"): "BYHOUR",
    ("at", "minute"): "BYMINUTE",
    ("at", "second"): "BYSECOND",
    ("taking", "number"): "BYSETPOS",
}


def read_rule_sentence(cursor: Cursor) -> str | None:
    """The text of the rule, None if the sentence does not begin like one."""
    if not cursor.reads("repeating"):
        return None
    cursor.expect("every")
    count = cursor.number() or 1
    unit = cursor.unit()
    if unit not in _FREQUENCIES:
        cursor.stop()
    parts = {"FREQ": _FREQUENCIES[unit]}
    if count > 1:
        parts["INTERVAL"] = str(count)
    lines: dict[str, str] = {}
    while cursor.peek().kind != "end":
        cursor.expect(",")
        token = cursor.peek()
        name, value = _clause(cursor)
        if name in parts or name in lines:
            cursor.stop("says one thing twice", at=token)
        (lines if name in ("DTSTART", "RDATE", "EXDATE") else parts)[name] = value
    lines["RRULE"] = ";".join(f"{name}={value}" for name, value in parts.items())
    order = ("DTSTART", "RRULE", "RDATE", "EXDATE")
    return "\n".join(f"{name}:{lines[name]}" for name in order if name in lines)


def _clause(cursor: Cursor) -> tuple[str, str]:
    for words, name in _NUMBERED.items():
        if cursor.reads(*words) or cursor.reads(*words[:-1], f"{words[-1]}s"):
            return name, _list(cursor, _number)
    for words, (name, read) in _NAMED.items():
        if cursor.reads(*words):
            single = name in ("DTSTART", "UNTIL", "WKST")
            return name, read(cursor) if single else _list(cursor, read)
    count = cursor.number()
    if count is None or not cursor.reads("times"):
        cursor.stop()
    return "COUNT", str(count)


def _list(cursor: Cursor, read: Callable[[Cursor], str]) -> str:
    values = [read(cursor)]
    while True:
        mark = cursor.mark()
        comma = cursor.reads(",")
        if cursor.reads("and"):
            values.append(read(cursor))
            return ",".join(values)
        if not comma or not _goes_on(cursor):
            cursor.back(mark)
            return ",".join(values)
        values.append(read(cursor))


def _goes_on(cursor: Cursor) -> bool:
    """Whether after a comma the list goes on, and not the next clause."""
    token = cursor.peek()
    if token.kind == "number":
        return not cursor.sees("times", ahead=1)
    if token.kind in ("ordinal", "date") or cursor.sees("last"):
        return True
    return token.text in MONTH_NAMES or token.text in DAY_NAMES


def _number(cursor: Cursor) -> str:
    from_end = _from_end(cursor)
    if from_end is not None:
        return from_end
    number = cursor.number()
    if number is None:
        cursor.stop(f"goes on with {cursor.peek().shown} where a number is due")
    return str(number)


def _from_end(cursor: Cursor) -> str | None:
    """last, 2nd to last."""
    if cursor.reads("last"):
        return "-1"
    mark = cursor.mark()
    number = cursor.ordinal()
    if number is not None and cursor.reads("to", "last"):
        return str(-number)
    cursor.back(mark)
    return None


def _month(cursor: Cursor) -> str:
    token = cursor.take()
    if token.text not in MONTH_NAMES:
        cursor.stop(f"goes on with {token.shown} where a month is due", at=token)
    return str(MONTH_NAMES[token.text])


def _weekday(cursor: Cursor) -> str:
    place = _from_end(cursor)
    if place is None:
        number = cursor.ordinal()
        place = "" if number is None else str(number)
    return place + _day(cursor)


def _day(cursor: Cursor) -> str:
    token = cursor.take()
    if token.text not in DAY_NAMES:
        cursor.stop(f"goes on with {token.shown} where a weekday is due", at=token)
    return WEEKDAYS[DAY_NAMES[token.text]][:2].upper()


def _moment(cursor: Cursor) -> str:
    token = cursor.take()
    if token.kind != "date":
        cursor.stop(f"goes on with {token.shown} where a date such as 2026-01-31 is due", at=token)
    cursor.expect("at")
    time = read_time(cursor)
    clock = f"{time.hour:02}{time.minute:02}{time.second:02}"
    return f"{token.text.replace('-', '')}T{clock}"


_NAMED: dict[tuple[str, ...], tuple[str, Callable[[Cursor], str]]] = {
    ("also", "on"): ("RDATE", _moment),
    ("except", "on"): ("EXDATE", _moment),
    ("starting",): ("DTSTART", _moment),
    ("until",): ("UNTIL", _moment),
    ("with", "weeks", "from"): ("WKST", _day),
    ("in",): ("BYMONTH", _month),
    ("on",): ("BYDAY", _weekday),
}
