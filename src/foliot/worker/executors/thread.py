"""Threads for sync functions. Results come back to the event loop together, not one wake-up each."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Generic, TypeVar

from foliot.model.job import Outcome

log = logging.getLogger("foliot.worker")
T = TypeVar("T")


class Threads(Generic[T]):
    """At most `limit` threads, made as they are needed. Not a ThreadPoolExecutor: that one waits for its threads at
    exit, and a job that never returns would keep the process."""

    def __init__(
        self,
        limit: int,
        run: Callable[[T], Outcome],
        finish: Callable[[T, Outcome], None],
        fail: Callable[[T, BaseException], Outcome],
    ) -> None:
        self._limit = limit
        self._run = run
        self._finish = finish
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[T | None] = SimpleQueue()
        self._results: deque[tuple[T, Outcome]] = deque()
        self._told = False
        self._lock = threading.Lock()
        self._count = 0
        self.busy = 0  # changed on the event loop only

    @property
    def free(self) -> int:
        return self._limit - self.busy

    def submit(self, work: T) -> None:
        if self.busy >= self._count:
            name = f"foliot-job-{self._count + 1}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
            self._count += 1
        self.busy += 1
        self._work.put(work)

    def close(self) -> None:
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                outcome = copy_context().run(self._run, work)
            except BaseException as error:  # noqa: BLE001 - a thread that dies would take its job along
                outcome = self._fail(work, error)
            with self._lock:
                self._results.append((work, outcome))
                if self._told:
                    continue
                self._told = True
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:  # the loop is closed: the worker has stopped without us
                return

    def _collect(self) -> None:
        with self._lock:
            results, self._results = self._results, deque()
            self._told = False
        for work, outcome in results:
            self.busy -= 1
            try:
                self._finish(work, outcome)
            except Exception:
                log.exception("an attempt was not finished")
