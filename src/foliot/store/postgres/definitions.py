"""Definitions in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.model.definition import StoredDefinition
from foliot.store import rows
from foliot.store.postgres.arrays import numbers, texts
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "definitions.sql")


class PostgresDefinitions:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def put(self, definitions: Sequence[StoredDefinition]) -> None:
        values: Values = {
            "now": self._clock.now_for_store(),
            "kinds": texts(one.kind for one in definitions),
            "queues": texts(one.queue for one in definitions),
            "signatures": texts(one.signature for one in definitions),
            "schemas": texts(one.schema for one in definitions),
            "fingerprints": texts(one.fingerprint for one in definitions),
            "versions": numbers(one.version for one in definitions),
            "options": texts(msgspec.json.encode(one.options).decode() for one in definitions),
        }
        await self._connections.transact([Step(SQL["put_definitions"], values)])

    async def all(self) -> list[StoredDefinition]:
        found = await self._connections.read(SQL["list_definitions"], {})
        return [rows.definition(row, rows.as_is) for row in found]

    async def get(self, kind: str) -> StoredDefinition | None:
        found = await self._connections.read(SQL["get_definition"], {"kind": kind})
        return rows.definition(found[0], rows.as_is) if found else None
