"""Submitting on a connection of the caller's to the SQLite file, whatever its driver and its settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from sqlite3 import Connection
from typing import Final, TypeVar, cast

from foliot.clock import Clock
from foliot.config import StoreSettings
from foliot.errors import SchemaMissing, SchemaNewer, SchemaOutdated
from foliot.store.guest import Answer, Release, Run, elsewhere, first_row
from foliot.store.port import Jobs
from foliot.store.sql import Statement, load_statements, parse_statement
from foliot.store.sqlite.batches import Values
from foliot.store.sqlite.file import File
from foliot.store.sqlite.jobs import SqliteJobs
from foliot.store.sqlite.migrations import MIGRATIONS

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.sqlite", "guest.sql")


class Lent:
    """In place of the two threads: one connection, in the midst of its owner's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, run: Callable[[Connection], T]) -> T:
        return run(self._connection)

    async def transact(
        self,
        run: Callable[[Connection], T],
        *,
        look: Callable[[Connection], T | None] | None = None,
    ) -> T:
        return run(self._connection)


class _Facade:
    """What the statements of this store need of a connection."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def execute(self, text: str, values: Values) -> Answer:
        answer = self._run(_parse(text), values)
        assert isinstance(answer, Answer), "there is no driver for SQLite that waits"
        return answer


class SqliteGuest:
    engine = "sqlite"

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        self._file = File(settings.url)
        self._clock = clock

    async def recognise(self, run: Run) -> int:
        connection = _Facade(run)
        path, has_tables = first_row(connection.execute(SQL["find_store"].text, {}))
        self._check_path(_text(path))
        if not has_tables:
            raise SchemaMissing(f"the file {self._file.name} has no tables of Foliot")
        schema, partitions = first_row(connection.execute(SQL["identify_store"].text, {}))
        newest = MIGRATIONS[-1].number
        if schema != newest:
            raise (SchemaOutdated if schema < newest else SchemaNewer)(schema, newest)
        return int(partitions)

    def jobs(self, run: Run, partitions: int, release: Release) -> Jobs:
        # There is one writer, and that is the caller now: whatever runs under a key cannot finish meanwhile anyway.
        lent = Lent(cast(Connection, _Facade(run)))
        return SqliteJobs(lent, self._clock, partitions=partitions)

    def _check_path(self, path: str) -> None:
        own = self._file.path
        if own is None:
            raise elsewhere(
                "cannot be shared with a store in memory: only its own process sees it, on its own connection",
                self._file.url,
            )
        if not path or not own.exists() or not os.path.samefile(path, own):  # noqa: PTH121 - of two texts
            where = path or "a database in memory"
            raise elsewhere(f"is to {where}, which is not the app's store", self._file.url)


def _text(value: object) -> str:
    """The caller may have text come back as bytes."""
    return os.fsdecode(value) if isinstance(value, bytes) else str(value or "")


@lru_cache(maxsize=64)
def _parse(text: str) -> Statement:
    return parse_statement("guest", text)
