"""Workflows in SQLite: bind, execute, map. What is said is written once, in store/conversing.py."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from sqlite3 import Connection
from typing import Any, Final, TypeVar

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.job import NewJob
from foliot.store import steering
from foliot.store.conversing import Conversing
from foliot.store.flowing import Talk
from foliot.store.guest import at_once
from foliot.store.reply import Reply
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, submissions, to_json
from foliot.store.sqlite.connection import Transacting
from foliot.store.sqlite.submit import insert
from foliot.store.sqlite.times import from_microseconds, store_now, to_microseconds

T = TypeVar("T")
SQL: Final = load_parts("workflows.sql", "steps.sql", "steering.sql", "events.sql")
CANCEL: Final = load_parts("cancel.sql")["cancel_jobs"]


class SqliteTalk:
    """A conversation about workflows and events, in a transaction that has begun. It never waits: see `at_once`."""

    def __init__(self, connection: Connection, partition: int, now: int) -> None:
        self._connection = connection
        self._common: Values = {"partition": partition, "now": now}

    async def ask(self, name: str, /, **values: object) -> Rows:
        return execute(self._connection, SQL[name], {**values, **self._common})

    def say(self, name: str, /, **values: object) -> Reply:
        return Reply(execute(self._connection, SQL[name], {**values, **self._common}))

    async def hear(self) -> None:
        """Every reply is there at once."""

    def expect(self, steps: int) -> None:
        """The transaction is as long as it is."""

    async def insert(self, jobs: Sequence[NewJob]) -> None:
        insert(self._connection, submissions(jobs), self._common)

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None:
        execute(self._connection, CANCEL, {**self._common, "ids": to_json(list(ids))})


class SqliteWorkflows(Conversing):
    def __init__(self, connections: Transacting, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._read_time = from_microseconds
        self._write_time = to_microseconds

    async def prune(self, *, keep: float, limit: int) -> int:
        choose, *delete = SQL["prune_workflows"]
        pruned = 0
        for partition in range(self._partitions):
            values: Values = {"partition": partition, "keep": keep, "limit": limit}
            values["now"] = self._now()

            def look(connection: Connection, asked: Values = values) -> int | None:
                return None if execute(connection, [choose], asked) else 0

            def run(connection: Connection, asked: Values = values) -> int:
                ids = [row[0] for row in execute(connection, [choose], asked)]
                execute(connection, delete, {**asked, "ids": to_json(ids)})
                return len(ids)

            # Batch after batch, each a transaction of its own, until there is nothing left.
            while gone := await self._connections.transact(run, look=look):
                pruned += gone
        return pruned

    def _now(self) -> int:
        return store_now(self._clock)

    async def _read(self, statement: str, partition: int, /, **values: object) -> Rows:
        asked: Values = {**values, "partition": partition, "now": self._now()}
        return await self._connections.read(lambda c: execute(c, SQL[statement], asked))

    async def _converse(
        self,
        partition: int,
        act: Callable[[Talk], Coroutine[Any, Any, T]],
        record: Record | None = None,
        id: JobId | None = None,
    ) -> T:
        def run(connection: Connection) -> T:
            now = self._now()
            told = at_once(act(SqliteTalk(connection, partition, now)))
            if record is not None and id is not None and steering.has_changed(told):
                write_record(connection, record, [id], now=now)
            return told

        return await self._connections.transact(run)
