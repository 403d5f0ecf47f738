"""A child process for what might kill the process it runs in: one job at a time, made again when it dies.

Parent and child speak JSON lines over pipes: a job in, how it went out. The child ends with its parent, and takes
along whatever the job has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

import msgspec

from foliot.errors import Cancel, Retry
from foliot.model.job import ClaimedJob
from foliot.worker.run import Elsewhere, Lost


class Call(msgspec.Struct, frozen=True):
    """What the child is asked to run."""

    job: ClaimedJob


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """How it went: a result, unless one of the others is set."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    traceback: str | None = None
    cancel: str | None = None
    retry: str | None = None  # the reason that the function gave
    retry_after: float | None = None


class ChildProcess:
    """`target` says where the app is: module:attribute, or the path of a script."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, job: ClaimedJob) -> Any:
        """What the function returned, as JSON. Raises what it raised, or Lost if the child died of it."""
        process = await self._start()
        try:
            line = await _exchange(process, msgspec.json.encode(Call(job)) + b"\n")
        except BaseException:
            await self.close()  # timed out, cancelled, or the worker stops: it must not go on
            raise
        if not line:
            code = await self.close()
            raise Lost(f"its process died ({describe_exit(code)})")
        return _read(msgspec.json.decode(line, type=Reply))

    async def close(self) -> int:
        """Ends the child and all that it has started. Returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            await self.close()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "foliot.worker.child",
                self._target,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=1 << 26,
            )
        return self._process


async def _exchange(process: asyncio.subprocess.Process, call: bytes) -> bytes:
    """One line out, one line in; nothing if the process ends first."""
    assert process.stdin is not None and process.stdout is not None
    # What a job has started may hold the pipe open after the child's end: look at both.
    reply = asyncio.ensure_future(process.stdout.readline())
    ended = asyncio.ensure_future(process.wait())
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(call)
            await process.stdin.drain()
        await asyncio.wait([reply, ended], return_when=asyncio.FIRST_COMPLETED)
        return reply.result() if reply.done() else b""
    finally:
        reply.cancel()
        ended.cancel()
        await asyncio.gather(reply, ended, return_exceptions=True)


def _read(reply: Reply) -> Any:
    if reply.cancel is not None:
        raise Cancel(reply.cancel)
    if reply.retry is not None:
        raise Retry(reply.retry_after, reason=reply.retry)
    if reply.error is not None:
        raise Elsewhere(reply.error, reply.traceback)
    return None if bytes(reply.result) == b"null" else reply.result


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    known = -code in set(signal.Signals)
    return f"signal {signal.Signals(-code).name if known else -code}"
