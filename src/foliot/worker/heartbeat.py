"""The heartbeat: a thread that keeps the session alive, and knows when it can no longer be trusted.

    beating --(extend says no, or the local deadline passes)--> lost

The local deadline counts from *before* an extend was sent, so this process stops trusting its lease before the
store does. The event loop watches it too, for the thread may wait for a reply that never comes. When the event loop
has not answered for half a lease the thread stops extending: a process that cannot react should not hold jobs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from foliot.clock import Clock
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.store.living import Heart, Load

log = logging.getLogger("foliot.worker")
_MARGIN: Final = 0.05  # of a lease: the local deadline comes this much before the store's
_FAREWELL: Final = 1.0  # seconds that the thread gets to end


class Owner(msgspec.Struct, frozen=True):
    """Whom the session belongs to. The first two are asked by the heartbeat's thread, the others told on the loop."""

    executing: Callable[[], Sequence[JobId]]
    load: Callable[[], Load]
    on_lost: Callable[[], None]
    on_beat: Callable[[], None]
    on_drain: Callable[[], None]


class Heartbeat:
    def __init__(
        self,
        heart: Heart,
        clock: Clock,
        *,
        opened: float,
        lease: float,
        beat: float,
        owner: Owner,
    ) -> None:
        """`opened` is when the session was asked for, on the monotonic clock."""
        self._heart = heart
        self._clock = clock
        self._lease = lease
        self._beat = beat
        self._owner = owner
        self._drained = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foliot-heartbeat", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._watch: asyncio.Task[None] | None = None
        self._answered = clock.monotonic()
        self._asked: float | None = None  # since when the event loop owes an answer
        self.deadline = opened + lease * (1 - _MARGIN)
        self.lost = False

    def start(self) -> None:
        self._thread.start()
        self._watch = self._loop.create_task(self._watch_deadline())

    @property
    def trusted(self) -> bool:
        """Whether what this session does now can still count."""
        return not self.lost and self._clock.monotonic() < self.deadline

    async def stop(self) -> None:
        self._stop.set()
        if self._watch is not None:
            self._watch.cancel()
        # Where the store does not answer, the thread is left behind: it changes nothing any more.
        await self._loop.run_in_executor(None, self._thread.join, _FAREWELL)

    async def _watch_deadline(self) -> None:
        while not self.lost:
            left = self.deadline - self._clock.monotonic()
            if left <= 0:
                self._lose("it could not be extended in time")
            else:
                await self._clock.sleep(left)

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
        blocked = self._find_block(sent)
        if sent - self._answered > self._lease / 2:
            log.error(
                "the event loop has been blocked for %.1f s, not extending the session. It is at:\n%s",
                sent - self._answered,
                self._whereabouts(),
            )
            return min(self._beat, self.deadline - sent)
        try:
            load = self._owner.load()
            if blocked is not None:
                load = replace(load, note=blocked)
            extended = self._heart.extend(self._owner.executing(), load)
        except StoreUnavailable as error:
            log.warning("the session could not be extended, trying again: %s", error)
            return min(self._beat / 3, max(0.0, self.deadline - self._clock.monotonic()))
        if extended is None:
            self._lose("the store says that it has expired")
            return 0
        if extended.drain and not self._drained:
            self._drained = True
            self._tell(self._owner.on_drain)
        self.deadline = sent + self._lease * (1 - _MARGIN)
        self._tell(self._owner.on_beat)
        return max(0.0, self._beat - (self._clock.monotonic() - sent))

    def _find_block(self, now: float) -> str | None:
        """Ask the event loop for an answer. If it still owes the last one: for how long, and where it is."""
        if self._asked is None:
            self._asked = now
            self._tell(self._answer)
            return None
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented
        where = "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        name = "" if frame is None else f" in {frame.f_code.co_name}"
        return f"the event loop is blocked for {now - self._asked:.1f} s at {where}{name}"

    def _whereabouts(self) -> str:
        """What the event loop's thread is doing now."""
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented
        return "".join(traceback.format_stack(frame)[-5:]) if frame is not None else "?"

    def _lose(self, why: str) -> None:
        if self.lost:
            return
        log.error("the session is lost: %s", why)
        self.lost = True
        self._tell(self._owner.on_lost)

    def _answer(self) -> None:
        self._answered = self._clock.monotonic()
        self._asked = None

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            self._stop.set()
