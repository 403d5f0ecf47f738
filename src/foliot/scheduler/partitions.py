"""Which partitions this process does the duties of.

A lease is trusted less by its holder than by the store: it counts from before it was asked for. It only divides
the work; every duty is safe in any number of processes at once.
"""

from __future__ import annotations

import asyncio

from foliot.clock import Clock
from foliot.ids import Ids, SessionId
from foliot.loop import Loop
from foliot.store.port import Store


class Partitions(Loop):
    name = "partitions"

    def __init__(
        self, store: Store, session: SessionId, *, clock: Clock, ids: Ids, term: float
    ) -> None:
        super().__init__(clock, ids)
        self._store = store
        self._session = session
        self._term = term
        self._held: frozenset[int] = frozenset()
        self._until = 0.0
        self._given_up = False
        self._lock = asyncio.Lock()  # a division under way would take back what is given up

    @property
    def held(self) -> frozenset[int]:
        return self._held if self.clock.monotonic() < self._until else frozenset()

    async def tick(self) -> float:
        async with self._lock:
            if self._given_up:
                return self._term
            asked = self.clock.monotonic()
            self._held = await self._store.leases.divide(self._session, term=self._term)
            self._until = asked + self._term if not self._given_up else 0.0
        return self.ids.jitter(self._term * 0.3, 0.1)  # never later than a third of the term

    async def give_up(self) -> None:
        """For good: others take them at once, instead of when they run out."""
        self._given_up = True
        self._until = 0.0
        async with self._lock:
            await self._store.leases.give_up(self._session)


class AllPartitions(Partitions):
    """For who drives the duties by hand, and is alone: there is nobody to share them with."""

    @property
    def held(self) -> frozenset[int]:
        return frozenset(range(self._store.partitions))

    async def tick(self) -> float:
        return self._term
