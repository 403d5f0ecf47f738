"""Running a Process as the program: its event loop, its signals, its exit.

The first SIGTERM or SIGINT stops in good order, the second ends the program at once. A program that was started by
a supervisor also stops when that is gone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.life import Role
from foliot.loop import loop_factory
from foliot.process import Leaving, Process

log = logging.getLogger("foliot.process")
_AT_ONCE = 130
LIVING = b"1"  # what a process tells its supervisor when it has opened a session
LEAVING = {Leaving.RECYCLED: b"r", Leaving.DRAINED: b"d"}  # and when it is going to stop by itself


def serve(
    role: Role, settings: Settings, *, clock: Clock, ids: Ids, parent: socket.socket | None = None
) -> None:
    """Until told to stop. What still runs a job when it ends is left behind. `parent` leads to the supervisor."""
    runner = asyncio.Runner(loop_factory=loop_factory())
    left_behind = runner.run(_serve(role, settings, clock, ids, parent))
    if not left_behind:
        runner.close()  # it waits for every task, and some never end


@asynccontextmanager
async def embed(role: Role, settings: Settings, *, clock: Clock, ids: Ids) -> AsyncIterator[None]:
    """A Process on the running loop of somebody else's program, from its first session to a stop in good order."""
    living = asyncio.Event()
    process = Process(role, settings, clock=clock, ids=ids, on_live=living.set)
    running = asyncio.create_task(process.run())
    first = asyncio.create_task(living.wait())
    try:
        await asyncio.wait([running, first], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()  # it ended before it began: this says why
        yield
    finally:
        first.cancel()
        process.stop()
        await running


def leave_threads_behind() -> None:
    """Exit although threads still run: their jobs have been given back."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _serve(
    role: Role, settings: Settings, clock: Clock, ids: Ids, parent: socket.socket | None
) -> bool:
    """Whether tasks are left that do not let themselves be cancelled."""
    process = Process(
        role,
        settings,
        clock=clock,
        ids=ids,
        on_live=partial(_settle_in, parent),
        on_leave=None if parent is None else partial(_tell_leaving, parent),
        supervised=parent is not None,
    )
    told = False

    def stop() -> None:
        nonlocal told
        if told and parent is not None:
            return  # whoever signals all processes reaches us twice; a supervisor that is in a hurry kills
        if told:
            log.warning("told to stop a second time: ending at once")
            os._exit(_AT_ONCE)
        told = True
        process.stop()

    # Only the main thread may handle signals; elsewhere the caller's program does.
    loop = asyncio.get_running_loop()
    handled = (
        [signal.SIGTERM, signal.SIGINT]
        if threading.current_thread() is threading.main_thread()
        else []
    )
    for number in handled:
        loop.add_signal_handler(number, stop)
    watch = None if parent is None else loop.create_task(_outlive(parent, process))
    try:
        await process.run()
    finally:
        if watch is not None:
            watch.cancel()
        for number in handled:
            loop.remove_signal_handler(number)
    return await _cancel_rest()


async def _outlive(parent: socket.socket, process: Process) -> None:
    """Stop when the supervisor is gone: nobody else would ever stop us."""
    parent.settimeout(0)
    with suppress(OSError):
        await asyncio.get_running_loop().sock_recv(parent, 1)
    log.error("the supervisor is gone: stopping")
    process.stop()


def _settle_in(parent: socket.socket | None) -> None:
    """What is there by now stays. On a busy worker every full collection would walk through all of it, for nothing, and
    all jobs would wait for that."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    if parent is not None:
        _tell(parent, LIVING)


def _tell_leaving(parent: socket.socket, leaving: Leaving) -> None:
    _tell(parent, LEAVING[leaving])


def _tell(parent: socket.socket, what: bytes) -> None:
    """Of LIVING: from now on, an exit is not the fault of a wrong app or setting."""
    with suppress(OSError):
        parent.send(what)


async def _cancel_rest() -> bool:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return False
    _, pending = await asyncio.wait(tasks, timeout=1)
    return bool(pending)
