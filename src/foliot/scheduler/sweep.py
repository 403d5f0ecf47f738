"""Sweep: dead rows of the hot table are freed before they slow the claim."""

from __future__ import annotations

from typing import Final

from foliot.scheduler.duty import Duty

_BUSY: Final = 3.0
_QUIET: Final = 10.0


class Sweep(Duty):
    name = "sweep"

    async def tick(self) -> float:
        # One process is enough: the one with the first partition.
        busy = 0 in self._partitions.held and await self._store.upkeep.sweep()
        return self.ids.jitter(_BUSY if busy else _QUIET)
