"""Workflows, as far as both stores have them in the same words: which conversation is had, or which statement is asked.
What a conversation is made of, bound and executed by, is each store's own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from foliot.config import LimitSettings
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob, Parent
from foliot.model.workflow import AddedStep, Advance, Around, NewStep, NewWorkflow, Step, Workflow
from foliot.store import adding, following, growing, retrying, rows, steering
from foliot.store.flowing import Talk, to_json
from foliot.store.reply import Rows
from foliot.store.searching import Record

T = TypeVar("T")


class Conversing:
    """See Workflows (workflows.py)."""

    _partitions: int
    _read_time: rows.ToTime
    _write_time: Callable[[datetime], object]

    async def _read(self, statement: str, partition: int, /, **values: object) -> Rows:
        """One of the statements that only read."""
        raise NotImplementedError

    async def _converse(
        self,
        partition: int,
        act: Callable[[Talk], Coroutine[Any, Any, T]],
        record: Record | None = None,
        id: JobId | None = None,
    ) -> T:
        """In one transaction; with a record of who did it, if it changed anything."""
        raise NotImplementedError

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
        self,
        partition: int,
        id: JobId,
        name: str,
        payload: bytes,
        *,
        early: bool = True,
        record: Record | None = None,
    ) -> Advance | None:
        return await self._converse(
            partition,
            lambda talk: steering.signal(talk, id, name, payload, early=early),
            record,
            id,
        )

    async def cancel(
        self, partition: int, id: JobId, *, record: Record | None = None, reason: str = "requested"
    ) -> Advance | None:
        return await self._converse(
            partition, lambda talk: steering.cancel(talk, id, reason), record, id
        )

    async def pause(
        self,
        partition: int,
        id: JobId,
        *,
        note: str | None,
        by: str,
        record: Record | None = None,
        within: JobId | None = None,
    ) -> bool:
        return await self._converse(
            partition, lambda talk: steering.pause(talk, id, note, by, within), record, id
        )

    async def resume(
        self,
        partition: int,
        id: JobId,
        *,
        record: Record | None = None,
        within: JobId | None = None,
    ) -> Advance | None:
        return await self._converse(
            partition, lambda talk: steering.resume(talk, id, within), record, id
        )

    async def retry(
        self,
        partition: int,
        id: JobId,
        *,
        only: Sequence[JobId] = (),
        record: Record | None = None,
    ) -> tuple[list[JobId], Advance]:
        return await self._converse(
            partition, lambda talk: retrying.retry(talk, id, only), record, id
        )

    async def get(self, id: JobId) -> Workflow | None:
        found = await self._read("get_workflow", partition_of(id, self._partitions), id=id)
        return rows.workflow(found[0], self._read_time) if found else None

    async def steps(self, id: JobId) -> list[Step]:
        found = await self._read("list_steps", partition_of(id, self._partitions), id=id)
        return [rows.step(row, self._read_time) for row in found]

    async def named(self, id: JobId, names: Sequence[str]) -> dict[str, JobId]:
        asked = {"ids": "[]", "names": to_json(list(names))}
        partition = partition_of(id, self._partitions)
        found = await self._read("find_steps", partition, id=id, **asked)
        return {row[1]: JobId(row[0]) for row in found}

    async def around(self, job: JobId, *, most: int) -> Around | None:
        partition = partition_of(job, self._partitions)
        found = await self._read("list_steps_around", partition, job=job, most=most)
        return rows.around(found, self._read_time)

    async def children(self, job: JobId, *, most: int) -> list[Step]:
        partition = partition_of(job, self._partitions)
        found = await self._read("list_children", partition, job=job, most=most)
        return [rows.step(row, self._read_time) for row in found]

    async def list(
        self, *, name: str | None, state: str | None, limit: int, before: JobId | None
    ) -> list[Workflow]:
        last = None if before is None else await self.get(before)
        asked = {
            "name": name,
            "state": state,
            "limit": limit,
            "before": None if last is None else before,
            "before_at": None if last is None else self._write_time(last.created_at),
        }
        found: list[Workflow] = []
        for partition in range(self._partitions):
            some = await self._read("list_workflows", partition, **asked)
            found += [rows.workflow(row, self._read_time) for row in some]
        return sorted(found, key=rows.age_of_workflow, reverse=True)[:limit]

    async def parents(
        self, partition: int, jobs: Sequence[ClaimedJob]
    ) -> Mapping[JobId, tuple[Parent, ...]]:
        ids = to_json([job.id for job in jobs])
        return rows.parents(await self._read("list_parents", partition, ids=ids))

    async def linked(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, JobId]:
        found = await self._read("find_links", partition, ids=to_json(list(ids)))
        return {JobId(job): JobId(flow) for job, flow in found}
