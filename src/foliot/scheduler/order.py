"""Order: the next job of an ordering key goes on where nobody else saw to it, and what has expired is cancelled.

Whoever finishes a job admits the next of its key at once. Where a job ends in another way, cancelled, reaped or
expired, a walk over the keys finds it, some of them every second while there are any.
"""

from __future__ import annotations

from typing import Final

from foliot.model.job import JobState, Order
from foliot.scheduler.duty import Duty, Office
from foliot.store.admission import Admitted
from foliot.store.port import Peek, Wake

_EVERY: Final = 1.0
_SELDOM: Final = 60.0
_BEFORE_ALL: Final[Order] = ("", "")


class Orders(Duty):
    name = "order"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._ordered: frozenset[int] = frozenset()
        self._expired: frozenset[int] = frozenset()
        self._after: dict[int, Order] = {}
        self._walk_at = 0.0

    def see(self, peek: Peek) -> None:
        self._ordered, self._expired = peek.ordered, peek.expired
        if self._ordered or self._expired:
            self.wake()

    async def tick(self) -> float:
        held = self._partitions.held
        for partition in self._expired & held:
            await self._expire(partition)
        self._expired = frozenset()
        now = self.clock.monotonic()
        if now >= self._walk_at:
            for partition in self._ordered & held:
                await self._walk(partition)
            self._walk_at = now + self.ids.jitter(_EVERY)
        return _EVERY if self._ordered else _SELDOM

    async def _expire(self, partition: int) -> None:
        count = self._batch
        while count >= self._batch:
            count = await self._store.admission.expire(partition, limit=self._batch)
            if count:
                self._announce(Wake(due=True, changed=True, flows=True))

    async def _walk(self, partition: int) -> None:
        after = self._after.get(partition, _BEFORE_ALL)
        walk = await self._store.admission.walk(partition, after, limit=self._batch)
        self._after[partition] = walk.after or _BEFORE_ALL
        if walk.admitted:
            self._announce(news_of(partition, walk.admitted))


def news_of(partition: int, admitted: list[Admitted]) -> Wake:
    lanes = {one.lane for one in admitted if one.state is JobState.READY}
    due = any(one.state is not JobState.READY for one in admitted)
    return Wake(tuple((partition, lane) for lane in lanes), due=due)
