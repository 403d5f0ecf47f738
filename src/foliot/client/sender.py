"""Submissions on their way to the store: what comes while others are on their way goes together, in one commit.

A key may be held by a transaction of somebody's that is still open. So those with keys go apart from those without,
which never wait for them; and of those with keys, the ones whose key is held wait by themselves, in turns.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from foliot.clock import Clock
from foliot.errors import KeyHeld, StoreUnavailable
from foliot.ids import Ids, JobId
from foliot.model.job import NewJob
from foliot.model.key import idempotency_key_of

KEY_WAIT: Final = 0.1  # seconds in which a transaction that is no caller's gives a key free
_PATIENCE: Final = 30.0  # seconds a submission tries again before it gives up
_GROUP: Final = 1000  # jobs that share one commit

Waiting = tuple[Sequence[NewJob], Future[list[JobId]]]
Start = Callable[[Coroutine[Any, Any, None]], None]


class Insert(Protocol):
    async def __call__(self, jobs: Sequence[NewJob], *, resend: bool) -> list[JobId]: ...


class Sender:
    """One line of submissions. `insert` hands jobs to the store, perhaps for the second time; `partly` says whether
    some of a batch may be stored when others are not. Whoever adds or flushes has the lock that all senders share."""

    def __init__(
        self,
        insert: Insert,
        start: Start,
        partly: Callable[[Sequence[NewJob]], bool],
        *,
        lock: threading.Lock,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._insert = insert
        self._start = start
        self._partly = partly
        self._lock = lock
        self._clock = clock
        self._ids = ids
        self.waiting: list[Waiting] = []
        self._flushing = False
        self._held: Counter[tuple[str, ...]] = Counter()  # keys that are waited for
        self._aside: dict[Future[list[JobId]], Waiting] = {}  # those who wait for them
        self._turn = asyncio.Lock()  # of those who wait: together they keep one connection busy

    def add(self, one: Waiting) -> bool:
        """Under the lock. Returns whether somebody has to start to flush."""
        self.waiting.append(one)
        idle, self._flushing = not self._flushing, True
        return idle

    def close(self) -> None:
        """When all that it has started was cancelled, perhaps before it began: whoever is left is told."""
        fail(self.waiting, StoreUnavailable("the app was closed before the job was sent"))
        _give_up(list(self._aside.values()), "it waited for a key")

    async def flush(self) -> None:
        while True:
            with self._lock:
                group, self.waiting = _take(self.waiting)
                if not group:
                    self._flushing = False
                    return
            if self._held:
                group = self._set_aside(group)
            try:
                await self.send(group)
            except BaseException as error:
                _give_up(group, repr(error))
                raise

    async def send(self, group: list[Waiting], *, resend: bool = False) -> None:
        jobs = [job for some, _ in group for job in some]
        try:
            ids = await self._send_patiently(jobs, resend=resend) if jobs else []
        except Exception as error:  # noqa: BLE001 - it is handed to whoever waits
            if len(group) == 1 and isinstance(error, KeyHeld):
                self._put_aside(group[0])
            elif len(group) > 1 and (isinstance(error, KeyHeld) or not _is_outage(error)):
                # One of them cannot be stored: the others must not suffer for it. Some may be stored already.
                for one in group:
                    for left in self._set_aside([one]):
                        await self.send([left], resend=True)
            else:
                fail(group, error)
            return
        start = 0
        for some, done in group:
            done.set_result(ids[start : start + len(some)])
            start += len(some)

    def _set_aside(self, group: list[Waiting]) -> list[Waiting]:
        """Without those whose keys others wait for already: they wait, too."""
        left = []
        for one in group:
            if any(key in self._held for key in _keys(one[0])):
                self._put_aside(one)
            else:
                left.append(one)
        return left

    def _put_aside(self, one: Waiting) -> None:
        keys = set(_keys(one[0]))
        self._held.update(keys)
        self._aside[one[1]] = one
        self._start(self._wait_for_keys(one, keys))

    async def _wait_for_keys(self, one: Waiting, keys: set[tuple[str, ...]]) -> None:
        started, pause = self._clock.monotonic(), 0.02
        try:
            while True:
                await self._clock.sleep(self._ids.jitter(pause, 0.5))
                pause = min(pause * 2, 0.5)
                try:
                    async with self._turn:
                        ids = await self._send_patiently(one[0], resend=True)
                except KeyHeld as error:
                    if self._clock.monotonic() - started > _PATIENCE:
                        fail([one], error)
                        return
                else:
                    one[1].set_result(ids)
                    return
        except Exception as error:  # noqa: BLE001 - it is handed to whoever waits
            fail([one], error)
        except BaseException as error:
            _give_up([one], repr(error))
            raise
        finally:
            self._held -= Counter(keys)
            del self._aside[one[1]]

    async def _send_patiently(self, jobs: Sequence[NewJob], *, resend: bool) -> list[JobId]:
        started = self._clock.monotonic()
        pause, unknown = 0.05, False
        while True:
            try:
                return await self._insert(jobs, resend=resend)
            except KeyHeld:
                raise
            except StoreUnavailable as error:
                # Even where this error says that nothing was done: an earlier try, or another partition, may have.
                unknown |= error.unknown or self._partly(jobs)
                resend = True
                if self._clock.monotonic() - started + pause > _PATIENCE:
                    raise StoreUnavailable(error.message, unknown=unknown) from error
                await self._clock.sleep(self._ids.jitter(pause, 0.5))
                pause = min(pause * 2, 2)


def has_key(jobs: Sequence[NewJob]) -> bool:
    """Whether a transaction that is still open can hold them up."""
    return any(
        job.key is not None or (job.more is not None and idempotency_key_of(job) is not None)
        for job in jobs
    )


def fail(group: Sequence[Waiting], error: BaseException) -> None:
    for _, done in group:
        if not done.done():
            done.set_exception(error)


def _give_up(group: Sequence[Waiting], why: str) -> None:
    fail(group, StoreUnavailable(f"the app was closed or failed: {why}", unknown=True))


def _take(waiting: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
    """The first of them, up to a group; a large batch goes alone."""
    count = 0
    for position, (jobs, _) in enumerate(waiting):
        count += len(jobs)
        if count > _GROUP and position:
            return waiting[:position], waiting[position:]
    return waiting, []


def _keys(jobs: Iterable[NewJob]) -> Iterable[tuple[str, ...]]:
    for job in jobs:
        if job.key is not None:
            yield ("unique", job.namespace, job.kind, job.key)
        if (key := idempotency_key_of(job)) is not None:
            yield ("idempotency", job.namespace, job.kind, key)


def _is_outage(error: Exception) -> bool:
    return isinstance(error, StoreUnavailable)
