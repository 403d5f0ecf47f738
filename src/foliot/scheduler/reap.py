"""Reap: what lost sessions were running goes back, and what ran past its deadline."""

from __future__ import annotations

import logging
from collections.abc import Callable

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.loop import Loop
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Store, Wake

log = logging.getLogger("foliot.scheduler")


class Reap(Loop):
    name = "reap"

    def __init__(
        self,
        store: Store,
        partitions: Partitions,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        announce: Callable[[Wake], None],
    ) -> None:
        super().__init__(clock, ids)
        self._store = store
        self._partitions = partitions
        self._announce = announce
        self._every = settings.scheduler.reap_every
        self._batch = settings.scheduler.batch
        self._loss_limit = settings.worker.loss_limit

    async def tick(self) -> float:
        held = self._partitions.held
        if not held:
            return self.ids.jitter(self._every)
        again = False
        for partition, sessions in (await self._store.jobs.find_lost()).items():
            if partition not in held:
                continue
            reaped = await self._store.jobs.reap(
                partition, sessions, limit=self._batch, loss_limit=self._loss_limit
            )
            if reaped.total:
                log.warning("reaped in partition %d: %s", partition, reaped)
                self._announce(Wake(due=True, changed=bool(reaped.dead or reaped.cancelled)))
            again |= reaped.total >= self._batch
        return 0.0 if again else self.ids.jitter(self._every)
