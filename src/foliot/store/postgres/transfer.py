"""Whole tables out of PostgreSQL and into it. The statements follow from store/tables.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import msgspec

from foliot.store.operator import Record, Value
from foliot.store.postgres.arrays import blobs, texts
from foliot.store.postgres.connection import Connections, Step
from foliot.store.reply import Rows
from foliot.store.sql import Statement, parse_statement
from foliot.store.tables import TABLES, Form, Table

# How a column is read, and the type in which it is sent.
_READ: Final = {
    Form.ID: "{}::text",
    Form.REAL: "{}::text::float8",  # the shortest number that means it, not the one with the noise
}
TYPES: Final = {
    Form.WHOLE: "bigint",
    Form.REAL: "float8",
    Form.FLAG: "boolean",
    Form.TEXT: "text",
    Form.ID: "uuid",
    Form.TIME: "timestamptz",
    Form.NAMES: "text",
    Form.BYTES: "bytea",
}
_WRITTEN: Final = {
    Form.NAMES: "CASE WHEN u.{0} IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(u.{0}::jsonb)) END"
}


class PostgresTransfer:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def dump(self, table: str, *, after: Record | None, limit: int) -> list[Record]:
        step = dump_step(table, after=after, limit=limit)
        return to_records(table, await self._connections.read(step.statement, step.values))

    async def load(self, table: str, records: Sequence[Record]) -> None:
        await self._connections.transact([load_step(table, records)])

    async def count(self, table: str) -> int:
        text = f"SELECT count(*) FROM foliot.{table}"  # noqa: S608 - our own names
        statement = parse_statement("count_rows", text)
        return int((await self._connections.read(statement, {}))[0][0])


def dump_step(table: str, *, after: Record | None = None, limit: int | None = None) -> Step:
    key = {name: after[name] for name in TABLES[table].key} if after is not None else {}
    return Step(_dump(table, first=after is None), {"limit": limit, **key})


def to_records(table: str, rows: Rows) -> list[Record]:
    columns = TABLES[table].columns.items()
    return [
        {name: _from_store(form, value) for (name, form), value in zip(columns, row, strict=True)}
        for row in rows
    ]


def load_step(table: str, records: Sequence[Record]) -> Step:
    values = {
        name: _ARRAYS.get(form, _plain)(record[name] for record in records)
        for name, form in TABLES[table].columns.items()
    }
    return Step(_load(table), values)


@cache
def _dump(table: str, *, first: bool) -> Statement:
    known = TABLES[table]
    columns = ", ".join(_READ.get(form, "{}").format(name) for name, form in known.columns.items())
    key = ", ".join(known.key)
    behind = ", ".join(f":{name}::{TYPES[known.columns[name]]}" for name in known.key)
    where = "" if first else f"WHERE ({key}) > ({behind}) "
    text = f"SELECT {columns} FROM foliot.{table} {where}ORDER BY {key} LIMIT :limit::bigint"  # noqa: S608 - our own names
    return parse_statement(f"dump_{table}", text)


@cache
def _load(table: str) -> Statement:
    known = TABLES[table]
    names = ", ".join(known.names)
    written = ", ".join(
        _WRITTEN.get(form, "u.{0}").format(name) for name, form in known.columns.items()
    )
    sent = ", ".join(f":{name}::{TYPES[form]}[]" for name, form in known.columns.items())
    text = (
        f"INSERT INTO foliot.{table} ({names}) SELECT {written} FROM unnest({sent}) AS u ({names})"  # noqa: S608 - our own names
    )
    return parse_statement(f"load_{table}", text + _conflict(table, known))


def _conflict(table: str, known: Table) -> str:
    if known.merge is None:
        return ""
    key, column = ", ".join(known.key), known.merge
    rest = ", ".join(f"{name} = excluded.{name}" for name in known.names if name not in known.key)
    counts = f"excluded.{column} {known.wins} {table}.{column}"
    return f" ON CONFLICT ({key}) DO UPDATE SET {rest} WHERE {counts}"


def _from_store(form: Form, value: Any) -> Value:
    if value is None:
        return None
    if form is Form.NAMES:
        return tuple(value)
    if form is Form.BYTES:
        return bytes(value)
    if form is Form.TIME:
        moment: datetime = value
        return moment.astimezone(UTC)
    known: Value = value
    return known


def _plain(values: Iterable[Any]) -> str:
    return texts([None if value is None else str(value) for value in values])


_ARRAYS: Final[dict[Form, Callable[[Iterable[Any]], str]]] = {
    Form.BYTES: blobs,
    Form.TIME: lambda values: texts([None if v is None else v.isoformat() for v in values]),
    Form.NAMES: lambda values: texts(
        [None if v is None else msgspec.json.encode(v).decode() for v in values]
    ),
}
