"""Log lines and progress in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.note import LogLine, NewLine, NewProgress
from foliot.store.sqlite.batches import Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import from_microseconds, store_now, to_microseconds

SQL: Final = load_parts("logs.sql")


class SqliteLogs:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def write(self, partition: int, lines: Sequence[NewLine]) -> None:
        rows = [
            (
                *(line.job, line.fence, line.number, line.attempt, to_microseconds(line.at)),
                *(line.level, line.logger, line.message),
            )
            for line in lines
        ]
        values: Values = {"partition": partition, "lines": to_json(rows)}
        await self._connections.transact(lambda c: execute(c, SQL["write_logs"], values))

    async def set_progress(
        self, partition: int, session: SessionId, progress: Sequence[NewProgress]
    ) -> None:
        told = [
            (one.job, one.fence, msgspec.json.encode((one.fraction, one.message)).decode())
            for one in progress
        ]
        values: Values = {"partition": partition, "session": session, "progress": to_json(told)}
        await self._connections.transact(lambda c: execute(c, SQL["set_progress"], values))

    async def all(self, id: JobId) -> list[LogLine]:
        values: Values = {"partition": partition_of(id, self._partitions), "id": id}
        found = await self._connections.read(lambda c: execute(c, SQL["list_logs"], values))
        lines = []
        for attempt, number, at, level, logger, message in found:
            time = from_microseconds(at)
            assert time is not None
            lines.append(LogLine(attempt, number, time, level, logger, message))
        return lines

    async def prune(self, *, keep: float, limit: int) -> int:
        find, delete = SQL["prune_logs"]
        before, pruned = store_now(self._clock) - round(keep * 1_000_000), 0
        for partition in range(self._partitions):
            values: Values = {"partition": partition, "before": before, "limit": limit}

            def look(connection: Connection, values: Values = values) -> int | None:
                return None if connection.execute(find, values).fetchone() else 0

            def run(connection: Connection, values: Values = values) -> int:
                return connection.execute(delete, values).rowcount

            while (count := await self._connections.transact(run, look=look)) > 0:
                pruned += count
        return pruned
