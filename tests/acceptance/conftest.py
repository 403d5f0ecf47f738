"""A server with ready-made databases, and fleets of worker processes on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, create_schema

FleetMaker = Callable[..., Fleet]


class Databases:
    """Databases with tables, emptied between tests: that is several times faster than making new ones."""

    def __init__(self, server: TemporaryPostgres) -> None:
        self._server = server
        self._emptied: dict[int, list[str]] = {}

    def fresh(self, partitions: int) -> str:
        """The name of a database that holds nothing and that nobody uses."""
        name = f"jobs_{partitions}"
        if partitions in self._emptied:
            self._server.terminate_backends(name)
            self._empty(name, self._emptied[partitions])
        else:
            create_schema(self._server.create_database(name), partitions=partitions)
            self._emptied[partitions] = self._empty_tables(name)
        return name

    def _empty_tables(self, name: str) -> list[str]:
        with psycopg.connect(self._server.url(name)) as connection:
            tables = connection.execute(
                "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'foliot'::regnamespace"
                " AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            ).fetchall()
            return [
                table
                for (table,) in tables
                if not connection.execute(_text("SELECT FROM foliot.{} LIMIT 1", table)).fetchall()
            ]

    def _empty(self, name: str, tables: list[str]) -> None:
        with psycopg.connect(self._server.url(name)) as connection:
            for table in tables:
                connection.execute(_text("TRUNCATE foliot.{}", table))
            connection.execute("UPDATE foliot.leases SET holder = NULL, expires_at = '-infinity'")


def _text(statement: LiteralString, table: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(table))


@pytest.fixture(scope="session")
def server() -> Iterator[TemporaryPostgres]:
    """Shared by all tests that leave it running."""
    with TemporaryPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def emptied(server: TemporaryPostgres) -> Databases:
    return Databases(server)


@pytest.fixture
def database(emptied: Databases) -> str:
    """The name of an empty database."""
    return emptied.fresh(1)


@pytest.fixture
def own_server() -> Iterator[TemporaryPostgres]:
    """For tests that stop it, or make it read-only."""
    with TemporaryPostgres() as server:
        create_schema(server.create_database("jobs"), partitions=1)
        yield server


@pytest.fixture
def make_fleet(
    server: TemporaryPostgres, emptied: Databases, tmp_path: Path
) -> Iterator[FleetMaker]:
    """One fleet, on an empty PostgreSQL database unless a URL is given."""
    with ExitStack() as stack:

        def make(url: str | None = None, *, partitions: int = 1, **settings: str) -> Fleet:
            chosen = url or server.url(emptied.fresh(partitions))
            return stack.enter_context(Fleet(chosen, tmp_path, **settings))

        yield make


@pytest.fixture
def fleet(make_fleet: FleetMaker) -> Fleet:
    return make_fleet()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that is not there yet: whoever opens it first makes it."""
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["postgres", "sqlite"])
def any_fleet(request: pytest.FixtureRequest, make_fleet: FleetMaker, sqlite_url: str) -> Fleet:
    """On each kind of store."""
    return make_fleet() if request.param == "postgres" else make_fleet(sqlite_url)
