"""The store as it should be: plain dictionaries, no SQL, no concurrency. It says what each call must answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, JobState, NewJob, Outcome
from foliot.model.lane import Lane
from foliot.store.port import Reaped, RunningJob, Share
from foliot.store.searching import Retried
from machine.admission import Admission, takes_turns
from machine.content import Beat, Content, Ended, Failure, Live
from machine.rows import claimed_job, claimed_row, ended_row, microseconds, new_row

_WAITING: Final = ("scheduled", "held", "ready")


class Model:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.live: dict[JobId, Live] = {}
        self.history: dict[JobId, Ended] = {}
        self.dead: dict[JobId, Ended] = {}
        self.attempts: dict[tuple[JobId, int], Failure] = {}
        self.sessions: dict[SessionId, Beat] = {}
        self.paused: set[str] = set()
        self.admission = Admission(self.live, now)
        self._buried: dict[JobId, Live] = {}  # the dead as they were when they lived

    def content(self) -> Content:
        return Content(
            tuple(sorted(self.live.values(), key=lambda row: (row.partition, row.id))),
            tuple(sorted(self.history.values(), key=lambda row: (row.partition, row.id))),
            tuple(sorted(self.dead.values(), key=lambda row: (row.partition, row.id))),
            tuple(
                sorted(self.attempts.values(), key=lambda row: (row.partition, row.job, row.fence))
            ),
            tuple(sorted(self.sessions.values(), key=lambda row: row.id)),
            tuple(sorted(self.paused)),
        )

    # -- submitting
    def submit(
        self, partition: int, jobs: Sequence[NewJob], *, resend: bool = False
    ) -> list[JobId]:
        for job in jobs:
            known = job.id in self.live or (resend and self._has_ended(job.id))
            if not known and self._has_key(partition, job) is None:
                self.live[job.id] = new_row(partition, job, self._now())
        return [self._standing_for(partition, job) for job in jobs]

    def _standing_for(self, partition: int, job: NewJob) -> JobId:
        if job.id in self.live or self._has_ended(job.id):
            return job.id
        return self._has_key(partition, job) or job.id

    def _has_key(self, partition: int, job: NewJob | Live) -> JobId | None:
        """The live job that has its key."""
        if job.key is None:
            return None
        wanted = (partition, job.namespace, job.kind, job.key)
        for row in self.live.values():
            if (row.partition, row.namespace, row.kind, row.key) == wanted:
                return row.id
        return None

    def _has_ended(self, id: JobId) -> bool:
        return id in self.history or id in self.dead

    # -- running
    def finish(self, session: SessionId, outcomes: Iterable[Outcome]) -> list[JobId]:
        """Returns the refused."""
        refused = []
        for outcome in outcomes:
            row = self.live.get(outcome.id)
            if (
                row is None
                or row.state != "running"
                or (row.fence, row.session) != (outcome.fence, session)
            ):
                refused.append(outcome.id)
            else:
                self._end(row, outcome)
        return refused

    def _end(self, row: Live, outcome: Outcome) -> None:
        match outcome.end:
            case End.SUCCEED | End.CANCEL:
                state = "succeeded" if outcome.end is End.SUCCEED else "cancelled"
                self._move(row, state, outcome.reason, result=outcome.result)
            case End.RETRY | End.BURY:
                self._fail(row, outcome)
            case End.RELEASE | End.HOLD:
                hold = outcome.reason if outcome.end is End.HOLD else None
                free = replace(
                    row,
                    state="held" if hold else "ready",
                    hold=hold,
                    attempt=row.attempt - 1,
                    session=None,
                    claimed_at=None,
                    deadline_at=None,
                )
                self.live[row.id] = free
                if row.cancel_requested:
                    self._move(free, "cancelled", "requested")

    def _fail(self, row: Live, outcome: Outcome) -> None:
        reason = outcome.reason or "failed"
        self._record(row, reason)
        if row.cancel_requested:
            self._move(row, "cancelled", "requested")
        elif outcome.end is End.BURY:
            losses = row.losses + (reason == "worker_lost")
            self._bury(replace(row, losses=losses), reason)
        else:
            due = self._now() + timedelta(seconds=outcome.delay)
            self.live[row.id] = replace(
                row,
                state="scheduled",
                run_at=due,
                rank=row.rank if takes_turns(row.lane) else microseconds(due),
                attempt=row.attempt - (reason == "interrupted"),
                losses=row.losses + (reason == "worker_lost"),
                session=None,
                deadline_at=None,
            )

    def _record(self, row: Live, outcome: str) -> None:
        self.attempts[row.id, row.fence] = Failure(
            partition=row.partition,
            job=row.id,
            fence=row.fence,
            attempt=row.attempt,
            outcome=outcome,
            session=row.session,
            started_at=row.claimed_at,
            finished_at=self._now(),
        )

    def _move(
        self, row: Live, state: str, reason: str | None, *, result: bytes | None = None
    ) -> None:
        del self.live[row.id]
        self.history[row.id] = ended_row(row, state, reason, self._now(), result)

    def _bury(self, row: Live, reason: str) -> None:
        del self.live[row.id]
        self.dead[row.id] = ended_row(row, "dead", reason, self._now())
        self._buried[row.id] = row

    def retry_dead(self, partition: int, ids: Sequence[JobId]) -> Retried:
        """As if they had just been submitted, but for their ids, their fences and when they were made."""
        lanes = {}
        taken: dict[JobId, JobId | None] = {}
        now = self._now()
        for id in sorted(id for id in set(ids) if id in self.dead):
            row = self._buried[id]
            holder = self._has_key(partition, row)
            if holder is not None:
                taken[id] = holder
                continue
            del self.dead[id]
            in_turns = takes_turns(row.lane)
            held = in_turns or row.ordering_key is not None
            self.live[id] = replace(
                row,
                state="held" if held else "ready",
                hold="admission" if held else None,
                rank=0 if in_turns else microseconds(now),
                run_at=now,
                attempt=0,
                losses=0,
                generation=row.generation + 1,
                session=None,
                claimed_at=None,
                deadline_at=None,
            )
            lanes[id] = row.lane
        return Retried(lanes, taken)

    def _front(self, partition: int, share: Share) -> list[JobId]:
        if share.lane.queue in self.paused:
            return []
        ready = [
            row
            for row in self.live.values()
            if (row.partition, row.lane, row.state) == (partition, share.lane.number, "ready")
        ]
        ready.sort(key=lambda row: (row.band, row.rank, row.id))
        return [row.id for row in ready[: share.quota]]

    def claim(
        self, partition: int, session: SessionId, shares: Iterable[Share], room: int
    ) -> list[ClaimedJob]:
        """Lanes as they are named, each up to its quota, until there is no room."""
        ids = [id for share in shares for id in self._front(partition, share)]
        return [self._claim(session, self.live[id]) for id in ids[:room]]

    def _claim(self, session: SessionId, row: Live) -> ClaimedJob:
        self.live[row.id] = claimed = claimed_row(row, session, self._now())
        return claimed_job(claimed)

    def running(self, session: SessionId) -> list[RunningJob]:
        return [
            RunningJob(row.id, row.partition, row.fence, row.cancel_requested)
            for row in self.live.values()
            if row.state == "running" and row.session == session
        ]

    def over(self, outcomes: Iterable[Outcome]) -> set[JobId]:
        """Those whose attempt has left its trace, whoever ended it."""
        return {
            o.id
            for o in outcomes
            if (o.id in self.history and self.history[o.id].fence == o.fence)
            or (o.id, o.fence) in self.attempts
        }

    # -- around it
    def cancel(self, partition: int, ids: Iterable[JobId]) -> dict[JobId, JobState]:
        found = {}
        for id in ids:
            row = self.live.get(id)
            if row is None or row.partition != partition:
                continue
            found[id] = JobState(row.state)
            self.live[id] = row = replace(row, cancel_requested=True)
            if row.state in _WAITING:
                self._move(row, "cancelled", "requested")
        return found

    def admit(self, partition: int, *, limit: int) -> list[int]:
        now = self._now()
        due = [
            row
            for row in self.live.values()
            if row.partition == partition and row.state == "scheduled" and row.run_at <= now
        ]
        due.sort(key=lambda row: (row.run_at, row.id))
        for row in due[:limit]:
            self.admission.let_go(row)
        return [row.lane for row in due[:limit]]

    def admit_kinds(self, partition: int, kinds: Sequence[str]) -> list[int]:
        known = [
            row
            for row in self.live.values()
            if (row.partition, row.state, row.hold) == (partition, "held", "unknown_kind")
            and row.kind in kinds
        ]
        for row in known:
            self.admission.let_go(row)
        return [row.lane for row in known]

    def open(self, session: SessionId, *, lease: float) -> None:
        now = self._now()
        self.sessions[session] = Beat(session, now, now + timedelta(seconds=lease), ())

    def extend(self, session: SessionId, executing: Iterable[JobId], *, lease: float) -> bool:
        if not self._lives(session):
            return False
        now = self._now()
        expires = now + timedelta(seconds=lease)
        self.sessions[session] = Beat(session, now, expires, tuple(sorted(executing)))
        return True

    def close_session(self, session: SessionId) -> None:
        if not self.running(session):
            self.sessions.pop(session, None)

    def expired(self) -> list[SessionId]:
        return [id for id in self.sessions if not self._lives(id)]

    def prune_sessions(self) -> int:
        gone = [id for id in self.expired() if not self.running(id)]
        for id in gone:
            del self.sessions[id]
        return len(gone)

    def _lives(self, session: SessionId | None) -> bool:
        row = self.sessions.get(session) if session else None
        return row is not None and row.expires_at > self._now()

    def find_lost(self) -> dict[int, set[SessionId]]:
        lost: dict[int, set[SessionId]] = {}
        for row in self.live.values():
            if row.state != "running" or row.session is None:
                continue
            if not self._lives(row.session):
                lost.setdefault(row.partition, set()).add(row.session)
            elif self._is_late(row):
                lost.setdefault(row.partition, set())
        return lost

    def _is_late(self, row: Live) -> bool:
        return row.deadline_at is not None and row.deadline_at <= self._now()

    def reapable(self, partition: int, sessions: Sequence[SessionId]) -> list[JobId]:
        return [
            row.id
            for row in self.live.values()
            if row.partition == partition
            and row.state == "running"
            and (row.session in sessions or self._is_late(row))
        ]

    def reap(
        self, ids: Iterable[JobId], sessions: Sequence[SessionId], *, loss_limit: int
    ) -> Reaped:
        counts = {"returned": 0, "lost": 0, "timed_out": 0, "dead": 0, "cancelled": 0}
        for id in ids:
            row = self.live[id]
            why = self._why(row) if row.session in sessions else "timed_out"
            counts[self._take_back(row, why, loss_limit)] += 1
        return msgspec.convert(counts, Reaped)

    def _why(self, row: Live) -> str:
        """Lost, unless the session's last beat shows that it had not started; and even then, the third time."""
        beat = self.sessions.get(row.session) if row.session else None
        assert row.claimed_at is not None
        if beat is None or row.id in beat.executing or row.claimed_at >= beat.beat_at:
            return "lost"
        recorded = [
            one
            for one in self.attempts.values()
            if (one.job, one.outcome) == (row.id, "worker_lost")
        ]
        return "lost" if len(recorded) >= 3 * row.losses + 2 else "returned"

    def _take_back(self, row: Live, why: str, loss_limit: int) -> str:
        reason = why if why == "timed_out" else "worker_lost"
        self._record(row, reason)
        if row.cancel_requested:
            self._move(row, "cancelled", "requested")
            return "cancelled"
        losses = row.losses + (why == "lost")
        exhausted = (why == "lost" and losses >= loss_limit) or (
            why == "timed_out" and row.attempt - row.losses >= row.max_attempts
        )
        if exhausted:
            self._bury(replace(row, losses=losses), reason)
            return "dead"
        self.live[row.id] = replace(
            row,
            state="ready",
            session=None,
            claimed_at=None,
            deadline_at=None,
            attempt=row.attempt - (why == "returned"),
            losses=losses,
        )
        return why

    # -- looking
    def ready_lanes(self) -> set[tuple[int, Lane]]:
        return {
            (row.partition, Lane(row.lane, row.queue))
            for row in self.live.values()
            if row.state == "ready"
        }

    def due_in(self) -> dict[int, float]:
        """At once, where something waits to be looked at."""
        first: dict[int, float] = {}
        for row in self.live.values():
            if row.state == "scheduled":
                seconds = (row.run_at - self._now()).total_seconds()
                first[row.partition] = min(first.get(row.partition, seconds), seconds)
        return first | dict.fromkeys(self.unseen(), 0.0)

    def unseen(self) -> set[int]:
        return {r.partition for r in self.live.values() if r.hold in ("admission", "turn")}

    def ordered(self) -> set[int]:
        return {row.partition for row in self.live.values() if row.in_line}
