"""Schedules as the tests of stores use them: their times are every minute from noon, and firing is by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from foliot.ids import JobId, ScheduleId, fire_id, partition_of, schedule_id, trigger_id
from foliot.model.job import Job, JobState, NewJob
from foliot.model.lane import lane_of
from foliot.model.schedule import (
    NewSchedule,
    NewTrigger,
    Overlap,
    Reason,
    Rules,
    Schedule,
    ScheduleState,
)
from foliot.store.port import Store
from foliot.store.scheduling import CatchUp, Due, Fired, Jump, Move, OpenGap
from support.stores import World

MINUTE = 60
TZDATA = "2026a"
JOB = {
    "kind",
    "payload",
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "key",
    "more",
    "namespace",
}
SCHEDULE = {"phase", "tags", "origin", "state", "note"}


class Table:
    """The schedules of one partition. What is not said of a rule is allowed: firing looks at no earlier run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partition = world.partition
        self.noon = int(world.clock.now().timestamp())
        self._number = 0

    @property
    def now(self) -> int:
        return int(self.world.clock.now().timestamp())

    def at(self, minutes: float) -> int:
        return self.noon + round(minutes * MINUTE)

    def time(self, minutes: float) -> datetime:
        return datetime.fromtimestamp(self.at(minutes), UTC)

    def name(self, stem: str = "s", namespace: str = "default") -> str:
        """A new one that is of this partition."""
        while True:
            self._number += 1
            name = f"{stem}{self._number}"
            id = schedule_id(namespace, name)
            if partition_of(id, self.world.store.partitions) == self.partition:
                return name

    def trigger(
        self, *, stateful: bool = False, words: str = "every minute", **fields: Any
    ) -> NewTrigger:
        """Its first time is the next full minute."""
        given = {"delay": None, "next": self.now // MINUTE * MINUTE + MINUTE, **fields}
        return NewTrigger(
            trigger_id(words, str(stateful)),
            stateful,
            words,
            "UTC",
            None,
            None,
            (),
            tzdata=TZDATA,
            **given,
        )

    def new(self, name: str | None = None, **fields: Any) -> NewSchedule:
        """A schedule of these fields of its job, of itself, and of its rules."""
        job = {field: fields.pop(field) for field in JOB & set(fields)}
        itself = {field: fields.pop(field) for field in SCHEDULE & set(fields)}
        words = fields.pop("words", "every minute")
        trigger = fields.pop("trigger", ...)
        said = {"overlap": Overlap.ALLOW, "expression": words, "text": words, **fields}
        rules = Rules(**said, keyed=job.get("key") is not None)
        queue = str(job.get("queue", "default"))
        template = NewJob(
            JobId(""), **{"kind": "echo", "payload": b"{}", "lane": lane_of(queue).number, **job}
        )
        if trigger is ...:
            trigger = self.trigger(stateful=rules.stateful, words=words)
        name = name or self.name(namespace=template.namespace)
        return NewSchedule(
            id=schedule_id(template.namespace, name),
            name=name,
            template=template,
            rules=rules,
            trigger=trigger,
            **itself,
        )

    async def create(self, **fields: Any) -> ScheduleId:
        schedule = self.new(**fields)
        await self.world.store.schedules.create(self.partition, [schedule])
        return schedule.id

    async def create_many(self, count: int, **fields: Any) -> list[ScheduleId]:
        new = [self.new(**fields) for _ in range(count)]
        await self.world.store.schedules.create(self.partition, new)
        return sorted(schedule.id for schedule in new)

    async def get(self, id: ScheduleId) -> Schedule:
        [schedule] = await self.world.store.schedules.get([id])
        return schedule

    async def state(self, id: ScheduleId) -> ScheduleState:
        return (await self.get(id)).state

    async def due(self, *, chunk: int = 100, store: Store | None = None) -> list[Due]:
        schedules = (store or self.world.store).schedules
        return await schedules.due(self.partition, limit=100, chunk=chunk)

    async def fire(self, *, chunk: int = 100, every: int | None = MINUTE) -> Fired:
        """One chunk of each trigger that is due; it goes on by a minute, or has no time left."""
        moves = [move_of(one, every=every, chunk=chunk) for one in await self.due(chunk=chunk)]
        return await self.world.store.schedules.fire(self.partition, moves, tzdata=TZDATA)

    async def fire_at(self, minutes: float, **fields: Any) -> Fired:
        """When it is so many minutes after noon."""
        self.world.clock.advance(self.at(minutes) - self.now)
        return await self.fire(**fields)

    async def jump(self, to: float, *, next: float, reason: str = "missed") -> int:
        """All that is due passes over its times up to `to`."""
        jumps = [
            Jump(
                one.id,
                one.nominal,
                self.at(to),
                (self.at(to) - one.nominal) // MINUTE + 1,
                reason,
                self.at(next),
            )
            for one in await self.due()
        ]
        return await self.world.store.schedules.jump(self.partition, jumps, tzdata=TZDATA)

    async def gap(self, *, chunk: int = 100) -> OpenGap:
        [found] = await self.world.store.schedules.gaps(self.partition, limit=10, chunk=chunk)
        return found

    async def catch_up(self, step: CatchUp) -> Fired | None:
        fired = await self.world.store.schedules.catch_up(self.partition, [step])
        return fired if fired.moved else None

    async def job(self, id: ScheduleId, minutes: float) -> Job | None:
        return await self.world.store.jobs.get(fire_id(id, self.at(minutes)))

    async def states(self, id: ScheduleId, *minutes: float) -> list[JobState | None]:
        jobs = [await self.job(id, one) for one in minutes]
        return [None if job is None else job.state for job in jobs]

    async def ledger(self, id: ScheduleId) -> list[tuple[float, float | None, Reason]]:
        """In minutes after noon."""
        found = await self.world.store.schedules.ledger(id, start=0, to=self.at(1e6))
        return [
            (
                self._minutes(one.start),
                None if one.to is None else self._minutes(one.to),
                one.reason,
            )
            for one in found
        ]

    def _minutes(self, seconds: float) -> float:
        return round((seconds - self.noon) / MINUTE, 3)


class Spread:
    """Schedules in all partitions of a store, whatever their number."""

    def __init__(self, world: World, noon: int | None = None) -> None:
        self.world = world
        first = Table(world)
        self.noon = first.noon if noon is None else noon
        self.parts = [Table(world) for _ in range(world.store.partitions)]
        for partition, part in enumerate(self.parts):
            part.partition, part.noon = partition, self.noon

    async def create(self, count: int, **fields: Any) -> list[ScheduleId]:
        new = [self.parts[0].new(f"n{number}", **fields) for number in range(count)]
        for schedule in new:
            home = partition_of(schedule.id, len(self.parts))
            await self.world.store.schedules.create(home, [schedule])
        return [schedule.id for schedule in new]

    async def fire(self, *, parts: int | None = None) -> int:
        """All that is due, in so many partitions. Its jobs end at once: who fires again makes them again."""
        jobs = 0
        for part in self.parts[:parts]:
            while await part.due():
                jobs += (await part.fire()).jobs
        await self.end_jobs()
        return jobs

    async def end_jobs(self) -> None:
        rows = await self.world.store.transfer.dump("jobs", after=None, limit=10_000)
        for row in rows:
            partition = row["partition"]
            assert isinstance(partition, int)
            await self.world.store.jobs.cancel(partition, [JobId(str(row["id"]))])


def move_of(due: Due, *, every: int | None = MINUTE, chunk: int = 100) -> Move:
    whole = due.upper is None
    following = due.nominal + every if whole and every is not None else None
    return Move(
        due.id,
        due.stateful,
        due.nominal,
        due.cursor,
        due.upper,
        following,
        due.count if whole else chunk,
    )


def changed(schedule: NewSchedule, **rules: Any) -> NewSchedule:
    """The same with other rules, and times of its own."""
    return msgspec.structs.replace(schedule, rules=msgspec.structs.replace(schedule.rules, **rules))
