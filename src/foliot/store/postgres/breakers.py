"""Breakers in PostgreSQL: read and locked, decided, written; where jobs pass otherwise from then on, as new rules."""

from __future__ import annotations

from collections.abc import Sequence
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
from foliot.store.postgres.allowances import CHANGE_RULES
from foliot.store.postgres.arrays import texts
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.postgres.gates import SQL as LIMITS
from foliot.store.postgres.gates import recount
from foliot.store.searching import Record
from foliot.store.sql import load_statements

EVENTS: Final = load_statements("foliot.store.postgres", "events.sql")
SQL: Final = load_statements("foliot.store.postgres", "breakers.sql")


class PostgresBreakers(Changing):
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def all(self, *, most: int) -> list[Found]:
        found = (await self._read())[1]
        names = texts([one.name for one in found])
        asked: Values = {"partitions": self._partitions, "names": names, "limit": most}
        waiting: dict[str, int] = dict(await self._connections.read(SQL["count_behind"], asked))
        return [Found(one, waiting[one.name], waiting[one.name] >= most) for one in found]

    async def _read(self) -> tuple[float, Sequence[Breaker]]:
        values: Values = {"now": self._clock.now_for_store()}
        rows = await self._connections.read(SQL["list_breakers"], values)
        return (rows[0][0] if rows else 0.0), [breaker_of(row[1:]) for row in rows]

    async def _change(
        self,
        name: str,
        decide: Decide,
        *,
        record: Record | None = None,
        make: bool = True,
        look: bool = False,
    ) -> Shift | None:
        async def talk(ask: Ask) -> Shift | None:
            if make:
                await ask(Step(SQL["make_breaker"], {"name": name}))
            asked: Values = {"name": name, "now": self._clock.now_for_store()}
            rows = await ask(Step(SQL["read_breaker"], asked))
            if not rows:
                return None
            before, now = breaker_of(rows[0][1:]), rows[0][0]
            behind = await self._behind(ask, before) if look else Behind()
            shift = Shift(before, decide(before, now, behind))
            await self._save(ask, shift)
            if record is not None and shift.changed:
                for step in audit_steps(record([name]), self._clock):
                    await ask(step)
            return shift

        return await self._connections.converse(talk)

    async def _save(self, ask: Ask, shift: Shift) -> None:
        """The one place where a breaker changes; those who listen are told by the same transaction."""
        if shift.moved:  # every claim that goes by what was has committed
            await ask(CHANGE_RULES)
        if shift.changed:
            await ask(Step(SQL["write_breaker"], values_of(shift.after)))
        now = self._clock.now_for_store()
        if shift.events:
            partition, events = events_told(shift, self._partitions)
            told: Values = {"partition": partition, "rows": event_rows(events), "now": now}
            await ask(Step(EVENTS["emit_events"], told))
        if shift.moved:
            await ask(Step(LIMITS["raise_version"], {}))
            await recount(ask, now)

    async def _behind(self, ask: Ask, breaker: Breaker) -> Behind:
        since = tries_since(breaker)
        asked: Values = {"partitions": self._partitions, "name": breaker.name, "since": since}
        [(waits, tries)] = await ask(Step(SQL["find_behind"], asked))
        return Behind(waits, tries)
