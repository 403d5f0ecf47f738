"""Running a Process as the program: its event loop, its signals, its exit.

The first SIGTERM or SIGINT stops in good order, the second ends the program at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

try:
    import uvloop
except ImportError:  # there is none for Windows
    uvloop = None  # type: ignore[assignment]

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.process import Process, Role

log = logging.getLogger("foliot.process")
_AT_ONCE = 130


def serve(role: Role, settings: Settings, *, clock: Clock, ids: Ids) -> None:
    """Until told to stop. Threads that still run a job when it ends are left behind."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(role, settings, clock, ids))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    return None if uvloop is None else uvloop.new_event_loop


def leave_threads_behind() -> None:
    """Exit although threads still run: their jobs have been given back."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _serve(role: Role, settings: Settings, clock: Clock, ids: Ids) -> None:
    process = Process(role, settings, clock=clock, ids=ids)
    told = False

    def stop() -> None:
        nonlocal told
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
    try:
        await process.run()
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
