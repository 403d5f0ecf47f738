"""Loop: something done again and again. `tick()` does it once and says how long to sleep.

A loop never dies of an error: it says so, waits a little longer each time, and goes on. Simulations and tests
call `tick()` themselves.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

try:
    import uvloop
except ImportError:  # there is none for Windows
    uvloop = None  # type: ignore[assignment]

from foliot.clock import Clock
from foliot.errors import StoreUnavailable
from foliot.ids import Ids

log = logging.getLogger("foliot.loop")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Loop(ABC):
    name: str

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self.clock = clock
        self.ids = ids
        self._woken = asyncio.Event()
        self._failures = 0

    @abstractmethod
    async def tick(self) -> float:
        """Do it once. Returns the seconds to sleep, unless woken."""

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            pause = await self.tick_safely()
            # A wake-up that came during the tick counts: something may have changed behind its back.
            await rest(self._woken, max(pause, 0))
            self._woken.clear()

    async def tick_safely(self) -> float:
        """`tick`, with errors turned into a longer pause."""
        try:
            pause = await self.tick()
        except Exception as error:
            self._failures += 1
            if isinstance(error, StoreUnavailable):
                log.warning("%s: %s", self.name, error)
            else:
                log.exception("%s failed", self.name)
            self._woken.clear()
            return self.ids.jitter(
                min(_FIRST_PAUSE * 2 ** min(self._failures, 10), _LONGEST_PAUSE), 0.5
            )
        self._failures = 0
        return pause


async def rest(woken: asyncio.Event, seconds: float) -> None:
    """Until woken, or for so long. Not by wait_for: before Python 3.12 it forgets a cancellation that comes together
    with the wake-up, and whoever waits for the end waits for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """For programs of our own; None: asyncio's own loop."""
    return None if uvloop is None else uvloop.new_event_loop
