"""Tallies: what this process counts of the attempts that it ran, on its way to the store.

Counted in memory once the store has taken an outcome, by ten seconds; written every few seconds beside the cycle, so
no job waits for it. What has been sent stays here, under its number, until it is known to be stored. A process that is
killed takes along what it has not written. Times are the store's, as it is asked for with what is written: clocks of
hosts differ, and what one of them has counted half a minute ahead would be no part of the pace of now.

This is on the path of every job. Those that began and ended together share one span (attempts.py), and what shares one
is counted at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.errors import StoreUnavailable
from foliot.ids import Ids, JobId, milliseconds_of
from foliot.loop import Loop
from foliot.model.job import STOPPED, End, Outcome, Span
from foliot.model.rollup import MINUTE, STEP, Ended, Key, Rollup, bucket_of
from foliot.model.workflow import WORKFLOW_KIND
from foliot.store.port import Store

log = logging.getLogger("foliot.worker")
_EVERY: Final = 5.0  # seconds between two writes
_MOST_AT_ONCE: Final = 1000  # rows in one write
_MOST_WAITING: Final = 10_000  # rows; what would be more is not counted
_SUCCEED: Final = End.SUCCEED
_ENDED: Final = {
    End.SUCCEED: Ended.SUCCEEDED,
    End.CANCEL: Ended.CANCELLED,
    End.RETRY: Ended.FAILED,
    End.BURY: Ended.DEAD,
}


class _Due(msgspec.Struct, frozen=True):
    """Of what is said of a job, only what is needed here."""

    namespace: str = "default"
    run_at: int | None = None


_PLAIN: Final = _Due()
_decode: Final = msgspec.json.Decoder(_Due).decode


class Batch(msgspec.Struct, frozen=True):
    number: int
    rollups: list[Rollup]


class _Tally:
    """All of one step and key."""

    __slots__ = ("runs", "seconds", "waits")

    def __init__(self) -> None:
        self.seconds = 0
        self.waits: Counter[int] = Counter()
        self.runs: Counter[int] = Counter()

    def rollup(self, step: int, key: Key) -> Rollup:
        waits, runs = dict(self.waits), dict(self.runs)
        return Rollup(step, key, self.runs.total(), self.seconds, waits, runs)


class Tallies:
    """One for a process: it outlives sessions that are lost."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self.writer = ids.session()
        self.queues: dict[int, str] = {}  # of lanes, by their numbers
        self.offset = 0.0  # of the store's clock before this host's, seconds
        self._clock = clock
        self._second = 0
        self._ahead = 0.0  # of the store's clock before the monotonic one
        self._tallies: dict[tuple[int, Key], _Tally] = {}
        self._sent = 0
        self._sending: Batch | None = None
        self._lost = 0

    def count(self, outcomes: Sequence[Outcome], refused: Collection[JobId] = ()) -> None:
        """The store has taken these, but for the refused."""
        now = self._clock.now().timestamp() + self.offset
        self._second, self._ahead = int(now), now - self._clock.monotonic()
        if refused:
            outcomes = [one for one in outcomes if one.id not in refused]
        shared, number = None, 0
        for one in outcomes:
            if one.end is not _SUCCEED:
                self._count(one.span, _how(one), 1)
            elif one.span is shared:
                number += 1
            else:
                self._count(shared, Ended.SUCCEEDED, number)
                shared, number = one.span, 1
        self._count(shared, Ended.SUCCEEDED, number)

    @property
    def waiting(self) -> int:
        """Rows that are not known to be stored."""
        return len(self._tallies) + (len(self._sending.rollups) if self._sending else 0)

    def take(self) -> Batch | None:
        """What is to be written next; what was taken before, until it is `written`."""
        if self._sending is None and self._tallies:
            some = list(self._tallies)[:_MOST_AT_ONCE]
            rollups = [self._tallies.pop(place).rollup(*place) for place in some]
            self._sent += 1
            self._sending = Batch(self._sent, rollups)
        if self._lost:
            log.warning("%d kinds of ends in ten seconds were too many to count", self._lost)
            self._lost = 0
        return self._sending

    def written(self, batch: Batch) -> None:
        if self._sending is batch:
            self._sending = None

    def _count(self, span: Span | None, how: Ended | None, number: int) -> None:
        if span is None or how is None:
            return
        id, lane, kind, more, began, ended = span
        facts = _PLAIN if more is None else _decode(more)
        due = milliseconds_of(id) / 1e3 if facts.run_at is None else facts.run_at / 1e6
        tally = self._find(Key(facts.namespace, self._queue(lane), kind, how))
        if kind != WORKFLOW_KIND:  # it was claimed again when that had ended, which is no wait
            tally.waits[bucket_of(began - (due - self._ahead))] += number
        tally.runs[bucket_of(ended - began)] += number

    def _find(self, key: Key) -> _Tally:
        place = (self._second - self._second % STEP, key)
        tally = self._tallies.get(place)
        if tally is None:
            tally = _Tally()
            if len(self._tallies) < _MOST_WAITING:
                self._tallies[place] = tally
            else:
                self._lost += 1
        tally.seconds |= 1 << self._second % MINUTE
        return tally

    def _queue(self, lane: int) -> str:
        return self.queues.get(lane, "default")


class WriteTallies(Loop):
    name = "roll-ups"

    def __init__(self, store: Store, tallies: Tallies, *, clock: Clock, ids: Ids) -> None:
        super().__init__(clock, ids)
        self._store = store
        self._tallies = tallies
        self._compared = False

    async def tick(self) -> float:
        """All that there is now. What is counted meanwhile waits: on a busy worker there would be no end of it."""
        left = self._tallies.waiting
        if left or not self._compared:
            await self._compare_clocks()
        while left > 0 and (batch := self._tallies.take()) is not None:
            try:
                await self._store.rollups.write(self._tallies.writer, batch.number, batch.rollups)
            except StoreUnavailable:
                raise  # it goes again, under the same number
            except Exception:
                self._tallies.written(batch)  # it would fail again, and keep back all others
                raise
            self._tallies.written(batch)
            left -= len(batch.rollups)
        return self.ids.jitter(_EVERY)

    async def _compare_clocks(self) -> None:
        """Right to half of what the answer takes."""
        asked = self.clock.now()
        now = await self._store.schedules.now()
        offset = (now - asked) + (now - self.clock.now())
        self._tallies.offset = offset.total_seconds() / 2
        self._compared = True


def _how(outcome: Outcome) -> Ended | None:
    """None: nothing is counted, for it never started."""
    if outcome.reason in STOPPED:
        return Ended.CANCELLED
    if outcome.reason == "interrupted":
        return Ended.INTERRUPTED
    return _ENDED.get(outcome.end)
