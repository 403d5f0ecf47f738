"""The clauses of a recurring schedule in English, in any order; each may be said once."""

from __future__ import annotations

from collections.abc import Callable

from foliot.when.natural_days import DayPart, read_days, read_months, read_numbers, starts_days
from foliot.when.natural_every import ADVERBS, read_every, read_rate, read_these, sees_rate
from foliot.when.natural_sentence import (
    HIGHEST,
    Every,
    Sentence,
    add_times,
    set_every,
    set_field,
)
from foliot.when.natural_times import read_span, read_time, read_times, starts_time
from foliot.when.natural_words import DAY_NAMES, MONTH_NAMES, PLURAL_DAYS, UNIT_NAMES, Cursor, Token

_TWO_MEANINGS = ("biweekly", "bimonthly", "biannually", "biannual", "semiweekly", "semimonthly")


def read_sentence(cursor: Cursor) -> Sentence:
    """All clauses up to the end of the text."""
    sentence = Sentence()
    sentence.start = cursor.peek()
    while cursor.peek().kind != "end":
        _read_clause(cursor, sentence)
        mark = cursor.mark()
        if cursor.reads(",") and cursor.peek().kind == "end":
            cursor.back(mark)
            cursor.stop()
    return sentence


def _read_clause(cursor: Cursor, sentence: Sentence) -> None:
    word = cursor.peek().text
    clause = _CLAUSES.get(word)
    if clause is not None:
        clause(cursor, sentence)
    elif word in ADVERBS:
        token = cursor.take()
        set_every(cursor, sentence, Every((ADVERBS[word],), token))
    elif word in _TWO_MEANINGS:
        cursor.stop(f"holds {word!r}, which can mean twice in it or every second one")
    elif sees_rate(cursor):
        read_rate(cursor, sentence)
    elif starts_days(cursor):
        read_days(cursor, sentence.days)
    elif starts_time(cursor):
        _read_bare_times(cursor, sentence)
    else:
        cursor.stop()


# at, between, during, on, in, of, starting, or


def _read_bare_times(cursor: Cursor, sentence: Sentence) -> None:
    """9am, 9am to 5pm: without a word before them, times must be seen to be times."""
    mark = cursor.mark()
    first = read_time(cursor)
    if first.style == "bare":
        cursor.stop(at=first.token)
    span = cursor.sees("to", "until", "till", "through", "-")
    cursor.back(mark)
    if span:
        _set_span(cursor, sentence, first.token)
    else:
        add_times(cursor, sentence, read_times(cursor))


def _set_span(cursor: Cursor, sentence: Sentence, token: Token) -> None:
    if sentence.span:
        cursor.stop("has two spans of the day", at=token)
    sentence.span = read_span(cursor)


def _read_at(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.take()
    if cursor.peek().kind == "minute":
        set_field(cursor, sentence, "minute", _minutes(cursor), token)
    elif cursor.sees("minute", "minutes", "second", "seconds"):
        _read_field(cursor, sentence, token)
    elif _sees_minutes_past(cursor):
        minute = cursor.number()
        cursor.take()
        cursor.take()
        cursor.take()
        cursor.expect("hour")
        set_field(cursor, sentence, "minute", str(minute), token)
    else:
        add_times(cursor, sentence, read_times(cursor))


def _minutes(cursor: Cursor) -> str:
    """:15, :15 and :45."""
    minutes = [cursor.take()]
    while True:
        mark = cursor.mark()
        if not cursor.joins() or cursor.peek().kind != "minute":
            cursor.back(mark)
            break
        minutes.append(cursor.take())
    for token in minutes:
        if int(token.text[1:]) > HIGHEST["minute"]:
            cursor.stop("has a minute that no hour has", at=token)
    return ",".join(str(int(token.text[1:])) for token in minutes)


def _sees_minutes_past(cursor: Cursor) -> bool:
    """at 15 minutes past the hour."""
    return (
        cursor.sees("minutes", "minute", "mins", ahead=1)
        and cursor.sees("past", "after", ahead=2)
        and cursor.sees("the", "every", "each", ahead=3)
    )


def _read_during(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.take()
    if not cursor.sees("hours", "hour"):
        cursor.stop()
    _read_field(cursor, sentence, token)


def _read_field(cursor: Cursor, sentence: Sentence, token: Token) -> None:
    unit = UNIT_NAMES[cursor.take().text]
    items = read_numbers(cursor, 0, HIGHEST[unit])
    set_field(cursor, sentence, unit, ",".join(items), token)


def _read_between(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.take()
    following = cursor.peek().text
    if token.text == "from" and (following in DAY_NAMES or following in PLURAL_DAYS):
        read_days(cursor, sentence.days)
        if len(sentence.days.of_week) == 1:
            cursor.stop("has a beginning without an end: 'from monday to friday'", at=token)
        return
    if token.text == "from" and following in MONTH_NAMES:
        read_months(cursor, sentence.days)
        if "-" not in sentence.days.months[-1]:
            cursor.stop("has a beginning without an end: 'from june to august'", at=token)
        return
    _set_span(cursor, sentence, token)


def _read_on(cursor: Cursor, sentence: Sentence) -> None:
    cursor.take()
    if cursor.peek().kind in ("date", "instant"):
        cursor.stop("names one date in a schedule that comes again")
    every = cursor.reads_any("every", "each")
    token = cursor.peek()
    if cursor.reads("the", "hour"):
        set_field(cursor, sentence, "minute", "0", token)
    elif not starts_days(cursor):
        cursor.stop(f"goes on with {cursor.peek().shown} where days are due")
    elif every:
        read_these(cursor, sentence)
    else:
        read_days(cursor, sentence.days)


def _read_in(cursor: Cursor, sentence: Sentence) -> None:
    cursor.take()
    read_months(cursor, sentence.days)


def _read_or(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.take()
    if not sentence.days.given or sentence.days.either:
        cursor.stop("has an 'or' that is not between two sorts of days", at=token)
    sentence.days.either = True
    cursor.expect("on")
    read_days(cursor, sentence.days)


def _read_that(cursor: Cursor, sentence: Sentence) -> None:
    """on days 1 to 7 that are mondays: both must be true."""
    token = cursor.take()
    cursor.expect("are")
    if not sentence.days.of_month or sentence.days.of_week:
        cursor.stop("has a 'that are' which does not follow days of the month", at=token)
    sentence.days.both = sentence.days.either = True
    read_days(cursor, sentence.days)


def _read_except(cursor: Cursor, sentence: Sentence) -> None:
    """every day except sunday: of the days so far, the others."""
    token = cursor.take()
    days, every = sentence.days, sentence.every
    all_days = every is not None and every.amounts == ((1, "day"),) and not days.given
    if not all_days and (days.of_week != ["1-5"] or days.of_month):
        cursor.stop(
            "has an 'except' that follows neither 'every day' nor 'every weekday'", at=token
        )
    left_out = DayPart()
    cursor.reads("on")
    if not starts_days(cursor):
        cursor.stop(at=token)
    read_days(cursor, left_out)
    of_week = {item for item in left_out.of_week if item.isdigit()}
    kept = [day for day in ("1234560" if all_days else "12345") if day not in of_week]
    whole = "0,6" in left_out.of_week
    if left_out.of_month or left_out.months or len(of_week) + whole != len(left_out.of_week):
        cursor.stop("leaves out something other than days of the week", at=token)
    kept = [day for day in kept if not (whole and day in "06")]
    if not kept:
        cursor.stop("leaves out all of its days", at=token)
    sentence.every = None if all_days else every
    days.of_week, days.again, days.where = kept, True, token


def _read_by(cursor: Cursor, sentence: Sentence) -> None:
    """By elapsed time: a clock that is changed is followed, no fire is moved."""
    if not cursor.reads("by", "elapsed", "time") or sentence.elapsed:
        cursor.stop()
    sentence.elapsed = True


def _read_starting(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.take()
    cursor.reads_any("on", "at", "from")
    moment = cursor.peek()
    if sentence.starting is not None or moment.kind not in ("date", "instant"):
        cursor.stop("needs a date to start at: 'starting 2026-01-31 at 09:00'", at=token)
    cursor.take()
    sentence.starting = moment.text.upper()
    if moment.kind == "date":
        time = read_time(cursor) if cursor.reads("at") else None
        clock = (time.hour, time.minute, time.second) if time else (0, 0, 0)
        sentence.starting += "T{:02}:{:02}:{:02}".format(*clock)


_CLAUSES: dict[str, Callable[[Cursor, Sentence], None]] = {
    "every": read_every,
    "each": read_every,
    "at": _read_at,
    "between": _read_between,
    "from": _read_between,
    "during": _read_during,
    "on": _read_on,
    "in": _read_in,
    "or": _read_or,
    "except": _read_except,
    "starting": _read_starting,
    "by": _read_by,
    "that": _read_that,
}
