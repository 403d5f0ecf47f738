"""What a store must do with roll-ups; part of the contract in port.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from foliot.model.rollup import Rollup, Sum

TOGETHER: Final = "00000000-0000-0000-0000-000000000000"  # the writer of what has been put together
WRITERS_LAST: Final = (
    86_400.0  # seconds that a silent writer is remembered: it may repeat its last batch
)


class Rollups(Protocol):
    """What processes have counted of the jobs that they ran. Each writes rows of its own; minutes that are over are put
    together later."""

    async def write(self, writer: str, batch: int, rollups: Sequence[Rollup]) -> None:
        """Add what a process has counted since its last batch; one for each minute and key. The batches of a writer are
        numbered upwards from 1, and each is added once: repeating is harmless."""
        ...

    async def read(
        self,
        since: int,
        until: int,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[Rollup]:
        """Of the minutes that begin in this span of seconds since 1970, the parts as they are stored. Only reads."""
        ...

    async def sums(self, since: int, until: int, *, queue: str) -> list[Sum]:
        """The same of one queue, added up: one for each minute, or step, in which something ended. Only reads."""
        ...

    async def compact(self, *, age: float, limit: int) -> int:
        """Put together what processes have written of minutes that began `age` seconds ago or earlier, `limit` rows in
        each transaction. What is written of them later is put together with the rest the next time. Returns how many
        rows were taken."""
        ...

    async def prune(self, *, keep: float | None, limit: int) -> int:
        """Forget minutes older than `keep` seconds (None: none), `limit` rows in each transaction; and writers that are
        long silent. Returns how many rows went."""
        ...
