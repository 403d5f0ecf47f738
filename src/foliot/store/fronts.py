"""Where a process goes on among those who wait at a gate.

The lanes in which jobs wait there have their turns: places of different strategies cannot be compared, so one order of
all would let through one lane and starve another. A turn lasts a moment, in which the gate's slots go to one lane from
where the last job was found on, and not from its front: of those that have gone from there the index is full of dead
entries while somebody holds an old snapshot. With the next turn, the next lane is looked at from its very front. So who
came to wait before that place meanwhile, or was passed over, is passed for a moment only; and who was held by this
process, not even that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from foliot.clock import Clock
from foliot.store.reply import Rows

Place = tuple[int, int, int, str]  # lane, band, rank, id

_TURN: Final = 1.0  # seconds
_SHORT: Final = 0.1  # where nobody is left of the lanes whose turn it is
_LONG: Final = 5.0
_COST: Final = 20  # a turn is so many times as long as the look from the front took,
_FIRST: Final[Place] = (-(2**63), -(2**15), -(2**63), "00000000-0000-0000-0000-000000000000")
_LAST: Final = (2**15 - 1, 2**63 - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff")
_MOST_KNOWN: Final = 50_000  # gates


class _Front:
    __slots__ = ("looked", "out", "place", "took")

    def __init__(self) -> None:
        self.place: Place = _FIRST  # of the last that was found
        self.looked = -inf  # when the turn began
        self.took = 0.0  # seconds, with all that was done beside it
        self.out = False  # fewer were found than asked for

    def is_over(self, now: float) -> bool:
        turn = max(_SHORT if self.out else _TURN, min(_COST * self.took, _LONG))
        return now >= self.looked + turn


class Fronts:
    """Of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[tuple[int, str], _Front] = {}

    def look(self, partition: int, numbers: Mapping[str, int], *, anew: bool = False) -> Fronting:
        """At these gates, for so many at each; `anew`: with the next turn of each."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        return Fronting(self._known, self._clock, partition, numbers, anew=anew)


class Fronting:
    """One look at the fronts of some gates."""

    def __init__(
        self,
        known: dict[tuple[int, str], _Front],
        clock: Clock,
        partition: int,
        numbers: Mapping[str, int],
        *,
        anew: bool,
    ) -> None:
        self._known = known
        self._clock = clock
        self._partition = partition
        self.numbers = numbers
        self._began = now = clock.monotonic()
        self.starts: dict[str, Place] = {}
        self.whole: set[str] = set()  # gates where those before the start come after all others
        for name in numbers:
            front = known.get((partition, name))
            if front is None or front.place == _FIRST:
                self.starts[name] = _FIRST
            elif anew or front.is_over(now):
                self.starts[name] = (front.place[0], *_LAST)
                self.whole.add(name)
            else:
                self.starts[name] = front.place

    def learn(
        self, found: Iterable[tuple[str, Place]], waits: Iterable[tuple[str, Place]] = ()
    ) -> None:
        """Of what was found at these gates, where; and who has to wait now, for which gate."""
        places: dict[str, list[Place]] = {name: [] for name in self.numbers}
        for name, place in found:
            places[name].append(place)
        for name, seen in places.items():
            if seen or (self._partition, name) in self._known:
                self._move(name, seen)
        for name, place in waits:
            front = self._known.get((self._partition, name))
            if front is not None and front.place[0] == place[0]:  # it takes no other lane's turn
                front.place = min(front.place, place)

    def _move(self, name: str, seen: list[Place]) -> None:
        front = self._known.setdefault((self._partition, name), _Front())
        start = self.starts[name]
        if name in self.whole or start == _FIRST:
            front.looked = self._clock.monotonic()
            front.took = front.looked - self._began
        front.out = len(seen) < self.numbers[name]
        if seen:
            front.place = max(seen, key=lambda place: (place < start, place))


def places_of(admitted: Rows) -> list[tuple[str, Place]]:
    """By rows of admit_held."""
    return [(name, (lane, band, rank, id)) for lane, _, name, band, rank, id in admitted]
