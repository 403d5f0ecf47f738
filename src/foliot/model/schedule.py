"""Schedule: what to submit and when. Trigger: the times that many schedules share.

A *nominal* time is one that an expression names, in whole seconds since 1970. Every nominal time of a schedule has one
answer: a job, whose id follows from schedule and time, or a reason why there is none.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

import msgspec

from foliot.ids import JobId, ScheduleId
from foliot.model.job import JobState, NewJob

DstGap = Literal["skip", "shift", "run_at_transition"]
DstOverlap = Literal["first", "second", "both"]


class Overlap(StrEnum):
    """What a fire does while an earlier run of its schedule has not ended."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"  # one may wait for it
    BUFFER_ALL = "buffer_all"  # so many may wait for it
    CANCEL_OTHER = "cancel_other"  # it is asked to end, and waited for
    TERMINATE_OTHER = "terminate_other"  # it is asked to end, and not waited for
    ALLOW = "allow"

    @property
    def waits(self) -> bool:
        """Whether its runs come one after the other: they share an ordering key."""
        return self in (Overlap.BUFFER_ONE, Overlap.BUFFER_ALL, Overlap.CANCEL_OTHER)


class Misfire(StrEnum):
    """What becomes of nominal times at which nobody fired."""

    SKIP = "skip"
    LATEST = "latest"  # the last one of them runs
    ALL = "all"


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    PARKED = "parked"  # the code that declared it does so no longer
    ENDED = "ended"  # no nominal time follows, or it has run as often as it may


class Rules(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What was said of the times of a schedule, as it was said. Stored as JSON; times are seconds since 1970."""

    expression: str = ""  # as it was given
    text: str = ""  # in its canonical form
    timezone: str = "UTC"
    dst_gap: DstGap | None = None  # as Debian's cron
    dst_overlap: DstOverlap | None = None
    after_completion: float | None = (
        None  # seconds after the end of the last run, instead of an expression
    )
    calendars: tuple[str, ...] = ()  # on whose days it does not fire
    start: int | None = None
    end: int | None = None
    spread: int = 0
    jitter: int = 0
    overlap: Overlap = Overlap.SKIP
    buffer: int | None = None
    misfire: Misfire = Misfire.LATEST
    misfire_window: float | None = None
    catchup_rate: float | None = None
    start_deadline: float | None = None
    max_runs: int | None = None
    pause_after: int | None = None
    carry_result: bool = False  # the next run sees the result of the last
    keyed: bool = False  # its job has a unique key, which another may have

    @property
    def stateful(self) -> bool:
        """Whether firing has to look at other jobs: at earlier runs, or at the one that has its unique key."""
        return (
            self.overlap is not Overlap.ALLOW
            or self.max_runs is not None
            or self.pause_after is not None
            or self.after_completion is not None
            or self.carry_result
            or self.keyed
        )


class NewTrigger(msgspec.Struct, frozen=True, gc=False):
    """`next` is its first nominal time."""

    id: int
    stateful: bool
    expression: str
    timezone: str
    dst_gap: DstGap | None
    dst_overlap: DstOverlap | None
    calendars: tuple[str, ...]
    delay: float | None
    next: int
    tzdata: str


class NewSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """`template` is its job without id and times. No trigger: none of its times is ahead."""

    id: ScheduleId
    name: str
    template: NewJob
    rules: Rules
    trigger: NewTrigger | None
    phase: int | None = None  # seconds after the nominal time
    tags: tuple[str, ...] = ()
    origin: str | None = None  # the module whose code declares it
    state: ScheduleState = ScheduleState.ACTIVE
    note: str | None = None

    @property
    def namespace(self) -> str:
        return self.template.namespace


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """As users read it."""

    id: ScheduleId
    name: str
    namespace: str
    state: ScheduleState
    kind: str
    queue: str
    priority: int
    max_attempts: int
    timeout: float | None
    payload: bytes
    key: str | None
    more: str | None  # JSON of job.More
    extras: str  # JSON of job.Extras
    rules: Rules
    version: int
    runs: int
    tags: tuple[str, ...]
    origin: str | None
    note: str | None
    paused_by: str | None
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime
    since: datetime  # when it became what it is
    active_from: datetime
    trigger: int | None
    next_at: int | None  # nominal, of its trigger
    fired_at: int | None  # the last nominal time that its trigger is done with


class Version(msgspec.Struct, frozen=True):
    """What a schedule was in a span of time."""

    version: int
    active_from: datetime
    until: datetime | None  # None: it still is
    trigger: int | None
    rules: Rules


class Reason(StrEnum):
    """Why a nominal time became no job."""

    OVERLAP = "overlap"
    PAUSED = "paused"
    EXCLUDED = "excluded"
    MISFIRE = "misfire"
    COALESCED = "coalesced"
    MISSED = "missed"
    EDITED = "edited"
    ENDED = "ended"
    KEY = "key"  # a live job had its unique key


class Entry(msgspec.Struct, frozen=True):
    """A range of the ledger of one schedule; `to` is None while it lasts."""

    start: float  # a pause begins between two seconds
    to: float | None
    count: int | None
    reason: Reason


class Gap(msgspec.Struct, frozen=True):
    """Nominal times of a trigger at which it did not fire, both ends included."""

    trigger: int
    start: int
    to: int
    count: int
    reason: Literal["missed", "excluded"]
    done: bool
    nominal: int | None = None  # how far catching up has come: this time,
    cursor: ScheduleId | None = None  # and of it the schedules up to this one

    @property
    def position(self) -> tuple[int, int, int | None, ScheduleId | None]:
        """Which gap it is, and how far catching up with it has come."""
        return self.trigger, self.start, self.nominal, self.cursor


class Answer(msgspec.Struct, frozen=True):
    """What became of one nominal time: a job, or a reason."""

    nominal: datetime
    job: JobId | None = None
    state: JobState | None = None
    fired_at: datetime | None = None  # when the job was made
    started_at: datetime | None = None
    reason: Reason | None = None
    into: JobId | None = None  # coalesced into this job
    note: str | None = None


FOREVER: Final = 253_402_300_799  # the next time of a trigger that has none
BUFFER: Final = 100  # runs that wait under buffer_all, unless it says otherwise
