"""Another number of partitions in PostgreSQL: one transaction, to be killed at will, while nobody else can look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import errors

from foliot.clock import Clock
from foliot.errors import FoliotError
from foliot.ids import SLOTS
from foliot.store.operator import Record, Repartitioned, Say
from foliot.store.postgres.arrays import texts
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.postgres.sessions import sessions_step, to_sessions
from foliot.store.postgres.transfer import TYPES, dump_step, load_step, to_records
from foliot.store.repartition import (
    rearrange,
    refuse_apart,
    refuse_live,
    refuse_scattered,
    refuse_schedules,
    taken_twice,
)
from foliot.store.sql import load_statements, parse_statement
from foliot.store.tables import PARTED, Table

SQL: Final = load_statements("foliot.store.postgres", "repartition.sql")
_PATIENCE: Final = 5000  # milliseconds to wait for the tables
_BATCH: Final = 1000
# The slot in the id that is in a column.
_SLOT: Final = "('x' || substr({}::text, 16, 3))::bit(12)::integer"


async def repartition(
    connections: Connections, clock: Clock, *, partitions: int, say: Say
) -> Repartitioned:
    async def talk(ask: Ask) -> Repartitioned:
        await _lock(ask)
        refuse_live(to_sessions(await ask(sessions_step(clock))))
        refuse_apart(await ask(Step(SQL["list_ordered_keys"], {})), partitions)
        refuse_scattered(await ask(Step(SQL["list_scattered_steps"], {})), partitions)
        return await _move_all(ask, partitions, say)

    try:
        return await connections.converse(talk)
    except FoliotError as error:
        match error.__cause__:
            case errors.LockNotAvailable():
                raise FoliotError(
                    "somebody has a transaction open on the tables of the store",
                    hint="end it and try again; foliot doctor names the oldest one",
                ) from error
            case errors.UniqueViolation(diag=diag):
                raise taken_twice(diag.message_detail) from error
        raise


async def _lock(ask: Ask) -> None:
    await ask(Step(SQL["limit_locking"], {"milliseconds": _PATIENCE}))
    tables = ", ".join(f"foliot.{name}" for name in ("sessions", "leases", *PARTED))
    await ask(_step("lock_tables", f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))


async def _move_all(ask: Ask, partitions: int, say: Say) -> Repartitioned:
    before = int((await ask(Step(SQL["count_partitions"], {})))[0][0])
    if before != partitions:
        keyed = [row[0] for row in await ask(Step(SQL["list_keyed_schedules"], {}))]
        [(missed,)] = await ask(Step(SQL["count_open_gaps"], {}))
        refuse_schedules(keyed, missed, partitions)
        await ask(Step(SQL["settle_schedules"], {}))
    moved = {}
    for name, table in PARTED.items():
        if len(table.home) == 1:
            moved[name] = await _move(ask, name, table.home[0], partitions)
        elif table.home:
            moved[name] = await _move_keys(ask, name, table, partitions)
        else:
            moved[name] = await _rearrange(ask, name, before, partitions)
        say(name, moved[name])
    if before != partitions:
        await ask(Step(SQL["settle_triggers"], {}))
    await ask(Step(SQL["set_partitions"], {"partitions": partitions}))
    return Repartitioned(before, moved)


async def _move(ask: Ask, name: str, column: str, partitions: int) -> int:
    place = f"{_SLOT.format(column)} * {partitions} / {SLOTS}"
    text = (
        f"WITH moved AS (UPDATE foliot.{name} SET partition = {place} WHERE partition <> {place} RETURNING 1) "  # noqa: S608 - our own names
        "SELECT count(*) FROM moved"
    )
    return int((await ask(_step(f"move_{name}", text)))[0][0])


async def _move_keys(ask: Ask, name: str, table: Table, partitions: int) -> int:
    """The server does not know the hash of words. Its cursor does not see what is moved meanwhile."""
    key = ", ".join(table.key)
    text = f"DECLARE places CURSOR FOR SELECT {key} FROM foliot.{name}"  # noqa: S608 - our own names
    await ask(_step("open_places", text))
    moved = 0
    while rows := await ask(_step("next_places", f"FETCH {_BATCH} FROM places")):
        records = [dict(zip(table.key, row, strict=True)) for row in rows]
        places = [(table.partition_of(record, partitions), record) for record in records]
        there = [(place, record) for place, record in places if place != record["partition"]]
        await ask(_put(name, table, there))
        moved += len(there)
    await ask(_step("close_places", "CLOSE places"))
    return moved


def _put(name: str, table: Table, there: Sequence[tuple[int | None, Record]]) -> Step:
    sent = ", ".join(f":{column}::{TYPES[table.columns[column]]}[]" for column in table.key)
    same = " AND ".join(f"t.{column} = u.{column}" for column in table.key)
    text = (
        f"UPDATE foliot.{name} t SET partition = u.place "  # noqa: S608 - our own names
        f"FROM unnest(:places::smallint[], {sent}) AS u (place, {', '.join(table.key)}) WHERE {same}"
    )
    values = {column: texts([str(record[column]) for _, record in there]) for column in table.key}
    places = texts([str(place) for place, _ in there])
    return _step(f"put_{name}", text, {**values, "places": places})


async def _rearrange(ask: Ask, name: str, before: int, now: int) -> int:
    if before == now:
        return 0
    records = rearrange(name, to_records(name, await ask(dump_step(name))), before, now)
    await ask(_step("delete_rows", f"DELETE FROM foliot.{name}"))  # noqa: S608 - our own names
    for start in range(0, len(records), _BATCH):
        await ask(load_step(name, records[start : start + _BATCH]))
    return len(records)


def _step(name: str, text: str, values: Values | None = None) -> Step:
    return Step(parse_statement(name, text), values or {}, prepared=False)
