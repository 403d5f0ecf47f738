"""Log lines and progress in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.note import LogLine, NewLine, NewProgress
from foliot.store.postgres.arrays import numbers, texts, words
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "logs.sql")


class PostgresLogs:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def write(self, partition: int, lines: Sequence[NewLine]) -> None:
        # In one order, like every multi-row write.
        ordered = sorted(lines, key=lambda line: (line.job, line.fence, line.number))
        values: Values = {
            "partition": partition,
            "jobs": words([line.job for line in ordered]),
            "fences": numbers([line.fence for line in ordered]),
            "seqs": numbers([line.number for line in ordered]),
            "attempts": numbers([line.attempt for line in ordered]),
            "ats": texts([line.at.isoformat() for line in ordered]),
            "levels": texts([line.level for line in ordered]),
            "loggers": texts([line.logger for line in ordered]),
            "messages": texts([line.message for line in ordered]),
        }
        await self._connections.transact([Step(SQL["write_logs"], values)])

    async def set_progress(
        self, partition: int, session: SessionId, progress: Sequence[NewProgress]
    ) -> None:
        values: Values = {
            "partition": partition,
            "session": session,
            "ids": words([one.job for one in progress]),
            "fences": numbers([one.fence for one in progress]),
            "progress": texts(
                [msgspec.json.encode((one.fraction, one.message)).decode() for one in progress]
            ),
        }
        await self._connections.transact([Step(SQL["set_progress"], values)])

    async def all(self, id: JobId) -> list[LogLine]:
        values: Values = {"partition": partition_of(id, self._partitions), "id": id}
        return [LogLine(*row) for row in await self._connections.read(SQL["list_logs"], values)]

    async def prune(self, *, keep: float, limit: int) -> int:
        removed = 0
        for partition in range(self._partitions):
            values: Values = {"partition": partition, "keep": keep, "limit": limit}
            count = limit
            while count == limit:
                asked: Values = {**values, "now": self._clock.now_for_store()}
                [[(count,)]] = await self._connections.transact([Step(SQL["prune_logs"], asked)])
                removed += count
        return removed
