"""Days in English, as items of cron's day fields: weekdays, the 1st and 15th, the last friday of the month."""

from __future__ import annotations

from foliot.when.natural_words import (
    DAY_NAMES,
    MONTH_NAMES,
    MONTHS,
    ORDINALS,
    PLURAL_DAYS,
    Cursor,
    Token,
)

_THROUGH = ("to", "through", "thru", "-")
_MOST_ITEMS = 40
_QUARTERS = {"first": "1,4,7,10", "last": "3,6,9,12"}
_YEARS = {"first": "1", "last": "12"}


class DayPart:
    """What a sentence has said of days so far."""

    def __init__(self) -> None:
        self.of_month: list[str] = []
        self.of_week: list[str] = []
        self.months: list[str] = []
        self.either = False  # "or" stands between days of the month and days of the week
        self.both = False  # "that are": a day must be one of each
        self.again = False  # "of the month", "mondays", "every friday": more than one day is meant
        self.exact = False  # months without the day are known to be left out
        self.where: Token | None = None
        self.open: Token | None = None  # the last friday: of what is still to be said
        self.end_of: str | None = None  # "first" or "last" day or weekday of what follows "of the"

    @property
    def given(self) -> bool:
        return bool(self.of_month or self.of_week)


def starts_days(cursor: Cursor) -> bool:
    token = cursor.peek()
    if token.kind == "ordinal" or cursor.sees("the", "last", "weekday", "weekdays", "weekend"):
        return True
    if cursor.sees("weekends", "days", "day") or token.text in PLURAL_DAYS:
        return True
    if token.kind == "word" and (token.text in DAY_NAMES or token.text in MONTH_NAMES):
        return True
    if token.kind == "number" and cursor.sees("days", "day", ahead=1):
        return cursor.sees("before", ahead=2)
    return token.text in ORDINALS or _sees_day_and_month(cursor)


def read_days(cursor: Cursor, days: DayPart) -> None:
    """A list of days, and the months they are of."""
    if days.given and not days.either:
        cursor.stop("says the days twice")
    days.where = days.where or cursor.peek()
    before = bool(days.of_week), bool(days.of_month)
    _read_list(cursor, days)
    if days.either and before == (bool(days.of_week), bool(days.of_month)):
        cursor.stop("has 'or' between days of one sort", at=days.where)
    if days.of_week and days.of_month and not days.either:
        cursor.stop("names weekdays and days of the month: write 'or' between them", at=days.where)
    _read_of(cursor, days)
    if any(len(set(items)) < len(items) for items in (days.of_week, days.of_month)):
        cursor.stop("says one day twice", at=days.where)


def read_months(cursor: Cursor, days: DayPart) -> None:
    """A list of months: january, april to june."""
    if days.months:
        cursor.stop("says the months twice")
    while True:
        first = _month(cursor)
        if first is None:
            cursor.stop(f"goes on with {cursor.peek().shown} where a month is due")
        last = _month_after(cursor)
        if last is not None and last <= first:
            cursor.stop("has months that end before they begin")
        if len(days.months) == len(MONTHS):
            cursor.stop("says more months than there are")
        days.months.append(str(first) if last is None else f"{first}-{last}")
        days.again = days.again or last is not None or len(days.months) > 1
        mark = cursor.mark()
        if not cursor.joins():
            return
        if not _sees_month(cursor):
            cursor.back(mark)
            return


def _read_list(cursor: Cursor, days: DayPart) -> None:
    for _ in range(_MOST_ITEMS):
        _read_item(cursor, days)
        mark = cursor.mark()
        if not cursor.joins():
            return
        cursor.reads("on")
        if not starts_days(cursor) or _sees_month(cursor):
            cursor.back(mark)
            return
    cursor.stop("names more days than there are")


def _read_item(cursor: Cursor, days: DayPart) -> None:
    token = cursor.peek()
    if cursor.sees("weekdays", "weekday") and cursor.sees("nearest", ahead=1):
        _read_ordinal_item(cursor, days)
    elif cursor.reads_any("weekdays", "weekday"):
        days.of_week.append("1-5")
        days.again = days.again or token.text == "weekdays"
    elif cursor.reads_any("weekends", "weekend"):
        days.of_week.append("0,6")
        days.again = days.again or token.text == "weekends"
    elif token.text in DAY_NAMES or token.text in PLURAL_DAYS:
        _read_weekday(cursor, days)
    elif _sees_month(cursor):
        _read_date(cursor, days)
    elif cursor.reads_any("days", "day"):
        _read_numbers(cursor, days)
    elif _sees_day_and_month(cursor):
        days.of_month.append(_day(cursor, cursor.number() or 0, token))
    else:
        cursor.reads("the")
        _read_ordinal_item(cursor, days)


def _read_weekday(cursor: Cursor, days: DayPart) -> None:
    first = _weekday(cursor, days)
    if not cursor.reads_any(*_THROUGH):
        days.of_week.append(str(first))
        return
    days.again = True
    if cursor.peek().text not in DAY_NAMES and cursor.peek().text not in PLURAL_DAYS:
        cursor.stop(f"goes on with {cursor.peek().shown} where a weekday is due")
    last = _weekday(cursor, days)
    if last == first:
        cursor.stop("has weekdays that end where they begin")
    while first != last:
        days.of_week.append(str(first))
        first = (first + 1) % 7
    days.of_week.append(str(last))


def _weekday(cursor: Cursor, days: DayPart) -> int:
    word = cursor.take().text
    days.again = days.again or word in PLURAL_DAYS
    return PLURAL_DAYS[word] if word in PLURAL_DAYS else DAY_NAMES[word]


def _read_date(cursor: Cursor, days: DayPart) -> None:
    """january 1st, january 1: with the month before the day."""
    read_months(cursor, days)
    place = cursor.peek()
    cursor.reads("the")
    number = cursor.ordinal()
    if number is None:
        number = cursor.number()
    if number is None or cursor.sees(":"):
        cursor.stop(f"goes on with {place.shown} where a day of the month is due", at=place)
    days.of_month.append(_day(cursor, number, place))
    if cursor.peek().kind == "number" and len(cursor.peek().text) == 4:
        cursor.stop("names one date of one year: write it as 'on 2026-12-24 at 18:00'")


def _read_numbers(cursor: Cursor, days: DayPart) -> None:
    """day 15, days 1 to 7 and 20 to 30 by 2: the words of the fields of cron."""
    days.of_month.extend(read_numbers(cursor, 1, 31))
    days.exact = True


def read_numbers(cursor: Cursor, low: int, high: int) -> list[str]:
    """5, 10 to 20 and 30 to 50 by 5: as items of a field of cron."""
    items: list[str] = []
    while True:
        if len(items) > high - low:
            cursor.stop("says more numbers than there are")
        items.append(_number_item(cursor, low, high))
        mark = cursor.mark()
        if not cursor.joins():
            return items
        if cursor.peek().kind != "number":
            cursor.back(mark)
            return items


def _number_item(cursor: Cursor, low: int, high: int) -> str:
    first = _within(cursor, low, high)
    if not cursor.reads_any(*_THROUGH):
        return str(first)
    token = cursor.peek()
    last = _within(cursor, low, high)
    if last <= first:
        cursor.stop(f"counts from {first} to {last}", at=token)
    if not (cursor.sees("by") and cursor.peek(1).kind == "number"):
        return f"{first}-{last}"
    cursor.take()
    token = cursor.peek()
    step = _within(cursor, 1, high)
    if step > last - first:
        cursor.stop(f"has a step of {step} that is larger than its range", at=token)
    return f"{first}-{last}/{step}"


def _within(cursor: Cursor, low: int, high: int) -> int:
    token = cursor.peek()
    number = cursor.number()
    if number is None or not low <= number <= high:
        cursor.stop(
            f"goes on with {token.shown} where a number from {low} to {high} is due", at=token
        )
    return number


def _read_ordinal_item(cursor: Cursor, days: DayPart) -> None:
    token = cursor.peek()
    if cursor.reads("last"):
        _read_last(cursor, days)
        return
    if cursor.reads("weekday", "nearest") or cursor.reads("weekdays", "nearest"):
        cursor.reads("to")
        cursor.expect("the")
        days.of_month.extend(f"{_day(cursor, day, token)}W" for day in _ordinals(cursor))
        return
    if cursor.peek().kind == "number":
        days.of_month.append(f"L-{_within(cursor, 1, 30)}")
        cursor.expect("days", "day")
        for word in ("before", "the", "last", "day"):
            cursor.expect(word)
        return
    places = _ordinals(cursor)
    if cursor.peek().text in DAY_NAMES:
        _read_nth(cursor, days, places, token)
    elif cursor.reads_any("weekday"):
        if places != [1]:
            cursor.stop(
                "counts weekdays: only the first and the last of a month are known", at=token
            )
        days.of_month.append("1W")
        days.end_of = "first"
    else:
        _read_plain(cursor, days, places, token)


def _read_plain(cursor: Cursor, days: DayPart, places: list[int], token: Token) -> None:
    if cursor.reads_any("day", "days"):
        days.end_of = "first" if places == [1] else "other"
        days.open = token
    if cursor.reads_any(*_THROUGH):
        end = cursor.peek()
        last = _ordinal_day(cursor)
        if len(places) > 1 or int(last) <= places[0]:
            cursor.stop("has days that end before they begin", at=end)
        days.of_month.append(f"{_day(cursor, places[0], token)}-{last}")
        return
    days.of_month.extend(_day(cursor, place, token) for place in places)


def _ordinals(cursor: Cursor) -> list[int]:
    """the 1st and 3rd: all ordinals of a list, of days or of weekdays."""
    token = cursor.peek()
    first = cursor.ordinal()
    if first is None:
        cursor.stop(f"goes on with {token.shown} where a day is due")
    places = [first]
    while True:
        mark = cursor.mark()
        if not cursor.joins():
            return places
        cursor.reads("the")
        place = cursor.ordinal()
        if place is None:
            cursor.back(mark)
            return places
        if len(places) > 30:
            cursor.stop("says more days than there are")
        places.append(place)


def _read_nth(cursor: Cursor, days: DayPart, places: list[int], token: Token) -> None:
    weekday = DAY_NAMES[cursor.take().text]
    if not all(1 <= place <= 5 for place in places):
        cursor.stop("counts weekdays of a month beyond the 5th", at=token)
    days.open = token
    days.of_week.extend(f"{weekday}#{place}" for place in places)
    days.end_of = "first" if places == [1] else "other"


def _read_last(cursor: Cursor, days: DayPart) -> None:
    days.end_of = "last"
    days.open = cursor.peek()
    if cursor.reads("day"):
        days.of_month.append("L")
    elif cursor.reads("weekday"):
        days.of_month.append("LW")
    elif cursor.peek().text in DAY_NAMES:
        days.of_week.append(f"{DAY_NAMES[cursor.take().text]}L")
    else:
        cursor.stop(f"goes on with {cursor.peek().shown} where 'day', 'weekday' or a name is due")


def _ordinal_day(cursor: Cursor) -> str:
    token = cursor.peek()
    number = cursor.ordinal()
    if number is None:
        cursor.stop(f"goes on with {token.shown} where a day such as 15th is due", at=token)
    return _day(cursor, number, token)


def _day(cursor: Cursor, number: int, token: Token) -> str:
    if not 1 <= number <= 31:
        cursor.stop("names a day that no month has", at=token)
    return str(number)


def _read_of(cursor: Cursor, days: DayPart) -> None:
    """of the month, of january and july, of the quarter, of each month that has it."""
    token = cursor.peek()
    if _sees_month(cursor):  # 24 december
        read_months(cursor, days)
    elif cursor.reads("of"):
        days.open = None
        _read_whole(cursor, days)
    if "31" in days.of_month and not days.months and not days.exact:
        cursor.stop(
            "leaves out five months: write 'the last day of the month', or "
            "'the 31st of each month that has it'",
            at=token,
        )


def _read_whole(cursor: Cursor, days: DayPart) -> None:
    token = cursor.peek()
    if _sees_month(cursor):
        read_months(cursor, days)
        return
    if cursor.sees("every", "each") and cursor.peek(1).text in MONTH_NAMES:
        cursor.take()
        read_months(cursor, days)
        days.again = True
        return
    if not cursor.reads_any("the", "every", "each", "a"):
        cursor.stop(f"goes on with {token.shown} where 'the month' or the name of one is due")
    if days.months:
        cursor.stop("says the months twice", at=token)
    if not days.of_month and days.end_of is None:
        cursor.stop("does not say which of the weekdays: 'the first monday of the month'", at=token)
    days.again = True
    if cursor.reads("month"):
        days.exact = cursor.reads("that", "has", "it") or days.exact
        return
    ends = _QUARTERS if cursor.sees("quarter") else _YEARS if cursor.sees("year") else None
    if ends is None or len([*days.of_month, *days.of_week]) != 1 or days.end_of not in ends:
        cursor.stop()
    cursor.take()
    days.months.append(ends[days.end_of])


def _sees_day_and_month(cursor: Cursor) -> bool:
    return cursor.peek().kind == "number" and cursor.peek(1).text in MONTH_NAMES


def _sees_month(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token.kind == "word" and token.text in MONTH_NAMES


def _month(cursor: Cursor) -> int | None:
    return MONTH_NAMES[cursor.take().text] if _sees_month(cursor) else None


def _month_after(cursor: Cursor) -> int | None:
    """The month after "to", if that is what follows."""
    mark = cursor.mark()
    if cursor.reads_any(*_THROUGH):
        if _sees_month(cursor):
            return _month(cursor)
        cursor.back(mark)
    return None
