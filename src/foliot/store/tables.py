"""Tables and columns as they travel from one store to another, or within one to other partitions. What is not here
stays behind: sessions and leases, how much of limits is used, which is counted anew, and which processes have written
roll-ups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final

import msgspec

from foliot.ids import SLOTS, partition_of, partition_of_slot, slot_of_key
from foliot.store.operator import Record, Value


class Form(Enum):
    """What a column holds, whatever a store makes of it."""

    WHOLE = auto()
    REAL = auto()
    FLAG = auto()
    TEXT = auto()
    ID = auto()
    TIME = auto()
    NAMES = auto()
    BYTES = auto()


class Table(msgspec.Struct, frozen=True):
    columns: Mapping[str, Form]
    key: tuple[str, ...]  # one row, one key
    home: tuple[
        str, ...
    ] = ()  # where the row lives: with the job of this id, or where these words hash to
    merge: str | None = None  # of two rows with one key the one with more of this column counts,
    least: bool = False  # or the one with less

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def partition_of(self, record: Mapping[str, object], partitions: int) -> int | None:
        """Where it lives among so many; None if it is not of one place."""
        words = [str(record[name]) for name in self.home]
        if len(words) == 1:
            return partition_of(words[0], partitions)
        return partition_of_slot(slot_of_key(*words), partitions) if words else None

    def spread(self, record: Record, before: int, now: int) -> Iterator[Record]:
        """A row that is about a share of all slots, in every place where some of these slots are then. Schedules know
        themselves what their trigger has done for them, so it begins anew where it was in the middle of them."""
        if "cursor" in record:
            record = record | {"cursor": None}
        old = whole(record["partition"])
        # The slots s with s * before // SLOTS == old.
        first, last = -(-old * SLOTS // before), -(-(old + 1) * SLOTS // before) - 1
        for partition in range(partition_of_slot(first, now), partition_of_slot(last, now) + 1):
            yield record | {"partition": partition}

    def merged(self, records: list[Record]) -> Iterable[Record]:
        """Partitions that became one may each have had a row under the same key."""
        if (column := self.merge) is None:
            return records
        merged: dict[Any, Record] = {}
        best: Any = min if self.least else max
        for record in records:
            key = tuple(record[name] for name in self.key)
            merged[key] = best(merged.get(key, record), record, key=lambda each: each[column])
        return merged.values()

    @property
    def wins(self) -> str:
        """How the column of the row that counts compares with the other's."""
        return "<" if self.least else ">"


def whole(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _table(
    key: str, home: str = "", merge: str | None = None, *, least: bool = False, **forms: str
) -> Table:
    columns = {name: Form[form.upper()] for form, names in forms.items() for name in names.split()}
    return Table(columns, tuple(key.split()), tuple(home.split()), merge, least)


# In the order in which they are copied: whoever looks at a half-copied store finds no job without its past, and none
# is fired by a trigger that does not know of it.
TABLES: Final[dict[str, Table]] = {
    "queues": _table(
        "name",
        text="name paused_by note weights updated_by said",
        whole="strategy",
        real="aging",
        time="paused_at",
    ),
    "limits": _table(
        "name",
        text="name note updated_by said",
        whole="concurrency burst",
        real="rate period",
        flag="counted",
        time="updated_at",
    ),
    "breakers": _table(
        "name",
        text="name state reason note changed_by memory options",
        whole="concurrency burst",
        real="since until rate",
    ),
    "definitions": _table(
        "kind",
        text="kind queue signature schema fingerprint options",
        whole="version",
        time="updated_at",
    ),
    "listeners": _table(
        "event hook kind queue",
        text="event hook kind queue origin template",
        time="since absent_since",
    ),
    "fair": _table(
        "partition lane fair_key", whole="partition lane tag", text="fair_key", merge="tag"
    ),
    "turns": _table("partition lane", whole="partition lane head tail", merge="tail"),
    "audit": _table("id", id="id", time="at", text="actor action target detail"),
    "rollups": _table(
        "minute writer namespace queue kind outcome",
        time="minute",
        id="writer",
        text="namespace queue kind outcome waits runs",
        whole="count seconds",
    ),
    "history": _table(
        "partition id fence generation",
        home="id",
        whole="partition fence priority attempt losses generation",
        id="id session workflow schedule",
        text="state namespace kind queue key reason ordering_key fair_key extras",
        time="created_at run_at started_at finished_at",
        names="tags",
        bytes="payload result",
    ),
    "attempts": _table(
        "partition job fence",
        home="job",
        whole="partition fence attempt",
        id="job session",
        text="outcome error traceback worker",
        time="started_at finished_at",
    ),
    "logs": _table(
        "partition job fence seq",
        home="job",
        whole="partition fence seq attempt",
        id="job",
        text="level logger message",
        time="at",
    ),
    "dead": _table(
        "partition id",
        home="id",
        whole="partition fence lane priority attempt max_attempts losses generation",
        real="timeout",
        id="id session workflow schedule",
        text="namespace kind queue key reason ordering_key fair_key extras",
        time="created_at run_at started_at finished_at",
        names="requires tags",
        bytes="payload",
    ),
    "keys": _table(
        "partition namespace kind key",
        home="namespace kind key",
        whole="partition",
        id="job",
        text="namespace kind key fingerprint",
        time="created_at expires_at",
    ),
    "outbox": _table(
        "partition at number subject event",
        home="home",
        whole="partition number",
        time="at",
        id="home",
        text="event subject namespace kind queue data",
    ),
    "calendars": _table("name", text="name dates updated_by", time="updated_at"),
    "versions": _table(
        "partition schedule version",
        home="schedule",
        whole="partition version trigger",
        id="schedule",
        text="rules",
        time="active_from until",
    ),
    "ledger": _table(
        "partition schedule from_at reason",
        home="schedule",
        whole="partition count",
        id="schedule",
        text="reason",
        time="from_at to_at",
    ),
    "gaps": _table(
        "partition trigger from_at",
        merge="to_at",
        whole="partition trigger count",
        text="reason",
        flag="done",
        time="from_at to_at at nominal",
        id="cursor",
    ),
    "schedules": _table(
        "partition id",
        home="id",
        whole="partition trigger lane priority max_attempts version phase jitter runs max_runs pause_after buffer",
        real="timeout start_deadline misfire_window catchup_rate",
        id="id",
        text="state overlap misfire namespace name kind queue key more extras rules origin note paused_by",
        time="since active_from active_until paused_at created_at updated_at",
        names="tags",
        bytes="payload",
    ),
    "signals": _table(
        "partition workflow name",
        home="workflow",
        whole="partition",
        id="workflow",
        text="name",
        time="at",
        bytes="payload",
    ),
    "links": _table(
        "partition workflow step side number",
        home="workflow",
        whole="partition number",
        id="workflow step",
        text="side jobs",
    ),
    "steps": _table(
        "partition job",
        home="workflow",
        whole="partition number above pending succeeded failed fence generation",
        flag="begun told linked",
        id="job workflow mapped added_by",
        text="state rule name signal parents children template",
        time="finished_at",
        bytes="payload result",
    ),
    "followers": _table(
        "partition workflow follower",
        home="workflow",
        whole="partition",
        id="workflow follower",
    ),
    "workflows": _table(
        "partition id",
        home="id",
        whole="partition total edges remaining failed forgiven",
        flag="chain cancel_requested stopped",
        real="deadline",
        id="id waiter",
        text="state policy namespace name paused_by note reason fingerprint",
        time="created_at deadline_at finished_at paused_at",
    ),
    "jobs": _table(
        "partition id",
        home="id",
        whole="partition fence lane rank band priority attempt max_attempts losses generation",
        flag="cancel_requested",
        real="timeout",
        id="id session workflow schedule",
        text="state namespace kind queue key hold ordering_key fair_key extras progress hold_note",
        time="created_at run_at claimed_at deadline_at expires_at",
        names="requires tags",
        bytes="payload",
    ),
    "triggers": _table(
        "partition id",
        merge="next_fire_at",
        least=True,
        whole="partition id size",
        flag="stateful",
        text="expression timezone dst_gap dst_overlap tzdata",
        names="calendars",
        real="delay",
        time="next_fire_at fired_at",
        id="cursor",
    ),
}
# Those that have a share in each partition.
PARTED: Final = {name: table for name, table in TABLES.items() if "partition" in table.columns}
