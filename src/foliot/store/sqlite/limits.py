"""Limits in SQLite: what is claimed under them, what is set, and those who wait. Who writes is alone in the door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.door import Door
from foliot.model.job import Outcome
from foliot.model.limit import Limit, Rules, Traits, Use
from foliot.store.admission import Admitted, admissions
from foliot.store.fronts import Fronting, Fronts, places_of
from foliot.store.limiting import (
    GatesOverview,
    GateStanding,
    Overview,
    Standing,
    Tended,
    candidate,
    fixed_names,
    look_at,
    slots_of,
    untaken,
    uses_of,
    values_of,
)
from foliot.store.port import Share
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, to_json
from foliot.store.sqlite.claim import Claim, Taken
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts("gates.sql", "limits.sql")
_MOST_KEYS: Final = 10_000


class KnownRules:
    """The limits there are, read anew when they have changed."""

    def __init__(self) -> None:
        self._rules = Rules()

    def read(self, connection: Connection) -> Rules:
        [(version,)] = execute(connection, SQL["read_version"], {})
        if version != self._rules.version:
            self._rules = read_rules(connection)
        return self._rules


def read_rules(connection: Connection) -> Rules:
    [(version,)] = execute(connection, SQL["read_version"], {})
    return Rules(version, _list_limits(connection))


def _list_limits(connection: Connection) -> list[Limit]:
    return [limit_of(row) for row in execute(connection, SQL["list_limits"], {})]


def limit_of(row: Sequence[object]) -> Limit:
    told = dict(zip(Limit.__struct_fields__, row, strict=True))
    told["updated_at"] = from_microseconds(told["updated_at"])  # type: ignore[arg-type]  # it is a number
    told["counted"] = bool(told["counted"])
    return msgspec.convert(told, Limit)


class Gated(msgspec.Struct, frozen=True):
    """What came of a claim through the gates."""

    taken: list[Taken] = []
    gates: dict[JobId, tuple[str, ...]] = {}  # of those
    held: list[int] = []  # lanes of those that have to wait
    admitted: list[Admitted] = []  # those that others may run
    rated: bool = False  # some have to wait for a rate


class Gates:
    """Claims and ends of one trip, under limits."""

    def __init__(
        self, connection: Connection, partition: int, rules: Rules, fronts: Fronts, now: int
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._fronts = fronts
        self._partition = partition
        self._common: Values = {"partition": partition, "now": now}

    def leave(self, outcomes: Iterable[Outcome], refused: Sequence[JobId]) -> Counter[str]:
        """What has ended gives back its slots."""
        left = slots_of(outcomes, refused)
        if left:
            execute(self._connection, SQL["leave_limits"], {"left": to_json(list(left.items()))})
        return left

    def pass_through(self, claim: Claim | None, left: Counter[str], now: int) -> Gated:
        if claim is not None:
            self._count_those_near(claim.room, now)
        shares = () if claim is None else claim.shares
        if left or any(self._rules.concern(share.lane.queue) for share in shares):
            return self._decide(claim, left)
        return Gated() if claim is None else Gated(claim.apply(self._connection, now))

    def _count_those_near(self, room: int, now: int) -> None:
        """Limits that are not counted, and of which half could be used after this claim, are counted from now on."""
        if not (far := self._rules.open):
            return
        running = count_all_running(self._connection, far)
        near = [limit.name for limit in far if 2 * (running + room) > (limit.concurrency or 0)]
        if near:
            change_counted(self._connection, near, counted=True, now=now)
            recount(self._connection, now)
            self._rules = read_rules(self._connection)

    def _decide(self, claim: Claim | None, left: Counter[str]) -> Gated:
        look = self._fronts.look(self._partition, left)
        picked = self._pick(claim, look)
        names = to_json(fixed_names(self._rules))
        uses = execute(self._connection, SQL["read_uses"], {**self._common, "names": names})
        door = Door(self._rules, uses_of(picked, uses), uses[0][0], self._partition)
        shares: Sequence[Share] = () if claim is None else claim.shares
        quotas = {share.lane.number: share.quota for share in shares}
        kinds = next((share.kinds for share in shares if share.kinds is not None), None)
        known = None if kinds is None else frozenset(kinds)
        found = [candidate(row, quotas, known) for row in picked]
        passage = door.decide(found, 0 if claim is None else claim.room, quotas)
        places = {row[0]: (row[11], (row[1], row[9], row[10], row[0])) for row in picked}
        look.learn(
            [(line, place) for line, place in places.values() if line is not None],
            [(name, places[id][1]) for id, name in passage.wait],
        )
        taken: list[Taken] = []
        if claim is not None and passage.enter:
            ids = [id for id, _ in passage.enter]
            taken = claim.take(self._connection, SQL["take_jobs"], ids, self._common)
        waiting: Values = {**self._common, "waiting": to_json(passage.wait)}
        execute(self._connection, SQL["hold_gated"], waiting)
        on: Values = {**self._common, "ids": to_json(passage.pass_on)}
        admitted = admissions(execute(self._connection, SQL["admit_gated"], on))
        write_uses(self._connection, passage.uses)
        rated = self._rules.rated(name for _, name in passage.wait)
        return Gated(taken, dict(passage.enter), passage.lanes, admitted, rated)

    def _pick(self, claim: Claim | None, look: Fronting) -> Rows:
        *freed, ready = SQL["pick_jobs"]
        picked = look_along(self._connection, freed, look, self._common)
        turns: dict[int, int] = {}
        room = 0 if claim is None else claim.room
        for share in () if claim is None else claim.shares:
            quota = min(share.quota, room)
            turns[share.lane.number] = len(turns)
            if quota <= 0:
                break
            lane: Values = {
                **self._common,
                "lane": share.lane.number,
                "queue": share.lane.queue,
                "kinds": None if share.kinds is None else to_json(share.kinds),
                "look": quota + share.past,
            }
            found = execute(self._connection, [ready], lane)
            picked += found
            room -= min(quota, len(found))
        # In one order: who has waited for a limit does not go before another lane whose turn it is.
        picked.sort(key=lambda row: (turns.get(row[3], len(turns)), *row[:3]))
        return [(*row[2:11], row[0], row[1], row[11]) for row in picked]


def look_along(
    connection: Connection, parts: Sequence[str], look: Fronting, values: Values
) -> Rows:
    """Of those who wait at each gate: from where the look begins, and then those before, where it is a whole one."""
    after, before = parts
    found: Rows = []
    for name, number in look.numbers.items():
        lane, band, rank, id = look.starts[name]
        place = {"name": name, "lane": lane, "band": band, "rank": rank, "id": id}
        some = execute(connection, [after], {**values, **place, "number": number})
        if name in look.whole and len(some) < number:
            some += execute(connection, [before], {**values, **place, "number": number - len(some)})
        found += some
    return found


def write_uses(connection: Connection, uses: Sequence[Use]) -> None:
    if uses:
        told = [msgspec.structs.astuple(use) for use in uses]
        execute(connection, SQL["write_uses"], {"uses": to_json(told)})


def count_all_running(connection: Connection, limits: Sequence[Limit]) -> int:
    """Up to the largest of these."""
    most = max(limit.concurrency or 0 for limit in limits)
    [(running,)] = execute(connection, SQL["count_all_running"], {"most": most})
    return int(running)


def change_counted(
    connection: Connection, names: Sequence[str], *, counted: bool, now: int
) -> bool:
    asked: Values = {"names": to_json(names), "counted": counted}
    changed = bool(execute(connection, SQL["count_limits"], asked))
    if changed:
        execute(connection, SQL["raise_version"], {"now": now})
    return changed


def stand(
    connection: Connection,
    now: int,
    names: Sequence[str] = (),
    *,
    partition: int | None = None,
    anew: bool = False,
) -> Door:
    rules = read_rules(connection)
    taken = [Use(*row) for row in execute(connection, SQL["list_taken"], {})] if anew else []
    found = execute(connection, SQL["count_running"], {}) if anew else []
    running = {Traits(*row[:5]): row[5] for row in found}
    known = [*names, *fixed_names(rules), *untaken(rules, taken, running)]
    read = execute(connection, SQL["read_uses"], {"names": to_json(known), "now": now})
    door = Door(rules, [*taken, *uses_of((), read)], read[0][0], partition)
    if anew:
        door.recount(running)
    return door


def recount(
    connection: Connection, now: int, names: Sequence[str] = (), *, partition: int | None = None
) -> Door:
    door = stand(connection, now, names, partition=partition, anew=True)
    write_uses(connection, door.changed())
    return door


def _count_waiting(
    connection: Connection, waited: Sequence[tuple[int, int, str]], most: int
) -> Rows:
    return execute(connection, SQL["count_waiting"], {"waited": to_json(waited), "limit": most})


class SqliteLimits:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._fronts = Fronts(clock)

    async def set(self, limit: Limit, *, by: str | None, record: Record | None = None) -> bool:
        return await self._change("put_limit", values_of(limit, by), record)

    async def delete(self, name: str, *, record: Record | None = None) -> bool:
        return await self._change("delete_limit", {"name": name}, record)

    async def _change(self, name: str, values: Values, record: Record | None) -> bool:
        def run(connection: Connection) -> bool:
            now = store_now(self._clock)
            changed = execute(connection, SQL[name], {**values, "now": now})
            if changed:
                execute(connection, SQL["raise_version"], {"now": now})
                recount(connection, now)
                write_record(connection, record, [row[0] for row in changed], now=now)
            return bool(changed)

        return await self._connections.transact(run)

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
        asked: Values = {"partition": partition, "after": after, "limit": limit}
        find = SQL["find_gates"]
        if among is not None:
            asked, find = (
                {"partition": partition, "names": to_json(list(among))},
                SQL["find_gates_among"],
            )

        def look(connection: Connection) -> Tended | None:
            return None if execute(connection, find, asked) else Tended([], None, idle=True)

        def run(connection: Connection) -> Tended:
            names = [row[0] for row in execute(connection, find, asked)]
            if not names:
                return Tended([], None, idle=True)
            door = enter(connection, store_now(self._clock), names, partition=partition)
            seen = look_at(door, names, again_soon=among is not None)
            write_uses(connection, door.queued())
            fronting = self._fronts.look(partition, seen.rooms, anew=True)
            values: Values = {"partition": partition}
            found = look_along(connection, SQL["admit_held"], fronting, values)
            fronting.learn(places_of(found))
            return seen.tended(found, full=among is None and len(names) >= limit)

        return await self._connections.transact(run, look=look)

    async def known(self) -> list[Limit]:
        return await self._connections.read(_list_limits)

    async def all(self, *, most: int) -> list[Standing]:
        return await self._connections.read(lambda c: self._standings(c, None, most))

    async def get(self, gate: str, *, most: int) -> Standing | None:
        found = await self._connections.read(lambda c: self._standings(c, gate, most))
        return next(iter(found), None)

    def _standings(self, connection: Connection, gate: str | None, most: int) -> list[Standing]:
        overview = Overview(read_rules(connection), gate)
        if not overview.limits:
            return []
        overview.count(execute(connection, SQL["count_running"], {}))
        if overview.gate is None:
            found = execute(connection, SQL["find_waited"], {"limit": _MOST_KEYS})
        else:
            found = [(partition, overview.gate) for partition in range(self._partitions)]
        waiting = _count_waiting(connection, overview.waited(found), most)
        uses = self._uses(connection, overview.gates)
        return overview.standings(uses, waiting, most)

    async def gates(
        self, names: Sequence[str], *, most: int, holders: int
    ) -> dict[str, GateStanding]:
        def run(connection: Connection) -> dict[str, GateStanding]:
            gates = GatesOverview(read_rules(connection), names)
            if not gates.names:
                return {}
            asked: Values = {"gates": to_json(gates.asked), "limit": holders}
            held = execute(connection, SQL["list_holders"], asked)
            waiting = _count_waiting(connection, gates.waited(self._partitions), most)
            return gates.standings(held, self._uses(connection, gates.names), waiting, most)

        return await self._connections.read(run)

    def _uses(self, connection: Connection, names: Sequence[str]) -> Rows:
        asked: Values = {"names": to_json(names), "now": store_now(self._clock)}
        return execute(connection, SQL["read_uses"], asked)

    async def relax(self) -> bool:
        def far(connection: Connection) -> list[str]:
            counted = [one for one in _list_limits(connection) if one.countless and one.counted]
            if not counted:
                return []
            running = count_all_running(connection, counted)
            return [one.name for one in counted if 4 * running <= (one.concurrency or 0)]

        def look(connection: Connection) -> bool | None:
            return None if far(connection) else False

        def run(connection: Connection) -> bool:
            now = store_now(self._clock)
            return change_counted(connection, far(connection), counted=False, now=now)

        return await self._connections.transact(run, look=look)

    async def prune(self, *, limit: int) -> int:
        pruned, count = 0, limit
        values: Values = {"limit": limit, "now": store_now(self._clock)}
        while count >= limit:
            count = len(
                await self._connections.transact(lambda c: execute(c, SQL["prune_uses"], values))
            )
            pruned += count
        return pruned
