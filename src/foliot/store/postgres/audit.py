"""Who did what by hand, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.model.audit import Deed, Entry
from foliot.store import rows
from foliot.store.postgres.arrays import texts, words
from foliot.store.postgres.connection import Ask, Connections, Step, Transacting, Values
from foliot.store.reply import Rows
from foliot.store.searching import LAST_ID, Record
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


async def act_by_hand(
    connections: Transacting,
    steps: Sequence[Step],
    record: Record | None,
    clock: Clock,
    *,
    telling: int = 0,
) -> Rows:
    """All steps, of which one is telling by its rows what was changed, and what is to be written down of that."""
    if record is None:
        return (await connections.transact(steps))[telling]

    async def talk(ask: Ask) -> Rows:
        changed = [await ask(step) for step in steps][telling]
        for step in audit_steps(record([row[0] for row in changed]), clock):
            await ask(step)
        return changed

    return await connections.converse(talk)


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
