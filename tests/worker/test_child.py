"""What a child process is told of its job, and when."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from foliot import SoftTimeout
from foliot.config import Settings
from foliot.ids import Ids
from foliot.model.job import ClaimedJob
from foliot.registry import Registry, define
from foliot.worker.child import Child, Line
from foliot.worker.executors.wire import Call, Setup, Stop


async def patient() -> str:
    try:
        await asyncio.sleep(5)
    except SoftTimeout:
        return "told"
    return "not told"


@pytest.fixture
def child() -> Iterator[Child]:
    """In this process."""
    registry = Registry()
    registry.add(define(patient, kind="patient"))
    ours, theirs = socket.socketpair()
    with ours, theirs, asyncio.Runner() as runner:
        yield Child(Line(ours), Setup(Ids().session(), Settings()), registry, runner)


def job(fence: int) -> ClaimedJob:
    return ClaimedJob(Ids().job(), fence, "patient", b"{}", 1, 1, 0, 30.0, linked=False)


def test_what_comes_before_the_job_has_begun_is_told_when_it_begins(child: Child) -> None:
    """A child that gets no processor time may read of the soft timeout before it has begun."""
    first = job(1)
    child.stop(Stop(first.fence, first.id, softly=True))
    ended = copy_context().run(
        child.run, Call(first, "default")
    )  # it is the current job there alone
    assert ended.result == b'"told"'


def test_what_was_for_another_job_is_told_to_none(child: Child) -> None:
    first, second = job(1), job(1)
    child.stop(Stop(first.fence, first.id, softly=True))
    stopped = asyncio.run(_soon(child, second))
    assert stopped == b'"told"'  # by its own, and only then


async def _soon(child: Child, one: ClaimedJob) -> bytes | None:
    """Told after a moment; before that nothing has ended it."""
    running = asyncio.get_running_loop().run_in_executor(None, child.run, Call(one, "default"))
    await asyncio.sleep(0.2)
    assert not running.done()
    child.stop(Stop(one.fence, one.id, softly=True))
    return (await running).result
