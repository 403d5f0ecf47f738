"""Session: one life of one worker process. Its id is chance, never a host name or a process number."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from foliot.ids import SessionId

# Jobs that lost their workers run at once in each process, in children of their own; more if worker.children is more.
SUSPECTS: Final = 4


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]  # none named: all
    kinds: tuple[str, ...]
    duties: bool  # may hold partition leases
    modules: tuple[str, ...] = ()  # that declare its kinds
    capabilities: tuple[str, ...] = ()
    concurrency: int = 0  # jobs at once


class Claim(msgspec.Struct, frozen=True):
    """How a session has a job that it holds, as far as its last beat tells."""

    named: bool  # as executing
    seen: bool  # the beat is later than the claim, and told of some that waited
    alone: int  # suspects that the beat named
    before: int  # suspects that it claimed before this one, and the beat did not name

    def behind(self, cells: int) -> int | None:
        """How many other suspects are to start before this one, there being so many children for them at least. None:
        it has started, or does so at once. They start in the order in which they were claimed."""
        if self.named or (not self.seen and self.alone + self.before < max(cells, self.alone)):
            return None
        return self.before if self.seen else self.before - max(0, cells - self.alone)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    duties: bool
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    live: bool
    executing: int
    capabilities: tuple[str, ...] = ()
    concurrency: int = 0
    room: int = 0  # jobs that could start now
    waiting: int = 0  # claimed, and not started
    drain: bool = False  # it was asked to finish what it runs and end
    note: str | None = None  # what is wrong with it
    moved_at: datetime | None = None  # when it last started or finished a job
    silence: float = 0.0  # seconds since its last beat
    modules: tuple[str, ...] = ()

    @property
    def stillness(self) -> float:
        """Seconds at its last beat that it has started and finished nothing, although it has all that it can take."""
        if not self.executing or (self.room and not self.waiting):
            return 0.0
        return (self.beat_at - (self.moved_at or self.started_at)).total_seconds()

    def is_called(self, name: str) -> bool:
        """By the beginning of its id, its host, or host:pid."""
        return self.id.startswith(name) or name in (self.host, f"{self.host}:{self.pid}")

    @property
    def health(self) -> str:
        """One word: lost, draining, sick (its note says why) or well."""
        if not self.live:
            return "lost"
        if self.note is not None:
            return "sick"
        return "draining" if self.drain else "well"
