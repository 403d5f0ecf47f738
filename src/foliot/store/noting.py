"""What a store must do with what jobs say while they run; part of the contract in port.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foliot.ids import JobId, SessionId
from foliot.model.note import LogLine, NewLine, NewProgress


class Logs(Protocol):
    """What jobs say while they run."""

    async def write(self, partition: int, lines: Sequence[NewLine]) -> None:
        """Each under the fence of the attempt that wrote it. Repeating is harmless."""
        ...

    async def set_progress(
        self, partition: int, session: SessionId, progress: Sequence[NewProgress]
    ) -> None:
        """Only of jobs that this session is running, under their fences; the others are passed over."""
        ...

    async def all(self, id: JobId) -> list[LogLine]:
        """Of all attempts, first first. Only reads."""
        ...

    async def prune(self, *, keep: float, limit: int) -> int:
        """Forget lines older than `keep` seconds, `limit` in each transaction. Returns how many went."""
        ...
