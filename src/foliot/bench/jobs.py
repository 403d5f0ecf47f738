"""The jobs of the bench, as a user would write them: `foliot worker foliot.bench.jobs:app` runs them."""

from __future__ import annotations

import asyncio
import os
import resource
import sys

import msgspec

from foliot.bench.fires import note
from foliot.bench.sheet import calls, moments
from foliot.bench.sizes import resident_bytes
from foliot.client.app import Foliot
from foliot.worker.context import current_job

QUEUE = "bench"
KINDS = "bench."  # how the kinds of all jobs of the bench begin
FIRE = "bench.fire"

app = Foliot()


class Usage(msgspec.Struct, frozen=True):
    """What a worker process has used."""

    process: int
    cpu_seconds: float
    resident_bytes: int


@app.job(kind="bench.async", queue=QUEUE, max_attempts=1)
async def count_async(n: int, sheet: str, filler: str = "") -> None:  # noqa: ARG001 - its weight counts
    """Nothing but being counted."""
    calls(sheet)[n] += 1


@app.job(kind="bench.slowly", queue=QUEUE, max_attempts=1)
async def count_slowly(n: int, sheet: str, filler: str = "") -> None:  # noqa: ARG001
    """The same, a millisecond later."""
    await asyncio.sleep(0.001)
    calls(sheet)[n] += 1


@app.job(kind="bench.sync", queue=QUEUE, max_attempts=1)
def count_sync(n: int, sheet: str, filler: str = "") -> None:  # noqa: ARG001
    """The same, in a thread."""
    calls(sheet)[n] += 1


@app.job(kind="bench.process", queue=QUEUE, max_attempts=1, executor="process")
def count_process(n: int, sheet: str, filler: str = "") -> None:  # noqa: ARG001
    """The same, in a child process."""
    calls(sheet)[n] += 1


@app.job(kind="bench.transaction", queue=QUEUE, max_attempts=1)
async def count_transaction(n: int, sheet: str, filler: str = "") -> None:  # noqa: ARG001
    """The same, in a transaction of its own that ends it."""
    async with current_job().transaction() as tx:
        await tx.execute("SELECT 1")
    calls(sheet)[n] += 1


@app.job(kind="bench.moment", queue=QUEUE, max_attempts=1)
async def note_moment(n: int, sheet: str, moments_of: str) -> None:
    """Note when it began."""
    moments(moments_of)[n] = app.clock.monotonic()
    calls(sheet)[n] += 1


@app.job(kind="bench.rest", queue=QUEUE, max_attempts=1)
async def rest(n: int, seconds: float, moments_of: str) -> int:
    """Take so long, and note when that was over."""
    await app.clock.sleep(seconds)
    moments(moments_of)[n] = app.clock.monotonic()
    return n


@app.job(kind=FIRE, queue=QUEUE, max_attempts=1)
async def note_fire(n: int) -> None:
    """The run of a schedule: note which, of what time, and when it began."""
    began = app.clock.monotonic()
    nominal = current_job().nominal_at
    note(n, 0 if nominal is None else int(nominal.timestamp()), began)


@app.job(kind="bench.usage", queue=QUEUE, max_attempts=1)
async def usage() -> Usage:
    """What the process that runs this has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(os.getpid(), used.ru_utime + used.ru_stime, _resident(used.ru_maxrss))


def _resident(peak: int) -> int:
    """Memory in use now; where the system does not tell, the most so far."""
    now = resident_bytes(os.getpid())
    if now is not None:
        return now
    return peak if sys.platform == "darwin" else peak * 1024
