"""Reap: what lost sessions were running goes back, and what ran past its deadline."""

from __future__ import annotations

import logging

from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.flow import news_of
from foliot.store.port import Wake

log = logging.getLogger("foliot.scheduler")


class Reap(Duty):
    name = "reap"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._every = office.settings.scheduler.reap_every
        self._loss_limit = office.settings.worker.loss_limit

    async def tick(self) -> float:
        held = self._partitions.held
        if not held:
            return self.ids.jitter(self._every)
        again = ended = False
        for partition, sessions in (await self._store.jobs.find_lost()).items():
            if partition not in held:
                continue
            reaped = await self._store.jobs.reap(
                partition, sessions, limit=self._batch, loss_limit=self._loss_limit
            )
            if reaped.total:
                log.warning("reaped in partition %d: %s", partition, reaped)
                self._announce(Wake(due=True, changed=bool(reaped.dead or reaped.cancelled)))
            if reaped.advance.lanes or reaped.advance.ended:
                self._announce(news_of(partition, reaped.advance))
            if reaped.advance.more:
                self._announce(Wake(flows=True))
            again |= reaped.total >= self._batch
            ended |= bool(sessions)
        if ended and not again:
            await (
                self._store.sessions.prune()
            )  # nothing names them any more: they are told to be lost
        return 0.0 if again else self.ids.jitter(self._every)
