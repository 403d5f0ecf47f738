"""Prune: old history and forgotten sessions go; days ahead are made."""

from __future__ import annotations

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.loop import Loop
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Store


class Prune(Loop):
    name = "prune"

    def __init__(
        self, store: Store, partitions: Partitions, settings: Settings, *, clock: Clock, ids: Ids
    ) -> None:
        super().__init__(clock, ids)
        self._store = store
        self._partitions = partitions
        self._every = settings.scheduler.prune_every
        self._batch = settings.scheduler.batch
        self._keep = settings.retention.history

    async def tick(self) -> float:
        # One process is enough: the one with the first partition.
        if 0 in self._partitions.held:
            await self._store.sessions.prune()
            await self._store.upkeep.prune(keep=self._keep, limit=self._batch)
            if self._keep is not None:
                await self._store.logs.prune(keep=self._keep, limit=self._batch)
                for partition in range(self._store.partitions):
                    await self._store.schedules.prune(partition, keep=self._keep, limit=self._batch)
        return self.ids.jitter(self._every)
