"""Admission in SQLite: strict order, turns, expiry, and kinds that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Final, cast

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.job import JobState, Order
from foliot.model.lane import TURN
from foliot.store.admission import FIRST_TURN, Admitted, Round, Turn, Walk, quota
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.ends import has_workflows, tell_ends
from foliot.store.sqlite.times import store_now

SQL: Final = load_parts("order.sql")


class SqliteAdmission:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._round = Round()

    async def look(self, partition: int, *, limit: int) -> tuple[list[Admitted], bool]:
        asked: Values = {"partition": partition, "limit": limit}

        def find(connection: Connection) -> tuple[list[Admitted], bool] | None:
            held = execute(connection, SQL["find_held_jobs"], asked)
            return None if held or _find_keys(connection, asked, FIRST_TURN) else ([], False)

        def run(connection: Connection) -> tuple[list[Admitted], bool]:
            return self._look(connection, asked)

        return await self._connections.transact(run, look=find)

    async def walk(self, partition: int, after: Order, *, limit: int) -> Walk:
        asked: Values = {
            "partition": partition,
            "namespace": after[0],
            "key": after[1],
            "limit": limit,
        }

        def find(connection: Connection) -> Walk | None:
            found = execute(connection, SQL["find_idle_orders"], asked)
            return None if any(row[2] for row in found) else Walk([], _last(found, limit))

        def run(connection: Connection) -> Walk:
            found = execute(connection, SQL["find_idle_orders"], asked)
            idle = [(row[0], row[1]) for row in found if row[2]]
            admitted = admit_orders(connection, partition, idle, self._now())
            return Walk(admitted, _last(found, limit))

        return await self._connections.transact(run, look=find)

    async def expire(self, partition: int, *, limit: int) -> int:
        find, *expire = SQL["expire_jobs"]

        def look(connection: Connection) -> int | None:
            asked: Values = {"partition": partition, "now": self._now()}
            return None if execute(connection, [find], asked) else 0

        def run(connection: Connection) -> int:
            now = self._now()
            asked: Values = {"partition": partition, "limit": limit, "now": now}
            steps: Rows = []
            if has_workflows(connection, partition):
                steps = execute(connection, SQL["find_expired_steps"], asked)
            gone = execute(connection, expire, asked)
            tell_ends(connection, partition, now, steps)
            orders = [(row[0], row[1]) for row in gone if row[1] is not None]
            admit_orders(connection, partition, orders, now)
            return len(gone)

        return await self._connections.transact(run, look=look)

    async def hold_kinds(self, partition: int, known: Sequence[str], *, limit: int) -> list[JobId]:
        asked: Values = {"partition": partition, "kinds": to_json(list(known)), "limit": limit}
        *_, hold = SQL["hold_kinds"]

        def look(connection: Connection) -> list[JobId] | None:
            return None if _find_strange(connection, asked) else []

        def run(connection: Connection) -> list[JobId]:
            strange: Values = {"ids": to_json(_find_strange(connection, asked))}
            return [JobId(row[0]) for row in execute(connection, [hold], {**asked, **strange})]

        return await self._connections.transact(run, look=look)

    async def admit_payloads(self, partition: int, *, limit: int) -> list[int]:
        asked: Values = {"partition": partition, "limit": limit, "now": self._now()}
        find, *admit = SQL["admit_payloads"]

        def look(connection: Connection) -> Rows | None:
            return None if execute(connection, [find], asked) else []

        admitted = await self._connections.transact(
            lambda connection: execute(connection, admit, asked), look=look
        )
        return [row[0] for row in admitted]

    def _look(self, connection: Connection, asked: Values) -> tuple[list[Admitted], bool]:
        now = self._now()
        partition, limit = cast(int, asked["partition"]), cast(int, asked["limit"])
        ordered = execute(connection, SQL["find_held_jobs"], asked)
        admitted: list[Admitted] = []
        if ordered:
            ids: Values = {"ids": to_json([row[0] for row in ordered]), "partition": partition}
            orders = {(row[1], row[2]) for row in ordered}
            admitted += admit_orders(connection, partition, orders, now)
            execute(connection, SQL["order_jobs"], ids)
        turns = _find_turns(connection, asked, self._round.after(partition))
        if turns:
            values: Values = {
                "partition": partition,
                "ids": to_json([row[0] for row in turns]),
                "turn": TURN,
                "now": now,
            }
            placed = execute(connection, SQL["admit_turns"], values)
            admitted += [Admitted(row[0], JobState.READY) for row in placed]
        more = self._round.go_on(partition, [(row[1], row[2]) for row in turns], limit)
        more |= len(ordered) >= limit
        return admitted, more or any(one.state is JobState.HELD for one in admitted)

    def _now(self) -> int:
        return store_now(self._clock)


def admit_orders(
    connection: Connection, partition: object, orders: Iterable[Order], now: int
) -> list[Admitted]:
    """The next of each key, where none is active."""
    named = sorted(set(orders))
    if not named:
        return []
    values: Values = {"partition": partition, "orders": to_json(named), "now": now}
    admitted = execute(connection, SQL["admit_orders"], values)
    return [Admitted(lane, JobState(state)) for lane, state in admitted]


def _find_keys(connection: Connection, asked: Values, after: Turn) -> Rows:
    lane, key = after
    return execute(connection, SQL["find_turns"][:1], {**asked, "lane": lane, "key": key})


def _find_turns(connection: Connection, asked: Values, after: Turn) -> Rows:
    keys = _find_keys(connection, asked, after) or _find_keys(connection, asked, FIRST_TURN)
    each = quota(cast(int, asked["limit"]), len(keys))
    return [
        row
        for lane, key in keys
        for row in execute(
            connection,
            SQL["find_turns"][1:],
            {**asked, "lane": lane, "key": key, "quota": each},
        )
    ]


def _find_strange(connection: Connection, asked: Values) -> list[str]:
    lanes, front, _ = SQL["hold_kinds"]
    return [
        row[0]
        for (lane,) in execute(connection, [lanes], asked)
        for row in execute(connection, [front], {**asked, "lane": lane})
    ]


def _last(found: Rows, limit: int) -> Order | None:
    return (found[-1][0], found[-1][1]) if len(found) >= limit else None
