"""Cron in English. Each sentence is read back before it is given away: it says the same, or is not used."""

from __future__ import annotations

from collections.abc import Iterator

from foliot.errors import InvalidExpression
from foliot.when.cron import read_cron, write_cron
from foliot.when.cron_fields import values_of
from foliot.when.forms import Cron, Days, Weekdays
from foliot.when.natural import read
from foliot.when.natural_words import LONGEST_SENTENCE, MONTHS, WEEKDAYS, ordinal
from foliot.when.part import Part

_ALL = {"minute": 60, "hour": 24, "month": 12}
_MOST_TIMES = 6
_PLACES = ("", "first", "second", "third", "fourth", "fifth")
_FULL_DAYS = (1 << 32) - 2
_FULL_WEEK = (1 << 7) - 1


def describe_cron(cron: Cron) -> str:
    """A sentence that is read as this expression; if none is, the expression itself."""
    days = _days(cron)
    for sentence in (*_fixed(cron, days), *_stepping(cron, days), _general(cron, days)):
        if len(sentence) <= LONGEST_SENTENCE and _says(sentence, cron):
            return sentence
    return write_cron(cron)


def _says(sentence: str, cron: Cron) -> bool:
    try:
        text = read(sentence).text
        return _meaning(read_cron(Part(text, text, 0, "UTC"))) == _meaning(cron)
    except InvalidExpression:
        return False


def _meaning(cron: Cron) -> tuple[object, ...]:
    """All that a fire depends on, however it is written."""
    days: tuple[object, ...] | None
    weekdays: tuple[object, ...] | None
    days = (cron.days.mask, cron.days.last, cron.days.nearest, cron.days.last_weekday)
    weekdays = (cron.weekdays.mask, cron.weekdays.nth, cron.weekdays.last)
    if not cron.either_day:
        days = None if cron.days.mask == _FULL_DAYS else days
        weekdays = None if cron.weekdays.mask == _FULL_WEEK else weekdays
    both = days is None or weekdays is None or cron.either_day
    clock = (cron.seconds.mask, cron.minutes.mask, cron.hours.mask, cron.follows_real_time)
    return (*clock, cron.months.mask, days, weekdays, both)


# The time of day


def _fixed(cron: Cron, days: str) -> Iterator[str]:
    """on the first monday of the month at 08:30."""
    if cron.follows_real_time:
        return
    fields = [values_of(field.mask) for field in (cron.hours, cron.minutes, cron.seconds)]
    if len(fields[0]) * len(fields[1]) * len(fields[2]) > _MOST_TIMES:
        return
    seconds = fields[2] != [0]
    times = [
        f"{hour:02}:{minute:02}" + (f":{second:02}" if seconds else "")
        for hour in fields[0]
        for minute in fields[1]
        for second in fields[2]
    ]
    at = f"at {joined(times)}"
    named = _weekdays_only(cron)
    if named:
        yield f"every {named}{_in_months(cron)} {at}"
    yield f"{days} {at}" if days.startswith("on ") else f"every day{days} {at}"


def _weekdays_only(cron: Cron) -> str | None:
    """weekday; monday and friday: what may follow "every" as it is."""
    weekdays = cron.weekdays
    if cron.days.mask != _FULL_DAYS or weekdays.nth or weekdays.last or cron.either_day:
        return None
    if weekdays.mask == 0b0111110:
        return "weekday"
    names = [WEEKDAYS[number] for number in values_of(weekdays.mask)]
    return joined(names) if len(names) < 7 else None


def _stepping(cron: Cron, days: str) -> Iterator[str]:
    """every 10 minutes from 09:00 to 16:50 on weekdays."""
    if cron.seconds.mask != 1:
        return
    minutes, hours = values_of(cron.minutes.mask), values_of(cron.hours.mask)
    run = hours if hours == list(range(hours[0], hours[-1] + 1)) else None
    step = _step(minutes, 60) if cron.minutes.star else None
    every = _counted(step, "minute") if step else ""
    if len(minutes) == 1:
        yield from _by_hours(cron, hours, minutes[0], days)
    if step and len(hours) == _ALL["hour"]:
        within = "" if step == 1 else " within the hour"
        yield f"{every}{within}{_spaced(days)}"
    elif step and run:
        yield f"{every} from {hours[0]:02}:00 to {hours[-1]:02}:{60 - step:02}{_spaced(days)}"
    elif step and step > 1:
        yield f"{every} within the hour during {_numbers('hour', hours)}{_spaced(days)}"


def _by_hours(cron: Cron, hours: list[int], minute: int, days: str) -> Iterator[str]:
    at = f" at minute {minute}" if minute else ""
    step = _step(hours, 24) if cron.hours.star else None
    if len(hours) == _ALL["hour"]:
        yield f"every hour{at}{_spaced(days)}"
    elif len(hours) > 2 and hours == list(range(hours[0], hours[-1] + 1)):
        span = f"from {hours[0]:02}:{minute:02} to {hours[-1]:02}:{minute:02}"
        yield f"every hour {span}{_spaced(days)}"
    if step and step > 1:
        yield f"every {step} hours within the day{at}{_spaced(days)}"


def _general(cron: Cron, days: str) -> str:
    """Field by field; what follows a changed clock says so."""
    real = cron.follows_real_time
    seconds, minutes, hours = (
        values_of(field.mask) for field in (cron.seconds, cron.minutes, cron.hours)
    )
    parts = []
    if seconds != [0]:
        parts.append(_seconds(seconds))
    all_minutes = len(minutes) == _ALL["minute"] and real
    if all_minutes and seconds == [0]:
        parts.append("every minute")
    elif not all_minutes:
        parts.append(f"at {_numbers('minute', minutes)}")
    all_hours = len(hours) == _ALL["hour"] and real
    if not all_hours:
        parts.append(f"during {_numbers('hour', hours)}")
    if real and not all_minutes and not all_hours:
        parts.append("by elapsed time")
    return f"{' '.join(parts)}{_spaced(days)}"


def _seconds(values: list[int]) -> str:
    step = _step(values, 60)
    if step is None:
        return f"at {_numbers('second', values)}"
    return "every second" if step == 1 else f"every {step} seconds within the minute"


def _step(values: list[int], size: int) -> int | None:
    """The n of */n, if that is what the values are."""
    step = values[1] - values[0] if len(values) > 1 else size
    return step if step < size and values == list(range(0, size, step)) else None


def _counted(count: int, unit: str) -> str:
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _numbers(unit: str, values: list[int]) -> str:
    return f"{unit} {values[0]}" if len(values) == 1 else f"{unit}s {joined(_runs(values))}"


def _runs(values: list[int]) -> list[str]:
    """5, 10 to 20, 30 to 50 by 5."""
    step = values[1] - values[0] if len(values) > 3 else 0
    if step > 1 and values == list(range(values[0], values[-1] + 1, step)):
        return [f"{values[0]} to {values[-1]} by {step}"]
    return [
        f"{first} to {last}" if last > first else str(first) for first, last in _spans(values, 3)
    ]


def _spans(values: list[int], shortest: int) -> list[tuple[int, int]]:
    """Neighbours as spans, if there are enough of them."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    spans: list[tuple[int, int]] = []
    for run in runs:
        whole = [(run[0], run[-1])]
        spans += whole if len(run) >= shortest else [(value, value) for value in run]
    return spans


# Days


def _days(cron: Cron) -> str:
    """on the 1st and 15th of the month, on mondays in march; nothing, or months alone, for every day."""
    dates, weekdays = _dates(cron.days), _weekdays(cron.weekdays)
    if not cron.either_day:
        dates = [] if cron.days.mask == _FULL_DAYS else dates
        weekdays = [] if cron.weekdays.mask == _FULL_WEEK else weekdays
        if dates and weekdays:
            both = f"on {joined(_dates(cron.days, plain=True))} that are {joined(weekdays)}"
            return both + (_in_months(cron) or (" of the month" if _counts_weeks(cron) else ""))
    if dates and weekdays:
        between = "" if _in_months(cron) else " of the month"
        end = _in_months(cron) or (" of the month" if _counts_weeks(cron) else "")
        return f"on {joined(dates)}{between} or on {joined(weekdays)}{end}"
    if dates:
        return f"on {joined(dates)}{_of_months(cron)}"
    if weekdays:
        return (
            f"on {joined(weekdays)}{_of_months(cron) if _counts_weeks(cron) else _in_months(cron)}"
        )
    return _in_months(cron)


def _counts_weeks(cron: Cron) -> bool:
    return bool(cron.weekdays.nth or cron.weekdays.last)


def _dates(days: Days, *, plain: bool = False) -> list[str]:
    words = [
        f"{back} day{'s' if back > 1 else ''} before the last day" for back in days.last if back
    ]
    words += ["the last day"] if 0 in days.last else []
    words += ["the last weekday"] if days.last_weekday else []
    near = [ordinal(day) for day in days.nearest if day > 1]
    words += ["the first weekday"] if 1 in days.nearest else []
    words += [f"the weekday nearest the {joined(near)}"] if near else []
    values = values_of(days.mask)
    if not values:
        return words
    if plain or len(values) > 4 or values[-1] > 28:
        return [*words, _numbers("day", values)]
    return [f"the {joined([ordinal(value) for value in values])}", *words]


def _weekdays(weekdays: Weekdays) -> list[str]:
    words: list[str] = []
    if weekdays.mask == 0b0111110:
        words.append("weekdays")
    else:
        for first, last in _spans(values_of(weekdays.mask), 3):
            words.append(f"{WEEKDAYS[first]}s" + (f" to {WEEKDAYS[last]}s" if last > first else ""))
    for number in sorted({weekday for weekday, _ in weekdays.nth}):
        places = [_PLACES[place] for weekday, place in weekdays.nth if weekday == number]
        words.append(f"the {joined(places)} {WEEKDAYS[number]}")
    return [*words, *(f"the last {WEEKDAYS[number]}" for number in values_of(weekdays.last))]


def _months(cron: Cron) -> list[str]:
    values = values_of(cron.months.mask)
    if len(values) == _ALL["month"]:
        return []
    return [
        MONTHS[first - 1] + (f" to {MONTHS[last - 1]}" if last > first else "")
        for first, last in _spans(values, 3)
    ]


def _in_months(cron: Cron) -> str:
    months = _months(cron)
    return f" in {joined(months)}" if months else ""


def _of_months(cron: Cron) -> str:
    months = _months(cron)
    return f" of every {joined(months)}" if months else " of the month"


def _spaced(days: str) -> str:
    return f" {days.strip()}" if days else ""


def joined(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
