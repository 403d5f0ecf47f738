"""Lane: jobs that the same workers can take, in one order.

A lane is one (queue, required capabilities). Its number is a hash that every client computes for itself,
so no shared row has to be asked before a job is submitted.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec


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
    return Lane(int.from_bytes(digest, "big", signed=True), queue, requires)
