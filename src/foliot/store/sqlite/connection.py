"""Connections to SQLite: one thread that writes, one that reads, each with its own.

Whole transactions are handed over as functions. The writer takes all that are waiting, runs each within a savepoint
of its own, and commits them together: one flush to disk for all. An answer is given only after the commit.
Threads do not survive a fork: open a store in the process that uses it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from typing import Any, Final, Generic, Protocol, TypeVar

from foliot.errors import StoreUnavailable
from foliot.store.sqlite.file import File, begin, explain, impatient, is_busy, roll_back

T = TypeVar("T")

_LARGEST_GROUP: Final = 256  # transactions in one commit


class Request(Generic[T]):
    """One transaction to run. `look` only reads: an answer from it makes the transaction unnecessary."""

    __slots__ = ("answer", "error", "future", "look", "loop", "run")

    def __init__(
        self,
        run: Callable[[Connection], T],
        look: Callable[[Connection], T | None] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        future: asyncio.Future[T] | concurrent.futures.Future[T] | None = None,
    ) -> None:
        self.run = run
        self.look = look
        self.loop = loop
        self.future = future
        self.answer: T | None = None
        self.error: BaseException | None = None

    @property
    def given_up(self) -> bool:
        return self.future is not None and self.future.cancelled()

    def settle(self) -> None:
        if self.future is None or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)  # type: ignore[arg-type]


Group = Sequence[Request[Any]]


class ConnectionThread:
    """A thread with a connection. It ends, and closes it, when it is told to and all that waited is done."""

    def __init__(self, name: str, connection: Connection, file: File) -> None:
        self._connection = connection
        self._file = file
        self._closed = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._inbox: SimpleQueue[Request[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"foliot-{name}", daemon=True)
        self._thread.start()

    async def ask(
        self,
        run: Callable[[Connection], T],
        look: Callable[[Connection], T | None] | None = None,
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.put(Request(run, look, loop, future))
        return await future

    def ask_and_wait(self, run: Callable[[Connection], T]) -> T:
        """For callers that are no event loop."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.put(Request(run, future=future))
        return future.result()

    def put(self, request: Request[Any]) -> None:
        if os.getpid() != self._process:
            raise StoreUnavailable("SQLite: the store was opened before a fork; open one after it")
        with self._lock:
            if self._closed:
                raise StoreUnavailable("SQLite: the store is closed")
            self._inbox.put(request)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._inbox.put(None)
        self._thread.join()

    def _serve(self) -> None:
        going = True
        while going:
            group, going = self._take()
            if group:
                self._answer(group)
                _settle(group)
        self._connection.close()

    def _take(self) -> tuple[list[Request[Any]], bool]:
        """All that wait, at least one; and whether there will be more."""
        group: list[Request[Any]] = []
        request = self._inbox.get()
        while request is not None:
            if not request.given_up:
                group.append(request)
            if len(group) >= _LARGEST_GROUP:
                return group, True
            try:
                request = self._inbox.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _answer(self, group: Group) -> None:
        raise NotImplementedError

    def _fail(self, group: Group, error: BaseException) -> None:
        """For those that have not failed already, each for a reason of its own."""
        for request in group:
            if request.error is None:
                request.error = self._explain(error)

    def _explain(self, error: BaseException) -> BaseException:
        return explain(error, self._file) if isinstance(error, sqlite3.Error) else error


class Reader(ConnectionThread):
    """Answers from one snapshot for all that wait."""

    def _answer(self, group: Group) -> None:
        try:
            self._file.check()
            self._connection.execute("BEGIN")
            for request in group:
                try:
                    request.answer = request.run(self._connection)
                except Exception as error:  # noqa: BLE001 - it belongs to the caller
                    request.error = self._explain(error)
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - it belongs to the callers
            roll_back(self._connection)
            self._fail(group, error)


class Writer(ConnectionThread):
    """Commits all that wait together."""

    def __init__(self, connection: Connection, file: File, *, timeout: float) -> None:
        self._timeout = timeout
        super().__init__("writer", impatient(connection), file)

    def _answer(self, group: Group) -> None:
        wanted = group
        try:
            self._file.check()
            # To begin is to keep everybody else from writing: not before there is something to write.
            if all(request.look is not None for request in group):
                wanted = [request for request in group if not self._look(request)]
            if wanted:
                self._commit(wanted)
        except Exception as error:  # noqa: BLE001 - it belongs to the callers
            roll_back(self._connection)
            self._fail(wanted, error)

    def _look(self, request: Request[Any]) -> bool:
        """Whether a look was enough."""
        assert request.look is not None
        try:
            request.answer = request.look(self._connection)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller
            if isinstance(error, sqlite3.Error) and is_busy(error):
                return False
            request.error = self._explain(error)
            return True
        return request.answer is not None

    def _commit(self, group: Group) -> None:
        begin(self._connection, self._timeout)
        for request in group:
            self._run(request)
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Written, perhaps wholly, but not known to be safe: after a crash it may be there or not.
            raise explain(error, self._file, unknown=True) from error
        self._file.check(unknown=True)

    def _run(self, request: Request[Any]) -> None:
        self._connection.execute("SAVEPOINT request")
        try:
            request.answer = request.run(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # a full disk or a broken one: SQLite has rolled back everybody's
            self._connection.execute("ROLLBACK TO request")
            request.error = self._explain(error)
        self._connection.execute("RELEASE request")


class Transacting(Protocol):
    """Where transactions are run: by threads of our own, or on a connection that was lent."""

    async def read(self, run: Callable[[Connection], T]) -> T:
        """All that `run` reads is of one moment."""
        ...

    async def transact(
        self,
        run: Callable[[Connection], T],
        *,
        look: Callable[[Connection], T | None] | None = None,
    ) -> T: ...


class Connections:
    """The two threads, and the two ways to use them: `read` and `transact`."""

    def __init__(self, file: File, writer: Connection, *, timeout: float) -> None:
        self.file = file
        self.timeout = timeout
        self.writer = Writer(writer, file, timeout=timeout)
        self._reader: Reader | None = None
        if file.path is not None:
            connection = file.connect(timeout=timeout)
            connection.execute("PRAGMA query_only = 1")
            self._reader = Reader("reader", connection, file)

    async def read(self, run: Callable[[Connection], T]) -> T:
        """All that `run` reads is of one moment."""
        if self._reader is not None:
            return await self._reader.ask(run)
        # In memory there is one connection. The answer is wrapped, for it may be None.
        return (await self.writer.ask(lambda c: (run(c),), look=lambda c: (run(c),)))[0]

    async def transact(
        self,
        run: Callable[[Connection], T],
        *,
        look: Callable[[Connection], T | None] | None = None,
    ) -> T:
        """It has committed when this returns. `look` answers first, unless others are writing anyway."""
        return await self.writer.ask(run, look)

    async def close(self) -> None:
        # The writer last: the last connection to a file writes the journal back and removes it.
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)
        await asyncio.to_thread(self.writer.close)


def _settle(group: Group) -> None:
    """Wake each event loop once, however many of its callers are answered."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Request[Any]]] = {}
    for request in group:
        if request.loop is None:
            request.settle()
        else:
            by_loop.setdefault(request.loop, []).append(request)
    for loop, requests in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, requests)
        except RuntimeError:
            continue  # that loop has been closed: nobody waits there


def _settle_all(requests: Group) -> None:
    for request in requests:
        request.settle()
