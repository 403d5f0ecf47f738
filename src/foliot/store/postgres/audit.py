"""Who did what by hand, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.model.audit import Deed, Entry
from foliot.store import rows
from foliot.store.postgres.arrays import texts, words
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.searching import LAST_ID
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "audit.sql")


class PostgresAudit:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def write(self, deeds: Sequence[Deed]) -> None:
        await self._connections.transact(audit_steps(deeds, self._clock))

    async def list(
        self, *, target: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[Entry]:
        values: Values = {"target": target, "limit": limit, "after": after or LAST_ID}
        name = "list_audit" if target is None else "list_audit_of"
        return [
            rows.entry(row, rows.as_is) for row in await self._connections.read(SQL[name], values)
        ]


def audit_steps(deeds: Sequence[Deed], clock: Clock) -> list[Step]:
    """To go with the act that they tell of."""
    if not deeds:
        return []
    values: Values = {
        "now": clock.now_for_store(),
        "ids": words([deed.id for deed in deeds]),
        "actors": texts([deed.actor for deed in deeds]),
        "actions": texts([deed.action for deed in deeds]),
        "targets": texts([deed.target for deed in deeds]),
        "details": texts([msgspec.json.encode(deed.detail).decode() for deed in deeds]),
    }
    return [Step(SQL["write_audit"], values)]
