"""Rows for every table: what a store may hold at its oddest, and all that it holds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from foliot.ids import SLOTS, Ids
from foliot.store.operator import Record, Value
from foliot.store.tables import TABLES, Form, Table
from support.stores import World

ODD = "Ünï\\\"quote'd\n\t\u2028😀{},NULL"
LATE = datetime(2999, 12, 31, 23, 59, 59, 999_999, UTC)


async def dump(world: World) -> dict[str, list[Record]]:
    """In pieces, so that a row at a seam would be missed or twice."""
    found: dict[str, list[Record]] = {}
    for table in TABLES:
        rows = found.setdefault(table, [])
        while some := await world.store.transfer.dump(
            table, after=rows[-1] if rows else None, limit=2
        ):
            rows += some
    return found


def record(table: Table, number: int, ids: Ids, *, partitions: int) -> Record:
    """A row with something in every column that can hold it: odd things, or with an odd number nothing."""
    partition = number % partitions
    # One of the slots of its partition, each time another.
    where = ids.job((partition * SLOTS + number * SLOTS // 8 % SLOTS) // partitions)

    def value(name: str, form: Form) -> Value:
        if name == "partition":
            return partition
        if table.home == (name,):
            return where
        optional = name in _OPTIONAL and name not in table.key
        if number % 2 and optional and (name != "workflow" or "rule" not in table.columns):
            return None
        return _ODD[form](number) if form is not Form.ID else ids.job()

    made = {name: value(name, form) for name, form in table.columns.items()}
    for column, fields in _TOGETHER.items():
        made |= fields if column in made else {}
    if "ordering_key" in made:
        # Together they would have to be of one partition.
        apart = ("key",) if number % 4 else ("ordering_key", "schedule")
        made |= dict.fromkeys(apart)
    return made | ({"state": "scheduled"} if "state" in made else {})


# What goes with a column.
_TOGETHER: dict[str, Record] = {
    "next_fire_at": {"fired_at": None, "cursor": None, "size": 1},  # of the same number
    "done": {"done": True, "cursor": None, "reason": "missed"},
    "misfire": {"key": None, "more": None, "extras": "{}"},
    "from_at": {"reason": "missed"},
}
_OPTIONAL = frozenset(
    {
        *(
            "paused_at",
            "paused_by",
            "note",
            "updated_by",
            "said",
            "session",
            "workflow",
            "reason",
            "key",
            "tags",
        ),
        *(
            "ordering_key",
            "fair_key",
            "extras",
            "result",
            "started_at",
            "error",
            "traceback",
            "timeout",
        ),
        *("limit_key", "requires", "hold", "progress", "hold_note", "claimed_at", "deadline_at"),
    }
)
_ODD: dict[Form, Callable[[int], Value]] = {
    Form.WHOLE: lambda n: 30_000 - n,
    Form.REAL: lambda n: 0.1 + n,
    Form.FLAG: lambda n: n % 2 == 0,
    Form.TEXT: lambda n: f"{ODD}{n}",
    Form.TIME: lambda n: LATE.replace(year=2999 - n),
    Form.NAMES: lambda n: (ODD, "") if n % 4 else (),
    Form.BYTES: lambda n: bytes(range(256)) * n,
}


async def fill(world: World, *, rows: int = 5) -> None:
    for name, table in TABLES.items():
        for number in range(rows):
            made = record(table, number, world.ids, partitions=world.store.partitions)
            await world.store.transfer.load(name, [made])
