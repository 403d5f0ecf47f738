"""The transactions of jobs in PostgreSQL, limited by the server itself: a long one pins what vacuum may free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import FoliotError, TransactionTooLong
from foliot.ids import JobId, partition_of
from foliot.model.job import NewJob, Outcome
from foliot.store.flowing import to_json
from foliot.store.guest import Answer, first_row, settle
from foliot.store.port import Cycle, Jobs
from foliot.store.postgres.arrays import words
from foliot.store.postgres.connection import to_conninfo
from foliot.store.postgres.failures import explain, role_of
from foliot.store.postgres.guest import Lent
from foliot.store.postgres.jobs import SQL as JOBS_SQL
from foliot.store.postgres.jobs import PostgresJobs
from foliot.store.postgres.lines import AsyncLines, BlockingLines, Lines
from foliot.store.postgres.workflows import SQL as WORKFLOWS_SQL
from foliot.store.sql import Statement, load_statements
from foliot.store.transaction import Parameters

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.postgres", "guest.sql")
_HAS_TRANSACTION_TIMEOUT: Final = 170000


class PostgresTransactions:
    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self.limit = settings.worker.transaction_limit
        self.clock = clock
        self._size = settings.worker.transactions
        self._conninfo = to_conninfo(settings.store.url, timeout=settings.store.connect_timeout)
        self.role = role_of(self._conninfo)
        self._blocking = BlockingLines(self._conninfo, size=self._size, patience=10 * self.limit)
        self._async: AsyncLines | None = None
        self._partitions = 0

    async def begin(self, *, waits: bool) -> PostgresWork:
        lines = self._lines(waits=waits)
        connection, fresh = await lines.take()
        if not fresh:
            try:
                return await self._begin_on(connection, lines)
            except psycopg.OperationalError:
                # It had been idle, and the server is gone since or has ended it.
                connection, _ = await lines.take(fresh=True)
        try:
            return await self._begin_on(connection, lines)
        except psycopg.Error as error:
            raise explain(error, role=self.role) from error

    async def settled(self, partition: int, outcome: Outcome, *, waits: bool) -> bool:
        # The job's row is locked until the lost transaction is over; only then there is something to read.
        work = await self.begin(waits=waits)
        try:
            await work.lock(partition, outcome)
            found = await work.ask(lambda jobs: jobs.settled(partition, [outcome]))
        except psycopg.Error as error:
            raise explain(error, role=self.role) from error
        finally:
            await work.roll_back()
        return outcome.id in found

    async def close(self) -> None:
        self._blocking.close()
        if self._async is not None and self._async.loop is asyncio.get_running_loop():
            await self._async.close()

    def _lines(self, *, waits: bool) -> Lines:
        if not waits:
            return self._blocking
        if self._async is None or self._async.loop is not asyncio.get_running_loop():
            self._async = AsyncLines(self._conninfo, size=self._size, patience=10 * self.limit)
        return self._async

    async def _begin_on(self, connection: Any, lines: Any) -> PostgresWork:
        work = PostgresWork(self, connection, lines)
        try:
            self._partitions = await work.begin(self._partitions)
        except BaseException:
            await work.roll_back()
            raise
        return work


class PostgresWork:
    """On either kind of psycopg's connections: they say the same, and one of them is awaited."""

    def __init__(
        self,
        home: PostgresTransactions,
        connection: Connection[Any] | AsyncConnection[Any],
        lines: Any,
    ) -> None:
        self.connection: Any = connection
        self.partitions = 0
        self._home = home
        self._lines = lines
        self._waits = isinstance(connection, AsyncConnection)
        self._block: Any = self.connection.transaction()  # forbids to commit or roll back inside
        self._began = home.clock.monotonic()
        self._inside = False
        self._over = False

    async def begin(self, partitions: int) -> int:
        await settle(self._block.__aenter__() if self._waits else self._block.__enter__())
        self._inside = True
        limit = f"{max(1, round(self._home.limit * 1000))}ms"
        await settle(self._run(SQL["limit_transaction"], {"limit": limit}))
        if self.connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
            await settle(self._run(SQL["limit_transaction_wholly"], {"limit": limit}))
        if not partitions:
            row = first_row(await settle(self._run(SQL["identify_store"], {})))
            partitions = int(row[1])
        self.partitions = partitions
        return partitions

    async def lock(self, partition: int, outcome: Outcome) -> None:
        values = {"partition": partition, "ids": words([outcome.id])}
        await settle(self._run(JOBS_SQL["lock_jobs"], values))

    async def execute(self, statement: str, parameters: Parameters) -> list[Any]:
        self._check_time()
        cursor = await settle(self.connection.execute(statement, parameters))
        return list(await settle(cursor.fetchall())) if cursor.description else []

    async def run(self, act: Callable[[Any], T]) -> T:
        if self._waits:
            raise FoliotError(
                "tx.run is for SQLite: on PostgreSQL there is an async connection",
                hint="await tx.execute(…), or use tx.connection",
            )
        return act(self.connection)

    async def ask(self, question: Callable[[Jobs], Coroutine[Any, Any, T]]) -> T:
        jobs = PostgresJobs(Lent(self._run), self._home.clock, partitions=self.partitions)
        try:
            return await question(jobs)
        except psycopg.Error as error:
            raise explain(error, role=self._home.role) from error

    async def stand_ready(self, id: JobId, job: NewJob) -> None:
        partition = partition_of(id, self.partitions)
        if partition_of(job.id, self.partitions) != partition:
            return  # nobody else has rows of two partitions
        own = {"partition": partition, "id": id, "namespace": job.namespace, "kind": job.kind}
        look = partial(self._run, SQL["find_own_workflow"], {**own, "key": job.key})
        try:
            found = first_row(await settle(look()))
            while found:
                await settle(self._run(SQL["mark_locks"], {}))
                flow = {"partition": partition, "ids": to_json(found)}
                await settle(self._run(WORKFLOWS_SQL["lock_workflows"], flow))
                before, found = found, first_row(await settle(look()))
                if found == before:
                    return
                # It has become a part of another while it was waited for.
                await settle(self._run(SQL["let_go_of_locks"], {}))
        except psycopg.Error as error:
            raise explain(error, role=self._home.role) from error

    async def end(self, finish: Callable[[Jobs], Coroutine[Any, Any, Cycle]]) -> Cycle:
        try:
            await settle(self._run(SQL["mark_locks"], {}))
            ended = await self.ask(finish)
            if ended.refused:
                await settle(self._run(SQL["let_go_of_locks"], {}))
        except psycopg.Error as error:
            raise explain(error, role=self._home.role) from error
        return ended

    def check(self) -> None:
        self._check_time()
        if self.connection.info.transaction_status is TransactionStatus.IDLE:
            raise FoliotError(
                "the transaction was ended inside its block: its job does not end together with it",
                hint="leave COMMIT and ROLLBACK to the block; for a part of it, take a savepoint",
            )

    async def commit(self) -> None:
        self._over = True
        usable = False
        try:
            await settle(self._leave(None, None))
            usable = True
        except psycopg.Error as error:
            raise explain(error, role=self._home.role) from error
        finally:
            await self._lines.give_back(self.connection, usable=usable)

    async def roll_back(self) -> None:
        if self._over:
            return
        self._over = True
        usable = False
        try:
            if self._inside:
                await settle(self._leave(psycopg.Rollback, psycopg.Rollback()))
            usable = self.connection.info.transaction_status is TransactionStatus.IDLE
        except psycopg.Error:
            usable = False  # the server rolls back what it no longer hears of
        finally:
            await self._lines.give_back(self.connection, usable=usable)

    def _leave(self, kind: Any, error: Any) -> Any:
        if self._waits:
            return self._block.__aexit__(kind, error, None)
        return self._block.__exit__(kind, error, None)

    def _check_time(self) -> None:
        if self._home.clock.monotonic() - self._began > self._home.limit:
            raise TransactionTooLong(self._home.limit, "worker.transaction_limit")

    def _run(
        self, statement: Statement, values: Mapping[str, object]
    ) -> Answer | Awaitable[Answer]:
        if self._waits:
            return self._run_async(statement, values)
        with RawCursor(self.connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement.numbered, statement.bind(values))
            return Answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)

    async def _run_async(self, statement: Statement, values: Mapping[str, object]) -> Answer:
        async with AsyncRawCursor(self.connection, row_factory=tuple_row) as cursor:
            await cursor.execute(statement.numbered, statement.bind(values))
            rows = await cursor.fetchall() if cursor.description else []
            return Answer(rows, cursor.rowcount)
