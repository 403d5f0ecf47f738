"""Awaited: the jobs whose end somebody waits for. They are told of it right after the commit.

Whoever waits names their jobs by hints, again and again; nothing is written into a store for it, and a worker that
nobody waits for does nothing. What is not named again is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from foliot.clock import Clock
from foliot.ids import Mark, mark_of
from foliot.model.job import Outcome

_LASTS: Final = 30.0  # seconds; those who wait name their jobs every few
_MOST: Final = 100_000  # marks, about ten megabytes; of more, the oldest are left to polling


class Awaited:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: dict[Mark, float] = {}  # each with when it was last named, oldest first
        self._newest = 0.0

    def __bool__(self) -> bool:
        return bool(self._marks)

    def add(self, marks: Iterable[Mark]) -> None:
        now = self._newest = self._clock.monotonic()
        for mark in marks:
            self._marks.pop(mark, None)
            self._marks[mark] = now
        while len(self._marks) > _MOST or self._marks[next(iter(self._marks))] < now - _LASTS:
            del self._marks[next(iter(self._marks))]

    def ended(self, outcomes: Sequence[Outcome]) -> tuple[Mark, ...]:
        """The awaited ones among the jobs that have now ended."""
        if self._clock.monotonic() - self._newest > _LASTS:
            self._marks.clear()
            return ()
        marks = (mark_of(outcome.id) for outcome in outcomes if outcome.final)
        return tuple(mark for mark in marks if self._marks.pop(mark, None) is not None)
