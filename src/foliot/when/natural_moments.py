"""One moment in English: in 10 minutes, tomorrow at 9, next monday at 10, on 2026-12-24 at 18:00."""

from __future__ import annotations

from datetime import date

from foliot.when.civil import DAY, END_YEAR, FIRST_YEAR, date_of, day_of, month_length, weekday_of
from foliot.when.iso8601 import read_wall
from foliot.when.natural_every import read_amounts
from foliot.when.natural_times import Time, read_time, starts_time
from foliot.when.natural_words import DAY_NAMES, MONTH_NAMES, UNIT_NAMES, Cursor, Token
from foliot.when.part import Part
from foliot.when.wall import instant_of
from foliot.when.zones import Zone

_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FARTHEST = 100 * 366 * DAY


class Now:
    """The moment a sentence is said, and where."""

    def __init__(self, now: int | None, zone: Zone, text: str) -> None:
        self._now = now
        self.zone = zone
        self.text = text

    def at(self, cursor: Cursor, token: Token) -> int:
        if self._now is None:
            cursor.stop(
                "counts from now, and there is no now here: write a date and a time", at=token
            )
        return self._now

    def wall(self, cursor: Cursor, token: Token) -> int:
        now = self.at(cursor, token)
        return now + self.zone.offset_at(now)


def read_moment(cursor: Cursor, now: Now) -> int | None:
    """The instant that is named, None if the sentence does not begin like one that names it."""
    token = cursor.peek()
    if cursor.sees("yesterday") or (cursor.sees("in") and cursor.sees("-", ahead=1)):
        cursor.stop("lies in the past")
    if cursor.reads_any("now", "asap", "immediately"):
        found: int | None = now.at(cursor, token)
    elif cursor.sees("in") and _counts(cursor, 1):
        cursor.take()
        found = _after(cursor, now, token)
    elif _counts(cursor, 0) and (relative := _from_now(cursor, now, token)) is not None:
        found = relative
    elif cursor.sees("at", "on") and cursor.peek(1).kind == "instant":
        cursor.take()
        found = _read_instant(cursor, now)
    elif token.kind == "instant":
        found = _read_instant(cursor, now)
    else:
        found = _date_and_time(cursor, now)
    if found is not None and cursor.peek().kind != "end":
        cursor.stop()
    return found


# in 10 minutes


def _counts(cursor: Cursor, ahead: int) -> bool:
    return (
        cursor.peek(ahead).kind == "number"
        or cursor.sees("a", "an", "half", ahead=ahead)
        or (
            cursor.peek(ahead + 1).text in UNIT_NAMES
            and not cursor.sees("the", "every", ahead=ahead)
        )
    )


def _from_now(cursor: Cursor, now: Now, token: Token) -> int | None:
    """10 minutes from now."""
    mark = cursor.mark()
    while cursor.peek().kind == "number" or cursor.peek().text in (
        *UNIT_NAMES,
        "and",
        "a",
        "an",
        ",",
    ):
        cursor.take()
    if cursor.sees("ago"):
        cursor.stop("lies in the past")
    said = cursor.reads("from", "now")
    end = cursor.mark()
    cursor.back(mark)
    if not said:
        return None
    found = _after(cursor, now, token)
    if not cursor.reads("from", "now") or cursor.mark() != end:
        cursor.stop()
    return found


def _after(cursor: Cursor, now: Now, token: Token) -> int:
    if cursor.reads("half", "an", "hour"):
        return now.at(cursor, token) + 1800
    amounts = {unit: count for count, unit in read_amounts(cursor)}
    seconds = sum(count * _SECONDS[unit] for unit, count in amounts.items() if unit in _SECONDS)
    days = sum(count * _DAYS[unit] for unit, count in amounts.items() if unit in _DAYS)
    months = sum(count * _MONTHS[unit] for unit, count in amounts.items() if unit in _MONTHS)
    if months * 31 * DAY + days * DAY + seconds > _FARTHEST:
        cursor.stop("lies more than 100 years ahead", at=token)
    if not days and not months:
        return now.at(cursor, token) + seconds
    wall = _later(now.wall(cursor, token), months) + days * DAY
    return instant_of(wall, now.zone) + seconds


def _later(wall: int, months: int) -> int:
    """So many months later, on the last day of a month that is too short."""
    day, second = divmod(wall, DAY)
    year, month, date = date_of(day)
    year, month = year + (month - 1 + months) // 12, (month - 1 + months) % 12 + 1
    return day_of(year, month, min(date, month_length(year, month))) * DAY + second


# tomorrow at 9


def _date_and_time(cursor: Cursor, now: Now) -> int | None:
    mark = cursor.mark()
    token = cursor.peek()
    time: Time | None = None
    bare = False
    if cursor.reads("at") or (starts_time(cursor) and not _starts_date(cursor)):
        if not starts_time(cursor) or cursor.peek(1).text in UNIT_NAMES:
            cursor.back(mark)
            return None
        bare = token.text != "at"
        time = read_time(cursor)
        if cursor.peek().kind == "end":
            return _next_time(cursor, now, time, bare=bare)
        cursor.reads(",")
    today = cursor.sees("today")
    day = _read_date(cursor, now)
    if day is None:
        cursor.back(mark)
        return None
    if time is None:
        cursor.reads(",")
        bare = not cursor.reads("at")
        if cursor.peek().kind == "end":
            cursor.stop("does not say at what time of the day", at=cursor.peek())
        time = read_time(cursor)
    _check_time(cursor, time, bare=bare)
    found = _resolve(cursor, now, day * DAY + time.seconds, token)
    if today and found <= now.at(cursor, token):
        cursor.stop("lies in the past", at=token)
    return found


def _check_time(cursor: Cursor, time: Time, *, bare: bool) -> None:
    if time.token.text == "midnight":
        cursor.stop("leaves open which midnight of the day: write 00:00", at=time.token)
    if time.style == "bare" and bare:
        cursor.stop(at=time.token)


def _next_time(cursor: Cursor, now: Now, time: Time, *, bare: bool) -> int:
    if time.style == "bare" and bare:
        cursor.stop(at=time.token)
    wall = now.wall(cursor, time.token)
    day = wall // DAY + (time.seconds <= wall % DAY)
    return _resolve(cursor, now, day * DAY + time.seconds, time.token)


def _resolve(cursor: Cursor, now: Now, wall: int, token: Token) -> int:
    instant = instant_of(wall, now.zone)
    if instant + now.zone.offset_at(instant) != wall:
        cursor.stop(
            f"names a time that the clocks in {now.zone.name} leave out on that day", at=token
        )
    return instant


def _starts_date(cursor: Cursor) -> bool:
    return cursor.peek().kind == "number" and cursor.peek(1).text in MONTH_NAMES


def _read_date(cursor: Cursor, now: Now) -> int | None:
    """A day, counted from 1970-01-01."""
    token = cursor.peek()
    if cursor.reads("yesterday"):
        cursor.stop("lies in the past", at=token)
    if cursor.reads("today"):
        return now.wall(cursor, token) // DAY
    if cursor.reads("tomorrow"):
        return now.wall(cursor, token) // DAY + 1
    if cursor.reads("the", "day", "after", "tomorrow") or cursor.reads("day", "after", "tomorrow"):
        return now.wall(cursor, token) // DAY + 2
    cursor.reads("on")
    if cursor.sees("next", "this") and cursor.peek(1).text in DAY_NAMES:
        return _near_weekday(cursor, now)
    token = cursor.peek()
    if token.kind == "date":
        year, month, number = (int(part) for part in cursor.take().text.split("-"))
        return _whole_date(cursor, year, month, number, token)
    return _written_date(cursor, token)


def _near_weekday(cursor: Cursor, now: Now) -> int:
    """Only where all who say it mean the same day: weeks begin on Monday."""
    token = cursor.take()
    today = now.wall(cursor, token) // DAY
    name = cursor.take().text
    since_monday = (weekday_of(today) - 1) % 7
    place = (DAY_NAMES[name] - 1) % 7
    later = place > since_monday
    if later != (token.text == "this"):
        other = "'this " + name + "' or a date" if token.text == "next" else "'next " + name + "'"
        cursor.stop(f"may mean a {name} of this week or of the next: write {other}", at=token)
    return today + place - since_monday + (0 if later else 7)


def _written_date(cursor: Cursor, token: Token) -> int | None:
    """24 december 2026, december 24th, 2026."""
    if cursor.peek().text in MONTH_NAMES:
        month = MONTH_NAMES[cursor.take().text]
        number = cursor.ordinal() or cursor.number()
        cursor.reads(",")
    else:
        cursor.reads("the")
        number = cursor.ordinal() or cursor.number()
        cursor.reads("of")
        if number is None or cursor.peek().text not in MONTH_NAMES:
            return None
        month = MONTH_NAMES[cursor.take().text]
        cursor.reads(",")
    year = cursor.peek()
    if number is None or year.kind != "number" or len(year.text) != 4:
        return None
    cursor.take()
    return _whole_date(cursor, int(year.text), month, number, token)


def _whole_date(cursor: Cursor, year: int, month: int, day: int, token: Token) -> int:
    try:
        found = date(year, month, day)
    except ValueError:
        cursor.stop("names a date that no calendar has", at=token)
    if not FIRST_YEAR < found.year < END_YEAR - 2:
        cursor.stop("names a date too far from today", at=token)
    return day_of(year, month, day)


def _read_instant(cursor: Cursor, now: Now) -> int:
    token = cursor.take()
    wall, is_instant = read_wall(Part(token.text, now.text, token.start, now.zone.name))
    return wall if is_instant else _resolve(cursor, now, wall, token)
