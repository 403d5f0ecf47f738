"""Kinds: what is held because its worker did not know its kind goes back, as soon as a live session knows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.loop import Loop
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Store, Wake

_SELDOM: Final = (
    4  # times the pause of reaping: old and new versions meet during a deployment, not all day
)


class Kinds(Loop):
    name = "kinds"

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
        self._batch = settings.scheduler.batch
        self._every = settings.scheduler.reap_every * _SELDOM

    async def tick(self) -> float:
        held = self._partitions.held
        if held:
            sessions = await self._store.sessions.all()
            known = sorted({kind for session in sessions if session.live for kind in session.kinds})
            for partition in sorted(held) if known else ():
                await self._admit(partition, known)
        return self.ids.jitter(self._every)

    async def _admit(self, partition: int, known: Sequence[str]) -> None:
        lanes: Sequence[int] = range(self._batch)
        while len(lanes) >= self._batch:
            lanes = await self._store.jobs.admit_kinds(partition, known, limit=self._batch)
            if lanes:
                self._announce(Wake(tuple((partition, lane) for lane in set(lanes))))
