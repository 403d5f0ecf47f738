"""The contract of a store, continued: looking for jobs, the dead-letter queue, and who did what by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from foliot import filter_sql
from foliot.filter import Filter
from foliot.filter_sql import Dialect, Table
from foliot.ids import JobId
from foliot.model.audit import Deed, Entry
from foliot.model.search import Page, Standing, Tally

# Seconds that one statement of a search may take.
SEARCH_TIMEOUT: Final = 5.0
FIRST_ID: Final = JobId("00000000-0000-0000-0000-000000000000")
LAST_ID: Final = JobId("ffffffff-ffff-ffff-ffff-ffffffffffff")
TABLES: Final[tuple[Table, ...]] = ("jobs", "history", "dead")

# What to write down of an act, once it is known which jobs (by id), queues (by name) or sessions it has changed.
Record = Callable[[Sequence[str]], Sequence[Deed]]


class Search(Protocol):
    """Only reads. Raises SearchTimeout where the store cannot tell in time."""

    async def look(
        self,
        filter: Filter,
        *,
        limit: int,
        window: int,
        after: JobId | None = None,
        payloads: bool = True,
    ) -> Page:
        """The newest matching jobs that are older than `after`, in one snapshot of live, ended and dead jobs. Looks at
        no more than `window` of each, the newest; without `payloads` these and results are left out."""
        ...

    async def tally(
        self, filter: Filter, *, limit: int, window: int, after: JobId | None = None
    ) -> Tally:
        """How many match, up to `limit`; looks as above."""
        ...

    async def standing(self, id: JobId, *, limit: int) -> Standing: ...


class Retried(msgspec.Struct, frozen=True):
    """What became of dead jobs that were to be tried again."""

    lanes: dict[JobId, int]  # those that live again
    taken: dict[JobId, JobId | None]  # still dead: this job has their unique key (None: it had)
    steps: dict[JobId, JobId] = {}  # still dead: steps, to be retried with this workflow


def retried_of(lanes: dict[JobId, int], left: Iterable[Sequence[Any]]) -> Retried:
    """`left` are those that are still dead: who has their keys, and which workflow they are steps of."""
    rows = list(left)
    return Retried(
        lanes,
        {id: holder for id, holder, workflow in rows if workflow is None},
        {id: workflow for id, _, workflow in rows if workflow is not None},
    )


class Dead(Protocol):
    """The dead-letter queue. Nothing leaves it but by these, and who did it is recorded in the same transaction."""

    async def retry(
        self,
        partition: int,
        ids: Sequence[JobId],
        *,
        record: Record,
        payload: bytes | None = None,
        extras: str | None = None,
    ) -> Retried:
        """Dead jobs live again: same id, next generation, no attempts, the fence carried on; with another payload, if
        one is given. Those of the ids that are not dead are left alone. Not to be repeated blindly: a job that has
        died again would be retried again."""
        ...

    async def purge(self, partition: int, ids: Sequence[JobId], *, record: Record) -> list[JobId]:
        """Forget dead jobs, with their attempts and log lines. Returns which there were. Repeating is harmless."""
        ...


class Audit(Protocol):
    async def write(self, deeds: Sequence[Deed]) -> None:
        """By themselves, for acts that are no transaction. One with the id of an earlier one replaces its detail."""
        ...

    async def list(
        self, *, target: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[Entry]:
        """Newest first; `after` is the id of the last one seen. Only reads."""
        ...


class Conditions(msgspec.Struct, frozen=True):
    """A filter for each table, ready to be put into a statement."""

    sql: dict[str, str]
    values: dict[str, object]

    @property
    def nothing(self) -> bool:
        """No job of any table can match."""
        return set(self.sql.values()) == {"false"}


def conditions(filter: Filter, dialect: Dialect, *, now: datetime) -> tuple[Conditions, Conditions]:
    """Of the whole filter, and of what an index tells of it."""
    whole, told = Conditions({}, {}), Conditions({}, {})
    for table in TABLES:
        narrowed = filter_sql.narrow(filter, now=now, table=table)
        found = filter_sql.compile(narrowed, dialect, now=now, table=table, prefix=f"{table}_")
        if found.sql == "false":
            index = found
        else:
            part = filter_sql.indexed(narrowed, dialect, now=now, table=table)
            index = filter_sql.compile(part, dialect, now=now, table=table, prefix=f"{table}_")
        for conditions, condition in ((whole, found), (told, index)):
            conditions.sql[table] = condition.sql
            conditions.values.update(condition.values)
    return whole, told
