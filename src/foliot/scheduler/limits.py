"""Limits: those who wait for one go on where nobody else saw to it.

Whoever finishes a job under a limit lets the next in at once. A worker that died, a limit that was raised or deleted
and a token that time has brought are seen to here: what runs is counted anew, and who waits for a limit with room is
asked again; every second while there are any. As soon as a rate has its next token, those who wait for it are asked,
and nobody else: also if its slots are taken now, for whoever leaves one before that comes lets nobody in; and for a
while if nobody waits for it now, for who comes next would wait until the second is over.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final

import msgspec

from foliot.model.limit import TOLD_EVERY
from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.order import news_of
from foliot.store.limiting import MOST_GATES, Tended
from foliot.store.port import Peek

_EVERY: Final = 1.0
_SELDOM: Final = 60.0
_SOON: Final = 0.1  # seconds between looks at a rate that nobody waits for
_AT_ONCE: Final = 1e-5  # seconds that are no reason to wait
_WHILE: Final = TOLD_EVERY + 1.0  # seconds for which a rate that somebody waited for is looked at


class Limits(Duty):
    name = "limits"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._limited: frozenset[int] = frozenset()
        self._ours: frozenset[int] = frozenset()  # of those, at the last look
        self._after: dict[int, str] = {}
        self._relax_at = 0.0
        self._waits: dict[int, float] = {}  # as of the last look at each partition
        self._all_at: dict[int, float] = {}  # when all who wait in a partition are looked at
        self._counted = False  # what runs, in all partitions, in this round
        self._rates: dict[int, _Rates] = {}  # and where only those who wait for these, before that

    def see(self, peek: Peek) -> None:
        # One that is taken over from another process is news as well.
        ours = peek.limited & self._partitions.held
        fresh = ours - self._ours
        self._limited, self._ours = peek.limited, ours
        if fresh:
            self.wake()

    def wake(self) -> None:
        self._all_at.clear()
        super().wake()

    @property
    def due_in(self) -> float | None:
        """By hand: seconds until time alone lets one go on."""
        return min(self._waits.values(), default=None)

    async def tick(self) -> float:
        held = self._partitions.held
        if held and self.clock.monotonic() >= self._relax_at:
            await self._store.limits.relax()
            self._relax_at = self.clock.monotonic() + self.ids.jitter(_SELDOM)
        self._rates = {p: rates for p, rates in self._rates.items() if rates and p in held}
        limited = (self._limited | self._rates.keys()) & held
        self._waits.clear()
        self._counted = False
        if not limited:  # those that another sees to may become ours without any news of them
            return _EVERY if self._limited else _SELDOM
        return min([await self._tend(partition) for partition in limited])

    async def _tend(self, partition: int) -> float:
        now, rates = self.clock.monotonic(), self._rates.setdefault(partition, _Rates())
        if now + _AT_ONCE < self._all_at.get(partition, now):
            if due := rates.due(now):
                await self._ask(partition, "", due)
        else:
            self._all_at[partition] = now + _EVERY  # before it, for who wakes us meanwhile
            tended = await self._ask(partition, self._after.pop(partition, ""))
            if tended.after is not None:
                self._after[partition] = tended.after
                self._all_at.pop(partition, None)
            if tended.idle:
                # The next who has to wait is news, although there were some at the last peek.
                self._ours -= {partition}
        now = self.clock.monotonic()
        return min(self._all_at.get(partition, now) - now, rates.due_in(now))

    async def _ask(self, partition: int, after: str, among: list[str] | None = None) -> Tended:
        limits = self._store.limits
        anew = among is None and not self._counted
        tended = await limits.tend(partition, after, limit=MOST_GATES, among=among, anew=anew)
        self._counted |= anew and not tended.idle
        if tended.admitted:
            self._announce(news_of(partition, tended.admitted))
        if tended.wait is not None:
            self._waits[partition] = tended.wait
        self._rates[partition].learn(among or [], tended.again, self.clock.monotonic())
        return tended


class _Rate(msgspec.Struct, frozen=True):
    due: float
    until: float  # it is forgotten


class _Rates:
    """Limits that are looked at before all the others: most have a rate, of which the next token comes."""

    def __init__(self) -> None:
        self._known: dict[str, _Rate] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def due(self, now: float) -> list[str]:
        due = [name for name, rate in self._known.items() if rate.due <= now + _AT_ONCE]
        return due[:MOST_GATES]

    def due_in(self, now: float) -> float:
        return min((rate.due for rate in self._known.values()), default=now + _EVERY) - now

    def learn(self, asked: list[str], again: dict[str, float], now: float) -> None:
        """What a look has told. Who was asked for and is not told of has nobody waiting now."""
        for name in asked:
            rate = self._known.pop(name)
            if name not in again and now < rate.until:
                self._known[name] = _Rate(now + _SOON, rate.until)
        for name, seconds in again.items():
            self._known[name] = _Rate(now + seconds, now + _WHILE)
        if len(self._known) > MOST_GATES:  # the others are seen when all are looked at
            first = nsmallest(MOST_GATES, self._known.items(), key=lambda known: known[1].due)
            self._known = dict(first)
