"""What is decided before a job may run, as it should be: who of an ordering key is next, and whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from foliot.ids import JobId
from foliot.model.job import JobState, Order
from foliot.model.lane import TURN, Strategy, strategy_of
from foliot.store.admission import Admitted, Walk
from machine.content import Live

_TURN: Final = int(TURN)


def takes_turns(lane: int) -> bool:
    return strategy_of(lane) is Strategy.ROUND_ROBIN


class Admission:
    """On the live jobs of a model."""

    def __init__(self, live: dict[JobId, Live], now: Callable[[], datetime]) -> None:
        self._live = live
        self._now = now
        self._tags: dict[tuple[int, int, str], int] = {}  # where the last turn of a fair key ends
        self._looked: dict[int, tuple[int, str]] = {}  # the fair key that the last look ended with
        self._lanes: dict[tuple[int, int], tuple[int, int]] = {}  # where a lane is, and its end

    def look(self, partition: int, *, limit: int) -> list[Admitted]:
        unseen = sorted(
            (row for row in self._of(partition) if row.hold in ("admission", "turn")),
            key=lambda row: row.id,
        )
        in_line = [row for row in unseen if row.in_line][:limit]
        admitted = self.admit_next(partition, [_order(row) for row in in_line])
        for row in in_line:
            if self._live[row.id].hold == "admission":
                self._live[row.id] = replace(row, hold="order")
        return admitted + self._give_turns(partition, self._next_turns(partition, limit))

    def _next_turns(self, partition: int, limit: int) -> list[Live]:
        """As many of each fair key that is next."""
        waiting: dict[tuple[int, str], list[Live]] = {}
        for row in sorted(self._of(partition), key=lambda row: row.id):
            if row.hold in ("admission", "turn") and not row.in_line:
                waiting.setdefault((row.lane, row.fair_key or ""), []).append(row)
        after = self._looked.pop(partition, None)
        named = [key for key in sorted(waiting) if after is None or key > after]
        named = (named or sorted(waiting))[:limit]
        if len(named) >= limit:
            self._looked[partition] = named[-1]
        return [row for key in named for row in waiting[key][: max(1, limit // len(named))]]

    def walk(self, partition: int, *, limit: int) -> Walk:
        waiting = {_order(row) for row in self._of(partition) if row.in_line}
        named = sorted(waiting)[:limit]
        admitted = self.admit_next(partition, named)
        return Walk(admitted, named[-1] if len(named) >= limit else None)

    def admit_next(self, partition: int, orders: Iterable[Order]) -> list[Admitted]:
        """Of each key the first, if none has left the line before it and lives."""
        admitted = []
        for order in sorted(set(orders)):
            jobs = [row for row in self._of(partition) if _order(row) == order]
            if jobs and all(row.in_line for row in jobs):
                row = self.let_go(min(jobs, key=lambda row: row.id))
                admitted.append(Admitted(row.lane, JobState(row.state)))
        return admitted

    def let_go(self, row: Live) -> Live:
        """It is held no longer: what is left are its time and its turn."""
        if row.run_at > self._now():
            free = replace(row, state="scheduled", hold=None)
        elif takes_turns(row.lane) and row.rank == 0:
            free = replace(row, state="held", hold="turn")
        else:
            free = replace(row, state="ready", hold=None)
        self._live[row.id] = free
        return free

    def _give_turns(self, partition: int, rows: Sequence[Live]) -> list[Admitted]:
        heads = {row.lane: self._head(partition, row.lane) for row in rows}
        for lane, head in heads.items():
            end = self._lanes.get((partition, lane), (0, 0))[1]
            for row in (row for row in rows if row.lane == lane):
                place = (partition, lane, row.fair_key or "")
                rank = max(head, self._tags.get(place, 0))
                self._tags[place] = rank + _TURN
                end = max(end, rank + _TURN)
                self._live[row.id] = replace(row, state="ready", hold=None, rank=rank)
            self._lanes[partition, lane] = (head, end)
        return [Admitted(row.lane, JobState.READY) for row in rows]

    def _head(self, partition: int, lane: int) -> int:
        """Where its first ready job is, or its end; never behind where it was."""
        before, end = self._lanes.get((partition, lane), (0, 1))
        ready = [
            row.rank for row in self._of(partition) if (row.lane, row.state) == (lane, "ready")
        ]
        return max(before, min(ready, default=end))

    def _of(self, partition: int) -> list[Live]:
        return [row for row in self._live.values() if row.partition == partition]


def _order(row: Live) -> Order:
    return (row.namespace, row.ordering_key or "")
