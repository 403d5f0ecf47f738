"""Doubts: outcomes that came back with an error that is no outage. One of them may be what the store cannot take.

Each goes again by itself. One that is still refused loses its result, then it is forgotten: the store takes the job
back. So no outcome is sent for ever, and none keeps the others from arriving.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from foliot.ids import JobId
from foliot.model.job import End, Outcome

log = logging.getLogger("foliot.worker")
_PAUSE: Final = 60.0  # seconds before it runs again: it would likely end the same way
_WORDS: Final = {End.CANCEL: "handler", End.HOLD: "unknown_kind"}
_TRIES: Final = 3  # before it goes without its result; as often again before it is forgotten


class Doubt(msgspec.Struct, frozen=True):
    partition: int
    outcome: Outcome
    tries: int = 0


class Doubts:
    def __init__(self) -> None:
        self._waiting: deque[Doubt] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[JobId]:
        return (doubt.outcome.id for doubt in self._waiting)

    def add(self, partition: int, outcomes: Iterable[Outcome]) -> None:
        self._waiting.extend(Doubt(partition, outcome) for outcome in outcomes)

    def next(self) -> Doubt:
        return self._waiting.popleft()

    def put_back(self, doubt: Doubt) -> None:
        """It was not the fault of the outcome."""
        self._waiting.append(doubt)

    def refuse(self, doubt: Doubt, error: Exception) -> None:
        """It failed by itself."""
        tries, outcome = doubt.tries + 1, doubt.outcome
        if tries >= 2 * _TRIES:
            log.error(
                "the outcome of job %s is lost, the job will run again: %s", outcome.id, error
            )
            return
        if tries == _TRIES:
            log.error("the outcome of job %s could not be stored: %s", outcome.id, error)
            outcome = plain(outcome, error)
        self._waiting.append(Doubt(doubt.partition, outcome, tries))


def plain(outcome: Outcome, error: Exception) -> Outcome:
    """The same end with nothing in it that a store could refuse; a success becomes a failed attempt."""
    end = outcome.end
    if end is End.SUCCEED:
        end = End.BURY if outcome.last else End.RETRY
    return msgspec.structs.replace(
        outcome,
        end=end,
        result=None,
        traceback=None,
        delay=max(outcome.delay, _PAUSE),
        reason="failed" if end in (End.RETRY, End.BURY) else _WORDS.get(end),
        error=f"the outcome could not be stored: {type(error).__name__}",
    )
