"""Idempotency keys in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.key import Reservation
from foliot.store.postgres.arrays import texts, words
from foliot.store.postgres.connection import Step, Transacting, Values
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "keys.sql")


def wait_steps(seconds: float | None) -> list[Step]:
    """First in a transaction that may meet keys of others."""
    if seconds is None:
        return []
    return [Step(SQL["limit_key_wait"], {"wait": f"{round(seconds * 1000)}ms"})]


async def reserve(
    connections: Transacting,
    clock: Clock,
    partition: int,
    reservations: Sequence[Reservation],
    *,
    keep: float,
    wait: float | None = None,
) -> list[Reservation]:
    values: Values = {
        **_named(partition, reservations),
        "now": clock.now_for_store(),
        "keep": keep,
        "fingerprints": words(one.fingerprint for one in reservations),
    }
    steps = [
        *wait_steps(wait),
        Step(SQL["reserve_keys"], values),
        Step(SQL["find_keys"], values),
    ]
    found = (await connections.transact(steps))[-1]
    stands = {position: (JobId(job), print_) for position, job, print_ in found}
    return [
        msgspec.structs.replace(one, job=stands[position][0], fingerprint=stands[position][1])
        for position, one in enumerate(reservations)
    ]


async def redirect(
    connections: Transacting,
    partition: int,
    reservation: Reservation,
    id: JobId,
    *,
    wait: float | None = None,
) -> None:
    values: Values = {
        "partition": partition,
        "namespace": reservation.namespace,
        "kind": reservation.kind,
        "key": reservation.key,
        "reserved": reservation.job,
        "id": id,
    }
    await connections.transact([*wait_steps(wait), Step(SQL["redirect_key"], values)])


async def unreserve(
    connections: Transacting, partition: int, reservations: Sequence[Reservation]
) -> None:
    await connections.transact([Step(SQL["unreserve_keys"], _named(partition, reservations))])


async def prune_keys(connections: Transacting, clock: Clock, partition: int, limit: int) -> int:
    """Batch after batch, each a transaction of its own, until there is nothing left."""
    pruned, count = 0, limit
    while count >= limit:
        values: Values = {"partition": partition, "limit": limit, "now": clock.now_for_store()}
        [[(count,)]] = await connections.transact([Step(SQL["prune_keys"], values)])
        pruned += count
    return pruned


def _named(partition: int, reservations: Sequence[Reservation]) -> dict[str, object]:
    return {
        "partition": partition,
        "namespaces": texts(one.namespace for one in reservations),
        "kinds": texts(one.kind for one in reservations),
        "keys": texts(one.key for one in reservations),
        "ids": words(one.job for one in reservations),
    }
