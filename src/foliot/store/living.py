"""The part of a store's contract that is about who lives: sessions, their heartbeats, and the leases that divide the
duties among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.session import Claim, NewSession, Session
from foliot.store.searching import Record


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is, with each beat."""

    room: int = 0  # jobs that could start now
    waiting: int = 0  # claimed, and not started
    moved: bool = False  # whether a job was started or finished since the last beat
    note: str | None = None  # what is wrong with it


IDLE: Final = Load()


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is told with each beat."""

    drain: bool = False


class Heart(Protocol):
    """A session's own line to the store, for its own thread: nothing the worker does can hold it up."""

    def extend(self, executing: Sequence[JobId], load: Load = IDLE) -> Extended | None:
        """Push the session's expiry to a lease from now, and say how it is. None: it has expired, and never
        revives."""
        ...

    def close(self) -> None: ...


class Sessions(Protocol):
    async def open(self, session: NewSession, *, lease: float) -> None: ...

    def heart(self, session: SessionId, *, lease: float) -> Heart: ...

    async def know(self, session: SessionId, kinds: Sequence[str], modules: Sequence[str]) -> None:
        """From now on it says that it runs these, and where each of them is defined."""
        ...

    async def close(self, session: SessionId) -> None:
        """End a session that holds nothing any more."""
        ...

    async def all(self) -> list[Session]: ...

    async def claim(self, id: JobId) -> Claim | None:
        """How the session that holds this job has it. None: it is not running. Only reads."""
        ...

    async def drain(
        self, ids: Sequence[SessionId], *, record: Record | None = None
    ) -> list[SessionId]:
        """Ask live sessions to finish what they run and end. Returns those that were found."""
        ...

    async def prune(self) -> int:
        """Forget expired sessions that no running row names. Returns how many."""
        ...


class Leases(Protocol):
    async def divide(self, session: SessionId, *, term: float) -> frozenset[int]:
        """Renew, take and give up partition leases so that live sessions with duties share them evenly. One that
        let a lease run out has no share until it beats or asks again: its partitions go to the others at once.
        Returns the partitions held for `term` seconds from before the call."""
        ...

    async def give_up(self, session: SessionId) -> None: ...
