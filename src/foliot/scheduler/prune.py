"""Prune: old history and forgotten sessions go; days ahead are made; counts by the minute are put together."""

from __future__ import annotations

from typing import Final

from foliot.config import RetentionSettings
from foliot.scheduler.duty import Duty, Office
from foliot.store.port import Store

_SETTLED: Final = 180.0  # seconds after which most of what happened in a minute has been written


class Prune(Duty):
    name = "prune"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._every = office.settings.scheduler.prune_every
        self._keep = office.settings.retention

    async def tick(self) -> float:
        # One process is enough: the one with the first partition.
        if 0 in self._partitions.held:
            await self._store.rollups.compact(age=_SETTLED, limit=self._batch)
            await prune_all(self._store, self._keep, limit=self._batch)
        return self.ids.jitter(self._every)


async def prune_all(store: Store, retention: RetentionSettings, *, limit: int) -> int:
    """Forget what is older than it is to be kept, sessions that have expired, and keys that no limit is asked for.
    Returns how many rows, workflows or days of history went."""
    await store.sessions.prune()
    await store.limits.prune(limit=limit)
    keep = retention.history
    pruned = await store.upkeep.prune(keep=keep, limit=limit)
    pruned += await store.rollups.prune(keep=retention.rollups, limit=limit)
    if keep is not None:
        pruned += await store.logs.prune(keep=keep, limit=limit)
        pruned += await store.workflows.prune(keep=keep, limit=limit)
        for partition in range(store.partitions):
            pruned += await store.schedules.prune(partition, keep=keep, limit=limit)
    return pruned
