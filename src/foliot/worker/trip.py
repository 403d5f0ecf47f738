"""Trip: what one round trip of the cycle takes along, and how much that may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.model.job import Outcome
from foliot.store.port import Share
from foliot.worker.doubts import Doubt

_MOST_FINISHED: Final = 2000  # outcomes in one trip
_MOST_BYTES: Final = 1 << 24  # of results and tracebacks in one trip
_WHILE: Final = 1.0  # seconds: as long as the duty looks by itself once somebody waits


class Trip(msgspec.Struct, frozen=True):
    partition: int
    outcomes: list[Outcome]
    shares: list[Share]
    room: int
    began: int  # the news that it knew
    at: float  # on the monotonic clock
    doubt: Doubt | None = None  # its only outcome has failed before


class Waiting:
    """Whether those who had to wait for a limit are the first for a while: then the duty may not know of any."""

    def __init__(self) -> None:
        self._until = -_WHILE

    def is_first(self, now: float) -> bool:
        first, self._until = now > self._until, now + _WHILE
        return first


def fitting(outcomes: Sequence[Outcome]) -> int:
    """How many of them one trip can carry: at least one."""
    left = _MOST_BYTES
    for count, outcome in enumerate(outcomes[:_MOST_FINISHED]):
        left -= len(outcome.result or b"") + len(outcome.traceback or "")
        if left < 0 and count:
            return count
    return min(len(outcomes), _MOST_FINISHED)
