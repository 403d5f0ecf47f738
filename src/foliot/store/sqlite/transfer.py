"""Whole tables out of SQLite and into it. The statements follow from store/tables.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from sqlite3 import Connection
from typing import Any, Final

import msgspec

from foliot.store.operator import Record, Value
from foliot.store.sqlite.batches import to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import from_microseconds, to_microseconds
from foliot.store.tables import TABLES, Form

_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteTransfer:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def dump(self, table: str, *, after: Record | None, limit: int) -> list[Record]:
        return await self._connections.read(lambda c: dump_rows(c, table, after=after, limit=limit))

    async def load(self, table: str, records: Sequence[Record]) -> None:
        await self._connections.transact(lambda c: load_rows(c, table, records))

    async def count(self, table: str) -> int:
        statement = f"SELECT count(*) FROM foliot_{table}"  # noqa: S608 - our own names
        rows = await self._connections.read(lambda c: c.execute(statement).fetchall())
        return int(rows[0][0])


def dump_rows(
    connection: Connection, table: str, *, after: Record | None = None, limit: int = -1
) -> list[Record]:
    known = TABLES[table]
    key = [_to_store(known.columns[n], after[n]) for n in known.key] if after is not None else []
    rows = connection.execute(_dump(table, first=after is None), [*key, limit])
    return [
        {
            name: _from_store(form, value)
            for (name, form), value in zip(known.columns.items(), row, strict=True)
        }
        for row in rows
    ]


def load_rows(connection: Connection, table: str, records: Sequence[Record]) -> None:
    columns = TABLES[table].columns.items()
    rows = [[_to_store(form, record[name]) for name, form in columns] for record in records]
    connection.executemany(_load(table), rows)


def delete_rows(connection: Connection, table: str) -> None:
    connection.execute(f"DELETE FROM foliot_{table}")  # noqa: S608 - our own names


@cache
def _dump(table: str, *, first: bool) -> str:
    known = TABLES[table]
    columns, key = ", ".join(known.names), ", ".join(known.key)
    where = "" if first else f"WHERE ({key}) > ({_places(len(known.key))}) "
    return f"SELECT {columns} FROM foliot_{table} {where}ORDER BY {key} LIMIT ?"  # noqa: S608 - our own names


@cache
def _load(table: str) -> str:
    known = TABLES[table]
    columns = ", ".join(known.names)
    text = f"INSERT INTO foliot_{table} ({columns}) VALUES ({_places(len(known.names))})"  # noqa: S608 - our own names
    if known.merge is None:
        return text
    key, column = ", ".join(known.key), known.merge
    rest = ", ".join(f"{name} = excluded.{name}" for name in known.names if name not in known.key)
    counts = f"excluded.{column} {known.wins} foliot_{table}.{column}"
    return f"{text} ON CONFLICT ({key}) DO UPDATE SET {rest} WHERE {counts}"


def _places(count: int) -> str:
    return ", ".join("?" * count)


def _from_store(form: Form, value: Any) -> Value:
    if value is None:
        return None
    match form:
        case Form.TIME:
            return from_microseconds(value)
        case Form.NAMES:
            return _decode_names(value)
        case Form.FLAG:
            return bool(value)
        case Form.BYTES:
            return bytes(value)
    known: Value = value
    return known


def _to_store(form: Form, value: Any) -> Any:
    if value is None:
        return None
    if form is Form.TIME:
        return to_microseconds(value)
    return to_json(value) if form is Form.NAMES else value
