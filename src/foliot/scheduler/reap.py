"""Reap: what lost sessions were running goes back, and what ran past its deadline."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from foliot.ids import JobId, SessionId
from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.flow import news_of
from foliot.store.port import Reaped, Wake

_MOST_NAMED: Final = 3
_FATES: Final = {
    "lost": "executing, to run alone from now on",
    "returned": "not started",
    "timed_out": "past the deadline",
    "dead": "dead now",
    "cancelled": "cancelled now",
}

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
            held_by = await self._held_by(partition, sessions)
            reaped = await self._store.jobs.reap(
                partition, sessions, limit=self._batch, loss_limit=self._loss_limit
            )
            if reaped.total:
                log.warning("partition %d: %s", partition, _say(reaped, held_by))
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

    async def _held_by(
        self, partition: int, sessions: Sequence[SessionId]
    ) -> dict[str, list[JobId]]:
        """For the log: the lost workers by host and process, each with what it held here."""
        if not sessions:
            return {}
        names = {one.id: f"{one.host}:{one.pid}" for one in await self._store.sessions.all()}
        found: dict[str, list[JobId]] = {}
        for id in sessions[:_MOST_NAMED]:
            jobs = await self._store.jobs.running(id)
            mine = [job.id for job in jobs if job.partition == partition]
            found.setdefault(names.get(id, id), []).extend(mine)
        return found


def _say(reaped: Reaped, held_by: dict[str, list[JobId]]) -> str:
    """From whom how many were taken back, what became of them, and the first few of them."""
    workers = f" from {', '.join(held_by)} (lost)" if held_by else ""
    fates = [(getattr(reaped, fate), told) for fate, told in _FATES.items()]
    told = ", ".join(f"{count} {told}" for count, told in fates if count)
    ids = [id for held in held_by.values() for id in held][:_MOST_NAMED]
    among = f"; among them {', '.join(ids)}" if ids else ""
    return f"taken back{workers}: {told}{among}"
