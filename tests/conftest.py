"""What every test may ask for: a clock that stands still, a PostgreSQL server, a store of each kind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foliot.testing.clock import ManualClock
from foliot.testing.postgres import TemporaryPostgres
from support.pooler import RotatingPooler
from support.stores import (
    Databases,
    Place,
    World,
    open_world,
    pooled_place,
    postgres_place,
    sqlite_place,
)

IN_MEMORY = Path("/dev/shm")
ROOM = 8 * 2**30
STORES = ["sqlite-1", "sqlite-8", "postgres-1", "postgres-8", "pooled-8"]


def pytest_configure() -> None:
    """Files and servers of tests are in memory where there is room: nothing has to wait for a disk."""
    if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM:
        os.environ.setdefault("TMPDIR", str(IN_MEMORY))
        tempfile.tempdir = None  # to be looked up again


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> ManualClock:
    # Today, because the days of history that a new store has begin yesterday.
    return ManualClock(datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0))


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """One server for each process that runs tests."""
    with TemporaryPostgres() as server, closing(Databases(server)) as databases:
        yield databases


@pytest.fixture(scope="session")
def pooled(databases: Databases) -> Iterator[RotatingPooler]:
    with RotatingPooler(str(databases.server.directory), databases.server.port) as pooler:
        yield pooler


@pytest.fixture(params=STORES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    engine, partitions = str(request.param).split("-")
    count = int(partitions)
    if engine == "sqlite":
        async with sqlite_place(tmp_path, partitions=count) as found:
            yield found
        return
    databases: Databases = request.getfixturevalue("databases")
    if engine == "postgres":
        async with postgres_place(databases, partitions=count) as found:
            yield found
        return
    pooler: RotatingPooler = request.getfixturevalue("pooled")
    async with pooled_place(databases, pooler, partitions=count) as found:
        yield found


@pytest.fixture
async def world(place: Place, clock: ManualClock) -> AsyncIterator[World]:
    """An open store of each kind in turn, empty."""
    async with open_world(place, clock) as world:
        yield world
