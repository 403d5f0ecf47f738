"""What is going on in a PostgreSQL store."""

from __future__ import annotations

from typing import Final

from foliot.clock import Clock
from foliot.model.overview import ActiveJob, Failure, HeldJobs, Loads, Overdue, Tally
from foliot.store import overview
from foliot.store.postgres.connection import Connections, Values
from foliot.store.reply import Rows
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "overview.sql")


class PostgresOverview:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def queues(self, *, cap: int) -> Loads:
        return overview.loads(await self._read("count_queues", {"cap": cap}))

    async def held(self, *, cap: int) -> list[HeldJobs]:
        return overview.held_jobs(await self._read("count_held", {"cap": cap}))

    async def overdue(self, *, late: float, cap: int) -> Overdue:
        values: Values = {"late": late, "cap": cap, "partitions": self._partitions}
        return overview.overdue((await self._read("count_overdue", values))[0])

    async def dead(self, *, cap: int) -> int:
        return int((await self._read("count_dead", {"cap": cap}))[0][0])

    async def tally(self) -> Tally:
        return Tally(*(await self._read("tally", {}))[0])

    async def running(self, *, limit: int) -> list[ActiveJob]:
        values: Values = {"limit": limit, "cap": overview.LONGEST_LOOK}
        return [overview.active_job(row) for row in await self._read("list_active_jobs", values)]

    async def failures(self, *, limit: int) -> list[Failure]:
        values: Values = {"limit": limit, "partitions": self._partitions}
        return [overview.failure(row) for row in await self._read("list_failures", values)]

    async def _read(self, name: str, values: Values) -> Rows:
        now: Values = {"now": self._clock.now_for_store()}
        return await self._connections.read(SQL[name], {**values, **now})
