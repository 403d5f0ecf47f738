"""The heartbeat: a thread that keeps the session alive, and knows when it can no longer be trusted.

    beating --(extend says no, or the local deadline passes)--> lost

The local deadline counts from *before* an extend was sent, so this process stops trusting its lease before the
store does. When the event loop has not answered for half a lease the thread stops extending: a process that cannot
react should not hold jobs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from foliot.clock import Clock
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.store.port import Heart

log = logging.getLogger("foliot.worker")
_MARGIN: Final = 0.05  # of a lease: the local deadline comes this much before the store's


class Heartbeat:
    def __init__(
        self,
        heart: Heart,
        clock: Clock,
        *,
        lease: float,
        beat: float,
        executing: Callable[[], Sequence[JobId]],
        on_lost: Callable[[], None],
        on_beat: Callable[[], None],
    ) -> None:
        self._heart = heart
        self._clock = clock
        self._lease = lease
        self._beat = beat
        self._executing = executing
        self._on_lost = on_lost
        self._on_beat = on_beat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foliot-heartbeat", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._answered = clock.monotonic()
        self.deadline = clock.monotonic() + lease * (1 - _MARGIN)
        self.lost = False

    def start(self) -> None:
        self._thread.start()

    @property
    def trusted(self) -> bool:
        """Whether what this session does now can still count."""
        return not self.lost and self._clock.monotonic() < self.deadline

    async def stop(self) -> None:
        self._stop.set()
        await self._loop.run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self.lost:
                self._stop.wait(self._tick())
        finally:
            self._heart.close()

    def _tick(self) -> float:
        """One beat. Returns the seconds until the next."""
        sent = self._clock.monotonic()
        if sent >= self.deadline:
            self._lose("it could not be extended in time")
            return 0
        self._tell(self._answer)
        if sent - self._answered > self._lease / 2:
            log.error(
                "the event loop has been blocked for %.1f s: not extending", sent - self._answered
            )
            return min(self._beat, self.deadline - sent)
        try:
            extended = self._heart.extend(self._executing())
        except StoreUnavailable as error:
            log.warning("the session could not be extended, trying again: %s", error)
            return min(self._beat / 3, max(0.0, self.deadline - self._clock.monotonic()))
        if not extended:
            self._lose("the store says that it has expired")
            return 0
        self.deadline = sent + self._lease * (1 - _MARGIN)
        self._tell(self._on_beat)
        return max(0.0, self._beat - (self._clock.monotonic() - sent))

    def _lose(self, why: str) -> None:
        log.error("the session is lost: %s", why)
        self.lost = True
        self._tell(self._on_lost)

    def _answer(self) -> None:
        self._answered = self._clock.monotonic()

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            self._stop.set()
