"""Waiter: all who wait for the end of a job, looked after together by one task on the portal's loop.

It looks when it is told that a job has ended, shortly after somebody began to wait, and otherwise every now and then,
for everybody at once. The workers are told by hints which jobs are awaited, and say so when one of them ends. What
it may ask of the store has a budget, which only ends fill up faster: a thousand handles that wait cost no more than a
few statements a second. Hints may be lost or impossible; then looking is what finds the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Container, Coroutine, Iterable
from itertools import chain
from typing import Any, Final

from foliot import commands
from foliot.clock import Clock
from foliot.errors import FoliotError, ResultTimeout, StoreUnavailable
from foliot.ids import Ids, JobId, Mark, mark_of, partition_of
from foliot.loop import rest
from foliot.model.job import Job, JobState
from foliot.store.batches import chunks
from foliot.store.port import Store, Wake

log = logging.getLogger("foliot.client")

_RATE: Final = 3.5  # statements a second, while nothing ends
_BURST: Final = 12.0
_EARNED: Final = 10.0  # statements that each end pays for: those of whoever waits next
_POLL: Final = 1.0  # seconds between two looks, where hints are heard
_POLL_UNTOLD: Final = 0.3  # and where they are not
_YOUNG: Final = (
    0.0,
    0.004,
    0.016,
    0.05,
)  # pauses before the first looks: hints need a moment to work
_NAME: Final = 5.0  # seconds after which the awaited jobs are named again, for workers that are new
_NAMED: Final = 600  # jobs in one notification
_CHECK: Final = 10.0  # seconds after which it is made sure that they are still there
_LAST: Final = 2.0  # seconds that the look at the end of a timeout may take


class Budget:
    """How many statements may be sent now. What cannot wait goes into debt, but not for ever."""

    def __init__(self, now: float) -> None:
        self._tokens = _BURST
        self._at = now

    def refill(self, now: float) -> None:
        self._tokens = min(_BURST, self._tokens + (now - self._at) * _RATE)
        self._at = now

    def spend(self, statements: int) -> None:
        self._tokens = max(-_BURST, self._tokens - statements)

    def earn(self, ends: int) -> None:
        self._tokens = min(_BURST, self._tokens + ends * _EARNED)

    @property
    def pause(self) -> float:
        """Seconds until something may be sent."""
        return max(0.0, (1 - self._tokens) / _RATE)


class Wait:
    """One job, and all who wait for its end."""

    __slots__ = ("asked", "due", "futures", "looks", "since", "state")

    def __init__(self, now: float) -> None:
        self.futures: dict[asyncio.Future[Job], bool] = {}  # and whether an outage is waited out
        self.asked: list[asyncio.Future[None]] = []  # want to know of one more look
        self.since = now
        self.due = now  # of the next early look
        self.looks = 0
        self.state: JobState | None = None  # as last seen

    @property
    def in_doubt(self) -> bool:
        """Nobody has seen it. Most jobs are found ended before that matters."""
        return self.state is None and self.looks > 1

    def take_asked(self) -> list[asyncio.Future[None]]:
        asked, self.asked = self.asked, []
        return asked


class Waiter:
    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        start: Callable[[Coroutine[Any, Any, None]], None],
        *,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """`start` runs a task on the loop until it ends, or the app is closed."""
        self._open = open_store
        self._start = start
        self._clock = clock
        self._ids = ids
        self._waits: dict[JobId, Wait] = {}
        self._marks: dict[Mark, JobId] = {}
        self._young: dict[JobId, Wait] = {}
        self._unnamed: set[Mark] = set()
        self._urgent: set[JobId] = set()  # to be looked at now, whatever the budget
        self._changed = False
        self._hinted = False  # what is looked for now was told by a hint
        self._told = False  # so was the last end, or nothing speaks against it: hints work
        self._store: Store | None = None  # once there is one to listen to
        self._listens = False
        self._running = False
        self._something = asyncio.Event()
        self._budget = Budget(clock.monotonic())
        self._poll_at = self._name_at = self._check_at = 0.0
        self.statements = 0  # all that were sent, the notifications among them

    async def wait(self, id: JobId, timeout: float | None) -> Job:
        """The job, when it has ended. Without a timeout an outage of the store is an error at once; with one, there
        is time for it to come back."""
        future: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        wait = self._enter(id)
        wait.futures[future] = timeout is not None
        try:
            if timeout is not None:
                await asyncio.wait([future], timeout=timeout)
                if not future.done():
                    await self._look_once_more(id, wait, future)
                if not future.done():
                    raise ResultTimeout(id, timeout, wait.state)
            return await future
        finally:
            self._leave(id, wait, future)

    def look(self) -> None:
        """Now. Where nobody waits any more there is nothing to look for, and its task ends."""
        self._something.set()

    def _enter(self, id: JobId) -> Wait:
        wait = self._waits.get(id)
        if wait is None:
            now = self._clock.monotonic()
            wait = self._waits[id] = self._young[id] = Wait(now)
            self._marks[mark_of(id)] = id
            self._unnamed.add(mark_of(id))
            self._something.set()
            if not self._running:
                self._running = True
                self._poll_at = now + _POLL_UNTOLD
                self._check_at = now + _CHECK
                self._start(self._run())
        return wait

    def _leave(self, id: JobId, wait: Wait, future: asyncio.Future[Job]) -> None:
        wait.futures.pop(future, None)
        if future.done() and not future.cancelled():
            future.exception()  # it is known, even if the caller was cancelled at the same time
        if not wait.futures and self._waits.get(id) is wait:
            self._forget(id)

    def _forget(self, id: JobId) -> None:
        del self._waits[id]
        self._young.pop(id, None)
        self._urgent.discard(id)
        self._unnamed.discard(mark_of(id))
        if self._marks.get(mark_of(id)) == id:
            del self._marks[mark_of(id)]

    async def _look_once_more(self, id: JobId, wait: Wait, future: asyncio.Future[Job]) -> None:
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait.asked.append(asked)
        self._urgent.add(id)
        self._something.set()
        both: list[asyncio.Future[Any]] = [future, asked]
        await asyncio.wait(both, timeout=_LAST, return_when=asyncio.FIRST_COMPLETED)

    def _hear(self, wake: Wake) -> None:
        told = [self._marks[mark] for mark in wake.ended if mark in self._marks]
        self._urgent.update(told)
        self._changed |= wake.changed
        if told or wake.changed:
            self._something.set()

    async def _listen(self, store: Store) -> None:
        try:
            self._told = self._listens = await store.listen(self._hear)
        except Exception as error:  # noqa: BLE001 - hints are not needed
            log.info("nothing is heard of jobs that end, looking will do: %s", error)
        self._something.set()

    async def _run(self) -> None:
        try:
            while self._waits:
                pause = await self._tick()
                await rest(self._something, pause)
                self._something.clear()
        finally:
            self._running = False

    async def _tick(self) -> float:
        """What is to be done now. Returns the seconds to sleep, unless there is news."""
        now = self._clock.monotonic()
        if self._urgent:
            urgent, self._urgent = self._urgent, set()
            self._hinted = True
            await self._look(urgent)
            return 0.0
        self._budget.refill(now)
        if self._budget.pause > 0:
            return self._budget.pause
        self._name(now)
        due = self._due(now)
        if due:
            await self._look(due)
            return 0.0
        next_look = min((wait.due for wait in self._young.values()), default=self._poll_at)
        return max(0.0, min(self._poll_at, next_look) - now)

    def _due(self, now: float) -> list[JobId]:
        self._hinted = self._changed
        if self._changed or now >= self._poll_at:
            self._changed = False
            self._poll_at = now + self._ids.jitter(_POLL if self._told else _POLL_UNTOLD)
            if now >= self._check_at:
                self._check_at = now + _CHECK
                for wait in self._waits.values():
                    wait.state = None
            return list(self._waits)
        return [id for id, wait in self._young.items() if wait.due <= now]

    def _name(self, now: float) -> None:
        """Tell the workers what is awaited: what is new, and now and then everything."""
        if self._store is None or not self._listens:
            return
        if now >= self._name_at:
            self._name_at = now + self._ids.jitter(_NAME)
            self._unnamed.update(self._marks)
        if self._unnamed:
            self._store.wake(Wake(awaited=tuple(self._unnamed)))
            self._spend(-(-len(self._unnamed) // _NAMED))
            self._unnamed.clear()

    async def _look(self, ids: Collection[JobId]) -> None:
        waits = {id: self._waits[id] for id in ids if id in self._waits}
        asked = {id: wait.take_asked() for id, wait in waits.items() if wait.asked}
        try:
            store = await self._open()
            if self._store is None:
                self._store = store
                self._start(self._listen(store))
            for some in chunks(sorted(waits), len):
                await self._look_at(store, {id: waits[id] for id in some}, asked)
        except StoreUnavailable as error:
            log.debug("the store is not there: %s", error)
            self._fail(waits, error, all=False)
        except Exception as error:  # noqa: BLE001 - it is handed to whoever waits
            self._fail(waits, error, all=True)
        finally:
            self._grow_up(waits)
            for one in chain.from_iterable(asked.values()):
                if not one.done():
                    one.set_result(None)

    async def _look_at(
        self, store: Store, waits: dict[JobId, Wait], asked: Container[JobId]
    ) -> None:
        self._spend_on(store, waits)
        ended = await store.jobs.ended(list(waits))
        self._deliver(ended)
        unknown = waits.keys() - {job.id for job in ended}
        unknown = {id for id in unknown if waits[id].in_doubt or id in asked}
        if not unknown:
            return
        self._spend_on(store, unknown)
        states = await store.jobs.live(list(unknown))
        for id in unknown:
            waits[id].state = states.get(id)
        for id in unknown - states.keys():
            await self._find(store, id)

    async def _find(self, store: Store, id: JobId) -> None:
        """Neither live nor ended: it has ended just now, or does not exist."""
        self._spend(3)
        try:
            job = await commands.get(store, id)
        except StoreUnavailable:
            raise
        except FoliotError as error:
            self._fail([id], error, all=True)
        else:
            if job.state.final:
                self._deliver([job])

    def _deliver(self, jobs: Collection[Job]) -> None:
        now = self._clock.monotonic()
        for job in jobs:
            wait = self._waits.get(job.id)
            if wait is None:
                continue
            if self._hinted:
                self._told = True
            elif now - wait.since > _POLL:
                self._told = False
            for future in wait.futures:
                if not future.done():
                    future.set_result(job)
            self._forget(job.id)
        self._budget.earn(len(jobs))

    def _fail(self, ids: Iterable[JobId], error: Exception, *, all: bool) -> None:
        """Tell those who wait; unless `all`, only those who do not wait for the store to come back."""
        for id in ids:
            wait = self._waits.get(id)
            for future, patient in wait.futures.items() if wait is not None else ():
                if not future.done() and (all or not patient):
                    future.set_exception(error)

    def _grow_up(self, waits: dict[JobId, Wait]) -> None:
        now = self._clock.monotonic()
        for id, wait in waits.items():
            wait.looks += 1
            if wait.looks < len(_YOUNG):
                wait.due = now + _YOUNG[wait.looks]
            else:
                self._young.pop(id, None)

    def _spend_on(self, store: Store, ids: Iterable[JobId]) -> None:
        self._spend(len({partition_of(id, store.partitions) for id in ids}))

    def _spend(self, statements: int) -> None:
        self.statements += statements
        self._budget.spend(statements)
