"""Workflows in PostgreSQL: bind, execute, map. What happens is written in store/flowing.py and sql/workflows.sql."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from foliot.clock import Clock
from foliot.config import LimitSettings
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob, NewJob, Parent
from foliot.model.workflow import AddedStep, Advance, NewStep, NewWorkflow, Step, Workflow
from foliot.store import adding, flowing, following, growing, rows, steering
from foliot.store.postgres.arrays import words
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Rows, Transacting, Values
from foliot.store.postgres.connection import Step as Said
from foliot.store.postgres.submit import insert_steps
from foliot.store.searching import Record
from foliot.store.sql import load_statements

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.postgres", "workflows.sql", "events.sql")
CANCEL: Final = load_statements("foliot.store.postgres", "cancel.sql")["cancel_jobs"]


class PostgresTalk:
    """A conversation about workflows and events, in a transaction that has begun."""

    def __init__(self, ask: Ask, partition: int, now: datetime | None) -> None:
        self._ask = ask
        self._partition = partition
        self._now = now

    async def ask(self, name: str, /, **values: object) -> Rows:
        return await self._ask(
            Said(SQL[name], {**values, "partition": self._partition, "now": self._now})
        )

    async def insert(self, jobs: Sequence[NewJob]) -> None:
        for step in insert_steps(self._partition, jobs, self._now):
            await self._ask(step)

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None:
        values: Values = {
            "partition": self._partition,
            "now": self._now,
            "ids": words(ids),
            "flows": words(flows),
        }
        await self._ask(Said(CANCEL, values))


class PostgresWorkflows:
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
        while True:
            try:
                return await self._converse(
                    partition, lambda talk: following.follow(talk, child, workflow, limits)
                )
            except following.Moved:
                continue

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
        return rows.workflow(found[0], rows.as_is) if found else None

    async def steps(self, id: JobId) -> list[Step]:
        found = await self._read("list_steps", partition_of(id, self._partitions), id=id)
        return [rows.step(row, rows.as_is) for row in found]

    async def named(self, id: JobId, names: Sequence[str]) -> dict[str, JobId]:
        asked = {"ids": "[]", "names": flowing.to_json(list(names))}
        partition = partition_of(id, self._partitions)
        found = await self._read("find_steps", partition, id=id, **asked)
        return {row[1]: JobId(row[0]) for row in found}

    async def steps_around(self, job: JobId) -> list[Step]:
        partition = partition_of(job, self._partitions)
        found = await self._read("list_steps_around", partition, job=job)
        return [rows.step(row, rows.as_is) for row in found]

    async def list(
        self, *, name: str | None, state: str | None, limit: int, before: JobId | None
    ) -> list[Workflow]:
        last = None if before is None else await self.get(before)
        asked: Values = {
            "name": name,
            "state": state,
            "limit": limit,
            "before": None if last is None else before,
            "before_at": None if last is None else last.created_at,
        }
        found: list[Workflow] = []
        for partition in range(self._partitions):
            some = await self._read("list_workflows", partition, **asked)
            found += [rows.workflow(row, rows.as_is) for row in some]
        return sorted(found, key=rows.age_of_workflow, reverse=True)[:limit]

    async def parents(
        self, partition: int, jobs: Sequence[ClaimedJob]
    ) -> Mapping[JobId, tuple[Parent, ...]]:
        ids = flowing.to_json([job.id for job in jobs])
        return rows.parents(await self._read("list_parents", partition, ids=ids))

    async def linked(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, JobId]:
        found = await self._read("find_links", partition, ids=flowing.to_json(list(ids)))
        return {JobId(job): JobId(flow) for job, flow in found}

    async def prune(self, *, keep: float, limit: int) -> int:
        pruned = 0
        for partition in range(self._partitions):
            count = limit
            while count >= limit:
                values: Values = {
                    "partition": partition,
                    "keep": keep,
                    "limit": limit,
                    "now": self._now(),
                }
                [gone] = await self._connections.transact([Said(SQL["prune_workflows"], values)])
                count = len(gone)
                pruned += count
        return pruned

    def _now(self) -> datetime | None:
        return self._clock.now_for_store()

    async def _read(self, statement: str, partition: int, /, **values: object) -> Rows:
        return await self._connections.read(
            SQL[statement], {**values, "partition": partition, "now": self._now()}
        )

    async def _converse(
        self,
        partition: int,
        act: Callable[[PostgresTalk], Awaitable[T]],
        record: Record | None = None,
        id: JobId | None = None,
    ) -> T:
        async def talk(ask: Ask) -> T:
            told = await act(PostgresTalk(ask, partition, self._now()))
            if record is not None and id is not None and steering.has_changed(told):
                for step in audit_steps(record([id]), self._clock):
                    await ask(step)
            return told

        return await self._connections.converse(talk)
