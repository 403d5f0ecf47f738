"""A server, a database in it, and the two proxies in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from foliot.testing.postgres import TemporaryPostgres
from support.proxy import CuttingProxy, RotatingPooler


@pytest.fixture(scope="session")
def server() -> Iterator[TemporaryPostgres]:
    with TemporaryPostgres() as server:
        yield server


@pytest.fixture
def database(server: TemporaryPostgres) -> Iterator[str]:
    """The name of a database with a table `item`."""
    with psycopg.connect(server.create_database("shop"), autocommit=True) as connection:
        connection.execute("CREATE TABLE item (name text PRIMARY KEY)")
    yield "shop"
    server.drop_database("shop")


@pytest.fixture
def proxy(server: TemporaryPostgres) -> Iterator[CuttingProxy]:
    with CuttingProxy(str(server.directory), server.port) as proxy:
        yield proxy


@pytest.fixture
def pooler(server: TemporaryPostgres) -> Iterator[RotatingPooler]:
    with RotatingPooler(str(server.directory), server.port) as pooler:
        yield pooler
