"""The transactions of jobs on a store in memory, where there is one connection: the writer's.

The writer lends it out and waits. So nothing else can be asked of the store meanwhile: that is for tests.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future
from sqlite3 import Connection

from foliot.clock import Clock
from foliot.config import Settings
from foliot.store.sqlite.connection import Request, Writer
from foliot.store.sqlite.transaction import SqliteTransactions, SqliteWork


class MemoryTransactions(SqliteTransactions):
    def __init__(
        self, settings: Settings, writer: Writer, *, clock: Clock, partitions: int
    ) -> None:
        super().__init__(settings, clock=clock)
        self.partitions = partitions
        self._writer = writer

    async def begin(self, *, waits: bool) -> SqliteWork:
        return MemoryWork(self, self._writer, waits=waits)


class Undone(Exception):
    """Raised within the writer's transaction, to have this part of it rolled back."""


class MemoryWork(SqliteWork):
    def __init__(self, home: SqliteTransactions, writer: Writer, *, waits: bool) -> None:
        super().__init__(home, waits=waits)
        self._writer = writer
        self._returned = threading.Event()
        self._done: Future[None] = Future()
        self._undo = False

    def _begin(self) -> Connection:
        lent: Future[Connection] = Future()

        def run(connection: Connection) -> None:
            lent.set_result(connection)
            self._returned.wait()
            connection.set_authorizer(None)
            connection.row_factory, connection.text_factory = None, str
            if self._undo:
                raise Undone

        self._writer.put(Request(run, future=self._done))
        connection = lent.result(self._home.patience)
        connection.set_authorizer(self._authorize)
        return connection

    def _commit(self, connection: Connection) -> None:
        self._returned.set()
        self._done.result()

    def _undo_all(self, connection: Connection) -> None:
        self._undo = True
        self._returned.set()
        with contextlib.suppress(Undone):
            self._done.result()

    def _let_go(self, connection: Connection) -> None:
        """It is the writer's."""
