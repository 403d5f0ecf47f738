"""Searching in SQLite: partition by partition within one snapshot, and never for long."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from sqlite3 import Connection
from typing import Final, TypeVar

from foliot.clock import Clock
from foliot.errors import SearchTimeout
from foliot.filter import Filter
from foliot.ids import JobId, partition_of
from foliot.model.job import JobState
from foliot.model.search import Page, Standing, Tally
from foliot.store import rows
from foliot.store.searching import FIRST_ID, LAST_ID, SEARCH_TIMEOUT, Conditions, conditions
from foliot.store.sql import compose, load_statements
from foliot.store.sqlite.batches import Rows, Values, to_names
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import from_microseconds

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.sqlite", "search.sql")
_STEPS: Final = 100_000  # of SQLite's machine between two looks at the time


class SqliteSearch:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def look(
        self,
        filter: Filter,
        *,
        limit: int,
        window: int,
        after: JobId | None = None,
        payloads: bool = True,
    ) -> Page:
        whole, told = self._conditions(filter)
        if whole.nothing:
            return Page([], None)

        def run(connection: Connection) -> Page:
            edge = self._edge(connection, told, after, window)
            values: Values = {"payloads": payloads, "limit": limit, **_range(after, edge)}
            found = self._ask(connection, "search_jobs", whole, values)
            newest = sorted(found, key=lambda row: str(row[0]), reverse=True)[:limit]
            jobs = [rows.job(row, from_microseconds, to_names) for row in newest]
            return Page(jobs, jobs[-1].id if len(jobs) == limit else edge)

        return await self._connections.read(self._in_time(run))

    async def tally(
        self, filter: Filter, *, limit: int, window: int, after: JobId | None = None
    ) -> Tally:
        whole, told = self._conditions(filter)
        if whole.nothing:
            return Tally(0, None)

        def run(connection: Connection) -> Tally:
            edge = self._edge(connection, told, after, window)
            values: Values = {"limit": limit, **_range(after, edge)}
            counts = self._ask(connection, "count_found_jobs", whole, values)
            return Tally(min(limit, sum(row[0] for row in counts)), edge)

        return await self._connections.read(self._in_time(run))

    async def standing(self, id: JobId, *, limit: int) -> Standing:
        values: Values = {
            "partition": partition_of(id, self._partitions),
            "partitions": self._partitions,
            "id": id,
            "limit": limit,
        }

        def run(connection: Connection) -> Standing:
            [(ahead,)] = connection.execute(SQL["count_ahead"].text, values)
            earlier = connection.execute(SQL["list_earlier_jobs"].text, values).fetchall()
            return Standing(ahead, [(JobId(id), JobState(state)) for id, state in earlier])

        return await self._connections.read(run)

    def _conditions(self, filter: Filter) -> tuple[Conditions, Conditions]:
        now = self._clock.now_for_store() or self._clock.now()
        return conditions(filter, "sqlite", now=now)

    def _edge(
        self, connection: Connection, told: Conditions, after: JobId | None, window: int
    ) -> JobId | None:
        # Shared out: all partitions together are to be one window.
        values: Values = {"skipped": -(-window // self._partitions) - 1, **_range(after, None)}
        found = self._ask(connection, "find_search_edge", told, values)
        return max((JobId(row[0]) for row in found), default=None)

    def _ask(self, connection: Connection, name: str, where: Conditions, values: Values) -> Rows:
        text = compose(SQL[name], where.sql).text
        asked: Values = {**where.values, **values}
        found: Rows = []
        for partition in range(self._partitions):
            found += connection.execute(text, {**asked, "partition": partition}).fetchall()
        return found

    def _in_time(self, run: Callable[[Connection], T]) -> Callable[[Connection], T]:
        """One thread reads for all of this process: nobody may keep it for long."""

        def limited(connection: Connection) -> T:
            end = self._clock.monotonic() + SEARCH_TIMEOUT
            connection.set_progress_handler(lambda: int(self._clock.monotonic() > end), _STEPS)
            try:
                return run(connection)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    raise SearchTimeout(SEARCH_TIMEOUT) from error
                raise
            finally:
                connection.set_progress_handler(None, 0)

        return limited


def _range(after: JobId | None, edge: JobId | None) -> Values:
    return {"after": after or LAST_ID, "edge": edge or FIRST_ID}
