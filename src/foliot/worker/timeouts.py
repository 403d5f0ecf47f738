"""Timeouts: which attempts run out of time next, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from foliot.clock import Clock
from foliot.ids import JobId

T = TypeVar("T")


class Timeouts(Generic[T]):
    def __init__(self, clock: Clock, on_late: Callable[[T, float], None]) -> None:
        """`on_late` is given what has run out of time, and its timeout."""
        self._clock = clock
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        # For each timeout in use, its jobs in the order they started: the first is the first to run out.
        self._watched: dict[float, dict[JobId, tuple[float, T]]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def watch(self, id: JobId, timeout: float, running: T) -> None:
        until = self._clock.monotonic() + timeout
        self._watched.setdefault(timeout, {})[id] = (until, running)
        if self._alarm is None or until < self._alarm_at:
            self._set_alarm(until)

    def forget(self, id: JobId, timeout: float) -> None:
        self._watched.get(timeout, {}).pop(id, None)

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def ring(self) -> None:
        """End what is late. Whatever comes of that, the next alarm is set."""
        self._alarm = None
        now = self._clock.monotonic()
        try:
            # What ends makes room for others, and those may bring timeouts that are new here.
            for timeout, jobs in list(self._watched.items()):
                for id, (until, running) in list(jobs.items()):
                    if until > now:
                        break
                    jobs.pop(id, None)
                    self._on_late(running, timeout)
                if not jobs:
                    del self._watched[timeout]
        finally:
            firsts = [next(iter(jobs.values()))[0] for jobs in self._watched.values() if jobs]
            if firsts:
                self._set_alarm(min(firsts))

    def _set_alarm(self, until: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = until
        self._alarm = self._loop.call_later(max(0.0, until - self._clock.monotonic()), self.ring)
