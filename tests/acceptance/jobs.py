"""The jobs of the acceptance tests. Each writes down what it does in a log of its own, outside the store."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from foliot import Cancel, Fixed, Foliot, Retry, current_job

LOG_VARIABLE = "ACCEPTANCE_LOG"


class Event(msgspec.Struct, frozen=True):
    """One line of the run log. `at` is the monotonic clock, which all processes of this machine share."""

    job: str
    attempt: int
    fence: int
    pid: int
    event: str
    at: float
    wall: float
    kind: str


def write(event: str) -> None:
    """Append one line, in one write: lines of many processes do not mix."""
    job = current_job()
    line = Event(
        job=job.id,
        attempt=job.attempt,
        fence=job.fence,
        pid=os.getpid(),
        event=event,
        at=time.monotonic(),
        wall=time.time(),
        kind=job.kind,
    )
    log = os.open(os.environ[LOG_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, msgspec.json.encode(line) + b"\n")
    finally:
        os.close(log)


def is_open(gate: str) -> bool:
    return Path(gate).exists()


async def quick(number: int = 0) -> int:
    write("start")
    write("end")
    return number


def quick_sync(number: int = 0) -> int:
    write("start")
    write("end")
    return number


async def nap(seconds: float) -> int:
    write("start")
    await asyncio.sleep(seconds)
    write("end")
    return current_job().fence


async def gated(gate: str) -> int:
    """Until the file is there. Its result says which claim it was."""
    write("start")
    try:
        while not is_open(gate):  # noqa: ASYNC110 - opened by another process
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        write("cancelled")
        raise
    write("end")
    return current_job().fence


def gated_sync(gate: str) -> int:
    write("start")
    while not is_open(gate):
        if current_job().cancelled:
            write("cancelled")
            raise Cancel("seen")
        time.sleep(0.01)
    write("end")
    return current_job().fence


def hang(gate: str) -> None:
    """Keeps its thread, whatever happens to its attempt."""
    write("start")
    while not is_open(gate):
        time.sleep(0.01)


async def stubborn(gate: str) -> int:
    """Does not let itself be cancelled."""
    write("start")
    while not is_open(gate):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            write("cancelled")
    write("end")
    return current_job().fence


async def block(seconds: float) -> int:
    """Holds the whole event loop up, the first time."""
    write("start")
    if current_job().fence == 1:
        time.sleep(seconds)  # noqa: ASYNC251 - this is what it is for
    write("end")
    return current_job().fence


async def poison(how: str) -> None:
    """Ends the process that it runs in."""
    write("start")
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(int(how))


def forking() -> None:
    """Leaves a process behind, in a worker while that lives, and ends its own otherwise."""
    write("start")
    told, tell = os.pipe()
    if os.fork() == 0:
        write("forked")
        os.write(tell, b"1")
        time.sleep(600)
        os._exit(0)
    os.read(told, 1)
    while current_job().fence == 1:
        time.sleep(0.01)
    os._exit(3)


async def doubtful(gate: str) -> int:
    """Waits for its end the first time, asks for a retry the second, and fails the third."""
    fence = current_job().fence
    if fence == 1:
        return await gated(gate)
    write("start")
    if fence == 2:
        raise Retry(after=0.2, reason="not yet")
    if fence == 3:
        raise ValueError("not this time")
    return fence


def leave(code: int) -> None:
    write("start")
    sys.exit(code)


class Jobs:
    """All of them, for one store."""

    def __init__(self, url: str | None = None, *, stranger: bool = False) -> None:
        self.app = Foliot(url)
        self.quick = self.app.job(quick)
        self.quick_sync = self.app.job(quick_sync)
        self.nap = self.app.job(nap)
        self.gated = self.app.job(gated)
        self.gated_sync = self.app.job(gated_sync)
        self.stubborn = self.app.job(stubborn)
        self.block = self.app.job(block)
        self.poison = self.app.job(poison)
        self.forking = self.app.job(forking)
        self.doubtful = self.app.job(retry=Fixed(0.1))(doubtful)
        self.leave = self.app.job(max_attempts=1)(leave)
        self.hasty_sync = self.app.job(kind="hasty_sync", timeout=1)(gated_sync)
        self.hang = self.app.job(timeout=0.3, max_attempts=1)(hang)
        if stranger:
            self.strange = self.app.job(kind="strange")(quick)


app = Jobs().app
knowing = Jobs(stranger=True).app
