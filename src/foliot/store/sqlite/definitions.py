"""Definitions in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.model.definition import StoredDefinition
from foliot.store import rows
from foliot.store.sqlite.batches import Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts("definitions.sql")


class SqliteDefinitions:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def put(self, definitions: Sequence[StoredDefinition]) -> None:
        given = [
            (one.kind, one.queue, one.signature, one.schema, one.fingerprint, one.version, to_json(one.options))
            for one in definitions
        ]  # fmt: skip
        values: Values = {"definitions": to_json(given), "now": store_now(self._clock)}
        find, put = SQL["put_definitions"]

        def look(connection: Connection) -> bool | None:
            return None if connection.execute(find, values).fetchone() else False

        def run(connection: Connection) -> bool:
            connection.execute(put, values)
            return True

        await self._connections.transact(run, look=look)

    async def all(self) -> list[StoredDefinition]:
        found = await self._connections.read(lambda c: execute(c, SQL["list_definitions"], {}))
        return [rows.definition(row, from_microseconds) for row in found]

    async def get(self, kind: str) -> StoredDefinition | None:
        asked: Values = {"kind": kind}
        found = await self._connections.read(lambda c: execute(c, SQL["get_definition"], asked))
        return rows.definition(found[0], from_microseconds) if found else None
