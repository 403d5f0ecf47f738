"""Watch: one look across all partitions for everybody in the process, on a hint or when the poll is due."""

from __future__ import annotations

from collections.abc import Callable

from foliot.clock import Clock
from foliot.ids import Ids
from foliot.loop import Loop
from foliot.store.port import Peek, Store


class Watch(Loop):
    name = "watch"

    def __init__(
        self, store: Store, *, clock: Clock, ids: Ids, poll: float, see: Callable[[Peek], None]
    ) -> None:
        super().__init__(clock, ids)
        self._store = store
        self._poll = poll
        self._see = see

    async def tick(self) -> float:
        self._see(await self._store.jobs.peek())
        return self.ids.jitter(self._poll)
