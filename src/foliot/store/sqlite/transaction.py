"""The transactions of jobs in SQLite. To begin one is to keep everybody else from writing, the heartbeat as well.

So it begins late, with its first statement, and is rolled back when it has taken a third of the lease, whatever its
function is doing then.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from sqlite3 import Connection, Cursor
from typing import Any, Final, TypeVar, cast

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import FoliotError, StoreUnavailable, TransactionTooLong
from foliot.ids import JobId
from foliot.model.job import NewJob, Outcome
from foliot.store.guest import at_once
from foliot.store.port import Cycle, Jobs
from foliot.store.sqlite.batches import Values
from foliot.store.sqlite.file import File, begin, explain, impatient, roll_back
from foliot.store.sqlite.guest import Lent
from foliot.store.sqlite.jobs import SqliteJobs
from foliot.store.sqlite.migrations import read_partitions
from foliot.store.transaction import Parameters

T = TypeVar("T")
_SLICE: Final = 0.05  # seconds between looks whether somebody still wants it


class SqliteTransactions:
    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        lease = settings.worker.lease
        self.file = File(settings.store.url)
        self.clock = clock
        self.limit = min(settings.worker.transaction_limit, lease / 3)
        self.patience = 10 * self.limit  # several wait for each other
        # Those of one process queue here, and do not ask the file again and again.
        self.turn = threading.Lock()
        self.partitions = 0

    async def begin(self, *, waits: bool) -> SqliteWork:
        work = SqliteWork(self, waits=waits)
        if not self.partitions:
            self.partitions = await work.read_partitions()
        return work

    async def settled(self, partition: int, outcome: Outcome, *, waits: bool) -> bool:
        work = SqliteWork(self, waits=waits)
        try:
            return outcome.id in await work.ask(lambda jobs: jobs.settled(partition, [outcome]))
        finally:
            await work.roll_back()

    async def close(self) -> None:
        """There is none: each has a connection of its own, which is made in less than a millisecond."""


class SqliteWork:
    def __init__(self, home: SqliteTransactions, *, waits: bool) -> None:
        self._home = home
        self._waits = waits
        self._lock = threading.RLock()  # a cancelled caller may leave a thread at work
        self._open: Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._timer: threading.Timer | None = None
        self._ending = False  # now, and only now, the transaction may be ended
        self._too_long = False
        self._has_turn = False
        self._over = False
        self._given_up = False  # what still waits for its turn need not

    @property
    def partitions(self) -> int:
        return self._home.partitions

    @property
    def connection(self) -> Connection:
        if self._waits:
            raise FoliotError(
                "a connection to SQLite blocks: it has no place on the event loop",
                hint="await tx.execute(…), or await tx.run(function), which gets it in a thread",
            )
        with self._lock:
            return self._begun()

    async def read_partitions(self) -> int:
        """On a connection of its own: nothing has begun yet."""

        def read() -> int:
            connection = self._connect()
            try:
                return read_partitions(connection)
            finally:
                connection.close()

        return await self._here_or_there(read)

    async def execute(self, statement: str, parameters: Parameters) -> list[Any]:
        return await self.run(lambda c: c.execute(statement, parameters or ()).fetchall())

    async def run(self, act: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._lock:
                return act(self._begun())

        return await self._here_or_there(run)

    async def ask(self, question: Callable[[Jobs], Coroutine[Any, Any, T]]) -> T:
        def ask(connection: Connection) -> T:
            lent = Lent(cast(Connection, _Cursors(connection)))
            jobs = SqliteJobs(lent, self._home.clock, partitions=self._home.partitions)
            return at_once(question(jobs))

        return await self.run(ask)

    async def stand_ready(self, id: JobId, job: NewJob) -> None:
        """There is one writer, so nobody waits crosswise."""

    async def end(self, finish: Callable[[Jobs], Coroutine[Any, Any, Cycle]]) -> Cycle:
        return await self.ask(finish)  # nobody else writes meanwhile

    def check(self) -> None:
        # Without the lock: a thread that was left at work may have it, and this may be the event loop.
        self._check_time()
        connection = self._open
        if connection is not None and not connection.in_transaction:
            raise FoliotError(
                "the transaction was ended inside its block: SQLite has rolled it back",
                hint="the statement before has failed for want of space, or by its conflict clause",
            )

    async def commit(self) -> None:
        def commit() -> None:
            with self._lock:
                self._check_time()
                connection = self._end()
                try:
                    if connection is not None:
                        self._commit(connection)
                except sqlite3.Error as error:
                    raise explain(error, self._home.file, unknown=True) from error
                finally:
                    self._close(connection)

        await self._here_or_there(commit)

    async def roll_back(self) -> None:
        def abandon() -> None:
            with self._lock:
                connection = self._end()
                if connection is not None and not self._too_long:
                    self._undo_all(connection)
                self._close(connection)

        self._given_up = True
        if not self._over:
            await self._here_or_there(abandon)

    async def _here_or_there(self, act: Callable[[], T]) -> T:
        if not self._waits:
            return act()
        # A thread to itself: if those that wait for their turn took all there are, whoever has it could not go on.
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "foliot-transaction")
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    def _connect(self) -> Connection:
        return self._home.file.connect(timeout=self._home.patience)

    def _begun(self) -> Connection:
        self._check_time()
        if self._open is None:
            if self._ending:
                raise FoliotError("the transaction is over: its block has ended")
            self._open = self._begin()
            self._timer = threading.Timer(self._home.limit, self._expire)
            self._timer.daemon = True
            self._timer.start()
        return self._open

    def _begin(self) -> Connection:
        slices = round(self._home.patience / _SLICE)
        if not any(self._home.turn.acquire(timeout=_SLICE) for _ in self._while_wanted(slices)):
            raise StoreUnavailable("SQLite: other transactions of jobs have gone on for too long")
        connection: Connection | None = None
        try:
            connection = self._connect()
            begin(impatient(connection), self._home.patience)
            connection.set_authorizer(self._authorize)
        except BaseException as error:
            self._home.turn.release()
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise explain(error, self._home.file) from error
            raise
        self._has_turn = True
        return connection

    def _while_wanted(self, slices: int) -> Iterator[int]:
        return itertools.takewhile(lambda _: not self._given_up, range(slices))

    def _end(self) -> Connection | None:
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        return self._open

    def _close(self, connection: Connection | None) -> None:
        self._open = None
        if connection is not None:
            self._let_go(connection)
        self._pass_on()
        self._over = True
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def _commit(self, connection: Connection) -> None:
        connection.execute("COMMIT")
        self._home.file.check(unknown=True)

    def _undo_all(self, connection: Connection) -> None:
        # First this: what the function goes on to write must not be written outside a transaction.
        connection.execute("PRAGMA query_only = 1")
        roll_back(connection)

    def _let_go(self, connection: Connection) -> None:
        connection.close()

    def _pass_on(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._home.turn.release()

    def _expire(self) -> None:
        """In a thread of its own, while the function sleeps or its statement runs."""
        connection = self._open
        if connection is None or self._ending:
            return
        self._too_long = True
        connection.interrupt()
        with self._lock:
            if self._open is None or self._ending:
                return
            self._ending = True
            self._undo_all(connection)
            self._pass_on()

    def _check_time(self) -> None:
        if self._too_long:
            raise TransactionTooLong(
                self._home.limit, "worker.transaction_limit and a third of worker.lease"
            )

    def _authorize(self, action: int, *_: object) -> int:
        """COMMIT and ROLLBACK belong to the block, by whatever way they come. Savepoints do not."""
        if action == sqlite3.SQLITE_TRANSACTION and not self._ending:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


class _Cursors:
    """What our own statements need of the connection, whatever the function has set on it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, text: str, values: Values) -> Cursor:
        cursor = Cursor(self._connection)
        cursor.row_factory = None
        return cursor.execute(text, values)
