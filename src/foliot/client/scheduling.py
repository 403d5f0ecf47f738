"""What an app can be asked about schedules. Every question to the store has an a-prefixed twin for async code."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Unpack

from foliot import schedule_calendars, schedule_commands, schedule_forecast, schedule_sync, when
from foliot.author import this_user
from foliot.client.function import Prepared
from foliot.client.handle import Handle
from foliot.client.portal import Portal
from foliot.client.schedule_handle import ScheduleHandle, job_of
from foliot.client.workflow import Flow
from foliot.errors import InvalidValue
from foliot.model.schedule import DstGap, DstOverlap, Schedule
from foliot.registry import Registry
from foliot.schedule_draft import Draft
from foliot.schedule_options import ScheduleOptions


class Scheduling:
    """The part of an app that is about schedules."""

    _portal: Portal

    @property
    def registry(self) -> Registry:
        raise NotImplementedError

    @property
    def portal(self) -> Portal:
        return self._portal

    def get(self, id: str) -> Handle[Any]:
        raise NotImplementedError

    def schedule(
        self,
        name: str,
        job: Prepared | Flow,
        expression: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleHandle:
        """Have a prepared call run at its times: `app.schedule("report", send.prepare("a"), "every weekday at 9am",
        timezone="Europe/Berlin")`. Durable when this returns. One of this name becomes what is said here."""
        return self.schedule_many([Draft(name, job_of(job), expression, options)])[0]

    async def aschedule(
        self,
        name: str,
        job: Prepared | Flow,
        expression: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleHandle:
        draft = Draft(name, job_of(job), expression, options)
        return (await self.aschedule_many([draft]))[0]

    def draft(
        self,
        name: str,
        job: Prepared | Flow,
        expression: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Draft:
        """What `schedule` takes, for `schedule_many`. It is checked there."""
        return Draft(name, job_of(job), expression, options)

    def schedule_many(self, drafts: Iterable[Draft]) -> list[ScheduleHandle]:
        """Many at once, in transactions of some thousands; all are checked before the first is stored."""
        given = _checked(drafts)
        self._portal.call(self._create(given))
        return self._schedule_handles(given)

    async def aschedule_many(self, drafts: Iterable[Draft]) -> list[ScheduleHandle]:
        given = _checked(drafts)
        await self._portal.acall(self._create(given))
        return self._schedule_handles(given)

    def get_schedule(self, name: str, *, namespace: str = "default") -> ScheduleHandle:
        """The handle of a schedule that there is. Raises UnknownSchedule."""
        handle = ScheduleHandle(name, owner=self, namespace=namespace)
        handle.get()
        return handle

    async def aget_schedule(self, name: str, *, namespace: str = "default") -> ScheduleHandle:
        handle = ScheduleHandle(name, owner=self, namespace=namespace)
        await handle.aget()
        return handle

    def schedules(
        self,
        *,
        tag: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        limit: int = 1000,
    ) -> list[Schedule]:
        """Those that all of this is true of, by name; `name` may have * for any characters."""
        return self._portal.call(self._search(tag, kind, state, name, namespace, limit))

    async def aschedules(
        self,
        *,
        tag: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        limit: int = 1000,
    ) -> list[Schedule]:
        return await self._portal.acall(self._search(tag, kind, state, name, namespace, limit))

    def pause_schedules(
        self,
        *,
        tag: str | None = None,
        kind: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> list[str]:
        """All of a tag or a kind. When this returns they do not fire. Returns the names of those that were active."""
        return self._portal.call(self._pause(tag, kind, note, by))

    async def apause_schedules(
        self,
        *,
        tag: str | None = None,
        kind: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> list[str]:
        return await self._portal.acall(self._pause(tag, kind, note, by))

    def resume_schedules(self, *, tag: str | None = None, kind: str | None = None) -> list[str]:
        """All of a tag or a kind, from now on. Returns the names of those that were paused or parked."""
        return self._portal.call(self._resume(tag, kind))

    async def aresume_schedules(
        self, *, tag: str | None = None, kind: str | None = None
    ) -> list[str]:
        return await self._portal.acall(self._resume(tag, kind))

    def preview(
        self,
        text: str,
        *,
        timezone: str | None = None,
        after: datetime | None = None,
        count: int = 10,
        dst_gap: DstGap | None = None,
        dst_overlap: DstOverlap | None = None,
        name: str | None = None,
    ) -> when.Preview:
        """How an expression is understood: `.english`, its next `.fires`, each with `.at`, `.local` and a `.note` if a
        clock change has to do with it. `name` is that of the schedule, if H is to be told."""
        return schedule_commands.preview(
            text,
            timezone=timezone,
            after=after,
            count=count,
            dst_gap=dst_gap,
            dst_overlap=dst_overlap,
            seed=name,
            clock=self._portal.clock,
        )

    def forecast(self, *, hours: int = 24) -> schedule_forecast.Forecast:
        """How many fires there will be in each of the next minutes, and the seconds with the most."""
        return self._portal.call(self._forecast(hours))

    async def aforecast(self, *, hours: int = 24) -> schedule_forecast.Forecast:
        return await self._portal.acall(self._forecast(hours))

    def sync_schedules(self) -> schedule_sync.Diff:
        """Make the schedules that the code declares (`@app.job(schedule=…)`) what it says; what its modules no longer
        declare is parked. Workers do so when they start. str() of what this returns says what has changed."""
        return self._portal.call(self._sync())

    async def async_schedules(self) -> schedule_sync.Diff:
        return await self._portal.acall(self._sync())

    def set_calendar(self, name: str, entries: Iterable[str]) -> None:
        """Days on which the schedules that name it do not fire: "2026-12-25", "2026-12-24..2026-12-26", "12-25" of
        every year, or the days of an expression, "0 0 * * SAT,SUN"."""
        self._portal.call(self._set_calendar(name, list(entries)))

    async def aset_calendar(self, name: str, entries: Iterable[str]) -> None:
        await self._portal.acall(self._set_calendar(name, list(entries)))

    def delete_calendar(self, name: str) -> bool:
        """Whether there was one."""
        return self._portal.call(self._delete_calendar(name))

    async def adelete_calendar(self, name: str) -> bool:
        return await self._portal.acall(self._delete_calendar(name))

    def calendars(self) -> dict[str, list[str]]:
        """The entries of each."""
        return self._portal.call(self._calendars())

    async def acalendars(self) -> dict[str, list[str]]:
        return await self._portal.acall(self._calendars())

    async def _create(self, drafts: list[Draft]) -> None:
        await schedule_commands.create(await self._portal.store(), drafts)

    async def _search(
        self,
        tag: str | None,
        kind: str | None,
        state: str | None,
        name: str | None,
        namespace: str | None,
        limit: int,
    ) -> list[Schedule]:
        return await schedule_commands.search(
            await self._portal.store(),
            tag=tag,
            kind=kind,
            state=state,
            name=name,
            namespace=namespace,
            limit=limit,
        )

    async def _pause(
        self, tag: str | None, kind: str | None, note: str | None, by: str | None
    ) -> list[str]:
        store = await self._portal.store()
        who = by or this_user()
        return await schedule_commands.pause(store, tag=tag, kind=kind, note=note, by=who)

    async def _resume(self, tag: str | None, kind: str | None) -> list[str]:
        return await schedule_commands.resume(await self._portal.store(), tag=tag, kind=kind)

    async def _forecast(self, hours: int) -> schedule_forecast.Forecast:
        return await schedule_forecast.forecast(await self._portal.store(), hours=hours)

    async def _sync(self) -> schedule_sync.Diff:
        return await schedule_sync.sync_registry(await self._portal.store(), self.registry)

    async def _set_calendar(self, name: str, entries: list[str]) -> None:
        store = await self._portal.store()
        await schedule_calendars.set_calendar(store, name, entries, by=this_user())

    async def _delete_calendar(self, name: str) -> bool:
        return await schedule_calendars.delete_calendar(await self._portal.store(), name)

    async def _calendars(self) -> dict[str, list[str]]:
        found = await schedule_calendars.calendars(await self._portal.store())
        return {name: list(entries) for name, entries in found.items()}

    def _schedule_handles(self, drafts: list[Draft]) -> list[ScheduleHandle]:
        return [
            ScheduleHandle(draft.name, owner=self, namespace=draft.job.namespace)
            for draft in drafts
        ]


def _checked(drafts: Iterable[Draft]) -> list[Draft]:
    given = list(drafts)
    for position, draft in enumerate(given):
        if not isinstance(draft, Draft):
            raise InvalidValue(
                f"schedule_many()[{position}]",
                draft,
                "is not a draft",
                example='app.draft("report", send.prepare("a"), "every day at 9am")',
            )
    return given
