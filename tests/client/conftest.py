"""An app on a fresh store, and a worker for it in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foliot import Foliot
from foliot.life import Role
from foliot.process import Process
from support.stores import Databases


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On each kind of store; of what is tried with many values, one store sees enough."""
    if "engine" in metafunc.fixturenames:
        many = metafunc.definition.get_closest_marker("parametrize") is not None
        metafunc.parametrize("engine", ["sqlite"] if many else ["sqlite", "postgres"])


@pytest.fixture
def app(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Foliot]:
    if engine == "sqlite":
        with Foliot(f"sqlite:///{tmp_path}/foliot.db") as app:
            yield app
        return
    databases: Databases = request.getfixturevalue("databases")
    with asyncio.Runner() as runner:
        borrowed = databases.borrow(1)
        with Foliot(databases.server.url(runner.run(borrowed.__aenter__()))) as app:
            yield app
        runner.run(borrowed.__aexit__(None, None, None))


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
