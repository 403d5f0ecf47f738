"""Limits in PostgreSQL: what is set, and those who wait. What is claimed under them: gates.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from foliot.clock import Clock
from foliot.model.limit import Limit, Rules
from foliot.store.fronts import Fronts, places_of
from foliot.store.limiting import (
    GatesOverview,
    GateStanding,
    Overview,
    Standing,
    Tended,
    look_at,
    values_of,
)
from foliot.store.postgres.allowances import CHANGE_RULES, count_no_more
from foliot.store.postgres.arrays import numbers, texts
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.postgres.gates import (
    SQL,
    front_values,
    limit_of,
    read_rules,
    recount,
    stand,
    write_uses,
)
from foliot.store.reply import Rows
from foliot.store.searching import Record

_MOST_KEYS: Final = 10_000


class PostgresLimits:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._fronts = Fronts(clock)

    async def set(self, limit: Limit, *, by: str | None, record: Record | None = None) -> bool:
        values: Values = {**values_of(limit, by), "now": self._now()}
        return await self._change(Step(SQL["put_limit"], values), record)

    async def delete(self, name: str, *, record: Record | None = None) -> bool:
        return await self._change(Step(SQL["delete_limit"], {"name": name}), record)

    async def _change(self, step: Step, record: Record | None) -> bool:
        async def talk(ask: Ask) -> bool:
            await ask(CHANGE_RULES)
            changed = await ask(step)
            if not changed:
                return False
            await ask(Step(SQL["raise_version"], {}))
            await recount(ask, self._now())
            if record is not None:
                for each in audit_steps(record([row[0] for row in changed]), self._clock):
                    await ask(each)
            return True

        return await self._connections.converse(talk)

    async def tend(
        self,
        partition: int,
        after: str,
        *,
        limit: int,
        among: Sequence[str] | None = None,
        anew: bool = True,
    ) -> Tended:
        enter = recount if anew and among is None else stand
        if among is None:
            asked: Values = {"partition": partition, "after": after, "limit": limit}
            waited = await self._connections.read(SQL["find_gates"], asked)
        else:
            asked = {"partition": partition, "names": texts(among)}
            waited = await self._connections.read(SQL["find_gates_among"], asked)
        if not waited:
            return Tended([], None, idle=True)
        names = [row[0] for row in waited]

        async def talk(ask: Ask) -> Tended:
            door = await enter(ask, self._now(), names, partition=partition)
            look = look_at(door, names, again_soon=among is not None)
            if queued := door.queued():
                await ask(write_uses(queued))
            found: Rows = []
            if look.rooms:
                fronting = self._fronts.look(partition, look.rooms, anew=True)
                values: Values = {"partition": partition, **front_values(fronting)}
                found = await ask(Step(SQL["admit_held"], values))
                fronting.learn(places_of(found))
            return look.tended(found, full=among is None and len(names) >= limit)

        return await self._connections.converse(talk)

    async def relax(self) -> bool:
        rules = await read_rules(self._connections)
        named = [limit for limit in rules.limits.values() if limit.countless]
        return bool(named) and await count_no_more(self._connections, named)

    async def known(self) -> list[Limit]:
        found = await self._connections.read(SQL["list_limits"], {})
        return [limit_of(row) for row in found]

    async def all(self, *, most: int) -> list[Standing]:
        return await self._standings(None, most)

    async def get(self, gate: str, *, most: int) -> Standing | None:
        return next(iter(await self._standings(gate, most)), None)

    async def _standings(self, gate: str | None, most: int) -> list[Standing]:
        read = self._connections.read
        overview = Overview(Rules(0, await self.known()), gate)
        if not overview.limits:
            return []
        overview.count(await read(SQL["count_running"], {}))
        if overview.gate is None:
            found = await read(SQL["find_waited"], {"limit": _MOST_KEYS})
        else:
            found = [(partition, overview.gate) for partition in range(self._partitions)]
        waiting = await self._count_waiting(overview.waited(found), most)
        uses = await self._uses(overview.gates)
        return overview.standings(uses, waiting, most)

    async def gates(
        self, names: Sequence[str], *, most: int, holders: int
    ) -> dict[str, GateStanding]:
        gates = GatesOverview(Rules(0, await self.known()), names)
        if not gates.names:
            return {}
        told, scopes, words, namespaces = zip(*gates.asked, strict=True)
        asked: Values = {
            "names": texts(told),
            "scopes": texts(scopes),
            "words": texts(words),
            "namespaces": texts(namespaces),
            "limit": holders,
        }
        held = await self._connections.read(SQL["list_holders"], asked)
        waiting = await self._count_waiting(gates.waited(self._partitions), most)
        return gates.standings(held, await self._uses(gates.names), waiting, most)

    async def _uses(self, names: Sequence[str]) -> Rows:
        asked: Values = {"names": texts(names), "now": self._now()}
        return await self._connections.read(SQL["read_uses"], asked)

    async def _count_waiting(self, waited: Sequence[tuple[int, int, str]], most: int) -> Rows:
        values: Values = {
            "numbers": numbers(number for number, _, _ in waited),
            "partitions": numbers(partition for _, partition, _ in waited),
            "names": texts(name for _, _, name in waited),
            "limit": most,
        }
        return await self._connections.read(SQL["count_waiting"], values)

    async def prune(self, *, limit: int) -> int:
        pruned, count = 0, limit
        while count >= limit:
            values: Values = {"limit": limit, "now": self._now()}
            [gone] = await self._connections.transact([Step(SQL["prune_uses"], values)])
            count = len(gone)
            pruned += count
        return pruned

    def _now(self) -> datetime | None:
        return self._clock.now_for_store()
