"""Jobs in SQLite: bind, execute, map. What the statements promise is written in sql/."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.change import Change
from foliot.model.job import Attempt, ClaimedJob, Job, JobState, NewJob, Outcome
from foliot.model.key import Reservation
from foliot.model.lane import Lane
from foliot.model.workflow import Advance
from foliot.store import rows
from foliot.store.admission import Admitted
from foliot.store.batches import by_partition
from foliot.store.carrying import with_last_results
from foliot.store.fronts import Fronts
from foliot.store.port import DEADLINE_GRACE, Cycle, Peek, Reaped, RunningJob, Share
from foliot.store.searching import Record
from foliot.store.sql import JOB_FILES
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import (
    Rows,
    Values,
    execute,
    load_parts,
    to_json,
    to_names,
)
from foliot.store.sqlite.change import change_job, release
from foliot.store.sqlite.claim import Claim, claimed_jobs
from foliot.store.sqlite.connection import Transacting
from foliot.store.sqlite.ends import StepEnds, cancel_jobs, has_workflows, tell_ends
from foliot.store.sqlite.keys import redirect, reserve, unreserve
from foliot.store.sqlite.limits import Gated, Gates, KnownRules
from foliot.store.sqlite.order import admit_orders
from foliot.store.sqlite.outcomes import Ending, traces
from foliot.store.sqlite.submit import submit
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts(*JOB_FILES)
_decode_lanes: Final = msgspec.json.Decoder(list[int]).decode


class _Done(msgspec.Struct, frozen=True):
    """What came of one cycle, before it is decoded."""

    refused: list[JobId] = []
    advance: Advance = Advance()
    admitted: list[Admitted] = []
    gated: Gated = Gated()


class SqliteJobs:
    def __init__(self, connections: Transacting, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._all = to_json(list(range(partitions)))
        self._rules = KnownRules()
        self._fronts = Fronts(clock)

    async def submit(
        self, partition: int, jobs: Sequence[NewJob], *, resend: bool = False
    ) -> list[JobId]:
        return await submit(self._connections, self._clock, partition, jobs, resend=resend)

    async def release_keys(self, partition: int, jobs: Sequence[NewJob]) -> None:
        await self._connections.transact(lambda connection: release(connection, partition, jobs))

    async def reserve(
        self, partition: int, reservations: Sequence[Reservation], *, keep: float
    ) -> list[Reservation]:
        return await reserve(self._connections, self._clock, partition, reservations, keep=keep)

    async def redirect(self, partition: int, reservation: Reservation, id: JobId) -> None:
        await redirect(self._connections, partition, reservation, id)

    async def unreserve(self, partition: int, reservations: Sequence[Reservation]) -> None:
        await unreserve(self._connections, partition, reservations)

    async def change(
        self, partition: int, id: JobId, change: Change, *, record: Record | None = None
    ) -> tuple[int, JobState] | None:
        def run(connection: Connection) -> Rows:
            now = self._now()
            found = change_job(connection, partition, id, change, now)
            write_record(connection, record, [row[0] for row in found], now=now)
            return found

        found = await self._connections.transact(run)
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
        ending = Ending(partition, session, outcomes) if outcomes else None
        claim = Claim(partition, session, shares, room) if room > 0 and shares else None
        if ending is None and claim is None:
            return Cycle([], [])

        orders = {outcome.order for outcome in outcomes if outcome.order is not None}

        ends = StepEnds(partition, outcomes)

        def run(connection: Connection) -> _Done:
            now = self._now()
            done = _Done()
            rules = self._rules.read(connection)
            gates = Gates(connection, partition, rules, self._fronts, now)
            if ending is not None:
                steps = ends.find(connection)
                refused = ending.apply(connection, now)
                advance = ends.tell(connection, now, steps)
                done = _Done(refused, advance, admit_orders(connection, partition, orders, now))
            left = gates.leave(outcomes, done.refused)
            return msgspec.structs.replace(done, gated=gates.pass_through(claim, left, now))

        def look(connection: Connection) -> _Done | None:
            return None if claim is None or claim.find_lanes(connection) else _Done()

        done = await self._connections.transact(run, look=None if ending else look)
        claimed = await with_last_results(
            _claimed(done.gated), lambda ids: self._last_results(partition, ids)
        )
        gated = done.gated
        admitted = [*done.admitted, *gated.admitted]
        return Cycle(claimed, done.refused, admitted, done.advance, gated.held, rated=gated.rated)

    async def _last_results(self, partition: int, schedules: Sequence[str]) -> dict[str, str]:
        found = await self._read(
            "list_last_results", {"partition": partition, "ids": to_json(list(schedules))}
        )
        return {id: bytes(result).decode() for id, result in found}

    async def settled(self, partition: int, outcomes: Sequence[Outcome]) -> set[JobId]:
        values: Values = {"partition": partition, "outcomes": traces(outcomes)}
        found = await self._read("find_settled_jobs", values)
        return {JobId(row[0]) for row in found}

    async def extend(self, partition: int, session: SessionId, jobs: Sequence[ClaimedJob]) -> None:
        values: Values = {
            "partition": partition,
            "session": session,
            "jobs": to_json([(job.id, job.fence) for job in jobs]),
            "grace": DEADLINE_GRACE,
        }
        await self._connections.transact(
            lambda c: execute(c, SQL["extend_deadlines"], {**values, "now": self._now()})
        )

    async def running(self, session: SessionId) -> list[RunningJob]:
        found = await self._read("list_running_jobs", {"partitions": self._all, "session": session})
        return [RunningJob(row[0], row[1], row[2], bool(row[3])) for row in found]

    async def cancel(
        self, partition: int, ids: Sequence[JobId], *, record: Record | None = None
    ) -> dict[JobId, JobState]:
        def run(connection: Connection) -> dict[JobId, JobState]:
            now = self._now()
            found, _, _ = cancel_jobs(connection, partition, ids, now)
            write_record(connection, record, list(found), now=now)
            return found

        return await self._connections.transact(run)

    async def admit(self, partition: int, *, limit: int) -> list[int]:
        return await self._admit("admit_jobs", partition, {"limit": limit})

    async def admit_kinds(
        self, partition: int, kinds: Sequence[str], *, limit: int = 1000
    ) -> list[int]:
        # Named twice, a kind would be counted twice.
        named: Values = {"kinds": to_json(sorted(set(kinds))), "limit": limit}
        return await self._admit("admit_kinds", partition, named)

    async def find_lost(self) -> dict[int, list[SessionId]]:
        values: Values = {"partitions": self._all, "now": self._now()}
        lost: dict[int, list[SessionId]] = {}
        for partition, session in await self._read("find_lost_sessions", values):
            sessions = lost.setdefault(partition, [])
            if session is not None:
                sessions.append(SessionId(session))
        return lost

    async def reap(
        self, partition: int, sessions: Sequence[SessionId], *, limit: int, loss_limit: int
    ) -> Reaped:
        values: Values = {
            "partition": partition,
            "sessions": to_json(list(sessions)),
            "limit": limit,
            "loss_limit": loss_limit,
        }
        find, make, clear, decide, *reap = SQL["reap_jobs"]

        def look(connection: Connection) -> Reaped | None:
            asked = {**values, "now": self._now()}
            return None if execute(connection, [find], asked) else Reaped()

        def run(connection: Connection) -> Reaped:
            now = self._now()
            asked = {**values, "now": now}
            execute(connection, [make, clear, decide], asked)
            steps: Rows = []
            if has_workflows(connection, partition):
                steps = execute(connection, SQL["find_lost_steps"], {})
            counts = execute(connection, reap, asked)
            return Reaped(**dict(counts), advance=tell_ends(connection, partition, now, steps))

        return await self._connections.transact(run, look=look)

    async def peek(self) -> Peek:
        found = await self._read("peek_jobs", {"partitions": self._all, "now": self._now()})
        ready: list[tuple[int, Lane]] = []
        due_in: dict[int, float] = {}
        fire_in: dict[int, float] = {}
        for partition, lane, queue, requires, seconds, _, _, fires, *_ in found:
            if lane is not None:
                needs = to_names(requires)
                ready.append((partition, Lane(lane, queue, needs)))
            if seconds is not None:
                due_in[partition] = seconds
            if fires is not None:
                fire_in[partition] = fires
        there = [frozenset(row[0] for row in found if row[n]) for n in (5, 6, 8, 9, 10)]
        ordered, expired, missed, limited, events = there
        return Peek(ready, due_in, ordered, expired, fire_in, missed, limited, events)

    async def get(self, id: JobId) -> Job | None:
        values: Values = {"partition": partition_of(id, self._partitions), "id": id}

        def run(connection: Connection) -> Rows:
            for name in ("get_live_job", "get_recent_job", "get_dead_job"):
                if found := execute(connection, SQL[name], values):
                    return found
            return []

        found = await self._connections.read(run)
        return rows.job(found[0], from_microseconds, to_names) if found else None

    async def ended(self, ids: Sequence[JobId]) -> list[Job]:
        jobs: list[Job] = []
        for partition, some in by_partition(ids, self._partitions).items():
            found = await self._read(
                "list_ended_jobs", {"partition": partition, "ids": to_json(some)}
            )
            jobs.extend(rows.job(row, from_microseconds, to_names) for row in found)
        return jobs

    async def live(self, ids: Sequence[JobId]) -> dict[JobId, JobState]:
        states: dict[JobId, JobState] = {}
        for partition, some in by_partition(ids, self._partitions).items():
            values: Values = {"partition": partition, "ids": to_json(some)}
            found = await self._read("list_live_jobs", values)
            states.update((JobId(id), JobState(state)) for id, state in found)
        return states

    async def attempts(self, id: JobId) -> list[Attempt]:
        values: Values = {"partition": partition_of(id, self._partitions), "id": id}
        found = await self._read("list_attempts", values)
        return [rows.attempt(row, from_microseconds) for row in found]

    async def count(self) -> dict[JobState, int]:
        counts: dict[JobState, int] = {}
        for state, number in await self._read("count_jobs", {}):
            counts[JobState(state)] = counts.get(JobState(state), 0) + number
        return counts

    def _now(self) -> int:
        return store_now(self._clock)

    async def _read(self, name: str, values: Values) -> Rows:
        return await self._connections.read(lambda c: execute(c, SQL[name], values))

    async def _admit(self, name: str, partition: int, values: Values) -> list[int]:
        find, *admit = SQL[name]

        def look(connection: Connection) -> str | None:
            asked: Values = {**values, "partition": partition, "now": self._now()}
            return None if execute(connection, [find], asked) else "[]"

        def run(connection: Connection) -> str:
            asked: Values = {**values, "partition": partition, "now": self._now()}
            return str(execute(connection, admit, asked)[0][0])

        return _decode_lanes(await self._connections.transact(run, look=look))


def _claimed(gated: Gated) -> list[ClaimedJob]:
    """With the limits of which each holds a slot."""
    jobs = claimed_jobs(gated.taken)
    if not any(gated.gates.values()):
        return jobs
    return [msgspec.structs.replace(job, gates=gated.gates.get(job.id, ())) for job in jobs]
