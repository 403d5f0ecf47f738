"""Steps of the clock within a span of the day, as fields of cron, where cron can say it."""

from __future__ import annotations

from typing import NamedTuple

from foliot.when.natural_times import Time
from foliot.when.natural_words import Stop


class Stepping(NamedTuple):
    step: int
    unit: str
    wraps: bool  # the span may go on over midnight: no days are named


def span_fields(stepping: Stepping, span: tuple[Time, Time]) -> dict[str, str]:
    """Both ends belong to the span: every hour between 9am and 5pm is at 17:00, too."""
    first, last = span
    if first.seconds > last.seconds and not stepping.wraps:
        raise Stop(
            first.token.start, "has a span over midnight, and days: on which day does it end?"
        )
    if stepping.unit == "hour":
        return _hours(stepping.step, first, last)
    if first.second:
        raise Stop(first.token.start, "has a span that begins within a minute")
    if stepping.unit == "minute":
        return _minutes(stepping.step, first, last)
    if first.minute or last.minute != 59:
        raise Stop(
            last.token.start, "has a span that cron cannot say: write 'between 09:00 and 16:59'"
        )
    return {
        "second": _step(stepping.step),
        "minute": "*",
        "hour": _hour_range(first.hour, last.hour, 1),
    }


def _hours(count: int, first: Time, last: Time) -> dict[str, str]:
    if (first.minute, first.second) not in ((0, 0), (last.minute, last.second)):
        raise Stop(first.token.start, "has a span that does not begin at a full hour")
    end = last.hour if (last.minute, last.second) >= (first.minute, first.second) else last.hour - 1
    return {
        "second": str(first.second),
        "minute": str(first.minute),
        "hour": _hour_range(first.hour, end, count),
    }


def _hour_range(first: int, last: int, count: int) -> str:
    if first > last:
        hours = [hour % 24 for hour in range(first, last + 25, count)]
        return ",".join(str(hour) for hour in sorted(set(hours)))
    last -= (last - first) % count
    if first == last:
        return str(first)
    return f"{first}-{last}" if count == 1 else f"{first}-{last}/{count}"


def _minutes(count: int, first: Time, last: Time) -> dict[str, str]:
    whole = first.minute == 0 and last.minute >= 60 - count
    if whole:
        return {"minute": _step(count), "hour": _hour_range(first.hour, last.hour, 1)}
    if first.hour != last.hour or first.minute > last.minute:
        end = f"{(last.hour - 1) % 24:02}:59" if last.minute == 0 else f"{last.hour:02}:59"
        raise Stop(
            last.token.start,
            "has a span that cron cannot say: one that begins with an hour and ends with one, "
            f"'between {first.hour:02}:00 and {end}', it can",
        )
    if last.minute - first.minute < count:
        raise Stop(last.token.start, "has a span that is shorter than its step")
    step = "" if count == 1 else f"/{count}"
    return {"minute": f"{first.minute}-{last.minute}{step}", "hour": str(first.hour)}


def _step(count: int) -> str:
    return "*" if count == 1 else f"*/{count}"
