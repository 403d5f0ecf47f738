"""Late: what those are told whose time is over, beside that it is: the first reason why, as `explain` has it.

It is asked for once and then only, it may take a moment and no longer, and of many whose time is over together some
are told no reason: waiting together costs the store little, and is to go on doing so (waiter.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from foliot.clock import Clock

_LONGEST: Final = 1.0  # seconds beyond the time of the caller
_MOST: Final = 4  # reasons asked for in so many seconds
_WITHIN: Final = 2.0


class Late:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: deque[float] = deque(maxlen=_MOST)

    async def why(self, explain: Callable[[], Awaitable[str | None]]) -> str:
        """Nothing, if it cannot be told in time. The caller has an error to raise as it is: this adds none."""
        now = self._clock.monotonic()
        if len(self._asked) == _MOST and now - self._asked[0] < _WITHIN:
            return ""
        self._asked.append(now)
        try:
            async with asyncio.timeout(_LONGEST):
                return await explain() or ""
        except Exception:  # noqa: BLE001 - whatever it is, the time is over, and that is what is raised
            return ""
