"""The part of a store's contract that is about schedules.

Firing a trigger is one transaction: lock it where it is as expected, insert the jobs of a chunk of its schedules, move
it on. Any number of processes may try; one of them does it. Nominal times are whole seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

import msgspec

from foliot.ids import JobId, ScheduleId
from foliot.model.job import Extras, JobState, More, NewJob
from foliot.model.schedule import (
    BUFFER,
    FOREVER,
    DstGap,
    DstOverlap,
    Entry,
    Gap,
    Misfire,
    NewSchedule,
    NewTrigger,
    Overlap,
    Rules,
    Schedule,
    ScheduleState,
    Version,
)
from foliot.model.workflow import Advance
from foliot.store.searching import Record

# A trigger that is later than so many seconds was missed; what is later than that only a little is fired as usual.
GRACE: Final = 10.0
MOST_LATE: Final = 100
MOST_SHARING: Final = 1_000  # schedules of each of these that are counted
FIRST_SCHEDULE: Final = ScheduleId("00000000-0000-0000-0000-000000000000")


class Due(msgspec.Struct, frozen=True):
    """A trigger whose time has come, and how much of it there is to do."""

    id: int
    stateful: bool
    expression: str
    timezone: str
    dst_gap: DstGap | None
    dst_overlap: DstOverlap | None
    calendars: tuple[str, ...]
    delay: float | None
    nominal: int
    cursor: ScheduleId | None
    count: int  # schedules after the cursor, at most one more than the chunk
    upper: ScheduleId | None  # the last of the chunk; None: the chunk is all there is
    now: float  # on the store's clock


class Move(msgspec.Struct, frozen=True):
    """A trigger to fire: it is expected at (nominal, cursor). With `upper`, up to there, and it stays at this time;
    else all that is left, and it goes to `next`, or is over where that is None."""

    trigger: int
    stateful: bool
    nominal: int
    cursor: ScheduleId | None
    upper: ScheduleId | None
    next: int | None
    count: int = 0


class Jump(msgspec.Struct, frozen=True):
    """A trigger to move on without firing: it is expected at `nominal` and has not begun; what it passes over, up to
    `to`, is written down as a gap."""

    trigger: int
    nominal: int
    to: int
    count: int
    reason: str  # missed, excluded
    next: int  # FOREVER: none

    @property
    def over(self) -> bool:
        """Whether nothing follows. Of one that was missed, catching up does, and ends it."""
        return self.next == FOREVER and self.reason == "excluded"


class Fired(msgspec.Struct, frozen=True):
    """What firing did."""

    lanes: list[tuple[int, JobState, int]] = []  # lane number, state, how many jobs
    moved: int = 0  # triggers; the others were not where they were expected
    cancelled: dict[JobId, JobState] = {}  # runs that were asked to end, and their states then
    ended: frozenset[JobId] = frozenset()  # of these; the others run, or workflows do for them
    advance: Advance = Advance()  # what that has led to, where some are steps

    @property
    def jobs(self) -> int:
        return sum(count for _, _, count in self.lanes)


class OpenGap(msgspec.Struct, frozen=True):
    """A gap that is to be caught up with."""

    gap: Gap
    # Its trigger, with the chunk after the gap's cursor; None: there is none any more.
    due: Due | None
    # At its beginning: whether some of its schedules want every time they missed.
    repeats: bool = False


class CatchUp(msgspec.Struct, frozen=True):
    """A step of catching up with a gap, which is expected as it is and goes to (then, after)."""

    gap: Gap
    stateful: bool = False
    nominal: int | None = None  # to fire now; None: nothing
    policy: Misfire = Misfire.LATEST  # only schedules of this policy
    place: int = 0  # of this time within the gap, for the rate
    upper: ScheduleId | None = None
    then: int | None = None  # None: the gap is done with
    after: ScheduleId | None = None
    ends: bool = False  # and its trigger too

    @property
    def move(self) -> Move:
        """What is fired."""
        assert self.nominal is not None
        return Move(
            self.gap.trigger, self.stateful, self.nominal, self.gap.cursor, self.upper, None
        )


class Group(msgspec.Struct, frozen=True):
    """Schedules that share their times, for the forecast."""

    expression: str
    timezone: str
    dst_gap: DstGap | None
    dst_overlap: DstOverlap | None
    size: int
    next: int


class LateTrigger(msgspec.Struct, frozen=True):
    partition: int
    expression: str
    timezone: str
    seconds: float
    size: int  # schedules, counted up to MOST_SHARING
    schedule: str  # one of them


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which schedules a list means. What is None says nothing."""

    namespace: str | None = None
    tag: str | None = None
    kind: str | None = None
    state: ScheduleState | None = None
    origin: str | None = None
    name: str | None = None  # with * for any characters

    def values(self) -> dict[str, str | None]:
        """As the statements take them."""
        return {
            "namespace": self.namespace,
            "tag": self.tag,
            "kind": self.kind,
            "state": None if self.state is None else self.state.value,
            "origin": self.origin,
            "name": None if self.name is None else _pattern(self.name),
        }


class Run(msgspec.Struct, frozen=True):
    """A job of a schedule."""

    id: JobId
    state: JobState
    made_at: datetime
    started_at: datetime | None
    nominal: int | None = None


class Schedules(Protocol):
    # Life

    async def create(self, partition: int, schedules: Sequence[NewSchedule]) -> set[ScheduleId]:
        """Those whose names are not taken, attached to their triggers, which are made where there are none. Returns
        which they are. They answer for nominal times from now on. Repeating is harmless."""
        ...

    async def change(
        self,
        partition: int,
        schedule: NewSchedule,
        *,
        version: int,
        record: Record | None = None,
    ) -> bool:
        """Make it what `schedule` says, from now on; what it was is kept with its span. False: it is not (any longer)
        of this version. One that is paused stays so."""
        ...

    async def pause(
        self,
        partition: int,
        ids: Sequence[ScheduleId],
        *,
        state: ScheduleState = ScheduleState.PAUSED,
        by: str | None = None,
        note: str | None = None,
        record: Record | None = None,
    ) -> list[ScheduleId]:
        """When this returns they do not fire. Returns those that were active."""
        ...

    async def resume(
        self,
        partition: int,
        schedules: Sequence[tuple[ScheduleId, NewTrigger | None, int]],
        *,
        record: Record | None = None,
    ) -> list[ScheduleId]:
        """From now on, each with the trigger of its rules of this version; what was missed is written down as paused.
        Returns those that were paused or parked, and of that version."""
        ...

    async def delete(
        self, partition: int, ids: Sequence[ScheduleId], *, record: Record | None = None
    ) -> list[ScheduleId]:
        """With all that was written down of them; their jobs stay. Returns those that there were."""
        ...

    # Firing

    async def due(self, partition: int, *, limit: int, chunk: int) -> list[Due]:
        """Triggers whose time has come, as many as one round can do: the one that is due the longest, and of the
        `limit` longest due the smallest, two chunks of schedules. Only reads."""
        ...

    async def fire(self, partition: int, moves: Sequence[Move], *, tzdata: str) -> Fired:
        """Insert the jobs and move the triggers, in one transaction; those that are not where they are expected are
        left alone. After an unknown outcome, ask `due` again."""
        ...

    async def jump(self, partition: int, jumps: Sequence[Jump], *, tzdata: str) -> int:
        """Move triggers on without firing. Returns how many were where they were expected."""
        ...

    async def fire_delayed(self, partition: int, trigger: int) -> Fired:
        """Of a trigger that counts from the end of its schedule's last run: fire, if that was long enough ago, or say
        when to look again."""
        ...

    async def gaps(self, partition: int, *, limit: int, chunk: int) -> list[OpenGap]:
        """What is to be caught up with. Only reads."""
        ...

    async def catch_up(self, partition: int, steps: Sequence[CatchUp]) -> Fired:
        """Steps of one policy and place, each of another trigger, in one transaction. Those whose gaps are not where
        they are expected are left out; `moved` counts the others."""
        ...

    async def run_now(
        self, partition: int, id: ScheduleId, job: NewJob, *, overlap: Overlap | None = None
    ) -> Fired | None:
        """Submit `job` as a run of this schedule by hand, under its rule of overlap or this one. None: that
        forbids it, or a live job has its unique key; then no other is asked to end."""
        ...

    async def backfill(self, partition: int, id: ScheduleId, jobs: Sequence[NewJob]) -> list[JobId]:
        """Submit these runs, except those that there are already, live or ended, and those whose times the trigger has
        yet to fire. Returns which were missing."""
        ...

    async def prune(self, partition: int, *, keep: float, limit: int) -> int:
        """Forget what was written down of times more than `keep` seconds ago. Returns how much."""
        ...

    # Looks

    async def now(self) -> datetime:
        """On the store's clock."""
        ...

    async def get(self, ids: Sequence[ScheduleId]) -> list[Schedule]: ...

    async def search(
        self, wanted: Wanted, *, limit: int, after: ScheduleId | None = None
    ) -> list[Schedule]:
        """In the order of their ids."""
        ...

    async def count(self) -> dict[ScheduleState, int]: ...

    async def versions(self, id: ScheduleId) -> list[Version]:
        """What it was, first first; what it is now is not among them."""
        ...

    async def ledger(self, id: ScheduleId, *, start: int, to: int) -> list[Entry]: ...

    async def gaps_of(self, partition: int, trigger: int, *, start: int, to: int) -> list[Gap]: ...

    async def runs(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, Run]:
        """Of these jobs, those that there are, live or ended."""
        ...

    async def recent_runs(self, id: ScheduleId, *, limit: int) -> list[Run]:
        """Of a stateful schedule, newest first."""
        ...

    async def overdue(self, *, seconds: float) -> list[LateTrigger]:
        """Triggers that should have fired so long ago, the longest first, MOST_LATE at most."""
        ...

    async def first_of(self, partition: int, trigger: int) -> str | None: ...  # a name

    async def forecast(self, *, limit: int) -> tuple[list[Group], int]:
        """The groups with the most schedules, and how many triggers there are."""
        ...


def buffer_of(rules: Rules) -> int | None:
    """How many runs may wait for the one before."""
    match rules.overlap:
        case Overlap.BUFFER_ONE:
            return 1
        case Overlap.BUFFER_ALL:
            return BUFFER if rules.buffer is None else rules.buffer
        case _:
            return None


def may_follow(overlap: Overlap, rules: Rules, live: int) -> bool:
    """Whether a run may be made while so many have not ended."""
    match overlap:
        case Overlap.SKIP:
            return live == 0
        case Overlap.BUFFER_ONE:
            return live <= 1
        case Overlap.BUFFER_ALL:
            return live <= (BUFFER if rules.buffer is None else rules.buffer)
        case _:
            return True


def passed(jobs: Sequence[NewJob], unfired: Sequence[Sequence[int]]) -> list[NewJob]:
    """Those whose times are not left to the trigger, which fires from `unfired` on."""
    return [job for job in jobs if not unfired or (job.nominal or 0) < unfired[0][0]]


def encode_rules(rules: Rules) -> str:
    return msgspec.json.encode(rules).decode()


def extras_of(schedule: NewSchedule) -> str:
    """Of its jobs, as JSON. It says at least the schedule's name: what firing adds follows a comma."""
    more = schedule.template.more
    extras = Extras() if more is None or more.extras is None else more.extras
    named = msgspec.structs.replace(
        extras, schedule=schedule.name, carry=schedule.rules.carry_result
    )
    return msgspec.json.encode(named).decode()


def more_of(schedule: NewSchedule) -> str | None:
    """What else a plain job does not have, as JSON."""
    more = schedule.template.more
    if more is None or (rest := msgspec.structs.replace(more, extras=None)) == More():
        return None
    return msgspec.json.encode(rest).decode()


def _pattern(name: str) -> str:
    """For LIKE, whose escape is the backslash in both dialects."""
    quoted = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return quoted.replace("*", "%")
