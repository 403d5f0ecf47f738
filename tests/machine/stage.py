"""An open store of one kind, and who reads it past its adapter. It serves many runs: emptied, not reopened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from foliot.ids import Ids
from foliot.store.open import open_store
from foliot.store.port import Store
from foliot.testing.clock import ManualClock
from machine.content import PostgresReader, Reader, SqliteReader
from support.stores import Databases, Place, postgres_place, sqlite_place


class Stage(msgspec.Struct, frozen=True):
    place: Place
    store: Store
    reader: Reader
    clock: ManualClock
    ids: Ids
    loop: asyncio.Runner
    reached: set[str] = msgspec.field(default_factory=set)


class Stages(Protocol):
    def __call__(self, engine: str, partitions: int = 1) -> Stage:
        """An empty store of this kind."""
        ...


@asynccontextmanager
async def make_place(
    request: pytest.FixtureRequest, directory: Path, engine: str, partitions: int
) -> AsyncIterator[Place]:
    if engine == "sqlite":
        async with sqlite_place(directory, partitions=partitions) as place:
            yield place
    else:
        databases: Databases = request.getfixturevalue("databases")
        async with postgres_place(databases, partitions=partitions) as place:
            yield place


def open_reader(place: Place) -> Reader:
    if place.engine == "sqlite":
        return SqliteReader(Path(place.direct.removeprefix("sqlite:///")))
    return PostgresReader(place.direct)


@asynccontextmanager
async def open_stage(place: Place, loop: asyncio.Runner) -> AsyncIterator[Stage]:
    clock = ManualClock()
    ids = Ids(clock=clock, seed=1)
    store = await open_store(place.settings, clock=clock, ids=ids, size=2)
    reader = open_reader(place)
    try:
        yield Stage(place, store, reader, clock, ids, loop)
    finally:
        reader.close()
        await store.close()


@contextmanager
def open_stages(
    request: pytest.FixtureRequest, directories: pytest.TempPathFactory
) -> Iterator[Stages]:
    """Each kind is opened once, when it is first asked for."""
    known: dict[tuple[str, int], Stage] = {}
    stack = AsyncExitStack()
    with asyncio.Runner() as loop:

        async def prepare(engine: str, partitions: int) -> Stage:
            place = make_place(request, directories.mktemp(engine), engine, partitions)
            opened = open_stage(await stack.enter_async_context(place), loop)
            return await stack.enter_async_context(opened)

        def get(engine: str, partitions: int = 1) -> Stage:
            if (engine, partitions) not in known:
                known[engine, partitions] = loop.run(prepare(engine, partitions))
            stage = known[engine, partitions]
            stage.reader.clear()
            return stage

        yield get
        loop.run(stack.aclose())
