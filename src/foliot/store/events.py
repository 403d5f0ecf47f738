"""What a store must do with events; part of the contract in port.py.

An event is written down in the transaction in which it happens, and only if somebody listens to it. Delivering is one
transaction too: the first events go, and for each there is a job of every hook that hears it. From then on it is a job
like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec

from foliot.ids import JobId, ScheduleId
from foliot.model.event import Listener, NewEvent, told_time
from foliot.store.scheduling import CatchUp
from foliot.store.searching import Record


class Delivered(msgspec.Struct, frozen=True):
    events: int  # as many as the limit: there may be more
    jobs: int


class Listened(msgspec.Struct, frozen=True):
    """Hooks that did not listen like that before; and those that are of other modules, with these."""

    begun: tuple[str, ...] = ()
    taken: dict[str, str] = {}


class Events(Protocol):
    async def deliver(self, partition: int, *, limit: int) -> Delivered:
        """Make jobs of the first events, in the order in which they happened. Any process may, at any time; after an
        unknown outcome too: what was taken is gone, and the ids of the jobs follow from the events."""
        ...

    async def listeners(self) -> list[Listener]:
        """All of them. Only reads."""
        ...

    async def listen(
        self,
        listeners: Sequence[Listener],
        *,
        modules: Collection[str] = (),
        gone: Sequence[str] = (),
        record: Record | None = None,
    ) -> Listened:
        """These hooks listen as it is said here and no longer as before, and those of the kinds `gone` no longer at
        all. Others stay, and so do those that a live session of a module that is not among these runs: of two whose
        sessions are open, one has it. Who has just begun to listen is not told what was over before, even if it was
        written down for others; who listened already keeps his time. By hand, `record` says what is to be written down
        of those that are gone."""
        ...

    async def settle(self, *, grace: float) -> list[str]:
        """Write down which hooks no live session runs, and since when. Those that have been absent for `grace` seconds
        while a session of their module was there all the time listen no longer; returns them. Any process may."""
        ...

    async def unheard(self, partition: int, *, limit: int) -> list[JobId]:
        """Some of the jobs that are held because nobody knows them, and are of hooks that listen no longer. Only
        reads."""
        ...


def event_rows(events: Iterable[NewEvent]) -> str:
    """What emit_events reads: to be asked in the transaction in which it happens."""
    rows = [
        (
            one.name,
            one.home,
            one.subject,
            one.number,
            one.namespace,
            one.kind,
            one.queue,
            msgspec.json.encode(one.data).decode(),
        )
        for one in events
    ]
    return msgspec.json.encode(rows).decode()


# A trigger, the first and last time of a gap in it, in seconds and in words, and between which schedules.
Missed = tuple[int, int, int, str, str, ScheduleId | None, ScheduleId | None]


def missed_of(steps: Iterable[CatchUp]) -> list[Missed]:
    """What tell_missed reads. Of each schedule one step comes first, with the first time that is made up for."""
    told: list[Missed] = []
    for step in steps:
        gap = step.gap
        first, last = told_time(gap.start), told_time(gap.to)
        if step.place == 0:
            told.append((gap.trigger, gap.start, gap.to, first, last, gap.cursor, step.upper))
    return told
