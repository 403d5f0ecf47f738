"""What a sentence says, as a canonical expression: cron, an ISO 8601 interval, or a rule of weeks.

What the expressions cannot say is refused; nothing that was said is left out.
"""

from __future__ import annotations

from foliot.when.natural_checks import check_clear, check_open, check_part_of_day
from foliot.when.natural_sentence import Every, Sentence
from foliot.when.natural_span import Stepping, span_fields
from foliot.when.natural_stars import starred
from foliot.when.natural_words import WEEKDAYS, Stop, Token

_DESIGNATORS = {
    "second": "S",
    "minute": "M",
    "hour": "H",
    "day": "D",
    "week": "W",
    "month": "M",
    "year": "Y",
}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_FINEST = ("second", "minute", "hour")
_COARSE = ("week", "month", "quarter", "year")
_STEPS = {"second": 60, "minute": 60, "hour": 24}
_RULE_DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
# Days and weeks are counted from the beginning of 1970, so that the same words mean the same days for everyone, and
# weeks from a Monday, so that a weekend is of one week.
_FIRST_MONDAY = 5


def expression_of(sentence: Sentence) -> str:
    """The canonical text of a recurring schedule."""
    check_part_of_day(sentence)
    check_open(sentence)
    if sentence.starting is not None or sentence.count is not None:
        return _anchored(sentence)
    if sentence.rate is not None:
        return _rate(sentence)
    if sentence.every is None:
        return _of_days(sentence)
    if len(sentence.every.amounts) > 1:
        return _plain_interval(sentence, sentence.every)
    unit = sentence.every.amounts[0][1]
    if unit in _FINEST:
        return _of_clock(sentence, sentence.every)
    return _CALENDAR[unit](sentence, sentence.every)


# Intervals


def _anchored(sentence: Sentence) -> str:
    """every month, 5 times, starting 2026-01-31 at 09:00."""
    every = sentence.every
    place = sentence.start
    if every is None or sentence.starting is None:
        raise _stop(
            place,
            "counts times without a start: 'every hour, 5 times, starting 2026-01-01 at 09:00'",
        )
    if _says_more(sentence):
        raise _stop(place, "has a start, which goes with 'every 2 weeks' and the like alone")
    count = "" if sentence.count is None else str(sentence.count)
    return f"R{count}/{sentence.starting}/{_duration(every.amounts)}"


def _plain_interval(sentence: Sentence, every: Every) -> str:
    if _says_more(sentence):
        raise _stop(
            every.token, "says when as well as every so often, which only a step of the clock can"
        )
    return _duration(every.amounts)


def _says_more(sentence: Sentence) -> bool:
    days = sentence.days
    return bool(
        sentence.times
        or sentence.span
        or sentence.fields
        or sentence.rate
        or days.given
        or days.months
    )


def _duration(amounts: tuple[tuple[int, str], ...]) -> str:
    plain = [
        (count * 3, "month") if unit == "quarter" else (count, unit) for count, unit in amounts
    ]
    if len(plain) > 1 and any(unit == "week" for _, unit in plain):
        plain = [(count * 7, "day") if unit == "week" else (count, unit) for count, unit in plain]
    dates = "".join(f"{count}{_DESIGNATORS[unit]}" for count, unit in plain if unit not in _SECONDS)
    times = "".join(f"{count}{_DESIGNATORS[unit]}" for count, unit in plain if unit in _SECONDS)
    return f"P{dates}T{times}" if times else f"P{dates}"


# Steps of the clock, in cron


def _of_clock(sentence: Sentence, every: Every) -> str:
    count, unit = every.amounts[0]
    if sentence.times:
        raise _stop(
            sentence.times[0].token,
            f"has a time of day with 'every {unit}': one of them is too much",
        )
    if not _says_more(sentence) and (count, unit) not in ((1, "minute"), (1, "hour")):
        return _duration(every.amounts)
    if unit in sentence.fields:
        raise _stop(every.token, f"says the {unit}s twice")
    if count >= _STEPS[unit] or _STEPS[unit] % count:
        raise _stop(
            every.token,
            f"has {count} {unit}s, which divide no {_whole(unit)}: not with days or spans",
        )
    _check_finer(sentence, unit, every.token)
    if sentence.span is not None:
        if sentence.fields:
            raise _stop(
                sentence.span[0].token, "has a span of the day and parts of the hour as well"
            )
        fields = span_fields(Stepping(count, unit, wraps=not sentence.days.given), sentence.span)
    else:
        fields = {unit: "*" if count == 1 else f"*/{count}"} | sentence.fields
    return _cron(sentence, fields)


def _check_finer(sentence: Sentence, unit: str, token: Token) -> None:
    if unit == "minute" and sentence.fields.get("second", "0").startswith("*"):
        raise _stop(token, "says twice how often")
    _check_steps(sentence, token)


def _check_steps(sentence: Sentence, token: Token | None) -> None:
    for unit, text in sentence.fields.items():
        step = text.removeprefix("*/")
        if text.startswith("*") and not 1 < int(step) <= _STEPS[unit] - 1:
            raise _stop(
                token, f"has a step of {step} {unit}s, which no {_whole(unit)} has room for"
            )


def _whole(unit: str) -> str:
    return {"second": "minute", "minute": "hour", "hour": "day"}[unit]


# Days, in cron


def _of_days(sentence: Sentence) -> str:
    days = sentence.days
    if sentence.span is not None:
        raise _stop(
            sentence.span[0].token, "has a span of the day and does not say how often in it"
        )
    if not (days.given or sentence.fields or sentence.times):
        raise _stop(sentence.start, "does not say how often")
    if not days.given and not sentence.fields and not sentence.repeats:
        raise _stop(sentence.start, "does not say on which days: 'every day at 9'")
    check_clear(sentence)
    return _cron(sentence, _times(sentence))


def _every_day(sentence: Sentence, every: Every) -> str:
    count, days = every.amounts[0][0], sentence.days
    if sentence.span is not None or sentence.fields:
        raise _stop(
            every.token, "has a span or parts of an hour: write 'every hour', 'every 5 minutes'"
        )
    if count == 1:
        if days.of_month or (len(days.of_week) == 1 and days.of_week[0].isdigit()):
            raise _stop(days.where, "says every day and names some")
        check_clear(sentence)
        return _cron(sentence, _times(sentence))
    if days.given or days.months or len(sentence.times) > 1:
        raise _stop(every.token, f"says more than one time of day with every {count} days")
    return f"R/1970-01-01T{_clock(sentence)}/P{count}D"


def _every_week(sentence: Sentence, every: Every) -> str:
    count, days = every.amounts[0][0], sentence.days
    if sentence.span is not None or sentence.fields or days.of_month:
        raise _stop(every.token, "has more with its weeks than weekdays and a time of day")
    if any(not item.isdigit() and item not in ("1-5", "0,6") for item in days.of_week):
        raise _stop(days.where, "counts weekdays of the month and weeks as well")
    if not days.given:
        _check_no_time(sentence, "week")
        days.of_week = ["0"]
    if count == 1:
        return _cron(sentence, _times(sentence))
    if days.months or len(sentence.times) > 1:
        raise _stop(
            every.token, f"says more than weekdays and one time of day with every {count} weeks"
        )
    return _weeks(sentence, count)


def _weeks(sentence: Sentence, count: int) -> str:
    numbers = sorted({day for item in sentence.days.of_week for day in _weekday_numbers(item)})
    if len(numbers) == 1:
        day = _FIRST_MONDAY + (numbers[0] - 1) % 7
        return f"R/1970-01-{day:02}T{_clock(sentence)}/P{count}W"
    names = ",".join(_RULE_DAYS[number] for number in numbers)
    start = f"1970010{_FIRST_MONDAY}T{_clock(sentence).replace(':', '')}"
    return f"DTSTART:{start}\nRRULE:FREQ=WEEKLY;INTERVAL={count};BYDAY={names}"


def _weekday_numbers(item: str) -> list[int]:
    known = {"1-5": [1, 2, 3, 4, 5], "0,6": [0, 6]}
    return known[item] if item in known else [int(item) % len(WEEKDAYS)]


def _every_month(sentence: Sentence, every: Every) -> str:
    return _every_months(sentence, every, every.amounts[0][0])


def _every_quarter(sentence: Sentence, every: Every) -> str:
    days = sentence.days
    if days.given and days.months not in (["1,4,7,10"], ["3,6,9,12"]) and days.of_month != ["1"]:
        raise _stop(
            days.where, "does not say of which month of the quarter: 'the last day of the quarter'"
        )
    return _every_months(sentence, every, 3 * every.amounts[0][0])


def _every_months(sentence: Sentence, every: Every, count: int) -> str:
    days = sentence.days
    _check_dates(sentence, every)
    if days.months and every.amounts[0][1] == "month":
        raise _stop(every.token, "says every month and names some")
    if any(item.isdigit() or item in ("1-5", "0,6") for item in days.of_week):
        raise _stop(
            days.where, "does not say which of the weekdays of the month: 'the first monday'"
        )
    if not days.given:
        _check_no_time(sentence, "month")
        if 12 % count:
            return f"R/1970-01-01T00:00:00/P{count}M"
        days.of_month = ["1"]
    if 12 % count:
        raise _stop(every.token, f"has {count} months, which divide no year: not with days")
    if count > 1 and not days.months:
        days.months = [f"*/{count}" if count < 12 else "1"]
    return _cron(sentence, _times(sentence))


def _every_year(sentence: Sentence, every: Every) -> str:
    count, days = every.amounts[0][0], sentence.days
    _check_dates(sentence, every)
    if not days.given:
        _check_no_time(sentence, "year")
        if days.months:
            raise _stop(every.token, "does not say on which day of the month")
        days.of_month, days.months = ["1"], ["1"]
        if count > 1:
            return f"R/1970-01-01T00:00:00/P{count}Y"
    elif count > 1 or not days.months:
        raise _stop(days.where, "does not say of which month, or says it of several years")
    return _cron(sentence, _times(sentence))


def _check_dates(sentence: Sentence, every: Every) -> None:
    if sentence.span is not None or sentence.fields:
        raise _stop(
            every.token, "has a span or parts of an hour: write 'every hour', 'every 5 minutes'"
        )


def _check_no_time(sentence: Sentence, unit: str) -> None:
    if sentence.times:
        raise _stop(sentence.times[0].token, f"has a time of day, and no day of the {unit}")


_CALENDAR = {
    "day": _every_day,
    "week": _every_week,
    "month": _every_month,
    "quarter": _every_quarter,
    "year": _every_year,
}


# twice a day


def _rate(sentence: Sentence) -> str:
    assert sentence.rate is not None
    count, unit, token = sentence.rate
    if count == 1:
        sentence.rate, sentence.every = None, Every(((1, unit),), token)
        return expression_of(sentence)
    if sentence.span is not None or sentence.fields:
        raise _stop(token, "has a span or parts of an hour with so many times")
    if sentence.times:
        if unit != "day" or len(sentence.times) != count:
            raise _stop(sentence.times[0].token, f"has not {count} times of day")
        fields = _times(sentence)
    else:
        fields = _spread(count, unit, token)
    if sentence.days.of_month:
        raise _stop(sentence.days.where, "names days of the month with so many times")
    check_clear(sentence)
    return _cron(sentence, fields)


def _spread(count: int, unit: str, token: Token) -> dict[str, str]:
    finer = {"minute": "second", "hour": "minute", "day": "hour"}.get(unit)
    if finer is None:
        raise _stop(
            token, f"does not say on which days of the {unit}: 'on mondays and thursdays at 9'"
        )
    if _STEPS[finer] % count:
        raise _stop(token, f"has {count} times, which do not divide a {unit}: name the times")
    values = range(0, _STEPS[finer], _STEPS[finer] // count)
    return {finer: ",".join(str(value) for value in values)}


# Putting it together


def _times(sentence: Sentence) -> dict[str, str]:
    """The fields of the times of day; midnight if none is said."""
    if sentence.fields:
        if sentence.times:
            raise _stop(sentence.times[0].token, "has a time of day and parts of an hour as well")
        if not sentence.fields.get("hour", "*").startswith("*") and len(sentence.fields) == 1:
            raise _stop(sentence.start, "names hours and does not say how often in them")
        _check_steps(sentence, sentence.start)
        return dict(sentence.fields)
    times = sentence.times
    if not times:
        return {"minute": "0", "hour": "0"}
    parts = [sorted({time[place] for time in times}) for place in range(3)]
    if len(parts[0]) * len(parts[1]) * len(parts[2]) != len(times):
        raise _stop(times[1].token, "has times of day with other minutes: make it two schedules")
    hour, minute, second = (",".join(str(value) for value in part) for part in parts)
    return {"hour": hour, "minute": minute, "second": second}


def _clock(sentence: Sentence) -> str:
    time = sentence.times[0] if sentence.times else None
    return f"{time.hour:02}:{time.minute:02}:{time.second:02}" if time else "00:00:00"


def _cron(sentence: Sentence, fields: dict[str, str]) -> str:
    """The fields that are not given are any above the finest that is, and 0 below it."""
    _check_clear_for(sentence)
    finest = min(_FINEST.index(unit) for unit in fields)
    clock = {
        unit: fields.get(unit, "0" if _FINEST.index(unit) < finest else "*") for unit in _FINEST
    }
    days = sentence.days
    dates, weekdays = (",".join(items) or "*" for items in (days.of_month, days.of_week))
    if sentence.elapsed and "*" not in (clock["minute"][0], clock["hour"][0]):
        clock["minute"], clock["hour"] = starred(
            sentence.start, (clock["minute"], 0, 59), (clock["hour"], 0, 23)
        )
    if days.both:
        dates, weekdays = starred(days.where, (dates, 1, 31), (weekdays, 0, 6))
    text = [*clock.values(), dates, ",".join(days.months) or "*", weekdays]
    return " ".join(text[1:] if text[0] == "0" else text)


def _check_clear_for(sentence: Sentence) -> None:
    if sentence.every is None or sentence.every.amounts[0][1] not in _COARSE:
        check_clear(sentence)


def _stop(token: Token | None, problem: str) -> Stop:
    return Stop(token.start if token else 0, problem)
