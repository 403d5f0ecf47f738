"""Sweep: dead rows of the hot table are freed before they slow the claim."""

from __future__ import annotations

from typing import Final

from foliot.clock import Clock
from foliot.ids import Ids
from foliot.loop import Loop
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Store

_BUSY: Final = 3.0
_QUIET: Final = 10.0


class Sweep(Loop):
    name = "sweep"

    def __init__(self, store: Store, partitions: Partitions, *, clock: Clock, ids: Ids) -> None:
        super().__init__(clock, ids)
        self._store = store
        self._partitions = partitions

    async def tick(self) -> float:
        # One process is enough: the one with the first partition.
        busy = 0 in self._partitions.held and await self._store.upkeep.sweep()
        return self.ids.jitter(_BUSY if busy else _QUIET)
