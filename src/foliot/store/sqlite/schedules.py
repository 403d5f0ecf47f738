"""Schedules in SQLite: what the statements promise is written in sql/schedules.sql."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.errors import UnknownSchedule
from foliot.ids import JobId, ScheduleId, partition_of
from foliot.model.job import NewJob
from foliot.model.schedule import (
    Entry,
    Gap,
    NewSchedule,
    NewTrigger,
    Overlap,
    Reason,
    Schedule,
    ScheduleState,
    Version,
)
from foliot.store import rows
from foliot.store.excluding import Calendar
from foliot.store.scheduling import (
    FIRST_SCHEDULE,
    GRACE,
    Fired,
    Run,
    Wanted,
    buffer_of,
    encode_rules,
    extras_of,
    may_follow,
    more_of,
    passed,
)
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import (
    Rows,
    Values,
    execute,
    load_parts,
    submissions,
    to_json,
    to_names,
)
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.fire import SQL as FIRE
from foliot.store.sqlite.fire import Firing, cancel
from foliot.store.sqlite.submit import insert
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts("schedules.sql")
_GRACE: Final = round(GRACE * 1_000_000)


class SqliteSchedules(Firing):
    async def create(self, partition: int, schedules: Sequence[NewSchedule]) -> set[ScheduleId]:
        (create,) = SQL["create_schedules"]

        def run(connection: Connection) -> set[ScheduleId]:
            values = self._values(partition)
            _put(connection, [one.trigger for one in schedules], values)
            return {
                one.id
                for one in schedules
                if connection.execute(create, {**values, **_columns(one)}).rowcount
            }

        return await self._connections.transact(run)

    async def change(
        self, partition: int, schedule: NewSchedule, *, version: int, record: Record | None = None
    ) -> bool:
        columns = _columns(schedule)

        def run(connection: Connection) -> bool:
            values = {**self._values(partition), **columns}
            _put(connection, [schedule.trigger], values)
            found = execute(connection, SQL["get_schedule_for_change"], values)
            if not found or found[0][0] != version:
                return False
            [(_, _, state, left_at, switch)] = found
            values["left_at"] = left_at if state == "active" else None
            execute(
                connection, SQL["change_schedule"], {**values, "switch": switch, "grace": _GRACE}
            )
            self._record(connection, record, [schedule.id])
            return True

        return await self._connections.transact(run)

    async def pause(
        self,
        partition: int,
        ids: Sequence[ScheduleId],
        *,
        state: ScheduleState = ScheduleState.PAUSED,
        by: str | None = None,
        note: str | None = None,
        record: Record | None = None,
    ) -> list[ScheduleId]:
        told: Values = {"state": state.value, "by": by, "note": note, "grace": _GRACE}
        return await self._act("pause_schedules", partition, {**told, "ids": _json(ids)}, record)

    async def resume(
        self,
        partition: int,
        schedules: Sequence[tuple[ScheduleId, NewTrigger | None, int]],
        *,
        record: Record | None = None,
    ) -> list[ScheduleId]:
        def run(connection: Connection) -> list[ScheduleId]:
            values = self._values(partition)
            _put(connection, [trigger for _, trigger, _ in schedules], values)
            back: list[ScheduleId] = []
            for id, trigger, version in schedules:
                told: Values = {**values, "id": id, "version": version}
                told["trigger"] = None if trigger is None else trigger.id
                found = execute(connection, SQL["resume_schedules"], told)
                back += [ScheduleId(row[0]) for row in found]
            self._record(connection, record, back)
            return back

        return await self._connections.transact(run)

    async def delete(
        self, partition: int, ids: Sequence[ScheduleId], *, record: Record | None = None
    ) -> list[ScheduleId]:
        return await self._act("delete_schedules", partition, {"ids": _json(ids)}, record)

    async def run_now(
        self, partition: int, id: ScheduleId, job: NewJob, *, overlap: Overlap | None = None
    ) -> Fired | None:
        def run(connection: Connection) -> Fired | None:
            values = self._values(partition, id=id)
            schedule = _find(connection, values)
            live = [row[0] for row in execute(connection, FIRE["find_live_runs"], values)]
            rule = overlap or schedule.rules.overlap
            if not may_follow(rule, schedule.rules, len(live)):
                return None
            if not insert(connection, submissions([job]), values):
                return None
            others = live if rule in (Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER) else []
            return cancel(connection, others, values, Fired())

        return await self._connections.transact(run)

    async def backfill(self, partition: int, id: ScheduleId, jobs: Sequence[NewJob]) -> list[JobId]:
        def run(connection: Connection) -> list[JobId]:
            values = self._values(partition, id=id)
            _find(connection, values)
            ids = to_json([job.id for job in jobs])
            there = {
                row[0] for row in execute(connection, FIRE["list_runs"], {**values, "ids": ids})
            }
            unfired = execute(connection, SQL["get_unfired"], values)
            missing = [job for job in passed(jobs, unfired) if job.id not in there]
            insert(connection, submissions(missing), values)
            return [job.id for job in missing]

        return await self._connections.transact(run)

    async def now(self) -> datetime:
        return _time(store_now(self._clock))

    async def get(self, ids: Sequence[ScheduleId]) -> list[Schedule]:
        found: list[Schedule] = []
        for partition in sorted({partition_of(id, self._partitions) for id in ids}):
            some = [id for id in ids if partition_of(id, self._partitions) == partition]
            values: Values = {"partition": partition, "ids": _json(some)}
            found += _schedules(await self._look("get_schedules", values))
        return found

    async def search(
        self, wanted: Wanted, *, limit: int, after: ScheduleId | None = None
    ) -> list[Schedule]:
        found: list[Schedule] = []
        first = 0 if after is None else partition_of(after, self._partitions)
        for partition in range(first, self._partitions):
            values: Values = {
                **wanted.values(),
                "name": None if wanted.name is None else _glob(wanted.name),
                "partition": partition,
                "after": after if after is not None and partition == first else FIRST_SCHEDULE,
                "limit": limit - len(found),
            }
            found += _schedules(await self._look("search_schedules", values))
            if len(found) >= limit:
                break
        return found

    async def count(self) -> dict[ScheduleState, int]:
        found = await self._look("count_schedules", {})
        return {ScheduleState(state): count for state, count in found}

    async def versions(self, id: ScheduleId) -> list[Version]:
        return [
            Version(
                row[0], _time(row[1]), from_microseconds(row[2]), row[3], rows.decode_rules(row[4])
            )
            for row in await self._look("list_versions", self._of(id))
        ]

    async def ledger(self, id: ScheduleId, *, start: int, to: int) -> list[Entry]:
        found = await self._look("list_ledger", {**self._of(id), "start": start, "to": to})
        return [Entry(row[0], row[1], row[2], Reason(row[3])) for row in found]

    async def gaps_of(self, partition: int, trigger: int, *, start: int, to: int) -> list[Gap]:
        values: Values = {"partition": partition, "trigger": trigger, "start": start, "to": to}
        return [rows.gap(row) for row in await self._look("list_gaps", values)]

    async def runs(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, Run]:
        found = await self._read("list_runs", {"partition": partition, "ids": to_json(list(ids))})
        return {JobId(row[0]): rows.run(row, from_microseconds) for row in found}

    async def recent_runs(self, id: ScheduleId, *, limit: int) -> list[Run]:
        found = await self._read("list_recent_runs", {**self._of(id), "limit": limit})
        return [rows.run(row, from_microseconds) for row in found]

    async def _act(
        self,
        statement: str,
        partition: int,
        told: Values,
        record: Record | None,
    ) -> list[ScheduleId]:
        def run(connection: Connection) -> list[ScheduleId]:
            values = self._values(partition, **told)
            done = [ScheduleId(row[0]) for row in execute(connection, SQL[statement], values)]
            self._record(connection, record, done)
            return done

        return await self._connections.transact(run)

    async def _look(self, name: str, values: Values) -> Rows:
        return await self._connections.read(lambda c: execute(c, SQL[name], values))

    def _record(
        self, connection: Connection, record: Record | None, ids: Sequence[ScheduleId]
    ) -> None:
        write_record(connection, record, ids, now=store_now(self._clock))

    def _of(self, id: ScheduleId) -> Values:
        return {"partition": partition_of(id, self._partitions), "id": id}


class SqliteCalendars:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def put(
        self, name: str, dates: str, *, by: str | None = None, record: Record | None = None
    ) -> None:
        await self._act("put_calendar", {"name": name, "dates": dates, "by": by}, record)

    async def delete(self, name: str, *, record: Record | None = None) -> bool:
        return bool(await self._act("delete_calendar", {"name": name}, record))

    async def all(self) -> list[Calendar]:
        found = await self._connections.read(lambda c: execute(c, SQL["list_calendars"], {}))
        return [Calendar(row[0], row[1], _time(row[2]), row[3]) for row in found]

    async def _act(self, statement: str, values: Values, record: Record | None) -> Rows:
        def run(connection: Connection) -> Rows:
            now = store_now(self._clock)
            found = execute(connection, SQL[statement], {**values, "now": now})
            write_record(connection, record, [row[0] for row in found], now=now)
            return found

        return await self._connections.transact(run)


def _put(connection: Connection, triggers: Sequence[NewTrigger | None], values: Values) -> None:
    """Made where there are none, each with how many schedules it gets."""
    sizes = Counter(one.id for one in triggers if one is not None)
    new = {one.id: one for one in triggers if one is not None}.values()
    told = [
        (
            one.id,
            int(one.stateful),
            one.expression,
            one.timezone,
            one.dst_gap,
            one.dst_overlap,
            one.calendars,
            one.delay,
            one.next,
            sizes[one.id],
            one.tzdata,
        )
        for one in new
    ]
    if told:
        execute(connection, SQL["put_triggers"], {**values, "triggers": to_json(told)})


def _columns(schedule: NewSchedule) -> Values:
    job, rules = schedule.template, schedule.rules
    return {
        "id": schedule.id,
        "trigger": None if schedule.trigger is None else schedule.trigger.id,
        "lane": job.lane,
        "start": rules.start,
        "end": rules.end,
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "phase": schedule.phase,
        "jitter": rules.jitter or None,
        "max_runs": rules.max_runs,
        "pause_after": rules.pause_after,
        "buffer": buffer_of(rules),
        "timeout": job.timeout,
        "start_deadline": rules.start_deadline,
        "misfire_window": rules.misfire_window,
        "catchup_rate": rules.catchup_rate,
        "state": schedule.state.value,
        "overlap": rules.overlap.value,
        "misfire": rules.misfire.value,
        "namespace": schedule.namespace,
        "name": schedule.name,
        "kind": job.kind,
        "queue": job.queue,
        "key": job.key,
        "more": more_of(schedule),
        "extras": extras_of(schedule),
        "rules": encode_rules(rules),
        "tags": to_json(schedule.tags) if schedule.tags else None,
        "origin": schedule.origin,
        "note": schedule.note,
        "payload": job.payload,
    }


def _find(connection: Connection, values: Values) -> Schedule:
    asked: Values = {**values, "ids": to_json([values["id"]])}
    found = _schedules(execute(connection, SQL["get_schedules"], asked))
    if not found:
        raise UnknownSchedule(values["id"])
    return found[0]


def _schedules(found: Rows) -> list[Schedule]:
    return [rows.schedule(row, from_microseconds, to_names) for row in found]


def _json(ids: Sequence[ScheduleId]) -> str:
    return to_json(list(ids))


def _time(value: int) -> datetime:
    time = from_microseconds(value)
    assert time is not None
    return time


def _glob(name: str) -> str:
    """For GLOB, which minds the case as names do: only * is special."""
    return name.replace("[", "[[]").replace("?", "[?]")
