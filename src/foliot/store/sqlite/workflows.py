"""Workflows in SQLite: bind, execute, map. What happens is written in store/flowing.py and sql/workflows.sql."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from sqlite3 import Connection
from typing import Any, Final, TypeVar

from foliot.clock import Clock
from foliot.config import LimitSettings
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob, NewJob, Parent
from foliot.model.workflow import AddedStep, Advance, NewStep, NewWorkflow, Step, Workflow
from foliot.store import adding, following, growing, rows, steering
from foliot.store.guest import at_once
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, submissions, to_json
from foliot.store.sqlite.connection import Transacting
from foliot.store.sqlite.submit import insert
from foliot.store.sqlite.times import from_microseconds, store_now, to_microseconds

T = TypeVar("T")
SQL: Final = load_parts("workflows.sql", "events.sql")
CANCEL: Final = load_parts("cancel.sql")["cancel_jobs"]


class SqliteTalk:
    """A conversation about workflows and events, in a transaction that has begun. It never waits: see `at_once`."""

    def __init__(self, connection: Connection, partition: int, now: int) -> None:
        self._connection = connection
        self._common: Values = {"partition": partition, "now": now}

    async def ask(self, name: str, /, **values: object) -> Rows:
        return execute(self._connection, SQL[name], {**values, **self._common})

    async def insert(self, jobs: Sequence[NewJob]) -> None:
        insert(self._connection, submissions(jobs), self._common)

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None:
        execute(self._connection, CANCEL, {**self._common, "ids": to_json(list(ids))})


class SqliteWorkflows:
    def __init__(self, connections: Transacting, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def submit(self, partition: int, workflow: NewWorkflow) -> bool:
        return await self._converse(partition, lambda talk: growing.submit(talk, workflow))

    async def add(
        self,
        partition: int,
        id: JobId,
        steps: Sequence[NewStep],
        *,
        by: tuple[SessionId, JobId, int] | None = None,
        limits: LimitSettings | None = None,
    ) -> tuple[list[AddedStep], Advance]:
        return await self._converse(partition, lambda talk: adding.add(talk, id, steps, by, limits))

    async def follow(
        self,
        partition: int,
        child: NewStep,
        workflow: NewWorkflow,
        *,
        limits: LimitSettings | None = None,
    ) -> tuple[JobId, Advance]:
        return await self._converse(
            partition, lambda talk: following.follow(talk, child, workflow, limits)
        )

    async def advance(self, partition: int, ids: Sequence[JobId]) -> Advance:
        return await self._converse(partition, lambda talk: steering.advance(talk, ids))

    async def find_stuck(self, partition: int, *, limit: int) -> tuple[list[JobId], bool]:
        found = await self._read("find_stuck_workflows", partition, limit=limit)
        return [JobId(row[0]) for row in found if row[0] is not None], bool(found)

    async def signal(
        self, partition: int, id: JobId, name: str, payload: bytes, *, record: Record | None = None
    ) -> Advance | None:
        return await self._converse(
            partition, lambda talk: steering.signal(talk, id, name, payload), record, id
        )

    async def cancel(
        self, partition: int, id: JobId, *, record: Record | None = None, reason: str = "requested"
    ) -> Advance | None:
        return await self._converse(
            partition, lambda talk: steering.cancel(talk, id, reason), record, id
        )

    async def pause(
        self, partition: int, id: JobId, *, note: str | None, by: str, record: Record | None = None
    ) -> bool:
        return await self._converse(
            partition, lambda talk: steering.pause(talk, id, note, by), record, id
        )

    async def resume(
        self, partition: int, id: JobId, *, record: Record | None = None
    ) -> Advance | None:
        return await self._converse(partition, lambda talk: steering.resume(talk, id), record, id)

    async def retry(
        self,
        partition: int,
        id: JobId,
        *,
        only: Sequence[JobId] = (),
        record: Record | None = None,
    ) -> tuple[list[JobId], Advance]:
        return await self._converse(
            partition, lambda talk: steering.retry(talk, id, only), record, id
        )

    async def get(self, id: JobId) -> Workflow | None:
        found = await self._read("get_workflow", partition_of(id, self._partitions), id=id)
        return rows.workflow(found[0], from_microseconds) if found else None

    async def steps(self, id: JobId) -> list[Step]:
        found = await self._read("list_steps", partition_of(id, self._partitions), id=id)
        return [rows.step(row, from_microseconds) for row in found]

    async def named(self, id: JobId, names: Sequence[str]) -> dict[str, JobId]:
        asked = {"ids": "[]", "names": to_json(list(names))}
        partition = partition_of(id, self._partitions)
        found = await self._read("find_steps", partition, id=id, **asked)
        return {row[1]: JobId(row[0]) for row in found}

    async def steps_around(self, job: JobId) -> list[Step]:
        partition = partition_of(job, self._partitions)
        found = await self._read("list_steps_around", partition, job=job)
        return [rows.step(row, from_microseconds) for row in found]

    async def list(
        self, *, name: str | None, state: str | None, limit: int, before: JobId | None
    ) -> list[Workflow]:
        last = None if before is None else await self.get(before)
        asked: Values = {
            "name": name,
            "state": state,
            "limit": limit,
            "before": before,
            "before_at": None if last is None else to_microseconds(last.created_at),
        }
        found: list[Workflow] = []
        for partition in range(self._partitions):
            some = await self._read("list_workflows", partition, **asked)
            found += [rows.workflow(row, from_microseconds) for row in some]
        return sorted(found, key=rows.age_of_workflow, reverse=True)[:limit]

    async def parents(
        self, partition: int, jobs: Sequence[ClaimedJob]
    ) -> Mapping[JobId, tuple[Parent, ...]]:
        ids = to_json([job.id for job in jobs])
        return rows.parents(await self._read("list_parents", partition, ids=ids))

    async def linked(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, JobId]:
        found = await self._read("find_links", partition, ids=to_json(list(ids)))
        return {JobId(job): JobId(flow) for job, flow in found}

    async def prune(self, *, keep: float, limit: int) -> int:
        find, *delete = SQL["prune_workflows"]
        pruned = 0
        for partition in range(self._partitions):
            values: Values = {"partition": partition, "keep": keep, "limit": limit}
            values["now"] = self._now()

            def look(connection: Connection, asked: Values = values) -> Rows | None:
                return None if execute(connection, [find], asked) else []

            def run(connection: Connection, asked: Values = values) -> Rows:
                return execute(connection, delete, asked)

            # Batch after batch, each a transaction of its own, until there is nothing left.
            while gone := await self._connections.transact(run, look=look):
                pruned += len(gone)
        return pruned

    def _now(self) -> int:
        return store_now(self._clock)

    async def _read(self, statement: str, partition: int, /, **values: object) -> Rows:
        asked: Values = {**values, "partition": partition, "now": self._now()}
        return await self._connections.read(lambda c: execute(c, SQL[statement], asked))

    async def _converse(
        self,
        partition: int,
        act: Callable[[SqliteTalk], Coroutine[Any, Any, T]],
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
