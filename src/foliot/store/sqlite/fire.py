"""Firing in SQLite: what the statements promise is written in sql/fire.sql and sql/runs.sql."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from sqlite3 import Connection
from typing import Final, cast

import msgspec

from foliot.clock import Clock
from foliot.model.job import JobState
from foliot.model.schedule import Reason
from foliot.store import rows
from foliot.store.events import missed_of
from foliot.store.scheduling import (
    MOST_LATE,
    MOST_SHARING,
    CatchUp,
    Due,
    Fired,
    Group,
    Jump,
    LateTrigger,
    Move,
    OpenGap,
)
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, to_json, to_names
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.ends import cancel_jobs
from foliot.store.sqlite.times import store_now

SQL: Final = load_parts("fire.sql", "runs.sql")
_REFUSED: Final = ("id", "nominal", "trigger", "reason")


class Firing:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def due(self, partition: int, *, limit: int, chunk: int) -> list[Due]:
        values = self._values(partition, limit=limit, chunk=chunk)
        found = await self._read("find_due_triggers", values)
        return [rows.due(row, to_names) for row in found]

    async def fire(self, partition: int, moves: Sequence[Move], *, tzdata: str) -> Fired:
        wanted = {move.trigger: move for move in moves}

        def run(connection: Connection) -> Fired:
            values = self._values(partition, tzdata=tzdata)
            mine = [
                move
                for trigger, nominal, cursor in _positions(connection, wanted, values)
                if (move := wanted[trigger]).nominal == nominal and move.cursor == cursor
            ]
            fired = _fire(connection, mine, values)
            _move(connection, mine, values)
            return fired

        return await self._connections.transact(run)

    async def jump(self, partition: int, jumps: Sequence[Jump], *, tzdata: str) -> int:
        wanted = {jump.trigger: jump for jump in jumps}

        def run(connection: Connection) -> int:
            values = self._values(partition, tzdata=tzdata)
            mine = [
                jump
                for trigger, nominal, cursor in _positions(connection, wanted, values)
                if (jump := wanted[trigger]).nominal == nominal and cursor is None
            ]
            for jump in mine:
                told: Values = {
                    **values,
                    "trigger": jump.trigger,
                    "start": jump.nominal,
                    "to": jump.to,
                    "count": jump.count,
                    "reason": jump.reason,
                    "next": jump.next,
                }
                execute(connection, SQL["add_gaps"], told)
                execute(connection, SQL["jump_triggers"], told)
                if jump.over:
                    _name(connection, "end_triggers", [jump.trigger], values)
            return len(mine)

        return await self._connections.transact(run)

    async def fire_delayed(self, partition: int, trigger: int) -> Fired:
        def run(connection: Connection) -> Fired:
            values = self._values(partition, trigger=trigger)
            if not _positions(connection, [trigger], values):
                return Fired()
            found = execute(connection, SQL["get_delayed"], values)
            if not found:
                _name(connection, "forget_triggers", [trigger], values)
                return Fired(moved=1)
            [(id, delay, active_from)] = found
            [(live, ended, now)] = execute(connection, SQL["find_last_end"], {**values, "id": id})
            due = ceil(max(active_from, -1 if ended is None else ended + delay))
            fired = Fired()
            if live:
                due = ceil(now + delay)  # it ends after now, so the next run is not due before that
            elif due <= now:
                move = Move(trigger, stateful=True, nominal=due, cursor=None, upper=None, next=None)
                fired = _fire(connection, [move], values)
                due = ceil(now + delay)
            execute(connection, SQL["delay_trigger"], {**values, "next": due})
            return msgspec.structs.replace(fired, moved=1)

        return await self._connections.transact(run)

    async def gaps(self, partition: int, *, limit: int, chunk: int) -> list[OpenGap]:
        values = self._values(partition, limit=limit, chunk=chunk)
        found = await self._read("find_gaps", values)
        return [rows.open_gap(row, to_names) for row in found]

    async def catch_up(self, partition: int, steps: Sequence[CatchUp]) -> Fired:
        def run(connection: Connection) -> Fired:
            triggers = to_json([step.gap.trigger for step in steps])
            values = self._values(partition, triggers=triggers)
            found = {tuple(row) for row in execute(connection, SQL["lock_gaps"], values)}
            mine = [step for step in steps if step.gap.position in found]
            if told := missed_of(mine):
                gaps: Values = {"gaps": to_json(told), "policy": mine[0].policy}
                execute(connection, SQL["tell_missed"], {**values, **gaps})
            moves = [step.move for step in mine if step.nominal is not None]
            fired = Fired()
            if moves:
                policy, place = mine[0].policy, mine[0].place
                fired = _fire(connection, moves, values, policy=policy, place=place)
                chunk = to_json([(m.trigger, m.nominal, m.cursor, m.upper) for m in moves])
                execute(connection, SQL["withdraw_runs"], {**values, "moves": chunk})
            for step in mine:
                place_of = {"trigger": step.gap.trigger, "start": step.gap.start}
                then = {"then": step.then, "after": step.after}
                execute(connection, SQL["move_gaps"], {**values, **place_of, **then})
                if step.ends:
                    _name(connection, "end_triggers", [step.gap.trigger], values)
            return msgspec.structs.replace(fired, moved=len(mine))

        return await self._connections.transact(run)

    async def overdue(self, *, seconds: float) -> list[LateTrigger]:
        values: Values = {
            "partitions": to_json(list(range(self._partitions))),
            "seconds": seconds,
            "limit": MOST_LATE,
            "cap": MOST_SHARING,
            "now": store_now(self._clock),
        }
        found = await self._read("find_overdue_triggers", values)
        return [LateTrigger(*row) for row in found]

    async def first_of(self, partition: int, trigger: int) -> str | None:
        values: Values = {"partition": partition, "trigger": trigger}
        found = await self._read("get_first_schedule", values)
        return str(found[0][0]) if found else None

    async def forecast(self, *, limit: int) -> tuple[list[Group], int]:
        groups = await self._read("forecast_triggers", {"limit": limit})
        [(triggers, _)] = await self._read("count_triggers", {})
        return [Group(*row) for row in groups], triggers

    async def prune(self, partition: int, *, keep: float, limit: int) -> int:
        pruned = 0
        for name in ("prune_ledger", "prune_gaps", "prune_versions"):
            while count := await self._prune(name, self._values(partition, keep=keep, limit=limit)):
                pruned += count
        return pruned

    async def _prune(self, name: str, values: Values) -> int:
        find, delete = SQL[name]

        def look(connection: Connection) -> int | None:
            return None if connection.execute(find, values).fetchone() else 0

        def run(connection: Connection) -> int:
            return connection.execute(delete, values).rowcount

        return await self._connections.transact(run, look=look)

    async def _read(self, name: str, values: Values) -> Rows:
        return await self._connections.read(lambda c: execute(c, SQL[name], values))

    def _values(self, partition: int, **values: object) -> Values:
        return {"partition": partition, "now": store_now(self._clock), **values}


def cancel(connection: Connection, others: Sequence[str], values: Values, fired: Fired) -> Fired:
    """Earlier runs, in the transaction of the one that takes their place."""
    if not others:
        return fired
    partition, now = cast(int, values["partition"]), cast(int, values["now"])
    return Fired(fired.lanes, fired.moved, *cancel_jobs(connection, partition, others, now))


def _positions(connection: Connection, triggers: Iterable[int], values: Values) -> Rows:
    return _name(connection, "lock_triggers", triggers, values)


def _name(connection: Connection, statement: str, triggers: Iterable[int], values: Values) -> Rows:
    return execute(connection, SQL[statement], {**values, "triggers": to_json(list(triggers))})


def _fire(
    connection: Connection,
    moves: Sequence[Move],
    values: Values,
    *,
    policy: str | None = None,
    place: int = 0,
) -> Fired:
    placed: Counter[tuple[int, str]] = Counter()
    others: list[str] = []
    for stateful in (False, True):
        some = [(m.trigger, m.nominal, m.cursor, m.upper) for m in moves if m.stateful is stateful]
        if not some:
            continue
        asked: Values = {
            **values,
            "policy": policy,
            "place": float(place),
            "moves": to_json(some),
        }
        if stateful:
            others += _fire_stateful(connection, asked, placed)
        else:
            placed.update(execute(connection, SQL["fire_schedules"], asked))
    lanes = [(lane, JobState(state), count) for (lane, state), count in placed.items()]
    return cancel(connection, others, values, Fired(lanes, len(moves)))


def _fire_stateful(
    connection: Connection, asked: Values, placed: Counter[tuple[int, str]]
) -> list[str]:
    """Returns the runs that are to be asked to end."""
    judge, find_others, insert, count, pause, end, *write = SQL["fire_stateful"]
    judged = execute(connection, [judge], asked)
    runs = [row for row in judged if row[3] is None]
    replacing = to_json([row[0] for row in runs if row[4]])
    others = execute(connection, [find_others], {**asked, "others": replacing})
    asked = {**asked, "runs": to_json([row[:2] for row in runs])}
    fired = execute(connection, [insert], asked)
    placed.update((row[0], row[1]) for row in fired)
    made = {row[2] for row in fired}
    if counted := [row[0] for row in runs if row[5] and row[0] in made]:
        execute(connection, [count], {**asked, "counted": to_json(counted)})
    refused = [row[:4] for row in judged if row[3] is not None]
    if failing := [row[0] for row in refused if row[3] == Reason.PAUSED]:
        execute(connection, [pause], {**asked, "failing": to_json(failing)})
    if over := [row[0] for row in refused if row[3] == Reason.ENDED]:
        execute(connection, [end], {**asked, "over": to_json(over)})
    # It may follow and became no job: a live one has its unique key.
    refused += [(*row[:3], Reason.KEY.value) for row in runs if row[6] and row[0] not in made]
    for row in refused:
        execute(connection, write, {**asked, **dict(zip(_REFUSED, row, strict=True))})
    # What became no job takes nobody's place.
    return [row[0] for row in others if row[1] in made]


def _move(connection: Connection, moves: Sequence[Move], values: Values) -> None:
    ended = [move.trigger for move in moves if move.next is None and move.upper is None]
    on = [move for move in moves if move.next is not None or move.upper is not None]
    for move in on:
        told: Values = {
            **values,
            "trigger": move.trigger,
            "upper": move.upper,
            "next": move.next,
            "count": move.count,
        }
        execute(connection, SQL["move_triggers"], told)
    if ended:
        _name(connection, "end_triggers", ended, values)
    if empty := [move.trigger for move in on if not move.count and move.cursor is None]:
        _name(connection, "forget_triggers", empty, values)
