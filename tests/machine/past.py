"""What a history has shown so far: who was granted what, what was promised, what was seen to be true.

All of it is from what was asked and answered; rows are only looked at to learn what nobody is answered, as when
a job is taken back.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.job import End, NewJob
from machine.content import Content, Ended, Live
from machine.history import (
    Cancel,
    Claim,
    Close,
    Event,
    Extend,
    Finish,
    Open,
    Pause,
    Prune,
    Reap,
    Resume,
    Retry,
    Submit,
)

_ENDS = {
    End.SUCCEED: "finished",
    End.CANCEL: "finished",
    End.BURY: "buried",
    End.RETRY: "retried",
    End.RELEASE: "unstarted",
    End.HOLD: "unstarted",
}


class Grant(msgspec.Struct):
    """One claim of one job."""

    job: JobId
    fence: int
    process: str
    session: SessionId
    at: datetime
    end: str = (
        ""  # finished, buried, retried, lost, timed_out, unstarted; vanished: nobody said why
    )

    @property
    def open(self) -> bool:
        return self.end in ("", "vanished")


class Turns:
    """Who was served in the lanes that are served round robin."""

    def __init__(self) -> None:
        self._served: dict[tuple[int, int], list[str | None]] = {}  # fair keys, by first claims
        self._since: dict[JobId, int] = {}  # where that list was when the job became ready
        self._disturbed: set[tuple[int, int]] = set()

    def see(self, event: Event) -> None:
        if isinstance(event, Claim):
            for row in first_served(event):
                self._served.setdefault((row.partition, row.lane), []).append(row.fair_key)
        if isinstance(event, Cancel):
            gone = [row for row in event.moment.before.live if row.id in event.states]
            self._disturbed |= {(row.partition, row.lane) for row in gone}
        for row in event.moment.after.live:
            if row.state == "ready":
                lane = (row.partition, row.lane)
                self._since.setdefault(row.id, len(self._served.get(lane, ())))
                if row.fence:
                    self._disturbed.add(lane)

    def disturbed(self, row: Live) -> bool:
        """Whether a job of its lane has come back, or was cancelled."""
        return (row.partition, row.lane) in self._disturbed

    def served_since(self, row: Live) -> Counter[str | None]:
        """Since it became ready."""
        served = self._served.get((row.partition, row.lane), [])
        return Counter(served[self._since.get(row.id, len(served)) :])


def first_served(event: Claim) -> list[Live]:
    """What was claimed for the first time."""
    claimed = {job.id for job in event.claimed}
    return [row for row in event.moment.after.live if row.id in claimed and row.fence == 1]


class Past:
    def __init__(self) -> None:
        self.attempted: dict[JobId, NewJob] = {}
        self.replies: dict[JobId, JobId] = {}
        self.acknowledged: set[JobId] = set()
        self.born: set[JobId] = set()
        self.due: dict[JobId, datetime] = {}
        self.grants: dict[JobId, list[Grant]] = {}
        self.expiry: dict[SessionId, datetime] = {}
        self.cancelled: set[JobId] = set()
        self.paused: dict[str, int] = {}  # queue -> when, in the order of the run
        self.ended: dict[JobId, Ended] = {}
        self.completions: dict[JobId, int] = {}
        self.buried: set[JobId] = set()
        self.failures: dict[JobId, set[int]] = {}
        self.fences: dict[JobId, int] = {}
        self.begun: set[JobId] = set()  # claimed once, and not ended since
        self.lives: dict[JobId, int] = {}  # with how many grants its last retry by hand found it
        self.turns = Turns()
        self.loss_limit: int | None = None
        self.pruned_before: datetime | None = None

    def current(self, job: JobId) -> Grant | None:
        grants = self.grants.get(job)
        return grants[-1] if grants else None

    def forgettable(self, id: JobId) -> bool:
        """Whether retention may have taken it."""
        row = self.ended.get(id)
        return (
            row is not None
            and row.state != "dead"
            and self.pruned_before is not None
            and row.finished_at < self.pruned_before
        )

    def prune(self, event: Prune) -> None:
        """Before anything else is made of it: what it takes is not lost."""
        self.pruned_before = event.moment.at - timedelta(seconds=event.keep)

    def retry(self, event: Retry) -> None:
        """Before anything else is made of it: what it gave back to life has not ended, and is due."""
        for id in event.ids:
            self.ended.pop(id, None)
            self.completions.pop(id, None)
            self.buried.discard(id)
            self.lives[id] = len(self.grants.get(id, ()))
            self.due[id] = event.moment.at

    def this_life(self, id: JobId) -> list[Grant]:
        return self.grants.get(id, [])[self.lives.get(id, 0) :]

    def taken(self, after: Content) -> list[Grant]:
        """Grants that nobody has ended, and that no longer stand in the store."""
        standing = {
            (row.id, row.fence, row.session) for row in after.live if row.state == "running"
        }
        return [
            grant
            for grants in self.grants.values()
            for grant in grants[-1:]
            if not grant.end and (grant.job, grant.fence, grant.session) not in standing
        ]

    def see(self, event: Event) -> None:
        match event:
            case Submit():
                self._submitted(event)
            case Finish():
                self._finished(event)
            case Claim():
                self._claimed(event)
            case Open() | Extend():
                self._beaten(event)
            case Cancel():
                self.cancelled |= set(event.states)
            case Reap():
                self.loss_limit = event.loss_limit
            case _:
                self._ordered(event)
        self._take_back(event)
        self._look(event)
        self.turns.see(event)

    def _beaten(self, event: Open | Extend) -> None:
        if isinstance(event, Open) or event.extended:
            self.expiry[event.session] = event.moment.at + timedelta(seconds=event.lease)

    def _ordered(self, event: Event) -> None:
        if isinstance(event, Close):
            if all(row.id != event.session for row in event.moment.after.sessions):
                self.expiry[event.session] = event.moment.at
        elif isinstance(event, Pause):
            self.paused.setdefault(event.queue, event.moment.ended)
        elif isinstance(event, Resume):
            self.paused.pop(event.queue, None)

    def _submitted(self, event: Submit) -> None:
        for position, job in enumerate(event.jobs):
            self.attempted[job.id] = job
            if event.ids is not None:
                self.replies[job.id] = event.ids[position]
                self.acknowledged.add(event.ids[position])

    def _finished(self, event: Finish) -> None:
        for outcome in event.accepted:
            grant = self.current(outcome.id)
            if grant is None:
                continue
            grant.end = _ENDS[outcome.end]
            if outcome.end is End.RETRY and outcome.reason == "worker_lost":
                grant.end = "lost"
            if outcome.end in (End.RETRY, End.BURY):
                self.failures.setdefault(outcome.id, set()).add(outcome.fence)
            if outcome.end in (End.SUCCEED, End.CANCEL, End.BURY):
                self.completions[outcome.id] = self.completions.get(outcome.id, 0) + 1
            if outcome.end is End.BURY and outcome.id not in self.cancelled:
                self.buried.add(outcome.id)
            if outcome.end is End.RETRY:
                self.due[outcome.id] = event.moment.at + timedelta(seconds=outcome.delay)

    def _claimed(self, event: Claim) -> None:
        for job in event.claimed:
            grant = Grant(job.id, job.fence, event.process, event.session, event.moment.at)
            self.grants.setdefault(job.id, []).append(grant)
            self.begun.add(job.id)

    def _take_back(self, event: Event) -> None:
        reasons = {(row.job, row.fence): row.outcome for row in event.moment.after.attempts}
        for grant in self.taken(event.moment.after):
            reason = reasons.get((grant.job, grant.fence))
            if reason is None:
                grant.end = "vanished"
                continue
            self.failures.setdefault(grant.job, set()).add(grant.fence)
            grant.end = reason
            if reason == "worker_lost":
                grant.end = "unstarted" if _was_returned(grant.job, event) else "lost"

    def _look(self, event: Event) -> None:
        after = event.moment.after
        for row in after.rows:
            self.fences[row.id] = max(self.fences.get(row.id, 0), row.fence)
            if row.id not in self.born:
                self.born.add(row.id)
                job = self.attempted.get(row.id)
                self.due[row.id] = (job and job.run_at) or event.moment.at
        for ended in after.ended:
            self.ended.setdefault(ended.id, ended)
            self.begun.discard(ended.id)
        self.buried |= {row.id for row in after.dead}


def _was_returned(job: JobId, event: Event) -> bool:
    """Whether a reaping says that the job had not started. It counts them; which is one, the job's losses say."""
    if not isinstance(event, Reap) or not event.reaped.returned:
        return False
    before, after = event.moment.before.find(job), event.moment.after.find(job)
    return before is not None and after is not None and before.losses == after.losses
