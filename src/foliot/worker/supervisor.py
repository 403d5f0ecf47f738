"""The parent of worker processes: starts them, starts them again when they die, and stops them.

It holds no jobs and no connection, so nothing a job does can reach it. A socket to each child tells it that the
child has come up, and tells the child when its parent is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from foliot.clock import Clock
from foliot.ids import Ids
from foliot.worker.executors.process import describe_exit

log = logging.getLogger("foliot.supervisor")
_STEADY: Final = 10.0  # seconds after which a start counts as a good one
_LONGEST_PAUSE: Final = 30.0
_AT_ONCE: Final = 130


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
        self._came_up = False  # any child, ever: the app and the settings are right

    async def run(self) -> int:
        """0, or the code of a child that could not even start, or 130 when told twice to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]
        codes = await asyncio.gather(*keepers)
        return _AT_ONCE if self._told > 1 else max(codes)

    def stop(self) -> None:
        """The first time, ask the children; the second, kill them."""
        self._told += 1
        self._stopping.set()
        for child in self._children:
            self._end(child)

    async def _keep(self) -> int:
        """One child after the other."""
        pause = 0.2
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            child, line = await self._start()
            self._children.add(child)
            if self._stopping.is_set():
                self._end(child)
            code = await child.wait()
            self._children.discard(child)
            self._came_up |= _has_come_up(line)
            if self._stopping.is_set():
                break
            if code > 0 and not self._came_up:
                self._give_up()
                return code
            if self._clock.monotonic() - started > _STEADY:
                pause = 0.2
            if code == 0:
                log.warning("worker process %d has stopped, starting another", child.pid)
            else:
                how = describe_exit(code)
                log.error("worker process %d died (%s), starting another", child.pid, how)
            await self._pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return 0

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            # A group of its own: Ctrl-C in a terminal goes to the whole group, and would count twice.
            child = await asyncio.create_subprocess_exec(
                *self._command,
                "--parent",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        return child, ours

    def _end(self, child: asyncio.subprocess.Process) -> None:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                if self._told > 1:
                    os.killpg(child.pid, signal.SIGKILL)
                else:
                    child.terminate()

    def _give_up(self) -> None:
        """A wrong app or setting: starting it again would not help, and the others are no better."""
        self._stopping.set()
        for child in self._children:
            self._end(child)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._ids.jitter(seconds))


def _has_come_up(line: socket.socket) -> bool:
    """What the child said before it ended."""
    with line, suppress(BlockingIOError):
        line.settimeout(0)
        return bool(line.recv(1))
    return False


def child_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "foliot", *arguments]
