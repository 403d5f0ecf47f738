"""Another number of partitions in SQLite: one transaction, to be killed at will."""

from __future__ import annotations

from sqlite3 import Connection, IntegrityError
from typing import Any, Final

from foliot.ids import SLOTS, slot_of, slot_of_key
from foliot.store.operator import Repartitioned, Say
from foliot.store.repartition import (
    rearrange,
    refuse_apart,
    refuse_scattered,
    refuse_schedules,
    taken_twice,
)
from foliot.store.sqlite.batches import execute, load_parts
from foliot.store.sqlite.transfer import delete_rows, dump_rows, load_rows
from foliot.store.tables import PARTED

SQL: Final = load_parts("repartition.sql")


def repartition(connection: Connection, partitions: int, say: Say) -> Repartitioned:
    """Within a transaction."""
    before = int(execute(connection, SQL["count_partitions"], {})[0][0])
    refuse_apart(execute(connection, SQL["list_ordered_keys"], {}), partitions)
    refuse_scattered(execute(connection, SQL["list_scattered_steps"], {}), partitions)
    if before != partitions:
        keyed = [row[0] for row in execute(connection, SQL["list_keyed_schedules"], {})]
        [(missed,)] = execute(connection, SQL["count_open_gaps"], {})
        refuse_schedules(keyed, missed, partitions)
        execute(connection, SQL["settle_schedules"], {})
    connection.create_function("foliot_slot", -1, _slot, deterministic=True)
    moved = {}
    for name, table in PARTED.items():
        if table.home:
            moved[name] = _move(connection, name, ", ".join(table.home), partitions)
        else:
            moved[name] = _rearrange(connection, name, before, partitions)
        say(name, moved[name])
    if before != partitions:
        execute(connection, SQL["settle_triggers"], {})
    execute(connection, SQL["set_partitions"], {"partitions": partitions})
    return Repartitioned(before, moved)


def _slot(*home: Any) -> int:
    """With the job of this id, or where these words hash to."""
    return slot_of(home[0]) if len(home) == 1 else slot_of_key(*home)


def _move(connection: Connection, name: str, home: str, partitions: int) -> int:
    place = f"foliot_slot({home}) * {partitions} / {SLOTS}"
    text = f"UPDATE foliot_{name} SET partition = {place} WHERE partition <> {place}"  # noqa: S608 - our own names
    try:
        return connection.execute(text).rowcount
    except IntegrityError as error:
        raise taken_twice(error) from error


def _rearrange(connection: Connection, name: str, before: int, now: int) -> int:
    if before == now:
        return 0
    records = rearrange(name, dump_rows(connection, name), before, now)
    delete_rows(connection, name)
    load_rows(connection, name, records)
    return len(records)
