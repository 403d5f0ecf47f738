"""Fleet: what many workers of a busy queue would have counted, written as they write it. They run nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Final

from foliot.bench.jobs import KINDS, QUEUE
from foliot.bench.stage import Stage
from foliot.errors import FoliotError
from foliot.model.rollup import MINUTE, STEP, Ended, Histogram, Key, Rollup, bucket_of
from foliot.model.session import NewSession
from foliot.store.open import open_store
from foliot.store.port import Store

_SINCE: Final = 4 * MINUTE  # seconds that they have been busy for: what is older is put together
_EVERY: Final = 5.0  # seconds between two writes, as of workers
_LEASE: Final = 120.0
_SPREAD: Final = 10  # lengths of waits, and of runs, in each second


class Fleet:
    def __init__(self, stage: Stage, *, processes: int, kinds: int) -> None:
        self._stage = stage
        self._writers = [stage.ids.session() for _ in range(processes)]
        self._keys = [
            Key("default", QUEUE, f"{KINDS}fleet{n}", Ended.SUCCEEDED) for n in range(kinds)
        ]
        # One of them is alive for those who ask, and takes part in nothing.
        self._session = NewSession(
            id=stage.ids.session(),
            host="bench",
            pid=0,
            version="0",
            queues=(QUEUE,),
            kinds=(f"{KINDS}async",),
            duties=False,
        )
        self._batch = 0
        self._until = 0  # seconds since 1970
        self._next = 0.0

    def work(self) -> None:
        """Write down what they have done since the last time, unless that was just now."""
        if self._batch and self._stage.clock.monotonic() < self._next:
            return
        asyncio.run(self._work())
        self._next = self._stage.clock.monotonic() + _EVERY

    async def _work(self) -> None:
        store = await self._open()
        try:
            now = int((await store.schedules.now()).timestamp())
            if not self._batch:
                await store.sessions.open(self._session, lease=_LEASE)
                self._until = now - _SINCE
            elif not self._beat(store):
                raise FoliotError("the bench's session was lost: this machine stood still")
            self._batch += 1
            rollups = self._count(self._until, now)
            for writer in self._writers:
                await store.rollups.write(writer, self._batch, rollups)
            self._until = now
        finally:
            await store.close()

    def _beat(self, store: Store) -> bool:
        heart = store.sessions.heart(self._session.id, lease=_LEASE)
        try:
            return heart.extend([]) is not None
        finally:
            heart.close()

    def _count(self, since: int, until: int) -> list[Rollup]:
        rollups = []
        for step, group in groupby(range(since, until), lambda second: second - second % STEP):
            seconds = list(group)
            bits = sum(1 << second % MINUTE for second in seconds)
            waits, runs = (_spread(least, len(seconds)) for least in (1.5, 0.01))
            count = _SPREAD * len(seconds)
            rollups += [Rollup(step, key, count, bits, waits, runs) for key in self._keys]
        return rollups

    def leave(self) -> None:
        """What was counted goes with all that is the bench's."""
        asyncio.run(self._leave())

    async def _leave(self) -> None:
        store = await self._open()
        try:
            await store.sessions.close(self._session.id)
        finally:
            await store.close()

    async def _open(self) -> Store:
        stage = self._stage
        return await open_store(stage.settings.store, clock=stage.clock, ids=stage.ids)


@contextmanager
def fleet_of(stage: Stage, *, processes: int, kinds: int) -> Iterator[Fleet]:
    fleet = Fleet(stage, processes=processes, kinds=kinds)
    try:
        yield fleet
    finally:
        fleet.leave()


def _spread(least: float, each: int) -> Histogram:
    return {bucket_of(least * 1.3**n): each for n in range(_SPREAD)}
