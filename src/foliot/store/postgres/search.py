"""Searching in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg.errors import QueryCanceled

from foliot.clock import Clock
from foliot.errors import SearchTimeout, StoreUnavailable
from foliot.filter import Filter
from foliot.ids import JobId, partition_of
from foliot.model.job import JobState
from foliot.model.search import Page, Standing, Tally
from foliot.store import rows
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.reply import Rows
from foliot.store.searching import FIRST_ID, LAST_ID, SEARCH_TIMEOUT, Conditions, conditions
from foliot.store.sql import compose, load_statements

SQL: Final = load_statements("foliot.store.postgres", "search.sql")


class PostgresSearch:
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
        edge = await self._edge(told, after, window)
        values: Values = {"payloads": payloads, "limit": limit, **self._range(after, edge)}
        found = await self._ask("search_jobs", whole, values)
        jobs = [rows.job(row, rows.as_is, _names) for row in found]
        return Page(jobs, jobs[-1].id if len(jobs) == limit else edge)

    async def tally(
        self, filter: Filter, *, limit: int, window: int, after: JobId | None = None
    ) -> Tally:
        whole, told = self._conditions(filter)
        if whole.nothing:
            return Tally(0, None)
        edge = await self._edge(told, after, window)
        values: Values = {"limit": limit, **self._range(after, edge)}
        [[count]] = await self._ask("count_found_jobs", whole, values)
        return Tally(count, edge)

    async def standing(self, id: JobId, *, limit: int) -> Standing:
        values: Values = {
            "partition": partition_of(id, self._partitions),
            "partitions": self._partitions,
            "id": id,
            "limit": limit,
        }
        [[ahead]], earlier = await self._connections.transact(
            [Step(SQL["count_ahead"], values), Step(SQL["list_earlier_jobs"], values)]
        )
        return Standing(ahead, [(JobId(id), JobState(state)) for id, state in earlier])

    def _conditions(self, filter: Filter) -> tuple[Conditions, Conditions]:
        now = self._clock.now_for_store() or self._clock.now()
        return conditions(filter, "postgres", now=now)

    async def _edge(self, told: Conditions, after: JobId | None, window: int) -> JobId | None:
        values: Values = {
            # Shared out: all partitions together are to be one window.
            "skipped": -(-window // self._partitions) - 1,
            **self._range(after, None),
        }
        found = await self._ask("find_search_edge", told, values)
        return JobId(found[0][0]) if found else None

    def _range(self, after: JobId | None, edge: JobId | None) -> Values:
        return {
            "partitions": self._partitions,
            "after": after or LAST_ID,
            "edge": edge or FIRST_ID,
        }

    async def _ask(self, name: str, where: Conditions, values: Values) -> Rows:
        limit: Values = {"timeout": f"{SEARCH_TIMEOUT * 1000:.0f}"}
        statement = compose(SQL[name], where.sql)
        try:
            # Planned for these values: which index is best depends on them.
            _, found = await self._connections.transact(
                [
                    Step(SQL["limit_search"], limit),
                    Step(statement, {**where.values, **values}, prepared=False),
                ]
            )
        except StoreUnavailable as error:
            if isinstance(error.__cause__, QueryCanceled):
                raise SearchTimeout(SEARCH_TIMEOUT) from error
            raise
        return found


def _names(value: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(value or ())
