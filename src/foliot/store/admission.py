"""The part of a store's contract that decides which jobs may run, beyond their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState, Order


class Admitted(msgspec.Struct, frozen=True):
    """What became of a job that waited for its turn or for an earlier one."""

    lane: int
    state: JobState  # held: it has yet to be given its turn


def admissions(rows: Iterable[tuple[Any, ...]]) -> list[Admitted]:
    """Of rows of lanes and states."""
    return [Admitted(lane, JobState(state)) for lane, state in rows]


Turn = tuple[int, str]  # a lane, and a fair key in it
FIRST_TURN: Final[Turn] = (-(2**63), "")


class Round:
    """Where the looks at fair keys have come to, for each partition. Only a hint: with more keys than one look
    takes, the next one goes on behind the last."""

    def __init__(self) -> None:
        self._after: dict[int, Turn] = {}

    def after(self, partition: int) -> Turn:
        return self._after.get(partition, FIRST_TURN)

    def go_on(self, partition: int, found: Sequence[Turn], limit: int) -> bool:
        """With the key of each job that a look has found. Whether there may be more of them."""
        keys = Counter(found)
        began = self._after.pop(partition, None)
        if len(keys) >= limit:
            self._after[partition] = found[-1]
            return True
        full = max(keys.values(), default=0) >= quota(limit, len(keys))
        return full or began is not None


def quota(limit: int, keys: int) -> int:
    """How many jobs of each key a look takes."""
    return max(1, limit // max(1, keys))


class Walk(msgspec.Struct, frozen=True):
    """What a walk over ordering keys brought, and where to go on; None: it came to the end."""

    admitted: list[Admitted]
    after: Order | None


class Admission(Protocol):
    """What is decided before a job may run, beyond its time. Any process may, at any time."""

    async def look(self, partition: int, *, limit: int) -> tuple[list[Admitted], bool]:
        """Look at held jobs: of those that share an ordering key the first may run, if none is active; those of a queue
        that is served round robin get their turns. And whether there may be more to look at."""
        ...

    async def walk(self, partition: int, after: Order, *, limit: int) -> Walk:
        """Go over the ordering keys that have jobs waiting, from after this one, and admit the next of each that has no
        active one: the last was cancelled, reaped or expired."""
        ...

    async def expire(self, partition: int, *, limit: int) -> int:
        """Cancel what has not started by the time it is good for. Returns how many."""
        ...

    async def hold_kinds(self, partition: int, known: Sequence[str], *, limit: int) -> list[JobId]:
        """Hold jobs of other kinds among the first `limit` of each lane. Returns them."""
        ...

    async def admit_payloads(self, partition: int, *, limit: int) -> list[int]:
        """Make ready what did not fit the arguments of its kind, if these have changed since. Returns lane numbers."""
        ...
