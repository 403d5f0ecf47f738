"""Breakers in SQLite: read, decided, written; where jobs pass otherwise from then on, as new rules."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.model.breaker import Breaker
from foliot.store.breaking import (
    Behind,
    Changing,
    Decide,
    Found,
    Shift,
    breaker_of,
    events_told,
    tries_since,
    values_of,
)
from foliot.store.events import event_rows
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.limits import SQL as LIMITS
from foliot.store.sqlite.limits import recount
from foliot.store.sqlite.times import store_now

EVENTS: Final = load_parts("events.sql")
SQL: Final = load_parts("breakers.sql")


class SqliteBreakers(Changing):
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._all = to_json(list(range(partitions)))

    async def all(self, *, most: int) -> list[Found]:
        def run(connection: Connection) -> list[Found]:
            found = _list(connection, store_now(self._clock))[1]
            waiting = self._count(connection, [one.name for one in found], most)
            return [Found(one, waiting[one.name], waiting[one.name] >= most) for one in found]

        return await self._connections.read(run)

    async def _read(self) -> tuple[float, list[Breaker]]:
        return await self._connections.read(lambda c: _list(c, store_now(self._clock)))

    async def _change(
        self,
        name: str,
        decide: Decide,
        *,
        record: Record | None = None,
        make: bool = True,
        look: bool = False,
    ) -> Shift | None:
        def run(connection: Connection) -> Shift | None:
            if make:
                execute(connection, SQL["make_breaker"], {"name": name})
            now = store_now(self._clock)
            rows = execute(connection, SQL["read_breaker"], {"name": name, "now": now})
            if not rows:
                return None
            before = breaker_of(rows[0][1:])
            behind = self._behind(connection, before) if look else Behind()
            shift = Shift(before, decide(before, rows[0][0], behind))
            self._save(connection, shift, now)
            if shift.changed:
                write_record(connection, record, [name], now=now)
            return shift

        return await self._connections.transact(run)

    def _save(self, connection: Connection, shift: Shift, now: int) -> None:
        """The one place where a breaker changes; those who listen are told by the same transaction."""
        if shift.changed:
            execute(connection, SQL["write_breaker"], values_of(shift.after))
        if shift.events:
            partition, events = events_told(shift, self._partitions)
            told: Values = {"partition": partition, "rows": event_rows(events), "now": now}
            execute(connection, EVENTS["emit_events"], told)
        if shift.moved:
            execute(connection, LIMITS["raise_version"], {"now": now})
            recount(connection, now)

    def _behind(self, connection: Connection, breaker: Breaker) -> Behind:
        since = tries_since(breaker)
        asked: Values = {"partitions": self._all, "name": breaker.name, "since": since}
        [(waits, tries)] = execute(connection, SQL["find_behind"], asked)
        return Behind(bool(waits), bool(tries))

    def _count(self, connection: Connection, names: Sequence[str], most: int) -> dict[str, int]:
        """How many wait for each."""
        values: Values = {"partitions": self._all, "names": to_json(names), "limit": most}
        return dict(execute(connection, SQL["count_behind"], values))


def _list(connection: Connection, now: int) -> tuple[float, list[Breaker]]:
    rows = execute(connection, SQL["list_breakers"], {"now": now})
    return now / 1_000_000, [breaker_of(row[1:]) for row in rows]
