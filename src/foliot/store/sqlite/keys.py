"""Idempotency keys in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.key import Reservation
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Transacting
from foliot.store.sqlite.times import store_now

SQL: Final = load_parts("keys.sql")


async def reserve(
    connections: Transacting,
    clock: Clock,
    partition: int,
    reservations: Sequence[Reservation],
    *,
    keep: float,
) -> list[Reservation]:
    values: Values = {"partition": partition, "keep": keep, "reservations": _named(reservations)}

    def run(connection: Connection) -> Rows:
        execute(connection, SQL["reserve_keys"], {**values, "now": store_now(clock)})
        return execute(connection, SQL["find_keys"], values)

    return [
        msgspec.structs.replace(reservations[position], job=JobId(job), fingerprint=print_)
        for position, job, print_ in await connections.transact(run)
    ]


async def redirect(
    connections: Transacting, partition: int, reservation: Reservation, id: JobId
) -> None:
    values: Values = {
        "partition": partition,
        "namespace": reservation.namespace,
        "kind": reservation.kind,
        "key": reservation.key,
        "reserved": reservation.job,
        "id": id,
    }
    await connections.transact(lambda connection: execute(connection, SQL["redirect_key"], values))


async def unreserve(
    connections: Transacting, partition: int, reservations: Sequence[Reservation]
) -> None:
    values: Values = {"partition": partition, "reservations": _named(reservations)}
    await connections.transact(
        lambda connection: execute(connection, SQL["unreserve_keys"], values)
    )


async def prune_keys(connections: Transacting, clock: Clock, partition: int, limit: int) -> int:
    """Batch after batch, each a transaction of its own, until there is nothing left."""
    values: Values = {"partition": partition, "limit": limit, "now": store_now(clock)}
    find, delete = SQL["prune_keys"]

    def look(connection: Connection) -> int | None:
        return None if connection.execute(find, values).fetchone() else 0

    def run(connection: Connection) -> int:
        return connection.execute(delete, values).rowcount

    pruned = 0
    while (count := await connections.transact(run, look=look)) > 0:
        pruned += count
    return pruned


def _named(reservations: Sequence[Reservation]) -> str:
    return to_json(
        [(one.namespace, one.kind, one.key, one.job, one.fingerprint) for one in reservations]
    )
