"""The record of a run: what was asked, what was answered, and what was in the store before and after."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, JobState, NewJob, Outcome
from foliot.store import port
from foliot.store.port import Share
from machine.content import Content


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an event stands: on the store's clock, and in the order of what the run did."""

    at: datetime
    began: int
    ended: int
    before: Content
    after: Content


class Submit(msgspec.Struct, frozen=True):
    moment: Moment
    jobs: tuple[NewJob, ...]
    ids: tuple[JobId, ...] | None  # None: no reply, so nobody knows


class Finish(msgspec.Struct, frozen=True):
    """The first half of a cycle. `process` is who did it, whatever name it gave itself."""

    moment: Moment
    process: str
    session: SessionId
    outcomes: tuple[Outcome, ...]
    refused: tuple[JobId, ...]

    @property
    def accepted(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.id not in self.refused]


class Claim(msgspec.Struct, frozen=True):
    """The second half."""

    moment: Moment
    process: str
    session: SessionId
    shares: tuple[Share, ...]
    room: int
    claimed: tuple[ClaimedJob, ...]


class Reap(msgspec.Struct, frozen=True):
    moment: Moment
    sessions: tuple[SessionId, ...]
    loss_limit: int
    reaped: port.Reaped


class Retry(msgspec.Struct, frozen=True):
    """Of dead jobs, by hand. `ids`: those that live again."""

    moment: Moment
    ids: tuple[JobId, ...]


class Cancel(msgspec.Struct, frozen=True):
    moment: Moment
    states: dict[JobId, JobState]


class Open(msgspec.Struct, frozen=True):
    moment: Moment
    session: SessionId
    lease: float


class Extend(msgspec.Struct, frozen=True):
    moment: Moment
    session: SessionId
    lease: float
    extended: bool


class Close(msgspec.Struct, frozen=True):
    moment: Moment
    session: SessionId


class Pause(msgspec.Struct, frozen=True):
    moment: Moment
    queue: str


class Resume(msgspec.Struct, frozen=True):
    moment: Moment
    queue: str


class Prune(msgspec.Struct, frozen=True):
    moment: Moment
    keep: float


class Count(msgspec.Struct, frozen=True):
    moment: Moment
    counts: dict[JobState, int]


class Rest(msgspec.Struct, frozen=True):
    """Everything that could be done has been done."""

    moment: Moment


class Other(msgspec.Struct, frozen=True):
    """Admit, prune sessions, a crash: all that matters is what it left."""

    moment: Moment
    name: str


Event: TypeAlias = (
    Submit
    | Finish
    | Claim
    | Reap
    | Retry
    | Cancel
    | Open
    | Extend
    | Close
    | Pause
    | Resume
    | Prune
    | Count
    | Rest
    | Other
)
