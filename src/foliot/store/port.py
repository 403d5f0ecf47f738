"""The contract of a store. Two adapters keep it, one conformance suite holds them to it.

Every call is one transaction on one partition (unless it says that it only reads), takes a batch, and has
taken effect durably when it returns. A call that fails with `StoreUnavailable` did nothing, or, where the error
says `unknown`, may have taken effect; what to do then is in each docstring. Times are compared on the store's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from foliot.ids import JobId, Mark, SessionId
from foliot.model.change import Change
from foliot.model.job import Attempt, ClaimedJob, Job, JobState, NewJob, Outcome
from foliot.model.lane import Lane
from foliot.model.workflow import Advance
from foliot.store.admission import Admission, Admitted
from foliot.store.breaking import Breakers
from foliot.store.definitions import Definitions
from foliot.store.events import Events
from foliot.store.excluding import Calendars
from foliot.store.limiting import Limits
from foliot.store.living import Leases, Sessions
from foliot.store.noting import Logs
from foliot.store.operator import Overview, Repartitioned, Say, Transfer
from foliot.store.queueing import Queues
from foliot.store.reserving import Reserving
from foliot.store.rollups import Rollups
from foliot.store.scheduling import Schedules
from foliot.store.searching import Audit, Dead, Record, Search
from foliot.store.workflows import Workflows

# Seconds past its timeout before the store takes a job from a session that lives.
DEADLINE_GRACE: Final = 10.0


class Share(msgspec.Struct, frozen=True):
    """How many jobs a claim may take from a lane."""

    lane: Lane
    quota: int
    # Only these; None: any. The same for every share that has some.
    kinds: tuple[str, ...] | None = None
    # Under limits, how many more may be looked at because so many had to wait: they are held, and do not start.
    past: int = 0


class Cycle(msgspec.Struct, frozen=True):
    """What one finish-then-claim brought back."""

    claimed: list[ClaimedJob]
    refused: list[JobId]  # outcomes that came too late: the fence had moved on
    admitted: list[Admitted] = []  # what may go on now that others have ended
    advance: Advance = Advance()  # and in workflows
    held: list[int] = []  # lanes of jobs that were found and have to wait for a limit
    rated: bool = False  # for one with a rate, some of them
    room: int | None = None  # that there was, if a limit left less than was asked for


class Peek(msgspec.Struct, frozen=True):
    """Where there is something to do, across all partitions."""

    ready: list[tuple[int, Lane]]
    due_in: dict[int, float]  # partition -> seconds until its next scheduled job, may be negative
    ordered: frozenset[int] = frozenset()  # where jobs wait for an earlier one of their key
    expired: frozenset[int] = frozenset()  # partitions with jobs or workflows past their time
    fire_in: dict[int, float] = {}  # partition -> seconds until its next trigger, may be negative
    missed: frozenset[int] = frozenset()  # partitions with times to catch up with
    limited: frozenset[int] = frozenset()  # where jobs wait for a limit
    events: frozenset[int] = frozenset()  # partitions with events to deliver


class RunningJob(msgspec.Struct, frozen=True):
    """A running row of one session."""

    id: JobId
    partition: int
    fence: int
    cancel_requested: bool


class Reaped(msgspec.Struct, frozen=True):
    """What was taken back from lost sessions and from attempts past their deadline."""

    returned: int = 0  # had not started: as if never claimed
    lost: int = 0  # were executing: back to ready, as suspects
    timed_out: int = 0
    dead: int = 0
    cancelled: int = 0
    advance: Advance = Advance()

    @property
    def total(self) -> int:
        return self.returned + self.lost + self.timed_out + self.dead + self.cancelled


class Wake(msgspec.Struct, frozen=True):
    """A hint that something changed. Hints may be lost; polling is the truth."""

    ready: tuple[tuple[int, int], ...] = ()  # (partition, lane number)
    due: bool = False  # a scheduled job, perhaps earlier than the next known one
    cancel: bool = False
    changed: bool = False  # something, and nobody says what
    awaited: tuple[Mark, ...] = ()  # somebody waits for the end of these jobs
    ended: tuple[Mark, ...] = ()  # and here it is
    flows: bool = False  # the end of a step has led to more than was carried out with it


def together(one: Wake, other: Wake) -> Wake:
    """Both, as one hint."""
    return Wake(
        tuple(dict.fromkeys(one.ready + other.ready)),
        one.due or other.due,
        one.cancel or other.cancel,
        one.changed or other.changed,
        one.awaited + other.awaited,
        one.ended + other.ended,
        one.flows or other.flows,
    )


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """How durable an acknowledgement is, and what stands in the way of speed."""

    engine: str
    version: str
    durability: str  # one word and why
    durable: bool
    pooler: str
    listening: bool
    schema: int
    partitions: int
    oldest_transaction: float | None  # seconds
    oldest_transaction_by: str | None
    dead_tuples: int | None
    live_jobs: int
    ready_jobs: int
    dead_jobs: int
    queue_age: float | None  # seconds the oldest ready job has been ready
    history_days_ahead: int | None
    clock_offset: float  # this host's clock minus the store's, seconds


class Jobs(Reserving, Protocol):
    async def submit(
        self, partition: int, jobs: Sequence[NewJob], *, resend: bool = False
    ) -> list[JobId]:
        """Insert all or nothing. Returns the id that stands for each: its own, or the live job's that already has its
        unique key. In the modes replace and debounce that one takes over arguments and options, if it has not started;
        if it runs, it gives up its key and a new job is made. Safe to repeat with `resend=True` after an unknown
        outcome: a job that exists, or has finished meanwhile, is not made again."""
        ...

    async def change(
        self, partition: int, id: JobId, change: Change, *, record: Record | None = None
    ) -> tuple[int, JobState] | None:
        """Change a job that has not started. Returns its lane number and state then; None: there is no such job, it
        runs, or it has ended. Repeating is harmless, but a delay is then counted anew."""
        ...

    async def finish_and_claim(
        self,
        partition: int,
        session: SessionId,
        *,
        outcomes: Sequence[Outcome] = (),
        shares: Sequence[Share] = (),
        room: int = 0,
    ) -> Cycle:
        """Finish `outcomes`, then claim up to `room` from the front of the lanes, in one commit.
        The next jobs of the ordering keys that the outcomes name are admitted in between, and what the ends of steps
        lead to is carried out. A job that has become a step since its claim is refused: see `workflows.linked`.
        An outcome counts only if its fence is current and the session still holds the job; the others come
        back as refused. After an unknown outcome: ask `settled`, and `running` for what was claimed."""
        ...

    async def settled(self, partition: int, outcomes: Sequence[Outcome]) -> set[JobId]:
        """Of these outcomes, those that have taken effect under their own fence. Only reads."""
        ...

    async def extend(self, partition: int, session: SessionId, jobs: Sequence[ClaimedJob]) -> None:
        """Count the deadlines of these from now, where the session still holds them: they start late."""
        ...

    async def running(self, session: SessionId) -> list[RunningJob]:
        """What the store thinks this session is running, in all partitions. Only reads."""
        ...

    async def cancel(
        self, partition: int, ids: Sequence[JobId], *, record: Record | None = None
    ) -> dict[JobId, JobState]:
        """Ask for the end of live jobs. A job that is not running is cancelled when this returns; a running one
        is flagged, and its worker told. Returns the state that each live job was found in. Repeating is harmless.
        By hand, `record` says what is to be written down."""
        ...

    async def admit(self, partition: int, *, limit: int) -> list[int]:
        """Make due scheduled jobs ready, earliest first. Returns the lane number of each."""
        ...

    async def admit_kinds(
        self, partition: int, kinds: Sequence[str], *, limit: int = 1000
    ) -> list[int]:
        """Make ready what is held because nobody knew its kind, for these kinds. Returns the lane number of each;
        if they are as many as the limit, there may be more."""
        ...

    async def find_lost(self) -> dict[int, list[SessionId]]:
        """The partitions that have something to reap, each with the sessions that are gone (none, where only
        a deadline has passed). Only reads."""
        ...

    async def reap(
        self, partition: int, sessions: Sequence[SessionId], *, limit: int, loss_limit: int
    ) -> Reaped:
        """Take back what `sessions`, which are gone, were running, and what is past its deadline.
        Any process may, at any time."""
        ...

    async def peek(self) -> Peek:
        """Lanes with ready jobs and next due times, across partitions. Only reads."""

    async def get(self, id: JobId) -> Job | None:
        """Live, finished or dead. Only reads."""
        ...

    async def ended(self, ids: Sequence[JobId]) -> list[Job]:
        """Of these, the ones that have ended. Only reads."""

    async def live(self, ids: Sequence[JobId]) -> dict[JobId, JobState]:
        """Of these, the ones that have not ended, and their states. Only reads."""

    async def attempts(self, id: JobId) -> list[Attempt]:
        """The attempts that did not succeed, first first. Only reads."""

    async def count(self) -> dict[JobState, int]:
        """How many jobs are in each state, finished ones included. Only reads; exact, so not for hot paths."""
        ...


class Upkeep(Protocol):
    async def prune(self, *, keep: float | None, limit: int) -> int:
        """Forget history older than `keep` seconds (None: none) and idempotency keys that have run out, `limit` rows
        in each transaction; and make room ahead. Returns how many rows or days went."""
        ...

    async def sweep(self) -> bool:
        """Free the room of rows that have moved on, if there is much of it. Whether there was."""
        ...

    async def grade(self) -> Grade: ...

    async def repartition(self, partitions: int, *, say: Say) -> Repartitioned:
        """Give the store another number of partitions and every row the place that its id or key has among them, all
        in one transaction. Refused while a session lives. Whoever has the store open must open it again. Repeating is
        harmless, and puts right what was written with the old number."""
        ...


class Store(Protocol):
    """One open store."""

    @property
    def url(self) -> str:
        """Without its password."""
        ...

    @property
    def partitions(self) -> int: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def logs(self) -> Logs: ...

    @property
    def search(self) -> Search: ...

    @property
    def dead(self) -> Dead: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def definitions(self) -> Definitions: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def calendars(self) -> Calendars: ...

    @property
    def workflows(self) -> Workflows: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def events(self) -> Events: ...

    @property
    def rollups(self) -> Rollups: ...

    @property
    def breakers(self) -> Breakers: ...

    @property
    def upkeep(self) -> Upkeep: ...

    @property
    def overview(self) -> Overview: ...

    @property
    def transfer(self) -> Transfer: ...

    async def listen(self, hear: Callable[[Wake], None]) -> bool:
        """Call `hear` on this event loop for every hint, from any process, until the store is closed.
        False: no hint can come, polling is all there is."""
        ...

    def wake(self, wake: Wake) -> None:
        """Send a hint, from this event loop. Throttled; never part of a transaction; never fails."""
        ...

    async def close(self) -> None: ...
