"""Inline mode: what is submitted runs at once, in the calling thread, and its handle has the result.

Not an imitation: the job goes through a store in memory and through the worker's own code, by hand. Arguments and
results are JSON as always; delays and the waits between attempts pass at once, for the clock leaps over them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from foliot.by_hand import LIMIT, Driver, Plan, settings_by_hand
from foliot.client.portal import Portal
from foliot.clock import SystemClock
from foliot.config import Settings
from foliot.ids import Ids, JobId
from foliot.model.job import NewJob
from foliot.registry import Registry
from foliot.store.port import Store

T = TypeVar("T")
_DEEPEST: Final = 10
_DEPTH: Final[ContextVar[int]] = ContextVar("foliot_inline_depth", default=0)


class LeapingClock(SystemClock):
    """The real time, and ahead of it by whatever was leapt over."""

    def __init__(self) -> None:
        self._ahead = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return super().now() + self._ahead

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead.total_seconds()

    def advance(self, seconds: float) -> datetime:
        with self._lock:
            self._ahead += timedelta(seconds=seconds)
        return self.now()


class InlinePortal(Portal):
    by_hand = True

    def __init__(
        self,
        registry: Callable[[], Registry],
        settings: Settings,
        *,
        reraise: bool = False,
        limit: int = LIMIT,
    ) -> None:
        """`registry` is asked for when a job is to run: by then, what is to be included has been imported."""
        self._leaping = LeapingClock()
        super().__init__(
            settings_by_hand(settings), clock=self._leaping, ids=Ids(clock=self._leaping)
        )
        self._registry = registry
        self._reraise = reraise
        self._limit = limit

    def submit(self, jobs: Sequence[NewJob]) -> Future[list[JobId]]:
        done = super().submit(jobs)
        done.result()
        self._run_jobs(len(jobs))
        return done

    async def asubmit(self, jobs: Sequence[NewJob]) -> list[JobId]:
        ids = await asyncio.wrap_future(super().submit(jobs))
        await self._arun_jobs(len(jobs))
        return ids

    def act(self, work: Coroutine[Any, Any, T], *, count: int = 0) -> T:
        done = super().act(work, count=count)
        self._run_jobs(count)
        return done

    async def aact(self, work: Coroutine[Any, Any, T], *, count: int = 0) -> T:
        done = await super().aact(work, count=count)
        await self._arun_jobs(count)
        return done

    def _run_jobs(self, count: int) -> None:
        with _one_deeper() as depth:
            if depth <= _DEEPEST:
                driver = self._driver(self.call(self.store()))
                run_off_the_loop(partial(driver.run, self._plan(count)))

    async def _arun_jobs(self, count: int) -> None:
        with _one_deeper() as depth:
            if depth <= _DEEPEST:
                await self._driver(await self.acall(self.store())).arun(self._plan(count))

    def _plan(self, count: int) -> Plan:
        limit = self._limit + count
        return Plan(through=True, schedules=False, reraise=self._reraise, limit=limit)

    def _driver(self, store: Store) -> Driver:
        return Driver(store, self._registry(), self.settings, clock=self._leaping, ids=self.ids)


@contextmanager
def _one_deeper() -> Iterator[int]:
    """How many jobs are now running inside each other. What is submitted deeper than that runs when they are done."""
    before = _DEPTH.set(_DEPTH.get() + 1)
    try:
        yield _DEPTH.get()
    finally:
        _DEPTH.reset(before)


def run_off_the_loop(work: Callable[[], None]) -> None:
    """Here; or, where an event loop is running here, in a thread that this one waits for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work()
        return
    done: Future[None] = Future()

    def run() -> None:
        try:
            done.set_result(work())  # type: ignore[func-returns-value]
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            done.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), name="foliot-inline").start()
    done.result()
