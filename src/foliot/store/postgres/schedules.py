"""Schedules in PostgreSQL: what the statements promise is written in sql/schedules.sql."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from foliot.clock import Clock
from foliot.errors import StoreUnavailable, UnknownSchedule
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
from foliot.store.postgres.arrays import blobs, numbers, optional_numbers, texts, words
from foliot.store.postgres.audit import act_by_hand, audit_steps
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.postgres.ends import converse_again
from foliot.store.postgres.fire import SQL as FIRE
from foliot.store.postgres.fire import Firing
from foliot.store.postgres.submit import insert_steps
from foliot.store.reply import Rows
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
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "schedules.sql")
_TRIES: Final = 20  # of locking what schedules are attached to


class PostgresSchedules(Firing):
    async def create(self, partition: int, schedules: Sequence[NewSchedule]) -> set[ScheduleId]:
        steps = _triggers(partition, [one.trigger for one in schedules])
        values = self._values(partition, **_columns(schedules))
        steps.append(Step(SQL["create_schedules"], values))
        created = (await self._connections.transact(steps))[-1]
        return {ScheduleId(row[0]) for row in created}

    async def change(
        self, partition: int, schedule: NewSchedule, *, version: int, record: Record | None = None
    ) -> bool:
        async def talk(ask: Ask) -> bool | None:
            values = self._values(partition, id=schedule.id)
            found = await self._lock_to_change(ask, partition, schedule)
            if found is None:
                return None
            if not found or found[0][0] != version:
                return False
            left_at = found[0][3] if found[0][2] == "active" else None
            columns = {name: one for name, [one] in _fields([schedule]).items()}
            change = {**values, **columns, "left_at": left_at, "grace": GRACE}
            await ask(Step(SQL["change_schedule"], change))
            await self._record(ask, record, [schedule.id])
            return True

        for _ in range(_TRIES):
            if (changed := await self._connections.converse(talk)) is not None:
                return changed
        raise StoreUnavailable(f"others change schedule {schedule.name} all the time")

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
        values = self._values(
            partition, ids=words(ids), state=state.value, by=by, note=note, grace=GRACE
        )
        return await self._detach("pause_schedules", values, record)

    async def delete(
        self, partition: int, ids: Sequence[ScheduleId], *, record: Record | None = None
    ) -> list[ScheduleId]:
        return await self._detach(
            "delete_schedules", self._values(partition, ids=words(ids)), record
        )

    async def resume(
        self,
        partition: int,
        schedules: Sequence[tuple[ScheduleId, NewTrigger | None, int]],
        *,
        record: Record | None = None,
    ) -> list[ScheduleId]:
        triggers = [trigger for _, trigger, _ in schedules]
        steps = _triggers(partition, triggers)
        values = self._values(
            partition,
            ids=words(id for id, _, _ in schedules),
            versions=numbers(version for _, _, version in schedules),
            triggers=optional_numbers(None if one is None else one.id for one in triggers),
        )
        steps.append(Step(SQL["resume_schedules"], values))
        telling = len(steps) - 1
        resumed = await act_by_hand(self._connections, steps, record, self._clock, telling=telling)
        return [ScheduleId(row[0]) for row in resumed]

    async def run_now(
        self, partition: int, id: ScheduleId, job: NewJob, *, overlap: Overlap | None = None
    ) -> Fired | None:
        async def talk(ask: Ask) -> Fired | None:
            schedule, live = await self._look_at_runs(ask, partition, id)
            rule = overlap or schedule.rules.overlap
            if not may_follow(rule, schedule.rules, len(live)):
                return None
            for step in insert_steps(partition, [job], self._clock.now_for_store()):
                await ask(step)
            values = self._values(partition, ids=words([job.id]))
            if not await ask(Step(FIRE["list_runs"], values)):
                return None
            others = live if rule in (Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER) else []
            return await self._cancel(ask, partition, others, Fired())

        return await converse_again(self._connections, talk)

    async def backfill(self, partition: int, id: ScheduleId, jobs: Sequence[NewJob]) -> list[JobId]:
        async def talk(ask: Ask) -> list[JobId]:
            await self._look_at_runs(ask, partition, id)
            values = self._values(partition, id=id, ids=words(job.id for job in jobs))
            unfired = await ask(Step(SQL["get_unfired"], values))
            there = {row[0] for row in await ask(Step(FIRE["list_runs"], values))}
            missing = [job for job in passed(jobs, unfired) if job.id not in there]
            for step in insert_steps(partition, missing, self._clock.now_for_store()):
                await ask(step)
            return [job.id for job in missing]

        return await self._connections.converse(talk)

    async def now(self) -> datetime:
        [(now,)] = await self._connections.read(
            SQL["get_now"], {"now": self._clock.now_for_store()}
        )
        return now  # type: ignore[no-any-return]

    async def get(self, ids: Sequence[ScheduleId]) -> list[Schedule]:
        found: list[Schedule] = []
        for partition in sorted({partition_of(id, self._partitions) for id in ids}):
            some = [id for id in ids if partition_of(id, self._partitions) == partition]
            values: Values = {"partition": partition, "ids": words(some)}
            found += _schedules(await self._connections.read(SQL["get_schedules"], values))
        return found

    async def search(
        self, wanted: Wanted, *, limit: int, after: ScheduleId | None = None
    ) -> list[Schedule]:
        found: list[Schedule] = []
        first = 0 if after is None else partition_of(after, self._partitions)
        for partition in range(first, self._partitions):
            values: Values = {
                "partition": partition,
                "after": after if after is not None and partition == first else FIRST_SCHEDULE,
                "limit": limit - len(found),
                **wanted.values(),
            }
            found += _schedules(await self._connections.read(SQL["search_schedules"], values))
            if len(found) >= limit:
                break
        return found

    async def count(self) -> dict[ScheduleState, int]:
        found = await self._connections.read(SQL["count_schedules"], {})
        return {ScheduleState(state): count for state, count in found}

    async def versions(self, id: ScheduleId) -> list[Version]:
        found = await self._connections.read(SQL["list_versions"], self._of(id))
        return [Version(row[0], row[1], row[2], row[3], rows.decode_rules(row[4])) for row in found]

    async def ledger(self, id: ScheduleId, *, start: int, to: int) -> list[Entry]:
        values = {**self._of(id), "start": start, "to": to}
        found = await self._connections.read(SQL["list_ledger"], values)
        return [Entry(row[0], row[1], row[2], Reason(row[3])) for row in found]

    async def gaps_of(self, partition: int, trigger: int, *, start: int, to: int) -> list[Gap]:
        values: Values = {"partition": partition, "trigger": trigger, "start": start, "to": to}
        found = await self._connections.read(SQL["list_gaps"], values)
        return [rows.gap(row) for row in found]

    async def runs(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, Run]:
        values: Values = {"partition": partition, "ids": words(ids)}
        found = await self._connections.read(FIRE["list_runs"], values)
        return {JobId(row[0]): rows.run(row, rows.as_is) for row in found}

    async def recent_runs(self, id: ScheduleId, *, limit: int) -> list[Run]:
        values = {**self._of(id), "limit": limit}
        found = await self._connections.read(FIRE["list_recent_runs"], values)
        return [rows.run(row, rows.as_is) for row in found]

    async def _detach(
        self, statement: str, values: Values, record: Record | None
    ) -> list[ScheduleId]:
        """What schedules are attached to may change between asking and locking: then it is asked again."""

        async def talk(ask: Ask) -> list[ScheduleId]:
            done: list[ScheduleId] = []
            for _ in range(_TRIES):
                locked = await ask(Step(SQL["lock_triggers_of"], {**values, "also": numbers([])}))
                held = {**values, "triggers": numbers(row[0] for row in locked)}
                found = await ask(Step(SQL[statement], held))
                done += [ScheduleId(row[0]) for row in found]
                if not await ask(Step(SQL["find_strays"], held)):
                    break
            await self._record(ask, record, done)
            return done

        return await self._connections.converse(talk)

    async def _lock_to_change(self, ask: Ask, partition: int, schedule: NewSchedule) -> Rows | None:
        """What it is, under the locks of what it is attached to and of what it will be; then its own. None: it was
        attached to something else meanwhile, which must not be locked now, out of order."""
        new = [] if schedule.trigger is None else [schedule.trigger.id]
        values = self._values(
            partition, id=schedule.id, ids=words([schedule.id]), also=numbers(new)
        )
        locked = await ask(Step(SQL["lock_triggers_of"], values))
        for step in _triggers(partition, [schedule.trigger]):
            await ask(step)
        found = await ask(Step(SQL["get_schedule_for_change"], values))
        known = {None, *new, *(row[0] for row in locked)}
        return None if found and found[0][1] not in known else found

    async def _look_at_runs(
        self, ask: Ask, partition: int, id: ScheduleId
    ) -> tuple[Schedule, list[str]]:
        """Under the locks that keep others from making a run meanwhile."""
        values = self._values(partition, id=id, ids=words([id]), also=numbers([]))
        await ask(Step(SQL["lock_triggers_of"], values))
        await ask(Step(SQL["lock_schedule"], values))
        found = _schedules(await ask(Step(SQL["get_schedules"], values)))
        if not found:
            raise UnknownSchedule(id)
        live = await ask(Step(FIRE["find_live_runs"], values))
        return found[0], [row[0] for row in live]

    async def _record(self, ask: Ask, record: Record | None, ids: Sequence[ScheduleId]) -> None:
        if record is not None:
            for step in audit_steps(record(ids), self._clock):
                await ask(step)

    def _of(self, id: ScheduleId) -> dict[str, object]:
        return {"partition": partition_of(id, self._partitions), "id": id}


class PostgresCalendars:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def put(
        self, name: str, dates: str, *, by: str | None = None, record: Record | None = None
    ) -> None:
        values: Values = {
            "name": name,
            "dates": dates,
            "by": by,
            "now": self._clock.now_for_store(),
        }
        steps = [Step(SQL["put_calendar"], values)]
        await act_by_hand(self._connections, steps, record, self._clock)

    async def delete(self, name: str, *, record: Record | None = None) -> bool:
        steps = [Step(SQL["delete_calendar"], {"name": name})]
        return bool(await act_by_hand(self._connections, steps, record, self._clock))

    async def all(self) -> list[Calendar]:
        return [Calendar(*row) for row in await self._connections.read(SQL["list_calendars"], {})]


def _triggers(partition: int, triggers: Sequence[NewTrigger | None]) -> list[Step]:
    """Made or locked, each once, with how many schedules they get."""
    sizes = Counter(one.id for one in triggers if one is not None)
    made = sorted({one.id: one for one in triggers if one is not None}.items())
    if not made:
        return []
    new = [one for _, one in made]
    values: Values = {
        "partition": partition,
        "ids": numbers(one.id for one in new),
        "stateful": words("t" if one.stateful else "f" for one in new),
        "expressions": texts(one.expression for one in new),
        "timezones": words(one.timezone for one in new),
        "gaps": texts(one.dst_gap for one in new),
        "overlaps": texts(one.dst_overlap for one in new),
        "calendars": texts(_to_json(one.calendars) for one in new),
        "delays": optional_numbers(one.delay for one in new),
        "nexts": numbers(one.next for one in new),
        "sizes": numbers(sizes[one.id] for one in new),
        "tzdatas": texts(one.tzdata for one in new),
    }
    return [Step(SQL["put_triggers"], values)]


def _fields(schedules: Sequence[NewSchedule]) -> dict[str, list[Any]]:
    """What a row has, column by column."""
    jobs = [one.template for one in schedules]
    return {
        "trigger": [None if one.trigger is None else one.trigger.id for one in schedules],
        "lane": [job.lane for job in jobs],
        "priority": [job.priority for job in jobs],
        "max_attempts": [job.max_attempts for job in jobs],
        "phase": [one.phase for one in schedules],
        "buffer": [buffer_of(one.rules) for one in schedules],
        "timeout": [job.timeout for job in jobs],
        "kind": [job.kind for job in jobs],
        "queue": [job.queue for job in jobs],
        "key": [job.key for job in jobs],
        "more": [more_of(one) for one in schedules],
        "extras": [extras_of(one) for one in schedules],
        "rules": [encode_rules(one.rules) for one in schedules],
        "tags": [_to_json(one.tags) if one.tags else None for one in schedules],
        "origin": [one.origin for one in schedules],
        "payload": [job.payload for job in jobs],
    }


def _columns(schedules: Sequence[NewSchedule]) -> dict[str, str]:
    fields = _fields(schedules)
    return {
        "ids": words(one.id for one in schedules),
        "triggers": optional_numbers(fields["trigger"]),
        "lanes": numbers(fields["lane"]),
        "priorities": numbers(fields["priority"]),
        "max_attempts": numbers(fields["max_attempts"]),
        "phases": optional_numbers(fields["phase"]),
        "buffers": optional_numbers(fields["buffer"]),
        "timeouts": optional_numbers(fields["timeout"]),
        "states": words(one.state for one in schedules),
        "namespaces": words(one.namespace for one in schedules),
        "names": texts(one.name for one in schedules),
        "kinds": words(fields["kind"]),
        "queues": words(fields["queue"]),
        "keys": texts(fields["key"]),
        "mores": texts(fields["more"]),
        "extras": texts(fields["extras"]),
        "rules": texts(fields["rules"]),
        "tags": texts(fields["tags"]),
        "origins": texts(fields["origin"]),
        "notes": texts(one.note for one in schedules),
        "payloads": blobs(fields["payload"]),
    }


def _schedules(found: Rows) -> list[Schedule]:
    return [rows.schedule(row, rows.as_is, lambda names: tuple(names or ())) for row in found]


def _to_json(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(names).decode()
