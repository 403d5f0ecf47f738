"""The part of a store's contract that is for its operators: an overview, and moving house."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from foliot.model.overview import ActiveJob, Failure, HeldJobs, Loads, Overdue, Tally

# One row of a table, by column: the same in every store.
Value = int | float | bool | str | bytes | datetime | tuple[str, ...] | None
Record = dict[str, Value]
# Told of a table how many of its rows have been moved so far.
Say = Callable[[str, int], None]


class Repartitioned(msgspec.Struct, frozen=True):
    before: int  # partitions
    moved: dict[str, int]  # table -> rows that are in another partition now


class Overview(Protocol):
    """Looks for people. Each is cheap whatever there is: what could be many is counted up to `cap`."""

    async def queues(self, *, cap: int) -> Loads:
        """The live jobs of each queue that has any."""
        ...

    async def held(self, *, cap: int) -> list[HeldJobs]: ...

    async def overdue(self, *, late: float, cap: int) -> Overdue:
        """What is more than `late` seconds behind."""
        ...

    async def dead(self, *, cap: int) -> int: ...

    async def tally(self) -> Tally: ...

    async def running(self, *, limit: int) -> list[ActiveJob]:
        """Those that have run longest, if there are not very many."""
        ...

    async def failures(self, *, limit: int) -> list[Failure]:
        """The latest first."""
        ...


class Transfer(Protocol):
    """Whole tables, row by row as they are. Tables and columns are those of store/tables.py."""

    async def dump(self, table: str, *, after: Record | None, limit: int) -> list[Record]:
        """The next rows in the order of the table's key, from behind `after`. Only reads."""
        ...

    async def load(self, table: str, records: Sequence[Record]) -> None:
        """Insert rows of one partition, all or nothing."""
        ...

    async def count(self, table: str) -> int:
        """Exact, so it reads the whole table."""
        ...
