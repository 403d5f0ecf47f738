"""Lane: jobs that the same workers can take, in one order.

A lane is one (queue, required capabilities, strategy of the queue). Its number is a hash that every client computes for
itself, less its last two bits: those are the strategy, and the store fills them in when a job is submitted, so that
all agree on it. Within a lane a job's place is (band, rank), fixed when it becomes ready:

    priority     band: priority  rank: due time
    fifo         band: 0         rank: due time
    aged         band: 0         rank: due time + priority x aging
    round_robin  band: 0         rank: the turn of its fair key
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec

_STRATEGY_BITS: Final = 3
TURN: Final = 1_000_000.0  # how far a turn of weight 1 moves a fair key on, in ranks


class Strategy(IntEnum):
    """How the jobs of a queue are ordered."""

    PRIORITY = 0
    FIFO = 1
    AGED = 2
    ROUND_ROBIN = 3


class Lane(msgspec.Struct, frozen=True):
    number: int
    queue: str
    requires: tuple[str, ...] = ()

    def served_by(self, queues: frozenset[str], capabilities: frozenset[str]) -> bool:
        """Whether a worker of these queues (none named: all) and capabilities may take from it."""
        return (not queues or self.queue in queues) and capabilities.issuperset(self.requires)


@lru_cache(maxsize=4096)
def lane_of(queue: str, requires: tuple[str, ...] = ()) -> Lane:
    digest = blake2b("\0".join((queue, *sorted(requires))).encode(), digest_size=8).digest()
    return Lane(base_of(int.from_bytes(digest, "big", signed=True)), queue, tuple(sorted(requires)))


def base_of(number: int) -> int:
    """A lane's number without the strategy: what clients know."""
    return number & ~_STRATEGY_BITS


def strategy_of(number: int) -> Strategy:
    return Strategy(number & _STRATEGY_BITS)


def weights_of(queues: Iterable[str]) -> dict[str, int]:
    """Names of queues with the weights that a worker gives them: mail=3; without one, 1."""
    weights = {}
    for queue in queues:
        name, _, weight = queue.partition("=")
        weights[name] = int(weight or 1)
    return weights
