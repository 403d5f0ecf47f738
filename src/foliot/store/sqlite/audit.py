"""Who did what by hand, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.model.audit import Deed, Entry
from foliot.store import rows
from foliot.store.searching import LAST_ID, Record
from foliot.store.sqlite.batches import Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts("audit.sql")


class SqliteAudit:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def write(self, deeds: Sequence[Deed]) -> None:
        await self._connections.transact(
            lambda c: write_audit(c, deeds, now=store_now(self._clock))
        )

    async def list(
        self, *, target: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[Entry]:
        values: Values = {"target": target, "limit": limit, "after": after or LAST_ID}
        name = "list_audit" if target is None else "list_audit_of"
        found = await self._connections.read(lambda c: execute(c, SQL[name], values))
        return [rows.entry(row, from_microseconds) for row in found]


def write_record(
    connection: Connection, record: Record | None, changed: Sequence[str], *, now: int
) -> None:
    """What is to be written down of what was changed, in the same transaction."""
    if record is not None:
        write_audit(connection, record(changed), now=now)


def write_audit(connection: Connection, deeds: Sequence[Deed], *, now: int) -> None:
    """In the transaction of the act that they tell of."""
    if deeds:
        told = [(d.id, d.actor, d.action, d.target, to_json(d.detail)) for d in deeds]
        execute(connection, SQL["write_audit"], {"deeds": to_json(told), "now": now})
