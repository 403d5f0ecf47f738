"""Child processes for jobs that need one: they can be killed, at their timeout, at their memory limit, by themselves.

A child runs one job at a time and is used again and again; it is made anew when it dies, and replaced when it is worn.
It leads a process group of its own, so that what a job has started ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, Outcome
from foliot.worker.executors.guardian import GUARDIAN
from foliot.worker.executors.wire import (
    Call,
    Done,
    Frames,
    FromChild,
    Leave,
    Ready,
    Said,
    Setup,
    Stop,
    ToChild,
    decode_from_child,
    frame,
)
from foliot.worker.memory import resident_tree
from foliot.worker.run import Elsewhere, Lost, MemoryExceeded

_FAREWELL: Final = 3.0  # seconds that a child gets to end in good order
_LONGEST_START: Final = 300.0  # seconds to load the app and run its start-up functions
_LOOK: Final = 0.05  # seconds between looks at the memory of a limited job


class ChildProcess(asyncio.Protocol):
    """`target` says where the app is: module:attribute, or the path of a script."""

    def __init__(
        self,
        target: str,
        settings: Settings,
        session: SessionId,
        *,
        clock: Clock,
        hear: Callable[[Said], None],
    ) -> None:
        self._target = target
        self._settings = settings
        self._session = session
        self._clock = clock
        self._hear = hear
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._reply: asyncio.Future[FromChild] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._killed_for: BaseException | None = None
        self._jobs = 0
        self._worn_at = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Until it can run jobs. Raises Elsewhere if the app cannot be loaded there, Lost if it dies of it."""
        if self._process is not None:
            if self._process.returncode is None and not self._is_worn():
                return
            await self.close()
        try:
            async with asyncio.timeout(_LONGEST_START):
                await self._start()
        except BaseException as error:
            await self.kill()
            if isinstance(error, TimeoutError):
                text = f"the app could not be loaded: it took more than {_LONGEST_START:g} s"
                raise Elsewhere(text, None) from None
            raise

    async def run(self, job: ClaimedJob, queue: str, *, memory: int | None = None) -> Outcome:
        """How it went. Raises Lost or MemoryExceeded if the child died of it. Cancelled, it kills the child."""
        self._jobs += 1
        watch = self._loop.create_task(self._watch_memory(memory)) if memory else None
        try:
            reply = await self._ask(Call(job, queue))
        except BaseException:
            await (
                self.kill()
            )  # dead, or timed out, or cancelled, or the worker stops: it must not go on
            raise
        finally:
            if watch is not None:
                watch.cancel()
        assert isinstance(reply, Done)
        return reply.outcome

    def tell(self, job: ClaimedJob, *, softly: bool) -> None:
        self._send(Stop(job.fence, job.id, softly))

    async def kill(self) -> int:
        """Ends the child and all that it has started. Returns its exit code."""
        process, self._process = self._process, None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        if process is None:
            return 0
        _kill_group(process.pid)
        code = await process.wait()
        GUARDIAN.forget(process.pid)
        return code

    async def close(self) -> None:
        """In good order where it can."""
        process = self._process
        if process is not None and process.returncode is None:
            self._send(Leave())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _FAREWELL)
        await self.kill()

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            message = decode_from_child(body)
            if isinstance(message, Said):
                self._hear(message)
            elif self._reply is not None and not self._reply.done():
                self._reply.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionResetError())

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def _start(self) -> None:
        self._frames, self._killed_for, self._jobs = Frames(), None, 0
        age = self._settings.worker.recycle_age
        self._worn_at = float("inf") if age is None else self._clock.monotonic() + age
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "foliot.worker.child"),
                *(self._target, str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        GUARDIAN.watch(self._process.pid)
        ours.setblocking(False)  # noqa: FBT003 - its name says it
        self._transport, _ = await self._loop.create_connection(lambda: self, sock=ours)
        ready = await self._ask(Setup(self._session, self._settings))
        assert isinstance(ready, Ready)
        if ready.error is not None:
            raise Elsewhere(ready.error, ready.traceback)

    async def _ask(self, message: ToChild) -> FromChild:
        """Its answer. Raises Lost, or what it was killed for, if it ends first."""
        assert self._process is not None
        self._reply = self._loop.create_future()
        self._send(message)
        # What a job has started may hold the socket open after the child's end: look at both.
        if self._watch is None or self._watch.done():
            self._watch = self._loop.create_task(self._wait_for_end(self._process))
        try:
            return await self._reply
        except ConnectionResetError:
            code = await self.kill()
            raise self._killed_for or Lost(f"its process died ({describe_exit(code)})") from None
        finally:
            self._reply = None

    async def _wait_for_end(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        # What it said last may still be on its way.
        self._loop.call_later(0.05, self._end_of, process)

    def _end_of(self, process: asyncio.subprocess.Process) -> None:
        """By now there may be another one, which has nothing to do with it."""
        if process is self._process:
            self.connection_lost(None)

    def _send(self, message: ToChild) -> None:
        if self._transport is not None:
            self._transport.write(frame(message))

    async def _watch_memory(self, memory: int) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            pid = self.pid
            used = 0 if pid is None else resident_tree(pid)
            if pid is not None and used > memory:
                self._killed_for = MemoryExceeded(
                    f"its process used {used >> 20} MiB of memory, more than {memory >> 20} MiB"
                )
                _kill_group(pid)
                return

    def _is_worn(self) -> bool:
        own = self._settings.worker
        if own.recycle_jobs and self._jobs >= own.recycle_jobs:
            return True
        if self._clock.monotonic() >= self._worn_at:
            return True
        pid = self.pid
        return (
            bool(own.recycle_memory)
            and pid is not None
            and (resident_tree(pid) >= own.recycle_memory)
        )


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    known = -code in set(signal.Signals)
    return f"signal {signal.Signals(-code).name if known else -code}"
