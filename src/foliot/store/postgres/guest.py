"""Submitting on a connection of the caller's to PostgreSQL, whatever its driver and its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec
from psycopg import AsyncConnection, AsyncRawCursor

from foliot.clock import Clock
from foliot.config import StoreSettings
from foliot.shown import redact
from foliot.store.guest import Answer, Release, Run, elsewhere, first_row, settle
from foliot.store.migrate import check
from foliot.store.port import Jobs
from foliot.store.postgres.connection import Ask, Step, Values, to_conninfo
from foliot.store.postgres.failures import translate
from foliot.store.postgres.jobs import PostgresJobs
from foliot.store.postgres.migrations import MIGRATIONS, read_applied
from foliot.store.reply import Rows
from foliot.store.sql import Statement, load_statements

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.postgres", "guest.sql")


class Identity(msgspec.Struct, frozen=True):
    """By which a store is known again: its database, and when its tables were made."""

    database: str
    born: str


class Lent:
    """In place of a pool: one connection, in the midst of its owner's transaction."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def read(self, statement: Statement, values: Values) -> Rows:
        return (await settle(self._run(statement, values))).rows

    async def transact(self, steps: Sequence[Step]) -> list[Rows]:
        return [await self.read(step.statement, step.values) for step in steps]

    async def converse(self, talk: Callable[[Ask], Awaitable[T]]) -> T:
        ask = Ask(self.transact)
        told = await talk(ask)
        await ask.hear()  # its owner commits
        return told


class PostgresGuest:
    engine = "postgres"

    def __init__(self, settings: StoreSettings, clock: Clock, identity: Identity) -> None:
        self._url = redact(settings.url)
        self._clock = clock
        self._identity = identity

    async def recognise(self, run: Run) -> int:
        found, partitions = await _identify(run)
        if found is None or found.database != self._identity.database:
            raise elsewhere("is to a database without the app's store", self._url)
        if found != self._identity:
            raise elsewhere("is to another store than the app's", self._url)
        return partitions

    def jobs(self, run: Run, partitions: int, release: Release) -> Jobs:
        return PostgresJobs(Lent(run), self._clock, partitions=partitions, release=release)


async def open_guest(settings: StoreSettings, *, clock: Clock) -> PostgresGuest:
    """Asks the app's own store who it is."""
    conninfo = to_conninfo(settings.url, timeout=settings.connect_timeout)
    with translate(conninfo):
        async with await AsyncConnection.connect(
            conninfo, autocommit=True, prepare_threshold=None
        ) as connection:
            check(MIGRATIONS, await read_applied(connection))

            async def run(statement: Statement, values: Values) -> Answer:
                cursor = AsyncRawCursor(connection)
                await cursor.execute(statement.numbered, statement.bind(values))
                return Answer(await cursor.fetchall())

            identity, _ = await _identify(run)
    assert identity is not None
    return PostgresGuest(settings, clock, identity)


async def _identify(run: Run) -> tuple[Identity | None, int]:
    """In two steps: a statement about tables that are not there would end the caller's transaction."""
    row = first_row(await settle(run(SQL["find_store"], {})))
    if not row[1]:
        return None, 0
    born, partitions = first_row(await settle(run(SQL["identify_store"], {})))
    return Identity(str(row[0]), str(born)), int(partitions)
