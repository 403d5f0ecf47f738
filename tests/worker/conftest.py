"""Slots and a cycle by themselves, on a clock that stands still; and workers with child processes on each store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from foliot.config import Settings, WorkerSettings
from foliot.ids import Ids
from foliot.model.job import ClaimedJob, Outcome
from foliot.registry import Registry, define
from foliot.testing.clock import ManualClock
from foliot.worker.context import Place, State
from foliot.worker.notes import Notes
from foliot.worker.slots import Slots
from support.stores import Databases
from worker.shop import Shop


class Bench:
    """Slots that run the functions they are given, and what came out of them."""

    def __init__(self, clock: ManualClock, *functions: Callable[..., Any], **worker: Any) -> None:
        self.clock = clock
        self.ids = Ids(clock=clock, seed=1)
        self.done: list[Outcome] = []
        registry = Registry()
        for function in functions:
            registry.add(define(function))
        settings = Settings(worker=WorkerSettings(**worker))
        self.notes = Notes(settings, clock, wake=lambda: None)
        self.place = Place(self.ids.session(), clock, self.notes, {}, State())
        self.slots = Slots(
            registry,
            settings,
            self.place,
            ids=self.ids,
            target=None,
            trusted=lambda: True,
            on_done=self.done.append,
        )

    def job(
        self, kind: str, *, timeout: float | None = None, attempt: int = 1, lane: int = 0
    ) -> ClaimedJob:
        return ClaimedJob(
            self.ids.job(), 1, kind, b"{}", attempt, 5, 0, timeout, linked=False, lane=lane
        )

    def add(self, *jobs: ClaimedJob) -> None:
        self.slots.add(jobs, since=self.clock.monotonic())


MakeBench = Callable[..., Bench]


@asynccontextmanager
async def benches(clock: ManualClock) -> AsyncIterator[MakeBench]:
    made: list[Bench] = []

    def make(*functions: Callable[..., Any], **worker: Any) -> Bench:
        made.append(Bench(clock, *functions, **worker))
        return made[-1]

    yield make
    for bench in made:
        await bench.slots.close()


@pytest.fixture
async def make_bench(clock: ManualClock) -> AsyncIterator[MakeBench]:
    async with benches(clock) as make:
        yield make


MakeShop = Callable[..., Shop]


@contextmanager
def fresh_url(engine: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if engine == "sqlite":
        yield f"sqlite:///{folder}/foliot.db"
        return
    databases: Databases = request.getfixturevalue("databases")
    with asyncio.Runner() as runner:
        borrowed = databases.borrow(1)
        yield databases.server.url(runner.run(borrowed.__aenter__()))
        runner.run(borrowed.__aexit__(None, None, None))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shop(
    engine: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Shop]:
    """Shared: its children are warm, and a test leaves nothing that another would see."""
    with fresh_url(engine, tmp_path_factory.mktemp("shop"), request) as url:
        shop = Shop(url)
        yield shop
        shop.close()


@pytest.fixture
def make_shop(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeShop]:
    """One with settings of its own."""
    with fresh_url(engine, tmp_path, request) as url:
        made: list[Shop] = []

        def make(**settings: Any) -> Shop:
            made.append(Shop(url, **settings))
            return made[-1]

        yield make
        for shop in made:
            shop.close()
