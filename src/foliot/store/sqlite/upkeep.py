"""Queues, retention and grade in SQLite. Old history goes in batches, so that nobody waits long for the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.model.lane import Strategy
from foliot.store import rows
from foliot.store.operator import Repartitioned, Say
from foliot.store.port import Grade
from foliot.store.queueing import Queue
from foliot.store.repartition import refuse_live
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Values, execute, load_parts
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.keys import prune_keys
from foliot.store.sqlite.repartition import repartition
from foliot.store.sqlite.sessions import list_sessions
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts("upkeep.sql")


class SqliteQueues:
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
        await self._change("pause_queue", {"name": name, "by": by, "note": note}, record)

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
        found = await self._connections.read(lambda c: execute(c, SQL["list_queues"], {}))
        return [rows.queue(row, from_microseconds) for row in found]

    async def _change(self, name: str, values: Values, record: Record | None) -> bool:
        def run(connection: Connection) -> bool:
            now = store_now(self._clock)
            changed = execute(connection, SQL[name], {**values, "now": now})
            write_record(connection, record, [row[0] for row in changed], now=now)
            return bool(changed)

        return await self._connections.transact(run)


class SqliteUpkeep:
    def __init__(
        self, connections: Connections, clock: Clock, *, partitions: int, schema: int
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._schema = schema
        self.listening = False  # set by the store while its listener runs

    async def prune(self, *, keep: float | None, limit: int) -> int:
        if await self._connections.read(lambda c: execute(c, SQL["prune_turns"][:1], {})):
            await self._connections.transact(lambda c: execute(c, SQL["prune_turns"][1:], {}))
        pruned = 0
        for partition in range(self._partitions):
            pruned += await prune_keys(self._connections, self._clock, partition, limit)
        if keep is None:
            return pruned
        values: Values = {
            "before": store_now(self._clock) - round(keep * 1_000_000),
            "limit": limit,
        }
        find, delete_attempts, delete_history = SQL["prune_history"]

        def look(connection: Connection) -> int | None:
            return None if connection.execute(find, values).fetchone() else 0

        def run(connection: Connection) -> int:
            connection.execute(delete_attempts, values)
            return connection.execute(delete_history, values).rowcount

        # Batch after batch, each a transaction of its own, until there is nothing left.
        while (count := await self._connections.transact(run, look=look)) > 0:
            pruned += count
        return pruned

    async def sweep(self) -> bool:
        """SQLite uses freed pages again by itself."""
        return False

    async def grade(self) -> Grade:
        now = store_now(self._clock)
        # Of the writer: how safe a commit is, is a matter of its connection.
        synchronous, journal = await self._connections.transact(_read_modes, look=_read_modes)
        jobs = await self._connections.read(lambda c: execute(c, SQL["grade_jobs"], {"now": now}))
        live, ready, dead, age = jobs[0]
        durability, durable = _durability(synchronous, journal)
        return Grade(
            engine="SQLite",
            version=sqlite3.sqlite_version,
            durability=durability,
            durable=durable,
            pooler="none",
            listening=self.listening,
            schema=self._schema,
            partitions=self._partitions,
            oldest_transaction=None,
            oldest_transaction_by=None,
            dead_tuples=None,
            live_jobs=live,
            ready_jobs=ready,
            dead_jobs=dead,
            queue_age=age,
            history_days_ahead=None,
            clock_offset=0.0,
        )

    async def repartition(self, partitions: int, *, say: Say) -> Repartitioned:
        def run(connection: Connection) -> Repartitioned:
            refuse_live(list_sessions(connection, self._clock))
            return repartition(connection, partitions, say)

        return await self._connections.transact(run)


def _read_modes(connection: Connection) -> tuple[int, str]:
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    return int(synchronous), str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _durability(synchronous: int, journal: str) -> tuple[str, bool]:
    """In words, and whether an acknowledgement survives a power cut."""
    if journal == "memory":
        return "none: in memory, gone with this process", False
    if synchronous < 2:
        return (
            f"weak: synchronous is {synchronous}, a crash may lose the last acknowledgements",
            False,
        )
    return f"local: in a file on this machine, flushed at every commit (journal {journal})", True
