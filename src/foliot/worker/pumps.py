"""Pumps: they make the trips of a cycle, a few at once.

Two, unless the settings say otherwise: while one trip is under way, the next carries what has ended meanwhile. More of
them would only split what two carry into smaller batches, which cost the store more for each job.

Two can be held up together, behind the lock of one workflow, say. So there is a spare pump: while all others are held
up, it makes trips for what waits for no lock of others. It alone carries outcomes in doubt, for whoever does has to
pause when one is refused once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from foliot.clock import Clock
from foliot.ids import Ids
from foliot.worker.trip import Trip

_HELD_UP: Final = 0.1  # seconds in which no trip of the others has ended
_PAUSE: Final = 0.05  # seconds after a trip that failed, at first
_LONGEST_PAUSE: Final = 2.0
_LONGEST_DOUBT: Final = 0.2


class Pumps:
    def __init__(
        self,
        number: int,
        next_trip: Callable[[], Trip | None],
        next_plain: Callable[[], Trip | None],
        next_doubt: Callable[[], Trip | None],
        make: Callable[[Trip], Awaitable[bool]],
        *,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """`make` says whether it is known what came of the trip."""
        self._number = number
        self._next_trip = next_trip
        self._next_plain = next_plain
        self._next_doubt = next_doubt
        self._make = make
        self._clock = clock
        self._ids = ids
        self.something = asyncio.Event()  # to carry, or to look for
        self.called = asyncio.Event()  # is the spare one: for doubts, or all others are under way
        self._under_way = self._ended = 0

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._number):
                group.create_task(self._pump())
            group.create_task(self._stand_by())

    async def _pump(self) -> None:
        pause = _PAUSE
        while True:
            trip = self._next_trip()
            if trip is None:
                self.something.clear()
                await self.something.wait()
                continue
            self._under_way += 1
            if self._under_way == self._number:
                self.called.set()
            try:
                known = await self._make(trip)
            finally:
                self._under_way -= 1
                self._ended += 1
            pause = _PAUSE if known else await self._rest(pause, _LONGEST_PAUSE)

    async def _stand_by(self) -> None:
        pause = _PAUSE
        while True:
            await self.called.wait()
            if (doubt := self._next_doubt()) is not None:
                known = await self._make(doubt)
                self.something.set()  # it may have put something back, or have made room
                pause = _PAUSE if known else await self._rest(pause, _LONGEST_DOUBT)
                continue
            if self._under_way < self._number:
                self.called.clear()
                continue
            ended = self._ended
            await self._clock.sleep(_HELD_UP)
            if ended == self._ended and (trip := self._next_plain()) is not None:
                await self._make(trip)
                self.something.set()

    async def _rest(self, pause: float, longest: float) -> float:
        """How long to pause the next time."""
        await self._clock.sleep(self._ids.jitter(pause, 0.5))
        return min(pause * 2, longest)
