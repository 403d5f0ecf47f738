"""Times of day in English: 9am, 09:30, noon, half past 9, 7 in the evening; lists and spans of them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from foliot.when.natural_words import NUMBERS, Cursor, Token

_NAMED = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}
_PARTS = {"morning": "am", "afternoon": "pm", "evening": "pm"}
_MOST = 48
_TIME_STARTS = ("noon", "midday", "midnight", "half", "quarter")


class Time(NamedTuple):
    hour: int
    minute: int
    second: int
    # How sure the half of the day is: "bare" (9), "clock" (9:30, 17:00), "said" (9am, noon).
    style: str
    token: Token

    @property
    def seconds(self) -> int:
        return self.hour * 3600 + self.minute * 60 + self.second


def starts_time(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token.kind in ("clock", "number") or cursor.sees(*_TIME_STARTS, *NUMBERS)


def read_time(cursor: Cursor) -> Time:
    """One time of day. A bare hour is one of 24; a bare 12 may be noon or midnight and is refused."""
    token = cursor.peek()
    if cursor.sees(*_NAMED):
        return Time(*_NAMED[cursor.take().text], 0, "said", token)
    if cursor.sees("half", "quarter"):
        return _past_the_hour(cursor)
    if token.kind == "clock":
        parts = [int(part) for part in cursor.take().text.split(":")]
        hour, minute, second = parts[0], parts[1], parts[2] if len(parts) > 2 else 0
        if minute > 59 or second > 59:
            cursor.stop(f"holds {token.text}, which is no time of day", at=token)
        return _with_half(cursor, token, hour, minute, second, style="clock")
    number = cursor.number()
    if number is None:
        cursor.stop(f"goes on with {token.shown} where a time of day is due", at=token)
    if token.kind == "number" and len(token.text) > 2:
        cursor.stop(f"holds {token.text!r} for a time of day: write 09:30 or 9am", at=token)
    cursor.reads("o'clock")
    return _with_half(cursor, token, number, 0, 0, style="bare")


def read_times(cursor: Cursor) -> list[Time]:
    """Times with commas and "and" between them, none of them in doubt."""
    times = [read_time(cursor)]
    while True:
        mark = cursor.mark()
        if not cursor.joins():
            break
        cursor.reads("at")
        if not starts_time(cursor):
            cursor.back(mark)
            break
        if len(times) == _MOST:
            cursor.stop(f"has more than {_MOST} times of day")
        times.append(read_time(cursor))
    _agree(cursor, times)
    if len({time.seconds for time in times}) < len(times):
        cursor.stop("says one time of day twice", at=times[-1].token)
    return times


def read_span(cursor: Cursor) -> tuple[Time, Time]:
    """Two times of day, the first and the last: between 9am and 5pm."""
    first = read_time(cursor)
    if not cursor.reads_any("and", "to", "until", "till", "through", "-"):
        cursor.stop(f"goes on with {cursor.peek().shown} where the end of the span is due")
    last = read_time(cursor)
    _agree(cursor, sorted([first, last], key=lambda time: time.seconds))
    if first.seconds == last.seconds:
        cursor.stop("has a span that begins where it ends", at=last.token)
    if first.seconds > last.seconds and "said" not in (first.style, last.style) and first.hour < 13:
        cursor.stop(
            f"may mean {last.hour + 12}:{last.minute:02} or {last.hour:02}:{last.minute:02}: "
            "write am or pm, or hours up to 24",
            at=last.token,
        )
    return first, last


def _past_the_hour(cursor: Cursor) -> Time:
    token = cursor.take()
    minutes = 30 if token.text == "half" else 15
    if not cursor.reads("past"):
        cursor.stop()
    hour = read_time(cursor)
    if hour.minute or hour.second:
        cursor.stop(at=hour.token)
    return hour._replace(minute=minutes)


def _with_half(
    cursor: Cursor, token: Token, hour: int, minute: int, second: int, *, style: str
) -> Time:
    half = _half(cursor, hour)
    if half is None:
        if hour > 23:
            cursor.stop(f"holds {token.text}, which is no time of day", at=token)
        if style == "bare" and hour == 12:
            cursor.stop("holds a 12 that may be noon or midnight: write 12:00 or 00:00", at=token)
        return Time(hour, minute, second, style, token)
    if not 1 <= hour <= 12:
        cursor.stop(f"holds {token.text} {half}, which is no time of day", at=token)
    return Time(hour % 12 + (12 if half == "pm" else 0), minute, second, "said", token)


def _half(cursor: Cursor, hour: int) -> str | None:
    if cursor.sees("am", "pm"):
        return cursor.take().text
    if cursor.sees("in") and cursor.sees("the", ahead=1) and cursor.sees(*_PARTS, ahead=2):
        if hour == 12:
            cursor.stop("holds a 12 that may be noon or midnight: write 12:00 or 00:00")
        cursor.take()
        cursor.take()
        return _PARTS[cursor.take().text]
    return None


def _agree(cursor: Cursor, times: list[Time]) -> None:
    """9 and 5pm, 9 and 5: whether the one without is in the morning is a guess, and none is made."""
    for before, time in pairwise(times):
        if time.seconds < before.seconds and time.style != "said" and not _is_24_hours(time):
            cursor.stop(f"leaves open whether {time.token.text} is am or pm", at=time.token)
    if not any(time.style == "said" and time.token.text not in _NAMED for time in times) and not (
        any(time.style == "said" for time in times) and any(time.style == "bare" for time in times)
    ):
        return
    for time in times:
        if time.style != "said" and time.hour < 13 and not _is_24_hours(time):
            cursor.stop(f"leaves open whether {time.token.text} is am or pm", at=time.token)


def _is_24_hours(time: Time) -> bool:
    """0:30 and 09:00 are of the clock with 24 hours."""
    return time.hour == 0 or time.token.text.startswith("0")
