"""Limits: those who wait for one go on where nobody else saw to it.

Whoever finishes a job under a limit lets the next in at once. A worker that died, a limit that was raised or deleted
and a token that time has brought are seen to here: what runs is counted anew, and who waits for a limit with room is
asked again; every second while there are any, and as soon as a rate has its next token: also if its slots are taken
now, for whoever leaves one before that comes lets nobody in. For a token alone what runs is not counted.
"""

from __future__ import annotations

from typing import Final

from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.order import news_of
from foliot.store.limiting import MOST_GATES
from foliot.store.port import Peek

_EVERY: Final = 1.0
_SELDOM: Final = 60.0


class Limits(Duty):
    name = "limits"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._limited: frozenset[int] = frozenset()
        self._ours: frozenset[int] = frozenset()  # of those, at the last look
        self._after: dict[int, str] = {}
        self._relax_at = 0.0
        self._waits: dict[int, float] = {}  # as of the last look at each partition
        self._counted: dict[int, float] = {}  # when that was, where a token is to come

    def see(self, peek: Peek) -> None:
        # One that is taken over from another process is news as well.
        ours = peek.limited & self._partitions.held
        fresh = ours - self._ours
        self._limited, self._ours = peek.limited, ours
        if fresh:
            self.wake()

    @property
    def due_in(self) -> float | None:
        """By hand: seconds until time alone lets one go on."""
        return min(self._waits.values(), default=None)

    async def tick(self) -> float:
        if self._partitions.held and self.clock.monotonic() >= self._relax_at:
            await self._store.limits.relax()
            self._relax_at = self.clock.monotonic() + self.ids.jitter(_SELDOM)
        limited = self._limited & self._partitions.held
        self._waits.clear()
        if not limited:  # those that another sees to may become ours without any news of them
            return _EVERY if self._limited else _SELDOM
        return min([await self._tend(partition) for partition in limited])

    async def _tend(self, partition: int) -> float:
        after = self._after.pop(partition, "")
        now, anew = self.clock.monotonic(), True
        if (counted := self._counted.pop(partition, None)) is not None:
            anew = now - counted >= _EVERY
        tended = await self._store.limits.tend(partition, after, limit=MOST_GATES, anew=anew)
        if tended.after is not None:
            self._after[partition] = tended.after
        if tended.admitted:
            self._announce(news_of(partition, tended.admitted))
        if tended.wait is not None:
            self._waits[partition] = tended.wait
        if tended.idle:
            # The next who has to wait is news, although there were some at the last peek.
            self._ours -= {partition}
        waits = (tended.wait, tended.again)
        pause = min([_EVERY, *(wait for wait in waits if wait is not None)])
        if pause < _EVERY:
            self._counted[partition] = now if anew or counted is None else counted
        return pause
