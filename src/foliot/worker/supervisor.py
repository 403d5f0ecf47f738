"""The parent of worker processes: starts them, starts them again when they die, and stops them.

It holds no jobs and no connection, so nothing a job does can reach it. A socket to each child tells it that the
child has come up, or is about to leave; and tells the child when its parent is gone. A child that is recycled finishes
what it runs while the next one is already at work.
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
_AT_ONCE_IS_ONE: Final = 0.1  # seconds within which two signals are one


class Child:
    """One process, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self.process = process
        self.leaving = asyncio.Event()  # it is recycled: another may start
        self.came_up = self.drained = False
        self._line = line
        self._reader = asyncio.create_task(self._listen())

    async def wait(self) -> int:
        code = await self.process.wait()
        self._reader.cancel()
        with self._line, suppress(OSError):
            while said := self._line.recv(16):
                self._hear(said)
        return code

    async def _listen(self) -> None:
        self._line.setblocking(False)  # noqa: FBT003 - its name says it
        with suppress(OSError):
            while said := await asyncio.get_running_loop().sock_recv(self._line, 16):
                self._hear(said)

    def _hear(self, said: bytes) -> None:
        self.came_up |= b"1" in said
        self.drained |= b"d" in said
        if b"r" in said:
            self.leaving.set()


class Supervisor:
    """Keeps `count` children of `command` running until it is told to stop."""

    def __init__(self, command: Sequence[str], count: int, *, clock: Clock, ids: Ids) -> None:
        self._command = command
        self._count = count
        self._clock = clock
        self._ids = ids
        self._children: set[asyncio.subprocess.Process] = set()
        self._leaving: set[asyncio.Task[int]] = set()
        self._stopping = asyncio.Event()
        self._told = 0
        self._told_at = 0.0
        self._came_up = False  # any child, ever: the app and the settings are right

    async def run(self) -> int:
        """0, or the code of a child that could not even start, or 130 when told twice to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]
        codes = await asyncio.gather(*keepers)
        if self._leaving:
            await asyncio.wait(self._leaving)
        return _AT_ONCE if self._told > 1 else max(codes)

    def stop(self) -> None:
        """The first time, ask the children; the second, kill them. Both at once are one: a process manager may tell the
        process and its group."""
        now = self._clock.monotonic()
        if self._told == 1 and now - self._told_at < _AT_ONCE_IS_ONE:
            return
        self._told, self._told_at = self._told + 1, now
        self._stopping.set()
        for child in self._children:
            self._end(child)

    async def _keep(self) -> int:
        """One child after the other."""
        pause = 0.2
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            child = await self._start()
            ended = asyncio.create_task(self._follow(child))
            if await self._is_replaced(child, ended):
                continue
            code = await ended
            if self._stopping.is_set() or child.drained:
                break
            if code > 0 and not self._came_up:
                self._give_up()
                return code
            if self._clock.monotonic() - started > _STEADY:
                pause = 0.2
            _report(child.process.pid, code)
            await self._pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return 0

    async def _follow(self, child: Child) -> int:
        """Until its end; the exit code."""
        self._children.add(child.process)
        if self._stopping.is_set():
            self._end(child.process)
        code = await child.wait()
        self._children.discard(child.process)
        self._came_up |= child.came_up
        return code

    async def _is_replaced(self, child: Child, ended: asyncio.Task[int]) -> bool:
        """Waits until it ends or is about to; whether another one can start at once, beside it if need be."""
        leaving = asyncio.create_task(child.leaving.wait())
        await asyncio.wait([ended, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not child.leaving.is_set():
            return False
        log.info("worker process %d is recycled, starting another", child.process.pid)
        self._leaving.add(ended)
        ended.add_done_callback(self._leaving.discard)
        return True

    async def _start(self) -> Child:
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
        return Child(child, ours)

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


def _report(pid: int, code: int) -> None:
    if code == 0:
        log.warning("worker process %d has stopped, starting another", pid)
    else:
        log.error("worker process %d died (%s), starting another", pid, describe_exit(code))


def child_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "foliot", *arguments]
