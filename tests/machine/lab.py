"""A store under observation: everything asked of it is written down, with what was in it before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from foliot.ids import SLOTS, Ids, JobId, SessionId
from foliot.model.audit import Deed
from foliot.model.job import ClaimedJob, End, JobState, NewJob, Outcome
from foliot.model.lane import Lane, Strategy, lane_of
from foliot.model.session import NewSession
from foliot.store import port
from foliot.store.admission import Admitted, Walk
from foliot.store.living import Heart
from foliot.store.port import Reaped, Share, Store
from foliot.store.searching import Retried
from machine.content import Content, Reader
from machine.history import (
    Cancel,
    Claim,
    Close,
    Count,
    Event,
    Extend,
    Finish,
    Moment,
    Open,
    Other,
    Pause,
    Prune,
    Reap,
    Rest,
    Resume,
    Retry,
    Submit,
)
from machine.invariants import Checker

LEASE: Final = 30.0
LOSS_LIMIT: Final = 3
QUEUES: Final = ("default", "mail")
IN_TURNS: Final = "in_turns"  # a queue that is served round robin
ALL_QUEUES: Final = (*QUEUES, IN_TURNS)


class Lab:
    """`now` tells the store's time. With a checker, every event is checked at once."""

    def __init__(
        self,
        store: Store,
        reader: Reader,
        ids: Ids,
        now: Callable[[], datetime],
        *,
        checker: Checker | None = None,
    ) -> None:
        self.store = store
        self.history: list[Event] = []
        self._reader = reader
        self._ids = ids
        self.now = now
        self._checker = checker
        self._order = 0
        self._requests = 0
        self._hearts: dict[SessionId, Heart] = {}
        self.content = reader.read()

    def new_job(self, partition: int = 0, **fields: object) -> NewJob:
        """Its payload names the request it was made for, so that a second job for it shows."""
        self._requests += 1
        slot = -(-partition * SLOTS // self.store.partitions)
        given = {
            "kind": "echo",
            "payload": b'{"request":%d}' % self._requests,
            "lane": lane_of(str(fields.get("queue", "default"))).number,
            **fields,
        }
        return NewJob(self._ids.job(slot), **given)  # type: ignore[arg-type]

    async def submit(
        self, *jobs: NewJob, partition: int = 0, resend: bool = False, reply: bool = True
    ) -> list[JobId]:
        began = self.begin()
        ids = await self.store.jobs.submit(partition, jobs, resend=resend)
        self.record(Submit(self.moment(*began), jobs, tuple(ids) if reply else None))
        return ids

    def submit_in_vain(self, *jobs: NewJob) -> None:
        """The request was lost, and nobody can tell."""
        self.record(Submit(self.moment(*self.begin()), jobs, None))

    async def cycle(
        self,
        session: SessionId,
        *outcomes: Outcome,
        partition: int = 0,
        shares: Sequence[Share] = (),
        room: int = 0,
        process: str | None = None,
    ) -> port.Cycle:
        began = self.begin()
        cycle = await self.store.jobs.finish_and_claim(
            partition, session, outcomes=outcomes, shares=shares, room=room
        )
        self.record_cycle(began, session, outcomes, shares, room, cycle, process=process)
        return cycle

    async def claim(
        self,
        session: SessionId,
        room: int = 10,
        *,
        partition: int = 0,
        queues: Sequence[str] = QUEUES[:1],
        process: str | None = None,
    ) -> list[ClaimedJob]:
        shares = [Share(lane(queue), room) for queue in queues]
        return (
            await self.cycle(
                session, partition=partition, shares=shares, room=room, process=process
            )
        ).claimed

    async def finish(
        self,
        session: SessionId,
        job: ClaimedJob,
        end: End = End.SUCCEED,
        *,
        delay: float = 0.0,
        reason: str | None = None,
        process: str | None = None,
    ) -> bool:
        """Whether it was accepted."""
        outcome = Outcome(job.id, job.fence, end, delay=delay, reason=reason, order=job.order)
        return not (await self.cycle(session, outcome, process=process)).refused

    async def cancel(self, *ids: JobId, partition: int = 0) -> dict[JobId, JobState]:
        began = self.begin()
        states = await self.store.jobs.cancel(partition, ids)
        self.record(Cancel(self.moment(*began), states))
        return states

    async def admit(self, partition: int = 0, *, limit: int = 100) -> list[int]:
        began = self.begin()
        lanes = await self.store.jobs.admit(partition, limit=limit)
        self.record(Other(self.moment(*began), "admit"))
        return lanes

    async def admit_kinds(self, kinds: Sequence[str], *, partition: int = 0) -> list[int]:
        began = self.begin()
        lanes = await self.store.jobs.admit_kinds(partition, kinds)
        self.record(Other(self.moment(*began), "admit_kinds"))
        return lanes

    async def look(self, partition: int = 0, *, limit: int = 100) -> list[Admitted]:
        began = self.begin()
        admitted, _ = await self.store.admission.look(partition, limit=limit)
        self.record(Other(self.moment(*began), "look"))
        return admitted

    async def walk(self, partition: int = 0, *, limit: int = 100) -> Walk:
        began = self.begin()
        walk = await self.store.admission.walk(partition, ("", ""), limit=limit)
        self.record(Other(self.moment(*began), "walk"))
        return walk

    async def serve_in_turns(self) -> None:
        began = self.begin()
        await self.store.queues.configure(IN_TURNS, strategy=Strategy.ROUND_ROBIN)
        self.record(Other(self.moment(*began), "serve_in_turns"))

    async def retry(self, *ids: JobId, partition: int = 0) -> Retried:
        began = self.begin()
        retried = await self.store.dead.retry(partition, ids, record=self._told)
        self.record(Retry(self.moment(*began), tuple(retried.lanes)))
        return retried

    def _told(self, ids: Sequence[str]) -> list[Deed]:
        return [Deed(self._ids.job(), "ada@here", "retry", id, {}) for id in ids]

    async def reap(
        self,
        sessions: Sequence[SessionId],
        *,
        partition: int = 0,
        limit: int = 100,
        loss_limit: int = LOSS_LIMIT,
    ) -> Reaped:
        began = self.begin()
        reaped = await self.store.jobs.reap(partition, sessions, limit=limit, loss_limit=loss_limit)
        self.record(Reap(self.moment(*began), tuple(sessions), loss_limit, reaped))
        return reaped

    async def find_and_reap(self) -> None:
        """As the duty does it."""
        for partition, sessions in (await self.store.jobs.find_lost()).items():
            await self.reap(sessions, partition=partition)

    async def open(self, session: SessionId | None = None, *, lease: float = LEASE) -> SessionId:
        began = self.begin()
        id = session or self._ids.session()
        await self.store.sessions.open(
            NewSession(
                id=id, host="here", pid=1, version="0", queues=(), kinds=("echo",), duties=False
            ),
            lease=lease,
        )
        self.record(Open(self.moment(*began), id, lease))
        return id

    def extend(
        self, session: SessionId, executing: Sequence[JobId] = (), *, lease: float = LEASE
    ) -> bool:
        began = self.begin()
        if session not in self._hearts:
            self._hearts[session] = self.store.sessions.heart(session, lease=lease)
        extended = self._hearts[session].extend(executing) is not None
        self.record(Extend(self.moment(*began), session, lease, extended))
        return extended

    async def close_session(self, session: SessionId) -> None:
        began = self.begin()
        await self.store.sessions.close(session)
        self.record(Close(self.moment(*began), session))

    async def prune_sessions(self) -> int:
        began = self.begin()
        count = await self.store.sessions.prune()
        self.record(Other(self.moment(*began), "prune_sessions"))
        return count

    async def pause(self, queue: str) -> None:
        began = self.begin()
        await self.store.queues.pause(queue)
        self.record(Pause(self.moment(*began), queue))

    async def resume(self, queue: str) -> None:
        began = self.begin()
        await self.store.queues.resume(queue)
        self.record(Resume(self.moment(*began), queue))

    async def prune(self, keep: float) -> None:
        began = self.begin()
        await self.store.upkeep.prune(keep=keep, limit=100)
        self.record(Prune(self.moment(*began), keep))

    async def count(self) -> dict[JobState, int]:
        began = self.begin()
        counts = await self.store.jobs.count()
        self.record(Count(self.moment(*began), counts))
        return counts

    def rest(self) -> None:
        self.record(Rest(self.moment(*self.begin())))

    def record_cycle(
        self,
        began: tuple[int, Content],
        session: SessionId,
        outcomes: Sequence[Outcome],
        shares: Sequence[Share],
        room: int,
        cycle: port.Cycle,
        *,
        process: str | None = None,
    ) -> None:
        who = process or session
        moment = self.moment(*began)
        if outcomes:
            refused = tuple(cycle.refused)
            self.record(Finish(moment, who, session, tuple(outcomes), refused))
        if shares:
            claimed = tuple(cycle.claimed)
            self.record(Claim(moment, who, session, tuple(shares), room, claimed))

    def record(self, event: Event) -> None:
        self.history.append(event)
        if self._checker is not None:
            self._checker.see(event)

    def close(self) -> None:
        for heart in self._hearts.values():
            heart.close()

    def begin(self) -> tuple[int, Content]:
        """Where an event begins; `moment` makes of it where it ends."""
        self._order += 1
        return self._order, self.content

    def moment(self, began: int, before: Content) -> Moment:
        self._order += 1
        self.content = self._reader.read()
        return Moment(
            at=self.now(), began=began, ended=self._order, before=before, after=self.content
        )


def lane(queue: str) -> Lane:
    """As workers name it, who have looked."""
    known = lane_of(queue)
    if queue != IN_TURNS:
        return known
    return Lane(known.number | Strategy.ROUND_ROBIN, queue)


def worker_outcome(job: ClaimedJob, end: str, delay: float) -> Outcome:
    """What a worker says of a job whose attempt ended in this way."""
    match end:
        case "succeed":
            return Outcome(job.id, job.fence, result=b'"done"', order=job.order)
        case "cancel":
            return Outcome(job.id, job.fence, End.CANCEL, reason="requested", order=job.order)
        case "release":
            return Outcome(job.id, job.fence, End.RELEASE)
        case "hold":
            return Outcome(job.id, job.fence, End.HOLD, reason="unknown_kind")
        case "lose":
            last, reason = job.losses + 1 >= LOSS_LIMIT, "worker_lost"
        case _:
            last, reason = job.last_attempt, "failed"
    return Outcome(
        job.id,
        job.fence,
        End.BURY if last else End.RETRY,
        delay=delay,
        reason=reason,
        error="no",
        order=job.order,
    )
