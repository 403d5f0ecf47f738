"""Trip: what one round trip of the cycle takes along, and how much that may be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from math import inf
from typing import Final

import msgspec

from foliot.model.job import Outcome
from foliot.model.limit import TOLD_EVERY
from foliot.store.port import Share
from foliot.worker.doubts import Doubt

_MOST_FINISHED: Final = 2000  # outcomes in one trip
_MOST_BYTES: Final = 1 << 24  # of results and tracebacks in one trip


class Trip(msgspec.Struct, frozen=True):
    partition: int
    outcomes: list[Outcome]
    shares: list[Share]
    room: int
    began: int  # the news that it knew
    at: float  # on the monotonic clock
    doubt: Doubt | None = None  # its only outcome has failed before


class Waiting:
    """Whether those who had to wait for a rate are to be told of. As long as they are not, the duty looks by itself. Of
    those who wait for a slot nobody has to know: they go on when somebody leaves it."""

    def __init__(self) -> None:
        self._told: dict[int, float] = {}  # by partition

    def is_news(self, partition: int, now: float) -> bool:
        news = now - self._told.get(partition, -inf) >= TOLD_EVERY
        if news:
            self._told[partition] = now
        return news


def fitting(outcomes: Sequence[Outcome]) -> int:
    """How many of them one trip can carry: at least one."""
    left = _MOST_BYTES
    for count, outcome in enumerate(outcomes[:_MOST_FINISHED]):
        left -= len(outcome.result or b"") + len(outcome.traceback or "")
        if left < 0 and count:
            return count
    return min(len(outcomes), _MOST_FINISHED)


def apart(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Those that concern nobody else, and the others, which may have to wait for a lock."""
    alone = [not (o.flow or o.awaits or o.gates) for o in outcomes]
    return list(compress(outcomes, alone)), [
        o for o, is_alone in zip(outcomes, alone, strict=True) if not is_alone
    ]
