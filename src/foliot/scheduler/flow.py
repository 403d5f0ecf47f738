"""Flow: what the ends of steps have led to is carried on where somebody died on the way, or had to leave it; deadlines
of workflows."""

from __future__ import annotations

import logging
from typing import Final

from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import Advance
from foliot.scheduler.duty import Duty
from foliot.store.port import Peek, Wake

log = logging.getLogger("foliot.scheduler")
_EVERY: Final = 1.0  # seconds, while workflows run
_SELDOM: Final = 10.0  # while there are none
_BATCH: Final = 100
_ROUNDS: Final = 10  # for one of these, before the next has its turn
_SOON: Final = (
    0.01  # seconds until the next, where there was a whole batch, or something is left of one
)


class Flow(Duty):
    name = "flow"

    def see(self, peek: Peek) -> None:
        if peek.expired:
            self.wake()  # a deadline, perhaps of a workflow that came while there were none

    async def tick(self) -> float:
        active = more = False
        for partition in sorted(self._partitions.held):
            stuck, running = await self._store.workflows.find_stuck(partition, limit=_BATCH)
            active |= running
            more |= len(stuck) >= _BATCH
            for id in stuck:
                more |= await self._carry_on(partition, id)
        if more:
            return _SOON
        return self.ids.jitter(_EVERY if active else _SELDOM)

    async def _carry_on(self, partition: int, id: JobId) -> bool:
        """Also where that leads. Whether something is left."""
        ids = [id]
        for _ in range(_ROUNDS):
            advance = await self._store.workflows.advance(partition, ids)
            self._announce(news_of(partition, advance))
            if not (ids := [*advance.more]):
                return False
        return True


def news_of(partition: int, advance: Advance) -> Wake:
    """For whoever claims, and whoever is to end: a workflow that was stopped has running steps."""
    ready = {(partition, lane) for lane, state in advance.lanes if state is JobState.READY}
    due = any(state is not JobState.READY for _, state in advance.lanes)
    return Wake(tuple(sorted(ready)), due=due, cancel=True, changed=bool(advance.ended))
