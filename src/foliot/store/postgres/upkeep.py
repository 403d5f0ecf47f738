"""Queues, retention and grade in PostgreSQL.

History is partitioned by day. Days are built standing alone and attached ahead of time, old ones are dropped whole;
both wait at most a moment for their locks and are tried again on the next round, so no finish waits behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, sql

from foliot.clock import Clock
from foliot.model.lane import Strategy
from foliot.store import rows
from foliot.store.operator import Repartitioned, Say
from foliot.store.port import Grade
from foliot.store.postgres.audit import act_by_hand
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.postgres.failures import translate
from foliot.store.postgres.keys import prune_keys
from foliot.store.postgres.repartition import repartition
from foliot.store.queueing import Queue
from foliot.store.searching import Record
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "upkeep.sql")
DAYS_AHEAD: Final = 7
_MANY_DEAD: Final = 50_000
_DAY_NAME: Final = "history_%Y%m%d"
_FIRST: Final = "00000000-0000-0000-0000-000000000000"  # before every id

_NOT_NOW: Final = (
    psycopg.errors.CheckViolation,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DuplicateTable,
    psycopg.errors.UniqueViolation,
    psycopg.errors.InvalidObjectDefinition,
)


class PostgresQueues:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def pause(
        self,
        name: str,
        *,
        by: str | None = None,
        note: str | None = None,
        record: Record | None = None,
    ) -> None:
        values: Values = {"name": name, "by": by, "note": note, "now": self._clock.now_for_store()}
        await self._change("pause_queue", values, record)

    async def resume(self, name: str, *, record: Record | None = None) -> bool:
        return await self._change("resume_queue", {"name": name}, record)

    async def configure(
        self,
        name: str,
        *,
        strategy: Strategy | None = None,
        aging: float | None = None,
        weights: Mapping[str, float] | None = None,
        by: str | None = None,
        said: str | None = None,
        record: Record | None = None,
    ) -> bool:
        values: Values = {
            "name": name,
            "strategy": None if strategy is None else int(strategy),
            "aging": aging,
            "weights": None if weights is None else rows.weights_text(weights),
            "by": by,
            "said": said,
        }
        return await self._change("configure_queue", values, record)

    async def all(self) -> list[Queue]:
        found = await self._connections.read(SQL["list_queues"], {})
        return [rows.queue(row, rows.as_is) for row in found]

    async def _change(self, name: str, values: Values, record: Record | None) -> bool:
        steps = [Step(SQL[name], values)]
        return bool(await act_by_hand(self._connections, steps, record, self._clock))


class PostgresUpkeep:
    def __init__(
        self, connections: Connections, clock: Clock, *, partitions: int, schema: int
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._schema = schema
        self.listening = False  # set by the store while its listener is connected

    async def prune(self, *, keep: float | None, limit: int) -> int:
        days, now = await self._days()
        await self._attach([day for day in ahead(now.date()) if day not in days])
        pruned = 0
        for partition in range(self._partitions):
            await self._connections.transact([Step(SQL["prune_turns"], {"partition": partition})])
            pruned += await prune_keys(self._connections, self._clock, partition, limit)
        if keep is None:
            return pruned
        cutoff = (now - timedelta(seconds=keep)).date()
        pruned += await self._drop([day for day in days if day < cutoff])
        for partition in range(self._partitions):
            values: Values = {"partition": partition, "keep": keep, "limit": limit}
            for name in ("prune_default_history", "prune_attempts"):
                pruned += await self._remove(name, values, limit)
        return pruned

    async def sweep(self) -> bool:
        """Autovacuum comes once a minute at best, and in a minute a busy queue leaves millions of dead rows."""
        dead = (await self._connections.read(SQL["count_dead_tuples"], {}))[0][0]
        if dead < _MANY_DEAD:
            return False
        conninfo = self._connections.conninfo
        with translate(conninfo):
            connection: AsyncConnection[Any] = await AsyncConnection.connect(
                conninfo, autocommit=True, prepare_threshold=None
            )
            async with connection:
                await connection.execute("VACUUM (SKIP_LOCKED, TRUNCATE FALSE) foliot.jobs")
        return True

    async def grade(self) -> Grade:
        now = self._clock.now_for_store()
        before = self._clock.now().timestamp()
        server = (await self._connections.read(SQL["grade_server"], {}))[0]
        offset = (before + self._clock.now().timestamp()) / 2 - server[8]
        oldest = await self._connections.read(SQL["grade_oldest_transaction"], {})
        jobs = (await self._connections.read(SQL["grade_jobs"], {"now": now}))[0]
        days, today = await self._days()
        durability, durable = _durability(*server[1:7])
        return Grade(
            engine="PostgreSQL",
            version=server[0],
            durability=durability,
            durable=durable,
            pooler="transaction pooler" if self._connections.pooled else "direct",
            listening=self.listening,
            schema=self._schema,
            partitions=self._partitions,
            oldest_transaction=oldest[0][0] if oldest else None,
            oldest_transaction_by=oldest[0][1] if oldest else None,
            dead_tuples=jobs[0],
            live_jobs=jobs[1],
            ready_jobs=jobs[2],
            dead_jobs=jobs[3],
            queue_age=jobs[4],
            history_days_ahead=len([day for day in days if day > today.date()]),
            clock_offset=offset,
        )

    async def repartition(self, partitions: int, *, say: Say) -> Repartitioned:
        return await repartition(self._connections, self._clock, partitions=partitions, say=say)

    async def _remove(self, name: str, values: Values, limit: int) -> int:
        """Batch after batch, each a transaction of its own, until there is nothing left."""
        removed, after = 0, _FIRST
        while True:
            asked: Values = {**values, "after": after, "now": self._clock.now_for_store()}
            [[(count, last)]] = await self._connections.transact([Step(SQL[name], asked)])
            removed += int(count)
            if count < limit:
                return removed
            after = last

    async def _days(self) -> tuple[list[date], datetime]:
        """The days that history has, and what time it is."""
        found = await self._connections.read(
            SQL["list_history_days"], {"now": self._clock.now_for_store()}
        )
        days = [
            datetime.strptime(row[0], _DAY_NAME).replace(tzinfo=UTC).date()
            for row in found
            if row[0] != "history_default"
        ]
        return days, found[0][1].astimezone(UTC)

    async def _attach(self, days: list[date]) -> None:
        for day in days:
            await self._alter(attach_day(day))

    async def _drop(self, days: list[date]) -> int:
        dropped = 0
        for day in days:
            statement = sql.SQL("DROP TABLE IF EXISTS foliot.{}").format(_day_table(day))
            dropped += await self._alter([statement])
        return dropped

    async def _alter(self, statements: list[sql.Composed]) -> bool:
        """False: the lock was not to be had at once, another process did it first, or the default partition
        has rows of that day, which stay there until they are old."""
        conninfo = self._connections.conninfo
        with translate(conninfo):
            try:
                connection: AsyncConnection[Any] = await AsyncConnection.connect(
                    conninfo, prepare_threshold=None
                )
                async with connection:
                    await connection.execute("SET LOCAL lock_timeout = '100ms'")
                    for statement in statements:
                        await connection.execute(statement)
            except _NOT_NOW:
                return False
        return True


def ahead(today: date) -> list[date]:
    return [today + timedelta(days=offset) for offset in range(-1, DAYS_AHEAD + 1)]


def attach_day(day: date) -> list[sql.Composed]:
    """Built standing alone, then attached: neither step keeps inserts out of the other days."""
    table = _day_table(day)
    start, end = sql.Literal(f"{day} 00:00+00"), sql.Literal(f"{day + timedelta(days=1)} 00:00+00")
    return [
        sql.SQL("CREATE TABLE foliot.{} (LIKE foliot.history INCLUDING ALL)").format(table),
        sql.SQL(
            "ALTER TABLE foliot.history ATTACH PARTITION foliot.{} FOR VALUES FROM ({}) TO ({})"
        ).format(table, start, end),
    ]


def _day_table(day: date) -> sql.Identifier:
    return sql.Identifier(day.strftime(_DAY_NAME))


def _durability(
    fsync: str, commit: str, pages: str, standby_names: str, synchronous: int, standbys: int
) -> tuple[str, bool]:
    """In words, and whether an acknowledgement survives a power cut."""
    if fsync == "off" or pages == "off":
        return (
            "none: fsync or full_page_writes is off, a crash of the machine may lose anything",
            False,
        )
    if commit == "off":
        return "weak: synchronous_commit is off, a crash may lose the last acknowledgements", False
    if commit == "local" or not standby_names:
        copies = f"{standbys} asynchronous standby" if standbys else "no standby"
        return f"local: on this server's disk, {copies}", True
    if not synchronous:
        return "local: a synchronous standby is configured and none is connected", True
    return f"replicated: on disk here and on {synchronous} synchronous standby", True
