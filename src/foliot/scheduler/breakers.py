"""Breakers: what time alone does to them. One that is open lets some try when its time is over; one that recovers is
closed when nobody waits for it any more.

Looked at while jobs wait for limits, when the next change is due; otherwise seldom.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from foliot.model.breaker import State
from foliot.scheduler.duty import Duty, Office
from foliot.store.port import Peek

log = logging.getLogger("foliot.scheduler")
_EVERY: Final = 1.0
_SELDOM: Final = 60.0


class Breakers(Duty):
    name = "breakers"

    def __init__(self, office: Office, *, let_go_on: Callable[[], None]) -> None:
        """`let_go_on`: those who wait for limits."""
        super().__init__(office)
        self._let_go_on = let_go_on
        self._waiting = False

    def see(self, peek: Peek) -> None:
        before, self._waiting = self._waiting, bool(peek.limited & self._partitions.held)
        if self._waiting and not before:
            self.wake()

    async def due_in(self) -> float | None:
        """By hand: seconds until one that jobs wait for lets some try. Whatever else time does to breakers lets nobody
        go on who could not before."""
        if not self._waiting:
            return None
        now = self.clock.now().timestamp()
        found = [one for one in await self._store.breakers.all(most=1) if one.waiting]
        times = [one.breaker.until for one in found if one.breaker.state is State.OPEN]
        return min((time - now for time in times if time is not None), default=None)

    async def tick(self) -> float:
        if not self._partitions.held:
            return _EVERY
        ticked = await self._store.breakers.tick()
        for shift in ticked.shifts:
            if shift.moved:
                log.info("breaker %s is %s", shift.after.name, shift.after.state)
        if any(shift.moved for shift in ticked.shifts):
            self._let_go_on()
        if ticked.wait is None:
            return self.ids.jitter(_EVERY if self._waiting else _SELDOM)
        return max(0.01, min(_EVERY if self._waiting else _SELDOM, ticked.wait))
