"""What a sentence has said so far, and the rule that nothing is said twice."""

from __future__ import annotations

from typing import NamedTuple

from foliot.when.natural_days import DayPart
from foliot.when.natural_times import Time
from foliot.when.natural_words import Cursor, Token

WHOLE = {"second": "minute", "minute": "hour", "hour": "day"}
HIGHEST = {"second": 59, "minute": 59, "hour": 23}


class Every(NamedTuple):
    """every 15 minutes, every 2 hours and 30 minutes: whole numbers of units, largest first."""

    amounts: tuple[tuple[int, str], ...]
    token: Token


class Sentence:
    """What has been said so far."""

    def __init__(self) -> None:
        self.every: Every | None = None
        self.rate: tuple[int, str, Token] | None = None  # twice a day
        self.fields: dict[str, str] = {}  # of cron, by unit
        self.times: list[Time] = []
        self.span: tuple[Time, Time] | None = None
        self.days = DayPart()
        self.repeats = False  # "every", "each", "daily": it is said to come again
        self.elapsed = False  # hours and minutes follow the clock through its changes
        self.part_of_day: Token | None = None
        self.count: int | None = None
        self.starting: str | None = None  # a date and time, as ISO 8601 has it
        self.start: Token | None = None


def set_every(cursor: Cursor, sentence: Sentence, every: Every) -> None:
    if sentence.every or sentence.rate:
        cursor.stop("says twice how often", at=every.token)
    sentence.repeats = True
    sentence.every = every


def set_field(cursor: Cursor, sentence: Sentence, unit: str, text: str, token: Token) -> None:
    if unit in sentence.fields:
        cursor.stop(f"says the {unit}s twice", at=token)
    if int(text.removeprefix("*/").split(",")[0].split("-")[0]) > HIGHEST[unit]:
        cursor.stop(f"has {unit}s that no {WHOLE[unit]} has", at=token)
    sentence.fields[unit] = text


def add_times(cursor: Cursor, sentence: Sentence, times: list[Time]) -> None:
    if sentence.times:
        cursor.stop("says the time of day twice", at=times[0].token)
    sentence.times = times
