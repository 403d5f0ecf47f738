"""Connections for the transactions of jobs: a few for functions that block, a few for those on an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import tuple_row

from foliot.errors import StoreUnavailable
from foliot.store.postgres.failures import translate

_RESET: Final = "DISCARD ALL"  # whatever a function has set, the next one does not inherit it


class BlockingLines:
    """At most `size` at once; who finds none free waits for one."""

    def __init__(self, conninfo: str, *, size: int, patience: float) -> None:
        self._conninfo = conninfo
        self._patience = patience
        self._slots = threading.Semaphore(size)
        self._idle: list[Connection[Any]] = []

    async def take(self, *, fresh: bool = False) -> tuple[Connection[Any], bool]:
        """A connection, and whether it was just made."""
        if not self._slots.acquire(timeout=self._patience):
            raise _none_free(self._patience)
        try:
            if self._idle and not fresh:
                return self._idle.pop(), False
            with translate(self._conninfo):
                return psycopg.connect(
                    self._conninfo, autocommit=True, prepare_threshold=None
                ), True
        except BaseException:
            self._slots.release()
            raise

    async def give_back(self, connection: Connection[Any], *, usable: bool) -> None:
        try:
            if usable:
                _forget_settings(connection, Cursor)
                connection.execute(_RESET)
                self._idle.append(connection)
            else:
                connection.close()
        except psycopg.Error:
            connection.close()
        finally:
            self._slots.release()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class AsyncLines:
    """The same, for one event loop."""

    def __init__(self, conninfo: str, *, size: int, patience: float) -> None:
        self.loop = asyncio.get_running_loop()
        self._conninfo = conninfo
        self._patience = patience
        self._slots = asyncio.Semaphore(size)
        self._idle: list[AsyncConnection[Any]] = []

    async def take(self, *, fresh: bool = False) -> tuple[AsyncConnection[Any], bool]:
        try:
            async with asyncio.timeout(self._patience):
                await self._slots.acquire()
        except TimeoutError:
            raise _none_free(self._patience) from None
        try:
            if self._idle and not fresh:
                return self._idle.pop(), False
            with translate(self._conninfo):
                return await AsyncConnection.connect(
                    self._conninfo, autocommit=True, prepare_threshold=None
                ), True
        except BaseException:
            self._slots.release()
            raise

    async def give_back(self, connection: AsyncConnection[Any], *, usable: bool) -> None:
        try:
            if usable:
                _forget_settings(connection, AsyncCursor)
                await connection.execute(_RESET)
                self._idle.append(connection)
            else:
                await connection.close()
        except psycopg.Error:
            await connection.close()
        except BaseException:  # cancelled
            await connection.close()
            raise
        finally:
            self._slots.release()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()


Lines = BlockingLines | AsyncLines


def _forget_settings(connection: Any, cursor: type) -> None:
    """Those on this side of the line."""
    connection.row_factory = tuple_row
    connection.cursor_factory = cursor
    connection.prepare_threshold = None


def _none_free(patience: float) -> StoreUnavailable:
    return StoreUnavailable(
        f"PostgreSQL: no connection for a job's transaction was free within {patience:g} s",
        hint="raise worker.transactions, or make the transactions shorter",
    )
