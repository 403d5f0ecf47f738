"""Connections of the drivers themselves: psycopg, psycopg2, asyncpg, sqlite3."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from foliot.client.connections.driver import (
    IN_ERROR,
    Values,
    closed,
    failed,
    module_of,
    percent_style,
    strict_style,
    tuples,
)
from foliot.store.guest import Answer
from foliot.store.sql import Statement


class Plain:
    engine = "postgres"
    waits = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def known_as(self) -> Any:
        return self._connection

    def after_commit(self, call: Callable[[], None]) -> None:
        """None of these can tell."""


class Psycopg(Plain):
    """With a cursor of our own: rows, parameters and prepared statements are not what the caller may have set."""

    @property
    def in_transaction(self) -> bool:
        return not self._connection.autocommit or self._connection.info.transaction_status != 0

    def check(self) -> None:
        if self._connection.closed:
            raise closed()
        if self._connection.info.transaction_status == IN_ERROR:
            raise failed()

    def run(self, statement: Statement, values: Values) -> Answer:
        cursor = _cursor("RawCursor", self._connection)
        with cursor:
            cursor.execute(statement.numbered, statement.bind(values))
            rows = cursor.fetchall() if cursor.description else []
            return Answer(rows, cursor.rowcount)


class AsyncPsycopg(Psycopg):
    waits = True

    async def run(self, statement: Statement, values: Values) -> Answer:  # type: ignore[override] # awaited
        cursor = _cursor("AsyncRawCursor", self._connection)
        async with cursor:
            await cursor.execute(statement.numbered, statement.bind(values))
            rows = await cursor.fetchall() if cursor.description else []
            return Answer(rows, cursor.rowcount)


class Psycopg2(Plain):
    @property
    def in_transaction(self) -> bool:
        return not self._connection.autocommit or self._connection.info.transaction_status != 0

    def check(self) -> None:
        if self._connection.closed:
            raise closed()
        if self._connection.info.transaction_status == IN_ERROR:
            raise failed()

    def run(self, statement: Statement, values: Values) -> Answer:
        plain = module_of("psycopg2.extensions").cursor
        with self._connection.cursor(cursor_factory=plain) as cursor:
            cursor.execute(percent_style(statement), dict(values))
            return Answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)


class Asyncpg(Plain):
    waits = True

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.is_in_transaction())

    def check(self) -> None:
        if self._connection.is_closed():
            raise closed()

    async def run(self, statement: Statement, values: Values) -> Answer:
        given = statement.bind(values)
        return Answer(tuples(await self._connection.fetch(strict_style(statement), *given)))


class Sqlite(Plain):
    engine = "sqlite"

    @property
    def known_as(self) -> None:
        """These cannot be remembered weakly, and to ask again costs little."""
        return

    @property
    def in_transaction(self) -> bool:
        begins = self._connection.isolation_level is not None or not getattr(
            self._connection, "autocommit", True
        )
        return begins or self._connection.in_transaction

    def check(self) -> None:
        try:
            _ = self._connection.total_changes
        except sqlite3.ProgrammingError:
            raise closed() from None

    def run(self, statement: Statement, values: Values) -> Answer:
        cursor = sqlite3.Cursor(self._connection)
        cursor.row_factory = None
        cursor.execute(statement.text, values)
        rows = [tuple(map(_as_text, row)) for row in cursor.fetchall()]
        return Answer(rows, cursor.rowcount)


def _as_text(value: object) -> object:
    """The caller may have text come back as bytes; what is read here is never anything but text and numbers."""
    return value.decode() if isinstance(value, bytes) else value


def _cursor(kind: str, connection: Any) -> Any:
    """One that reads and writes the few types there are here as psycopg itself does."""
    text, numeric = module_of("psycopg.types.string"), module_of("psycopg.types.numeric")
    row_factory = module_of("psycopg.rows").tuple_row
    cursor = getattr(module_of("psycopg"), kind)(connection, row_factory=row_factory)
    cursor.adapters.register_loader("text", text.TextLoader)
    cursor.adapters.register_loader("int4", numeric.IntLoader)
    cursor.adapters.register_dumper(str, text.StrDumperUnknown)
    return cursor
