"""When something fires: instants in order, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from foliot.when.civil import EARLIEST
from foliot.when.forms import Instant

_HOUR: Final = 3600


class Timetable(Protocol):
    def next_after(self, moment: int) -> int | None:
        """The first fire after this moment, in whole seconds since 1970; None if there is none any more."""
        ...

    def __hash__(self) -> int: ...


class InstantTimetable:
    """Once."""

    __slots__ = ("_at",)

    def __init__(self, instant: Instant) -> None:
        self._at = instant.at

    def next_after(self, moment: int) -> int | None:
        return self._at if self._at > moment else None


def between(timetable: Timetable, start: int, end: int) -> Iterator[int]:
    """The fires after `start`, up to and including `end`."""
    found = timetable.next_after(start)
    while found is not None and found <= end:
        yield found
        found = timetable.next_after(found)


def last_between(timetable: Timetable, start: int, end: int, count: int) -> list[int]:
    """The last so many of these, first first: by looking back further and further, not from the start."""
    found: list[int] = []
    high, reach = end, _HOUR
    while len(found) < count and high > start:
        low = max(start, high - reach)
        some = list(between(timetable, low, high))
        found[:0] = some
        high = low
        if len(some) * 4 < count:
            reach *= 4
    return found[-count:]


def count_between(timetable: Timetable, start: int, end: int, *, limit: int = 1_000_000) -> int:
    """How many fires there are after `start`, up to and including `end`; counting stops at `limit`."""
    count = 0
    for _ in between(timetable, start, end):
        count += 1
        if count >= limit:
            break
    return count


def last_until(timetable: Timetable, moment: int, *, since: int = EARLIEST) -> int | None:
    """The last fire up to and including `moment`, and after `since`: by halving, not by walking."""
    span = 64
    found = timetable.next_after(max(moment - span, since))
    while (found is None or found > moment) and moment - span > since:
        span *= 4
        found = timetable.next_after(max(moment - span, since))
    if found is None or found > moment:
        return None
    high = moment  # no fire is in (high, moment]
    while found < high:
        middle = (found + high) // 2
        after = timetable.next_after(middle)
        if after is not None and after <= moment:
            found = after
        else:
            high = middle
    return found
