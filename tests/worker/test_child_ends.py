"""A child process that has ended says so once, and only of itself."""

from __future__ import annotations

import asyncio
import sys

import pytest

from foliot.clock import SystemClock
from foliot.config import Settings
from foliot.ids import SessionId
from foliot.worker.executors.process import ChildProcess
from foliot.worker.executors.wire import FromChild

pytestmark = pytest.mark.anyio


async def run(program: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE, start_new_session=True
    )


async def test_the_end_of_one_child_is_not_taken_for_that_of_the_next() -> None:
    child = ChildProcess(
        "app:app", Settings(), SessionId("s"), clock=SystemClock(), hear=lambda _: None
    )
    child._process = await run("")
    await child._wait_for_end(child._process)
    child._process = await run("input()")  # started at once, as after a job that killed its process
    reply: asyncio.Future[FromChild] = asyncio.get_running_loop().create_future()
    child._reply = reply
    await asyncio.sleep(0.2)
    assert not reply.done()
    await child.kill()
