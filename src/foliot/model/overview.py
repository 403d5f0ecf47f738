"""Overview: what is going on in a store, as far as it can be told without counting everything."""

from __future__ import annotations

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.job import JobState, Progress


class QueueLoad(msgspec.Struct, kw_only=True):
    """The live jobs of one queue."""

    queue: str
    ready: int = 0
    running: int = 0
    scheduled: int = 0
    held: int = 0
    oldest_ready: float | None = None  # seconds since its time, of the oldest that was counted


class Loads(msgspec.Struct, frozen=True):
    """Counting stops at a cap: in these states there may be more than were counted."""

    queues: list[QueueLoad]
    at_least: frozenset[JobState]

    def total(self, state: JobState) -> int:
        return sum(getattr(load, state.value) for load in self.queues)


class HeldJobs(msgspec.Struct, frozen=True):
    """Jobs of one kind that are held for one reason."""

    reason: str
    kind: str
    count: int
    note: str | None = None  # of one of them


class Overdue(msgspec.Struct, frozen=True):
    """What should have happened and has not. Counting stops at a cap here too."""

    scheduled: int  # due, and not admitted
    oldest: float | None  # seconds since the time of the first of these
    past_deadline: int  # running longer than their timeout, and not taken back
    workflows: int  # past their deadline, and not asked to end
    events: int  # not delivered


class Tally(msgspec.Struct, frozen=True):
    """Counters that rise. They start anywhere: only the difference of two of them means something."""

    submitted: int
    ended: int  # succeeded, cancelled, skipped
    buried: int  # dead
    failed: int  # attempts


class ActiveJob(msgspec.Struct, frozen=True):
    """A running job."""

    id: JobId
    kind: str
    queue: str
    attempt: int
    session: SessionId | None
    seconds: float  # since it was claimed
    progress: Progress | None


class Failure(msgspec.Struct, frozen=True):
    """An attempt that did not succeed, and how long ago."""

    id: JobId
    kind: str | None  # unknown if the job is gone
    attempt: int
    outcome: str
    error: str | None
    seconds: float
