"""How often, in English: every 15 minutes, every other tuesday, twice a day."""

from __future__ import annotations

from fractions import Fraction

from foliot.when.natural_days import read_days, starts_days
from foliot.when.natural_sentence import WHOLE, Every, Sentence, add_times, set_every, set_field
from foliot.when.natural_times import read_time
from foliot.when.natural_words import (
    DAY_NAMES,
    MONTH_NAMES,
    ORDINALS,
    PLURAL_DAYS,
    UNIT_NAMES,
    UNITS,
    Cursor,
    Token,
)

ADVERBS = {
    "hourly": (1, "hour"), "daily": (1, "day"), "weekly": (1, "week"), "monthly": (1, "month"),
    "quarterly": (1, "quarter"), "yearly": (1, "year"), "annually": (1, "year"),
    "fortnightly": (2, "week"),
}  # fmt: skip
_ONCE = {"once": 1, "twice": 2, "thrice": 3}
_PARTS_OF_DAY = ("morning", "afternoon", "evening", "night")
_TIMES = ("noon", "midday", "midnight")
_MOST = 10**9


def read_every(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.take()
    sentence.repeats = True
    if cursor.sees("other"):
        _read_every_other(cursor, sentence, token)
    elif cursor.sees("fortnight", *_TIMES, *_PARTS_OF_DAY):
        _read_every_word(cursor, sentence, token)
    elif _sees_ordinal_of(cursor):
        cursor.stop(
            "may mean one of the month or so many apart: say 'of the month', or 'every 2 …'"
        )
    elif cursor.sees("half", "quarter"):
        _read_part_of_hour(cursor, sentence, token)
    elif _sees_amount(cursor):
        _read_amounts(cursor, sentence, token)
    elif starts_days(cursor):
        read_these(cursor, sentence)
    else:
        cursor.stop()


def _read_every_word(cursor: Cursor, sentence: Sentence, token: Token) -> None:
    if cursor.sees(*_TIMES):
        add_times(cursor, sentence, [read_time(cursor)])
        return
    word = cursor.take()
    if word.text != "fortnight":
        sentence.part_of_day = word
    amount = (2, "week") if word.text == "fortnight" else (1, "day")
    set_every(cursor, sentence, Every((amount,), token))


def read_these(cursor: Cursor, sentence: Sentence) -> None:
    """Days after "every". Every 7th may be a day of the month or a step: that needs more words."""
    days = sentence.days
    read_days(cursor, days)
    days.again = days.again or bool(days.of_week or days.months)


def _sees_amount(cursor: Cursor) -> bool:
    if cursor.peek().text in UNIT_NAMES and not (
        cursor.sees("second") and cursor.peek(1).text in DAY_NAMES
    ):
        return True
    mark = cursor.mark()
    found = cursor.number() is not None or cursor.peek().kind == "number"
    found = found and cursor.peek().text not in MONTH_NAMES
    cursor.back(mark)
    return found


def _sees_ordinal_of(cursor: Cursor) -> bool:
    """every 7th day, every second tuesday: but not the 2nd tuesday of the month."""
    token = cursor.peek()
    if token.kind != "ordinal" and token.text not in ORDINALS:
        return False
    after = cursor.peek(1).text
    if after in UNIT_NAMES:
        return not (after == "day" and cursor.sees("of", ahead=2))
    return after in DAY_NAMES and not cursor.sees("of", ahead=2)


def _read_every_other(cursor: Cursor, sentence: Sentence, token: Token) -> None:
    cursor.take()
    unit = cursor.unit()
    if unit is not None:
        set_every(cursor, sentence, Every(((2, unit),), token))
    elif cursor.peek().text in (*DAY_NAMES, *PLURAL_DAYS, "weekend"):
        set_every(cursor, sentence, Every(((2, "week"),), token))
        read_days(cursor, sentence.days)
    else:
        cursor.stop("has 'every other' with neither a weekday nor a unit of time", at=token)


def _read_part_of_hour(cursor: Cursor, sentence: Sentence, token: Token) -> None:
    """every half hour, every quarter of an hour; but a quarter may be one of a year."""
    mark = cursor.mark()
    minutes = 30 if cursor.take().text == "half" else 15
    cursor.reads("of")
    cursor.reads_any("an", "a")
    if cursor.reads("hour"):
        set_every(cursor, sentence, Every(((minutes, "minute"),), token))
        return
    cursor.back(mark)
    if not cursor.sees("quarter"):
        cursor.stop()
    _read_amounts(cursor, sentence, token)


def _read_amounts(cursor: Cursor, sentence: Sentence, token: Token) -> None:
    amounts = read_amounts(cursor)
    count, unit = amounts[0]
    if not cursor.sees("within"):
        set_every(cursor, sentence, Every(amounts, token))
        return
    if len(amounts) > 1 or not cursor.reads("within", "the", WHOLE.get(unit, "")):
        cursor.stop()
    set_field(cursor, sentence, unit, f"*/{count}", token)


def read_amounts(cursor: Cursor) -> tuple[tuple[int, str], ...]:
    """15 minutes; 2 hours and 30 minutes; 1.5 hours; an hour."""
    counted = cursor.peek().text not in UNIT_NAMES
    amounts = [_amount(cursor)]
    while True:
        mark = cursor.mark()
        if not cursor.joins() and not counted:
            return tuple(amounts)
        if cursor.number() is None or cursor.peek().text not in UNIT_NAMES:
            cursor.back(mark)
            return tuple(amounts)
        cursor.back(mark)
        cursor.joins()
        token = cursor.peek()
        amount = _amount(cursor)
        units = [unit for _, unit in amounts]
        if amount[1] in units or _size(amount[1]) > _size(units[-1]):
            cursor.stop("does not name its units from large to small", at=token)
        amounts.append(amount)


def _size(unit: str) -> int:
    return UNITS.index(unit)


def _amount(cursor: Cursor) -> tuple[int, str]:
    token = cursor.peek()
    if token.kind == "number" and "." in token.text:
        cursor.take()
        return _fraction(cursor, token)
    count = cursor.number()
    if count is None:
        cursor.reads_any("a", "an")
        count = 1
    unit = cursor.unit()
    if unit is None:
        cursor.stop(f"goes on with {cursor.peek().shown} where minutes, hours or days are due")
    if not 1 <= count <= _MOST:
        cursor.stop(f"counts {count} {unit}s", at=token)
    return count, unit


def _fraction(cursor: Cursor, token: Token) -> tuple[int, str]:
    unit = cursor.unit()
    if unit not in ("minute", "hour"):
        cursor.stop("has a part of something other than a minute or an hour", at=token)
    finer = "second" if unit == "minute" else "minute"
    count = Fraction(token.text) * 60
    if count.denominator != 1 or count == 0:
        cursor.stop(f"has a part of a {unit} that is no whole number of {finer}s", at=token)
    return count.numerator, finer


# twice a day, 5 times


def sees_rate(cursor: Cursor) -> bool:
    if cursor.sees(*_ONCE):
        return True
    mark = cursor.mark()
    found = cursor.number() is not None and cursor.sees("times", "time")
    cursor.back(mark)
    return found


def read_rate(cursor: Cursor, sentence: Sentence) -> None:
    token = cursor.peek()
    if token.text == "once" and cursor.sees("every", "each", ahead=1):
        cursor.take()
        read_every(cursor, sentence)
        return
    count = _rate_count(cursor)
    if cursor.sees("hourly", "daily", "weekly", "monthly", "yearly"):
        unit = ADVERBS[cursor.take().text][1]
    elif cursor.reads_any("a", "an", "per", "each", "every"):
        named = cursor.unit()
        if named is None:
            cursor.stop(f"goes on with {cursor.peek().shown} where a day or an hour is due")
        unit = named
    else:
        if token.text in _ONCE or sentence.count is not None:
            cursor.stop("does not say how often: 'once a day'", at=token)
        sentence.count = count
        return
    if sentence.rate or sentence.every:
        cursor.stop("says twice how often", at=token)
    sentence.repeats = True
    sentence.rate = (count, unit, token)


def _rate_count(cursor: Cursor) -> int:
    if cursor.sees(*_ONCE):
        return _ONCE[cursor.take().text]
    token = cursor.peek()
    count = cursor.number()
    cursor.take()
    if not count:
        cursor.stop("counts no times at all", at=token)
    return count
