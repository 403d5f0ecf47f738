"""Roll-ups in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.model.rollup import Rollup, Sum, merge
from foliot.store import rows
from foliot.store.rollups import TOGETHER, WRITERS_LAST
from foliot.store.sqlite.batches import Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import store_now

SQL: Final = load_parts("rollups.sql")


class SqliteRollups:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def write(self, writer: str, batch: int, rollups: Sequence[Rollup]) -> None:
        values: Values = {"writer": writer, "batch": batch, "now": store_now(self._clock)}

        def run(connection: Connection) -> None:
            if execute(connection, SQL["note_rollups"], values):
                _add(connection, writer, rollups)

        await self._connections.transact(run)

    async def read(
        self,
        since: int,
        until: int,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[Rollup]:
        values: Values = {"since": since, "until": until}
        values |= {"namespace": namespace, "queue": queue, "kind": kind}
        found = await self._connections.read(lambda c: execute(c, SQL["list_rollups"], values))
        return [rows.rollup(row) for row in found]

    async def sums(self, since: int, until: int, *, queue: str) -> list[Sum]:
        values: Values = {"since": since, "until": until, "queue": queue}
        found = await self._connections.read(lambda c: execute(c, SQL["sum_rollups"], values))
        return [rows.rollup_sum(row) for row in found]

    async def compact(self, *, age: float, limit: int) -> int:
        find, take = SQL["take_rollups"]
        values: Values = {"before": self._before(age), "limit": limit}

        def look(connection: Connection) -> int | None:
            return None if connection.execute(find, values).fetchone() else 0

        def run(connection: Connection) -> int:
            taken = connection.execute(take, values).fetchall()
            _add(connection, TOGETHER, merge(rows.rollup(row) for row in taken))
            return len(taken)

        taken = 0
        while (count := await self._connections.transact(run, look=look)) > 0:
            taken += count
        return taken

    async def prune(self, *, keep: float | None, limit: int) -> int:
        await self._remove("prune_rollup_writers", {"before": self._before(WRITERS_LAST)})
        if keep is None:
            return 0
        pruned = 0
        values: Values = {"before": self._before(keep), "limit": limit}
        while (count := await self._remove("prune_rollups", values)) > 0:
            pruned += count
        return pruned

    async def _remove(self, name: str, values: Values) -> int:
        find, delete = SQL[name]

        def look(connection: Connection) -> int | None:
            return None if connection.execute(find, values).fetchone() else 0

        return await self._connections.transact(
            lambda c: c.execute(delete, values).rowcount, look=look
        )

    def _before(self, age: float) -> int:
        return store_now(self._clock) - round(age * 1_000_000)


def _add(connection: Connection, writer: str, rollups: Sequence[Rollup]) -> None:
    told = [
        (one.minute, *_words(one), one.count, one.seconds, one.waits, one.runs) for one in rollups
    ]
    execute(connection, SQL["add_rollups"], {"writer": writer, "rollups": to_json(told)})


def _words(rollup: Rollup) -> tuple[str, ...]:
    key = rollup.key
    return (key.namespace, key.queue, key.kind, key.outcome)
