"""Job: what is submitted, what a worker holds, how an attempt ends, and what users read."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.retry import StoredRetry


class JobState(StrEnum):
    SCHEDULED = "scheduled"  # its time is ahead
    WAITING = "waiting"  # for its parents
    HELD = "held"  # for a reason that is written on it
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"  # attempts exhausted: in the dead-letter queue
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # a parent's end ruled it out

    @property
    def final(self) -> bool:
        return self in _FINAL


_FINAL = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, JobState.SKIPPED})


class Priority(IntEnum):
    """0 to 9, lower first; these are the names most jobs need."""

    HIGH = 1
    MEDIUM = 2
    LOW = 3


# What a submission does to the live job that has its unique key: nothing; the job takes over arguments and options
# and keeps its time; the same, and its time starts again.
KeyMode = Literal["keep", "replace", "debounce"]


class Changed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a step that was changed since it was submitted, as it is now: what is not kept once it has ended."""

    lane: int
    max_attempts: int
    timeout: float | None = None
    requires: tuple[str, ...] = ()


class Extras(msgspec.Struct, frozen=True, omit_defaults=True):
    """What only the worker needs to know of a job; stored as JSON."""

    version: int = 1  # of the payload's form
    retry: StoredRetry | None = None  # instead of the definition's
    ignore_result: bool = False
    idempotency_key: str | None = None
    submission: str | None = None  # the id of the submission whose arguments it took over
    schedule: str | None = None  # the name of the schedule that it is a run of
    nominal: int | None = (
        None  # the time that the schedule named, in seconds since 1970; None: by hand
    )
    carry: bool = False  # it sees the result of the schedule's last run
    step: str | None = None  # its name in its workflow
    parents: bool = False  # it has some, whose results it sees
    refs: bool = False  # its payload names results of its parents
    of_result: bool = False  # its payload was made of results: an element of a map that has run
    limit_key: str | None = None  # jobs that share one share a limit
    breaker: str | None = None  # what it stops at when that is open
    began: int | None = (
        None  # microseconds since 1970: when the workflow did that it stands for, in this life
    )
    changed: Changed | None = None  # of a step, and only by a change


class More(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plain job does not have. Encoded as it is for the stores."""

    tags: tuple[str, ...] = ()
    ordering_key: str | None = None
    fair_key: str | None = None
    requires: tuple[str, ...] = ()
    expires_at: int | None = None  # microseconds since 1970
    expires_in: float | None = None  # seconds, counted on the store's clock
    extras: Extras | None = None
    schedule: str | None = None  # the id of the schedule that looks at how it ends
    workflow: str | None = None
    waits: bool = False  # for its parents
    hold: str | None = None  # what it waits for from the start


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job as it is submitted. Payload is JSON; neither `run_at` nor `delay` means now."""

    id: JobId
    kind: str
    payload: bytes
    lane: int
    queue: str = "default"
    namespace: str = "default"
    priority: int = Priority.MEDIUM
    max_attempts: int = 5
    run_at: datetime | None = None
    delay: float | None = None  # seconds, counted on the store's clock
    timeout: float | None = None
    key: str | None = None
    more: More | None = None
    key_mode: KeyMode = "keep"

    @property
    def nominal(self) -> int | None:
        """The time of its schedule that it is for."""
        extras = None if self.more is None else self.more.extras
        return None if extras is None else extras.nominal


class Facts(msgspec.Struct, frozen=True):
    """What was said of a job when it was submitted, and when it is due, as its worker knows it."""

    namespace: str = "default"
    key: str | None = None
    tags: tuple[str, ...] = ()
    ordering_key: str | None = None
    fair_key: str | None = None
    extras: Extras = Extras()
    run_at: int | None = None  # microseconds since 1970; None: when it was submitted
    last_result: str | None = None  # JSON, of the last run of its schedule that succeeded
    workflow: JobId | None = None


class Parent(msgspec.Struct, frozen=True):
    """A parent as a running step of a workflow sees it."""

    id: JobId
    name: str
    state: JobState | None  # None: it has not ended
    raw: bytes | None = None  # JSON
    mapped: JobId | None = None  # the map step of which it is one element

    @property
    def result(self) -> Any:
        return None if self.raw is None else msgspec.json.decode(self.raw)


_PLAIN = Facts()
_decode_facts = msgspec.json.Decoder(Facts).decode


class ClaimedJob(msgspec.Struct, frozen=True, gc=False):
    """A running job as its worker knows it. `fence` proves the right to change it."""

    id: JobId
    fence: int
    kind: str
    payload: bytes
    attempt: int
    max_attempts: int
    losses: int
    timeout: float | None
    linked: bool  # its end concerns others: a limit, a workflow, a listener
    lane: int = 0
    priority: int = Priority.MEDIUM
    more: str | None = None  # JSON, see facts
    parents: tuple[Parent, ...] = ()  # of a step
    gates: tuple[str, ...] = ()  # limits of which it holds a slot

    @property
    def facts(self) -> Facts:
        return _PLAIN if self.more is None else _decode_facts(self.more)

    @property
    def order(self) -> Order | None:
        if not self.linked:
            return None
        facts = self.facts
        return None if facts.ordering_key is None else (facts.namespace, facts.ordering_key)

    @property
    def flow(self) -> JobId | None:
        """The workflow that it is a step of."""
        return self.facts.workflow if self.linked else None

    @property
    def suspect(self) -> bool:
        """A session was lost while executing it, so it runs alone."""
        return self.losses > 0

    @property
    def last_attempt(self) -> bool:
        """Lost sessions have a limit of their own and do not use up attempts."""
        return self.attempt - self.losses >= self.max_attempts


Order = tuple[str, str]  # the namespace and ordering key that some jobs share
# What is counted of an attempt: its job's id, lane, kind and `more`; when its function was called and when it ended, on
# the monotonic clock. Plain jobs of one kind that were called together and ended together share the first one's.
Span = tuple[JobId, int, str, str | None, float, float]


class End(StrEnum):
    """How a worker lets go of a job."""

    SUCCEED = "succeed"
    CANCEL = "cancel"
    RETRY = "retry"  # the attempt failed, another one follows
    BURY = "bury"  # the attempt failed, and it was the last
    RELEASE = "release"  # it never started: nothing is counted
    HOLD = "hold"  # it cannot start here: nothing is counted


_LAST = (End.SUCCEED, End.CANCEL, End.BURY)
UNFITTING = "unfitting_payload"  # why a job is held whose payload is not what its function takes
STOPPED = ("cancelled", "killed", "abandoned")  # how an attempt that was asked to end has ended


def readable_note(reason: str | None, note: str | None) -> str | None:
    """That of an unfitting payload begins with the fingerprint of what it does not fit, by which the store finds out
    that this has changed. It says nothing to people."""
    if note is None or reason != UNFITTING:
        return note
    return note.partition(": ")[2] or note


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a worker says of a job it holds; exactly one for each claim."""

    id: JobId
    fence: int
    end: End = End.SUCCEED
    result: bytes | None = None
    delay: float = 0.0  # before the next attempt
    reason: str | None = None  # one word: failed, timed_out, worker_lost, unknown_kind …
    error: str | None = None
    traceback: str | None = None
    settled: bool = False  # by the job's own transaction: the store knows already
    order: Order | None = None  # whose next job may run when this one has ended
    flow: JobId | None = None  # the workflow that it is a step of
    awaits: JobId | None = None  # the workflow that it stands for, and is held for the end of
    gates: tuple[str, ...] = ()  # limits of which the job holds a slot
    last: bool = False  # attempt: if its result cannot be stored, no other follows
    span: Span | None = None  # none: its function was not called, or nobody counts
    breaks: bool = False  # it failed in a way that its breaker counts
    retry_after: float | None = None  # seconds that the service it called asks to be left alone

    @property
    def final(self) -> bool:
        """Whether no other attempt follows. One that was asked to end says how it did; the store knows the rest."""
        return self.end in _LAST or self.reason in STOPPED


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that did not succeed."""

    attempt: int
    fence: int
    outcome: str
    error: str | None
    traceback: str | None
    session: SessionId | None
    started_at: datetime | None
    finished_at: datetime
    worker: str | None = None  # host:pid of the process that ran it


class Progress(msgspec.Struct, frozen=True, array_like=True):
    fraction: float
    message: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as users read it, live or finished."""

    id: JobId
    kind: str
    state: JobState
    queue: str
    namespace: str
    priority: int
    attempt: int
    losses: int
    generation: int
    fence: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    session: SessionId | None = None
    key: str | None = None
    reason: str | None = None
    cancel_requested: bool = False
    payload: bytes = b"{}"
    result: bytes | None = None
    tags: tuple[str, ...] = ()
    ordering_key: str | None = None
    fair_key: str | None = None
    requires: tuple[str, ...] = ()
    expires_at: datetime | None = None
    max_attempts: int | None = None  # not kept once it has ended
    timeout: float | None = None
    extras: Extras = Extras()
    progress: Progress | None = None
    note: str | None = None  # what to know about the reason
    workflow: JobId | None = None  # that it is a step of

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that it is a run of."""
        return self.extras.schedule

    @property
    def nominal_at(self) -> datetime | None:
        """The time that the schedule named for it; None if it was run by hand."""
        at = self.extras.nominal
        return None if at is None else datetime.fromtimestamp(at, UTC)
