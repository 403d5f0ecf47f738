"""A child process for what might kill the process it runs in: one job at a time, made again when it dies.

Parent and child speak JSON lines over pipes: a job in, `{"result": …}` or `{"error": …}` out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

import msgspec

from foliot.errors import Cancel
from foliot.model.job import ClaimedJob
from foliot.worker.run import Lost


class Call(msgspec.Struct, frozen=True):
    """What the child is asked to run."""

    job: ClaimedJob


class Reply(msgspec.Struct, frozen=True):
    """How it went. `error` is the text of the exception, `traceback` where it was."""

    result: msgspec.Raw | None = None
    error: str | None = None
    traceback: str | None = None
    retry_after: float | None = None
    cancel: str | None = None


class ChildError(Exception):
    """The job's function raised, in the child."""


class ChildProcess:
    """`target` says where the app is: module:attribute, or the path of a script."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, job: ClaimedJob) -> Any:
        process = await self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(Call(job)) + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        except BaseException:
            await self.close()  # timed out, cancelled, or the worker stops: it must not go on
            raise
        if not line:
            code = await process.wait()
            self._process = None
            raise Lost(f"its process died ({_how(code)})")
        return _read(msgspec.json.decode(line, type=Reply))

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
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


def _read(reply: Reply) -> Any:
    if reply.cancel is not None:
        raise Cancel(reply.cancel)
    if reply.error is not None:
        raise ChildError(reply.error)
    return reply.result


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
