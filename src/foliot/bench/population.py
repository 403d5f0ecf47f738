"""Population: the schedules of the bench, by their numbers, and which of them a second is the time of.

That is worked out from the local times of the zones and the numbers alone, by other means than the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from itertools import combinations, pairwise
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec

ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Moscow",
    "Europe/Istanbul",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "America/Bogota",
    "America/St_Johns",
    "Africa/Lagos",
    "Africa/Johannesburg",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "Pacific/Auckland",
)
NAMES: Final = "bench-"  # how the names of all schedules of the bench begin
MOST: Final = 20_000_000
_EXPRESSIONS: Final = 10_000
_ROLES: Final = 20
_PRIME: Final = 10_000_019  # it has no factor in common with any of the numbers below
_HOUR: Final = 3600
_DAY: Final = 86_400
_MONTH: Final = 28  # days that every month has
_YEAR: Final = 12 * _MONTH * _DAY
# Of 25 expressions, 9 are of the even hours, 9 of the odd ones, 7 of one hour a day.
_OF: Final = 25
_EVEN: Final = 9
_ODD: Final = 18
_MINUTE: Final = 60
_AROUND: Final = 2  # days before and after today on which it might still be, or already be, today


class Item(msgspec.Struct, frozen=True, gc=False):
    """One schedule, as `schedule_many` is told of it."""

    number: int
    name: str
    expression: str
    timezone: str
    stateful: bool

    @property
    def overlap(self) -> Literal["skip", "allow"]:
        return "skip" if self.stateful else "allow"


class Population(msgspec.Struct, frozen=True, dict=True):
    """`count` schedules over 10,000 expressions (fewer of fewer) in 20 zones: 5 % paused, 10 % stateful, and of the
    share `own` each has a trigger of its own."""

    count: int
    own: float = 0.1

    @cached_property
    def expressions(self) -> int:
        return max(1, min(_EXPRESSIONS, self.count // 1000))

    @cached_property
    def pairs(self) -> int:
        """Of an expression and a zone."""
        return self.expressions * len(ZONES)

    def item(self, number: int) -> Item:
        if self._is_own(number):
            text, zone = _own_text(number), ZONES[number % len(ZONES)]
        else:
            expression, place = divmod(number * _PRIME % self.pairs, len(ZONES))
            text, zone = _text(expression), ZONES[place]
        return Item(number, f"{NAMES}{number}", text, zone, stateful=self._role(number) in (1, 2))

    def is_paused(self, number: int) -> bool:
        return self._role(number) == 0

    def due(self, second: int) -> Iterator[int]:
        """The numbers of those that fire then."""
        for place, name in enumerate(ZONES):
            local = datetime.fromtimestamp(second, ZoneInfo(name))
            for expression in _matching(local):
                if expression < self.expressions:
                    yield from self._of_pair(expression * len(ZONES) + place)
            if local.day <= _MONTH:
                number = _own_number(local)
                here = number < self.count and number % len(ZONES) == place
                if here and self._is_own(number) and not self.is_paused(number):
                    yield number

    @cached_property
    def due_per_second(self) -> float:
        """On average."""
        shared = self.count * (1 - self.own) * (1 - 1 / _ROLES)
        return shared * (_ODD / _OF / (2 * _HOUR) + (_OF - _ODD) / _OF / _DAY)

    def _of_pair(self, pair: int) -> Iterator[int]:
        first = pair * pow(_PRIME, -1, self.pairs) % self.pairs
        for number in range(first, self.count, self.pairs):
            if not self.is_paused(number) and not self._is_own(number):
                yield number

    def _role(self, number: int) -> int:
        # All roles among those that share a pair: these are `pairs` apart.
        return (number + number // self.pairs) % _ROLES

    def _is_own(self, number: int) -> bool:
        return self._role(number) >= _ROLES - round(self.own * _ROLES)


class Crowd(msgspec.Struct, frozen=True, dict=True):
    """Schedules that are due at a second of every minute, or all at one second of the day: 10 % stateful, 10 % with
    triggers of their own. `today` is the day it is around."""

    count: int
    first: int  # number of the first of them
    name: str
    today: int  # seconds since 1970
    at: int | None = None  # the second of the day; None: spread over every minute

    def item(self, place: int) -> Item:
        zone = ZONES[place // _MINUTE % len(ZONES)]
        if self.at is None:
            when = f"{place % _MINUTE} * *"
        else:
            local = datetime.fromtimestamp(self.at, ZoneInfo(zone))
            when = f"{local.second} {local.minute} {local.hour}"
        days = "* *"
        role = (place + place // _MINUTE) % 10
        if role == 0:
            days = self._days[place // 10 % len(self._days)]
        name = f"{NAMES}{self.name}-{place}"
        return Item(self.first + place, name, f"{when} {days} *", zone, stateful=role == 1)

    def due(self, second: int) -> range:
        """The numbers of those that fire then."""
        if self.at is not None:
            return range(self.first, self.first + self.count) if second == self.at else range(0)
        return range(self.first + second % _MINUTE, self.first + self.count, _MINUTE)

    @cached_property
    def _days(self) -> list[str]:
        """Days and months that all have today among them, each of them different."""
        near = {
            (day.day, day.month)
            for apart in range(-_AROUND, _AROUND + 1)
            for day in [datetime.fromtimestamp(self.today + apart * _DAY, ZoneInfo("UTC"))]
        }
        days = [day for day in range(1, 32) if day not in {day for day, _ in near}]
        months = [month for month in range(1, 13) if month not in {month for _, month in near}]
        return [
            f"{_all_but(31, off)} {_all_but(12, out)}"
            for off in combinations(days, 2)
            for out in combinations(months, 3)
        ]


def _text(expression: int) -> str:
    """The expression of this number."""
    row, column = divmod(expression, _OF)
    if column < _ODD:
        minute, second = _minute(row * _EVEN + column % _EVEN)
        return f"{second} {minute} {'*/2' if column < _EVEN else '1-23/2'} * * *"
    place = row * (_OF - _ODD) + column - _ODD
    minute, second = _minute(place)
    return f"{second} {minute} {place % 24} * * *"


def _minute(place: int) -> tuple[int, int]:
    return divmod(place * _PRIME % _HOUR, _MINUTE)


def _matching(local: datetime) -> list[int]:
    """The numbers of the expressions that name this local time."""
    place = (local.minute * _MINUTE + local.second) * pow(_PRIME, -1, _HOUR) % _HOUR
    found = [place // _EVEN * _OF + place % _EVEN + (_EVEN if local.hour % 2 else 0)]
    each = _OF - _ODD
    if place < _EXPRESSIONS // _OF * each and place % 24 == local.hour:
        found.append(place // each * _OF + _ODD + place % each)
    return found


def _own_text(number: int) -> str:
    """Once a year, and of no other number."""
    day, second = divmod(number * _PRIME % _YEAR, _DAY)
    month, day = divmod(day, _MONTH)
    hour, second = divmod(second, _HOUR)
    minute, second = divmod(second, _MINUTE)
    return f"{second} {minute} {hour} {day + 1} {month + 1} *"


def _own_number(local: datetime) -> int:
    day = (local.month - 1) * _MONTH + local.day - 1
    second = local.hour * _HOUR + local.minute * _MINUTE + local.second
    return (day * _DAY + second) * pow(_PRIME, -1, _YEAR) % _YEAR


def _all_but(most: int, off: tuple[int, ...]) -> str:
    """The numbers from 1 to `most` without these, as ranges."""
    edges = [0, *off, most + 1]
    parts = [
        f"{low + 1}-{high - 1}" if high - low > 2 else str(low + 1)
        for low, high in pairwise(edges)
        if high - low > 1
    ]
    return ",".join(parts)
