"""ScheduleHandle: a schedule by its name. Every question has an a-prefixed twin for async code."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Protocol, TypeVar, Unpack

from foliot import schedule_backfill, schedule_commands, schedule_explain, schedule_fires, when
from foliot.author import this_user
from foliot.client.function import Prepared, check_resolved
from foliot.client.handle import Handle
from foliot.client.portal import Portal
from foliot.client.workflow import Flow
from foliot.client.workflow_handle import WorkflowHandle
from foliot.errors import InvalidValue
from foliot.ids import JobId
from foliot.model.job import NewJob
from foliot.model.schedule import Answer, Schedule, ScheduleState
from foliot.schedule_options import ScheduleOptions
from foliot.store.port import Store

T = TypeVar("T")


class Owner(Protocol):
    """What the handle of a schedule needs of its app."""

    @property
    def portal(self) -> Portal: ...

    def get(self, id: str) -> Handle[Any]: ...


class ScheduleHandle:
    """What `app.schedule` gives back. It holds nothing open: keep it, lose it, or ask for it by `app.get_schedule`."""

    def __init__(self, name: str, *, owner: Owner, namespace: str = "default") -> None:
        self.name = name
        self.namespace = namespace
        self._owner = owner

    def get(self) -> Schedule:
        """All that is known of it now."""
        return self._call(self._get())

    async def aget(self) -> Schedule:
        return await self._acall(self._get())

    def status(self) -> ScheduleState:
        return self.get().state

    async def astatus(self) -> ScheduleState:
        return (await self.aget()).state

    def update(
        self,
        expression: str | None = None,
        *,
        job: Prepared | Flow | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Change what is named, from now on; None takes an option back. What it was is kept with its span."""
        return self._call(self._update(expression, job, options))

    async def aupdate(
        self,
        expression: str | None = None,
        *,
        job: Prepared | Flow | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        return await self._acall(self._update(expression, job, options))

    def pause(self, note: str | None = None, *, by: str | None = None) -> bool:
        """When this returns it does not fire. Whether it was active."""
        return self._call(self._pause(note, by))

    async def apause(self, note: str | None = None, *, by: str | None = None) -> bool:
        return await self._acall(self._pause(note, by))

    def resume(self) -> bool:
        """From now on: what was to fire meanwhile is not made up for. Whether it was paused or parked."""
        return self._call(self._resume())

    async def aresume(self) -> bool:
        return await self._acall(self._resume())

    def trigger(self, *, overlap: str | None = None) -> Handle[Any] | None:
        """Run it now, under its rule of overlap or this one. None: that forbids it."""
        return self._handle(self._call(self._trigger(overlap)))

    async def atrigger(self, *, overlap: str | None = None) -> Handle[Any] | None:
        return self._handle(await self._acall(self._trigger(overlap)))

    def backfill(
        self, start: datetime, to: datetime, *, overlap: str | None = None, force: bool = False
    ) -> list[Handle[Any]]:
        """Make up for the nominal times of a span that became no job, one run after the other unless `overlap` is
        "allow". What is older than history goes back needs `force`: it may have run."""
        return self._handles(self._call(self._backfill(start, to, overlap, force=force)))

    async def abackfill(
        self, start: datetime, to: datetime, *, overlap: str | None = None, force: bool = False
    ) -> list[Handle[Any]]:
        return self._handles(await self._acall(self._backfill(start, to, overlap, force=force)))

    def delete(self) -> bool:
        """With what is known of its past; its jobs stay. Whether there was one."""
        return self._call(self._delete())

    async def adelete(self) -> bool:
        return await self._acall(self._delete())

    def fires(
        self, *, start: datetime | None = None, to: datetime | None = None, limit: int = 100
    ) -> list[Answer]:
        """The ledger: for every nominal time the job, or the reason why there is none; the newest last."""
        return self._call(self._fires(start, to, limit))

    async def afires(
        self, *, start: datetime | None = None, to: datetime | None = None, limit: int = 100
    ) -> list[Answer]:
        return await self._acall(self._fires(start, to, limit))

    def next_fires(self, count: int = 10) -> list[when.Fire]:
        """When it will fire, unless it is changed."""
        return self._call(self._next_fires(count))

    async def anext_fires(self, count: int = 10) -> list[when.Fire]:
        return await self._acall(self._next_fires(count))

    def explain(self) -> schedule_explain.ScheduleExplanation:
        """Why it fires or does not, and how its last times were answered."""
        return self._call(self._explain())

    async def aexplain(self) -> schedule_explain.ScheduleExplanation:
        return await self._acall(self._explain())

    def __repr__(self) -> str:
        return f"ScheduleHandle({self.name!r})"

    async def _get(self) -> Schedule:
        return await schedule_commands.get(await self._store(), self.name, namespace=self.namespace)

    async def _update(
        self, expression: str | None, job: Prepared | Flow | None, options: ScheduleOptions
    ) -> Schedule:
        return await schedule_commands.update(
            await self._store(),
            self.name,
            expression=expression,
            job=None if job is None else job_of(job),
            namespace=self.namespace,
            **options,
        )

    async def _pause(self, note: str | None, by: str | None) -> bool:
        return bool(
            await schedule_commands.pause(
                await self._store(),
                self.name,
                namespace=self.namespace,
                note=note,
                by=by or this_user(),
            )
        )

    async def _resume(self) -> bool:
        return bool(
            await schedule_commands.resume(await self._store(), self.name, namespace=self.namespace)
        )

    async def _trigger(self, overlap: str | None) -> JobId | None:
        ids = self._owner.portal.ids
        return await schedule_commands.trigger(
            await self._store(), self.name, overlap=overlap, namespace=self.namespace, ids=ids
        )

    async def _backfill(
        self, start: datetime, to: datetime, overlap: str | None, *, force: bool
    ) -> list[JobId]:
        return await schedule_backfill.backfill(
            await self._store(),
            self.name,
            start,
            to,
            overlap=overlap,
            force=force,
            retention=self._owner.portal.settings.retention.history,
            namespace=self.namespace,
        )

    async def _delete(self) -> bool:
        return bool(
            await schedule_commands.delete(await self._store(), self.name, namespace=self.namespace)
        )

    async def _fires(self, start: datetime | None, to: datetime | None, limit: int) -> list[Answer]:
        return await schedule_fires.fires(
            await self._store(),
            self.name,
            start=start,
            to=to,
            limit=limit,
            namespace=self.namespace,
        )

    async def _next_fires(self, count: int) -> list[when.Fire]:
        return await schedule_commands.next_fires(
            await self._store(), self.name, count, namespace=self.namespace
        )

    async def _explain(self) -> schedule_explain.ScheduleExplanation:
        return await schedule_explain.explain(
            await self._store(), self.name, namespace=self.namespace
        )

    async def _store(self) -> Store:
        return await self._owner.portal.store()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._owner.portal.call(work)

    async def _acall(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._owner.portal.acall(work)

    def _handle(self, id: JobId | None) -> Handle[Any] | None:
        return None if id is None else self._owner.get(id)

    def _handles(self, ids: list[JobId]) -> list[Handle[Any]]:
        return [self._owner.get(id) for id in ids]


def job_of(call: object) -> NewJob:
    """The template of a prepared call, or of a job that stands for a workflow."""
    if isinstance(call, WorkflowHandle):
        call.check_draft()
    if isinstance(call, Flow):
        return call.as_job()
    if not isinstance(call, Prepared):
        raise InvalidValue("job", call, "is not a prepared call", example="add.prepare(1, 2)")
    check_resolved(call)
    if call.choices.after is not None:
        raise InvalidValue("after", problem="is not for the job of a schedule")
    if call.choices.connection is not None:
        raise InvalidValue(
            "connection", problem="is not for the job of a schedule: it is stored by itself"
        )
    template = call.template
    return NewJob(
        template.id,
        template.kind,
        call.payload,
        template.lane,
        template.queue,
        template.namespace,
        template.priority,
        template.max_attempts,
        template.run_at,
        template.delay,
        template.timeout,
        template.key,
        template.more,
        template.key_mode,
    )
