"""An app on a fresh SQLite file, and a worker for it in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foliot import Foliot
from foliot.life import Role
from foliot.process import Process


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Foliot]:
    with Foliot(f"sqlite:///{tmp_path}/foliot.db") as app:
        yield app


@pytest.fixture
def start_worker(app: Foliot) -> Iterator[Callable[[], None]]:
    """Call it when the jobs are defined."""
    stops: list[Callable[[], None]] = []

    def start() -> None:
        stops.append(run_in_thread(app))

    yield start
    for stop in stops:
        stop()


def run_in_thread(app: Foliot) -> Callable[[], None]:
    """Returns what stops it."""
    ready = threading.Event()
    found: list[tuple[asyncio.AbstractEventLoop, Process]] = []

    async def main() -> None:
        process = Process(Role(app.registry), app.settings, clock=app.clock, ids=app.ids)
        found.append((asyncio.get_running_loop(), process))
        ready.set()
        await process.run()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()

    def stop() -> None:
        loop, process = found[0]
        loop.call_soon_threadsafe(process.stop)
        thread.join(30)
        assert not thread.is_alive()

    return stop
