"""Jobs in PostgreSQL: bind, execute, map. What the statements promise is written in sql/."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId, SessionId, milliseconds_of, partition_of
from foliot.model.change import Change
from foliot.model.job import Attempt, ClaimedJob, End, Job, JobState, NewJob, Outcome
from foliot.model.key import Reservation
from foliot.model.lane import Lane
from foliot.store import rows
from foliot.store.batches import by_partition
from foliot.store.carrying import with_last_results
from foliot.store.guest import Release
from foliot.store.port import DEADLINE_GRACE, Cycle, Peek, Reaped, RunningJob, Share
from foliot.store.postgres.arrays import numbers, texts, words
from foliot.store.postgres.audit import act_by_hand
from foliot.store.postgres.change import change_steps
from foliot.store.postgres.connection import Ask, Step, Transacting, Values
from foliot.store.postgres.ends import StepEnds, cancel_jobs
from foliot.store.postgres.keys import redirect, reserve, unreserve
from foliot.store.postgres.submit import Submissions
from foliot.store.postgres.trips import FINISHED, Trips
from foliot.store.searching import Record
from foliot.store.sql import JOB_FILES, load_statements

SQL: Final = load_statements("foliot.store.postgres", *JOB_FILES)


class PostgresJobs:
    def __init__(
        self,
        connections: Transacting,
        clock: Clock,
        *,
        partitions: int,
        key_wait: float | None = None,
        release: Release | None = None,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._submissions = Submissions(connections, clock, key_wait, release)
        self._key_wait = key_wait
        self._trips = Trips(connections, clock)

    async def submit(
        self, partition: int, jobs: Sequence[NewJob], *, resend: bool = False
    ) -> list[JobId]:
        return await self._submissions.submit(partition, jobs, resend=resend)

    async def release_keys(self, partition: int, jobs: Sequence[NewJob]) -> None:
        await self._submissions.release_keys(partition, jobs)

    async def reserve(
        self, partition: int, reservations: Sequence[Reservation], *, keep: float
    ) -> list[Reservation]:
        return await reserve(
            self._connections, self._clock, partition, reservations, keep=keep, wait=self._key_wait
        )

    async def redirect(self, partition: int, reservation: Reservation, id: JobId) -> None:
        await redirect(self._connections, partition, reservation, id, wait=self._key_wait)

    async def unreserve(self, partition: int, reservations: Sequence[Reservation]) -> None:
        await unreserve(self._connections, partition, reservations)

    async def change(
        self, partition: int, id: JobId, change: Change, *, record: Record | None = None
    ) -> tuple[int, JobState] | None:
        steps = change_steps(partition, id, change, self._now())
        found = await act_by_hand(self._connections, steps, record, self._clock, telling=-1)
        return (found[0][1], JobState(found[0][2])) if found else None

    async def finish_and_claim(
        self,
        partition: int,
        session: SessionId,
        *,
        outcomes: Sequence[Outcome] = (),
        shares: Sequence[Share] = (),
        room: int = 0,
    ) -> Cycle:
        cycle = await self._trips.make(partition, session, outcomes, shares, room)
        claimed = await with_last_results(
            cycle.claimed, lambda ids: self._last_results(partition, ids)
        )
        return msgspec.structs.replace(cycle, claimed=claimed)

    async def _last_results(self, partition: int, schedules: Sequence[str]) -> dict[str, str]:
        values: Values = {"partition": partition, "ids": words(schedules)}
        found = await self._connections.read(SQL["list_last_results"], values)
        return {id: bytes(result).decode() for id, result in found}

    async def settled(self, partition: int, outcomes: Sequence[Outcome]) -> set[JobId]:
        values: Values = {"partition": partition, "ids": words([o.id for o in outcomes])}
        found = set(await self._connections.read(SQL["find_settled_jobs"], values))
        return {o.id for o in outcomes if _trace(o) in found}

    async def extend(self, partition: int, session: SessionId, jobs: Sequence[ClaimedJob]) -> None:
        values: Values = {
            "partition": partition,
            "session": session,
            "ids": words([job.id for job in jobs]),
            "fences": numbers([job.fence for job in jobs]),
            "grace": DEADLINE_GRACE,
            "now": self._now(),
        }
        await self._connections.transact([Step(SQL["extend_deadlines"], values)])

    async def running(self, session: SessionId) -> list[RunningJob]:
        found = await self._connections.read(
            SQL["list_running_jobs"],
            {"partitions": numbers(range(self._partitions)), "session": session},
        )
        return [RunningJob(*row) for row in found]

    async def cancel(
        self, partition: int, ids: Sequence[JobId], *, record: Record | None = None
    ) -> dict[JobId, JobState]:
        return await cancel_jobs(self._connections, self._clock, partition, ids, record)

    async def admit(self, partition: int, *, limit: int) -> list[int]:
        values = {"partition": partition, "limit": limit, "now": self._now()}
        return [
            row[0]
            for row in (await self._connections.transact([Step(SQL["admit_jobs"], values)]))[0]
        ]

    async def admit_kinds(
        self, partition: int, kinds: Sequence[str], *, limit: int = 1000
    ) -> list[int]:
        values: Values = {
            "partition": partition,
            "kinds": texts(kinds),
            "limit": limit,
            "now": self._now(),
        }
        return [
            row[0]
            for row in (await self._connections.transact([Step(SQL["admit_kinds"], values)]))[0]
        ]

    async def find_lost(self) -> dict[int, list[SessionId]]:
        values: Values = {"partitions": self._partitions, "now": self._now()}
        lost: dict[int, list[SessionId]] = {}
        for partition, session in await self._connections.read(SQL["find_lost_sessions"], values):
            sessions = lost.setdefault(partition, [])
            if session is not None:
                sessions.append(SessionId(session))
        return lost

    async def reap(
        self, partition: int, sessions: Sequence[SessionId], *, limit: int, loss_limit: int
    ) -> Reaped:
        values: Values = {
            "partition": partition,
            "sessions": words(sessions),
            "limit": limit,
            "loss_limit": loss_limit,
            "now": self._now(),
        }
        steps = await self._connections.read(SQL["find_lost_steps"], values)
        if not steps:
            [counts] = await self._connections.transact(
                [Step(SQL["reap_jobs"], {**values, "steps": "{}"})]
            )
            return Reaped(**dict(counts))

        async def talk(ask: Ask) -> Reaped:
            ends = StepEnds(ask, partition, self._now(), steps)
            await ends.lock()
            counts = await ask(Step(SQL["reap_jobs"], {**values, "steps": ends.steps}))
            return Reaped(**dict(counts), advance=await ends.tell())

        return await self._connections.converse(talk)

    async def peek(self) -> Peek:
        found = await self._connections.read(
            SQL["peek_jobs"], {"partitions": self._partitions, "now": self._now()}
        )
        ready: list[tuple[int, Lane]] = []
        due_in: dict[int, float] = {}
        fire_in: dict[int, float] = {}
        for partition, lane, queue, requires, seconds, _, _, fires, *_ in found:
            if lane is not None:
                ready.append((partition, Lane(lane, queue, tuple(requires or ()))))
            if seconds is not None:
                due_in[partition] = seconds
            if fires is not None:
                fire_in[partition] = fires
        there = [frozenset(row[0] for row in found if row[n]) for n in (5, 6, 8, 9, 10)]
        ordered, expired, missed, limited, events = there
        return Peek(ready, due_in, ordered, expired, fire_in, missed, limited, events)

    async def get(self, id: JobId) -> Job | None:
        partition = partition_of(id, self._partitions)
        values: Values = {"partition": partition, "id": id, "since": _since([id])}
        for name in ("get_live_job", "get_recent_job", "get_dead_job"):
            found = await self._connections.read(SQL[name], values)
            if found:
                return rows.job(found[0], rows.as_is, _names)
        # Finished before its id says it was made: a clock was wrong. Look through all days.
        found = await self._connections.read(
            SQL["get_recent_job"], {**values, "since": "-infinity"}
        )
        return rows.job(found[0], rows.as_is, _names) if found else None

    async def ended(self, ids: Sequence[JobId]) -> list[Job]:
        jobs: list[Job] = []
        for partition, some in by_partition(ids, self._partitions).items():
            values: Values = {
                "partition": partition,
                "ids": words(some),
                "since": _since(some),
                "now": self._now(),
            }
            found = await self._connections.read(SQL["list_ended_jobs"], values)
            jobs.extend(rows.job(row, rows.as_is, _names) for row in found)
        return jobs

    async def live(self, ids: Sequence[JobId]) -> dict[JobId, JobState]:
        states: dict[JobId, JobState] = {}
        for partition, some in by_partition(ids, self._partitions).items():
            values: Values = {"partition": partition, "ids": words(some)}
            found = await self._connections.read(SQL["list_live_jobs"], values)
            states.update((JobId(id), JobState(state)) for id, state in found)
        return states

    async def attempts(self, id: JobId) -> list[Attempt]:
        values: Values = {"partition": partition_of(id, self._partitions), "id": id}
        found = await self._connections.read(SQL["list_attempts"], values)
        return [rows.attempt(row, rows.as_is) for row in found]

    async def count(self) -> dict[JobState, int]:
        counts: dict[JobState, int] = {}
        for state, number in await self._connections.read(SQL["count_jobs"], {}):
            counts[JobState(state)] = counts.get(JobState(state), 0) + number
        return counts

    def _now(self) -> datetime | None:
        return self._clock.now_for_store()


def _names(value: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(value or ())


def _trace(outcome: Outcome) -> tuple[str, int, str, str | None]:
    """What an outcome leaves behind: a failed attempt, or a state in history."""
    if outcome.end in (End.RETRY, End.BURY):
        return outcome.id, outcome.fence, outcome.reason or "failed", outcome.error
    return outcome.id, outcome.fence, FINISHED.get(outcome.end, "cancelled"), None


def _since(ids: Sequence[JobId]) -> datetime:
    """A day before the first of these was made; history before that cannot hold them."""
    first = min(milliseconds_of(id) for id in ids)
    return datetime.fromtimestamp(first / 1000, UTC) - timedelta(days=1)
