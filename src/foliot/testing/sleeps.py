"""Sleeps in jobs that take no time: the clock of the test moves instead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from foliot.testing.clock import ManualClock
from foliot.worker.context import CURRENT


@contextmanager
def skipped(clock: ManualClock, moved: Callable[[], None]) -> Iterator[None]:
    """In this block `asyncio.sleep` and `time.sleep` move the clock where a job calls them, and `moved` is told. Sleeps
    at the same time overlap. Whoever imported the functions by name, or is no job, sleeps as always."""
    real, real_async = time.sleep, asyncio.sleep

    def sleep(seconds: float) -> None:
        if CURRENT.get(None) is None:
            real(seconds)
        else:
            clock.advance(seconds)
            moved()

    async def asleep(delay: float, result: Any = None) -> Any:
        current = CURRENT.get(None)
        if current is None or delay <= 0:
            return await real_async(delay, result)
        left = current.remaining()
        if left is not None and left < delay:
            await pass_by(left)  # does not come back, unless the job is stubborn
            delay -= left
        await pass_by(delay)
        return result

    async def pass_by(seconds: float) -> None:
        await clock.sleep(seconds)
        moved()
        await real_async(0)  # what is late now is ended here

    time.sleep, asyncio.sleep = sleep, asleep  # type: ignore[assignment] # only their annotations differ
    try:
        yield
    finally:
        time.sleep, asyncio.sleep = real, real_async
