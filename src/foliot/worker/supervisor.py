"""The parent of worker processes: starts them, starts them again when they die, and stops them.

It holds no jobs and no connection, so nothing a job does can reach it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from foliot.clock import Clock
from foliot.ids import Ids

log = logging.getLogger("foliot.supervisor")
_STEADY: Final = 10.0  # seconds after which a start counts as a good one
_LONGEST_PAUSE: Final = 30.0


class Supervisor:
    """Keeps `count` children of `command` running until it is told to stop."""

    def __init__(self, command: Sequence[str], count: int, *, clock: Clock, ids: Ids) -> None:
        self._command = command
        self._count = count
        self._clock = clock
        self._ids = ids
        self._children: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._told = 0

    async def run(self) -> int:
        """0, or 1 if a child could not even start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]
        codes = await asyncio.gather(*keepers)
        return max(codes)

    def stop(self) -> None:
        """The first time, ask the children; the second, kill them."""
        self._told += 1
        self._stopping.set()
        for child in self._children:
            if child.returncode is None:
                child.send_signal(signal.SIGTERM if self._told == 1 else signal.SIGKILL)

    async def _keep(self) -> int:
        """One child after the other."""
        pause = 0.2
        while True:
            started = self._clock.monotonic()
            child = await asyncio.create_subprocess_exec(*self._command)
            self._children.add(child)
            if self._stopping.is_set():
                child.terminate()
            code = await child.wait()
            self._children.discard(child)
            if self._stopping.is_set():
                return 0
            if code == 2 or (code == 1 and self._clock.monotonic() - started < 5):
                return code  # a wrong setting or app: starting it again would not help
            if self._clock.monotonic() - started > _STEADY:
                pause = 0.2
            log.error(
                "worker process %d died (%s), starting another", child.pid, describe_exit(code)
            )
            await self._pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._ids.jitter(seconds))


def describe_exit(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def child_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "foliot", *arguments]
