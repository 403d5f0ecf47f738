"""A PostgreSQL server for what the pages show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foliot.testing.postgres import TemporaryPostgres


@pytest.fixture(scope="session")
def server() -> Iterator[TemporaryPostgres]:
    with TemporaryPostgres(port=0) as server:
        yield server
