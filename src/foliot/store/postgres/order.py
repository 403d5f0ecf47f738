"""Admission in PostgreSQL: strict order, turns, expiry, and kinds that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from zlib import crc32

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.job import JobState, Order
from foliot.model.lane import TURN
from foliot.store.admission import FIRST_TURN, Admitted, Round, Walk, admissions
from foliot.store.postgres.arrays import numbers, texts, words
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.postgres.ends import StepEnds
from foliot.store.reply import Rows
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "order.sql")

# Advisory locks are numbers that all who use the database share: these are ours, plus the partition.
_ORDERS: Final = 0x0F01_0000
_TURNS: Final = 0x0F02_0000
_CLASSES: Final = 256


class PostgresAdmission:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._round = Round()

    async def look(self, partition: int, *, limit: int) -> tuple[list[Admitted], bool]:
        values: Values = {"partition": partition, "limit": limit}
        ordered = await self._connections.read(SQL["find_held_jobs"], values)
        admitted: list[Admitted] = []
        if ordered:
            ids = words([row[0] for row in ordered])
            steps = order_steps(partition, {(row[1], row[2]) for row in ordered}, self._now())
            steps.append(Step(SQL["order_jobs"], {"partition": partition, "ids": ids}))
            admitted += admissions((await self._connections.transact(steps))[1])
        turns = await self._find_turns(values)
        if turns:
            admitted += await self._give_turns(partition, [row[0] for row in turns])
        more = self._round.go_on(partition, [(row[1], row[2]) for row in turns], limit)
        more |= len(ordered) >= limit or any(one.state is JobState.HELD for one in admitted)
        return admitted, more and bool(admitted or ordered)

    async def walk(self, partition: int, after: Order, *, limit: int) -> Walk:
        values: Values = {
            "partition": partition,
            "namespace": after[0],
            "key": after[1],
            "limit": limit,
        }
        found = await self._connections.read(SQL["find_idle_orders"], values)
        last = (found[-1][0], found[-1][1]) if len(found) >= limit else None
        return Walk(
            await self._admit(partition, {(row[0], row[1]) for row in found if row[2]}), last
        )

    async def expire(self, partition: int, *, limit: int) -> int:
        values: Values = {"partition": partition, "limit": limit, "now": self._now()}
        steps = await self._connections.read(SQL["find_expired_steps"], values)

        async def talk(ask: Ask) -> Rows:
            ends = StepEnds(ask, partition, self._now(), steps)
            await ends.lock()
            gone = await ask(Step(SQL["expire_jobs"], {**values, "steps": ends.steps}))
            await ends.tell()
            return gone

        gone = await self._connections.converse(talk)
        await self._admit(partition, {(row[0], row[1]) for row in gone if row[1] is not None})
        return len(gone)

    async def hold_kinds(self, partition: int, known: Sequence[str], *, limit: int) -> list[JobId]:
        values: Values = {"partition": partition, "kinds": texts(known), "limit": limit}
        [held] = await self._connections.transact([Step(SQL["hold_kinds"], values)])
        return [JobId(row[0]) for row in held]

    async def admit_payloads(self, partition: int, *, limit: int) -> list[int]:
        values: Values = {"partition": partition, "limit": limit, "now": self._now()}
        [admitted] = await self._connections.transact([Step(SQL["admit_payloads"], values)])
        return [row[0] for row in admitted]

    async def _admit(self, partition: int, orders: set[Order]) -> list[Admitted]:
        if not orders:
            return []
        steps = order_steps(partition, orders, self._now())
        return admissions((await self._connections.transact(steps))[1])

    async def _find_turns(self, asked: Values) -> Rows:
        after = self._round.after(asked["partition"])  # type: ignore[arg-type]  # it is a number
        found: Rows = []
        for lane, key in dict.fromkeys((after, FIRST_TURN)):  # behind the last key may be none
            values: Values = {**asked, "lane": lane, "key": key}
            found = found or await self._connections.read(SQL["find_turns"], values)
        return found

    async def _give_turns(self, partition: int, ids: Sequence[str]) -> list[Admitted]:
        values: Values = {
            "partition": partition,
            "space": _TURNS + partition,
            "ids": words(ids),
            "turn": TURN,
            "now": self._now(),
        }
        steps = [Step(SQL["lock_turns"], values), Step(SQL["admit_turns"], values)]
        placed = (await self._connections.transact(steps))[1]
        return [Admitted(row[0], JobState.READY) for row in placed]

    def _now(self) -> datetime | None:
        return self._clock.now_for_store()


def order_steps(partition: int, orders: Iterable[Order], now: datetime | None) -> list[Step]:
    """Lock, then read: the next of each key, where none is active. The second step says what was admitted."""
    named = sorted(set(orders))
    values: Values = {
        "partition": partition,
        "space": _ORDERS + partition,
        "classes": numbers(sorted({_class(order) for order in named})),
        "namespaces": texts([namespace for namespace, _ in named]),
        "keys": texts([key for _, key in named]),
        "now": now,
    }
    return [Step(SQL["lock_orders"], values), Step(SQL["admit_orders"], values)]


def _class(order: Order) -> int:
    """Which lock a key shares; the same in every process."""
    return crc32("\0".join(order).encode()) % _CLASSES
