"""A server with ready-made databases, and fleets of worker processes on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, create_schema

FleetMaker = Callable[..., Fleet]
_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[TemporaryPostgres]:
    """Shared by all tests that leave it running."""
    with TemporaryPostgres() as server:
        for partitions in (1, 8):
            create_schema(server.create_database(f"template_{partitions}"), partitions=partitions)
        yield server


@pytest.fixture
def own_server() -> Iterator[TemporaryPostgres]:
    """For tests that stop it, or make it read-only."""
    with TemporaryPostgres() as server:
        create_schema(server.create_database("jobs"), partitions=1)
        yield server


@pytest.fixture
def make_database(server: TemporaryPostgres) -> Iterator[Callable[[int], str]]:
    """A new database; its name."""
    made: list[str] = []

    def make(partitions: int = 1) -> str:
        made.append(f"jobs_{next(_numbers)}")
        server.create_database(made[-1], template=f"template_{partitions}")
        return made[-1]

    yield make
    for name in made:
        server.drop_database(name)


@pytest.fixture
def make_fleet(
    server: TemporaryPostgres, make_database: Callable[[int], str], tmp_path: Path
) -> Iterator[FleetMaker]:
    """Workers on PostgreSQL, on a database of their own unless a URL is given."""
    with ExitStack() as stack:

        def make(url: str | None = None, *, partitions: int = 1, **settings: str) -> Fleet:
            chosen = url or server.url(make_database(partitions))
            return stack.enter_context(Fleet(chosen, tmp_path, **settings))

        yield make


@pytest.fixture
def fleet(make_fleet: FleetMaker) -> Fleet:
    return make_fleet()


@pytest.fixture(params=["postgres", "sqlite"])
def any_fleet(request: pytest.FixtureRequest, make_fleet: FleetMaker, tmp_path: Path) -> Fleet:
    """On each kind of store."""
    if request.param == "postgres":
        return make_fleet()
    url = f"sqlite:///{tmp_path}/jobs.db"
    create_schema(url, partitions=1)
    return make_fleet(url)
