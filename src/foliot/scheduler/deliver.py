"""Deliver: what happened becomes jobs of the hooks that listen to it. Looks where the last look found events."""

from __future__ import annotations

from typing import Final

from foliot.scheduler.duty import Duty, Office
from foliot.store.port import Peek, Wake

_SELDOM: Final = 60.0


class Deliver(Duty):
    name = "deliver"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._waiting: frozenset[int] = frozenset()  # partitions

    def see(self, peek: Peek) -> None:
        self._waiting = peek.events
        if self._waiting:
            self.wake()

    async def tick(self) -> float:
        waiting, self._waiting = self._waiting & self._partitions.held, frozenset()
        for partition in sorted(waiting):
            await self._deliver(partition)
        return _SELDOM

    async def _deliver(self, partition: int) -> None:
        events = self._batch
        while events >= self._batch:
            delivered = await self._store.events.deliver(partition, limit=self._batch)
            events = delivered.events
            if delivered.jobs:  # each is held until it has been compared with others of its subject
                self._announce(Wake(due=True))
