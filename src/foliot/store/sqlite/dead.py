"""The dead-letter queue in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.store.searching import Record, Retried, retried_of
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import store_now

SQL: Final = load_parts("dead.sql")


class SqliteDead:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def retry(
        self,
        partition: int,
        ids: Sequence[JobId],
        *,
        record: Record,
        payload: bytes | None = None,
        extras: str | None = None,
    ) -> Retried:
        named = to_json(list(ids))

        def run(connection: Connection) -> Retried:
            now = store_now(self._clock)
            values: Values = {"partition": partition, "ids": named, "now": now}
            given: Values = {**values, "payload": payload, "extras": extras}
            lanes: dict[JobId, int] = dict(execute(connection, SQL["retry_dead_jobs"], given))
            retried: Values = {**values, "ids": to_json(list(lanes))}
            execute(connection, SQL["remove_retried_jobs"], retried)
            left = execute(connection, SQL["find_key_holders"], values)
            write_record(connection, record, list(lanes), now=now)
            return retried_of(lanes, left)

        return await self._connections.transact(run)

    async def purge(self, partition: int, ids: Sequence[JobId], *, record: Record) -> list[JobId]:
        values: Values = {"partition": partition, "ids": to_json(list(ids))}

        def run(connection: Connection) -> list[JobId]:
            gone = [JobId(row[0]) for row in execute(connection, SQL["purge_dead_jobs"], values)]
            write_record(connection, record, gone, now=store_now(self._clock))
            return gone

        return await self._connections.transact(run)
