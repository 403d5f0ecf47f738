"""Firing in PostgreSQL: what the statements promise is written in sql/fire.sql and sql/runs.sql."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.model.job import JobState
from foliot.store import rows
from foliot.store.events import Missed, missed_of
from foliot.store.postgres.arrays import numbers, optional_numbers, texts, words
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.postgres.ends import ask_to_end, converse_again
from foliot.store.reply import Rows
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
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "fire.sql", "runs.sql")


class Firing:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions

    async def due(self, partition: int, *, limit: int, chunk: int) -> list[Due]:
        found = await self._connections.read(
            SQL["find_due_triggers"], self._values(partition, limit=limit, chunk=chunk)
        )
        return [rows.due(row, tuple) for row in found]

    async def fire(self, partition: int, moves: Sequence[Move], *, tzdata: str) -> Fired:
        async def talk(ask: Ask) -> Fired:
            wanted = {move.trigger: move for move in moves}
            locked = await self._lock(ask, partition, wanted)
            mine = [
                move
                for trigger, nominal, cursor in locked
                if (move := wanted[trigger]).nominal == nominal and move.cursor == cursor
            ]
            fired = await self._fire(ask, partition, mine)
            await self._move(ask, partition, mine, tzdata)
            return fired

        return await converse_again(self._connections, talk)

    async def jump(self, partition: int, jumps: Sequence[Jump], *, tzdata: str) -> int:
        async def talk(ask: Ask) -> int:
            wanted = {jump.trigger: jump for jump in jumps}
            locked = await self._lock(ask, partition, wanted)
            mine = [
                jump
                for trigger, nominal, cursor in locked
                if (jump := wanted[trigger]).nominal == nominal and cursor is None
            ]
            values = self._values(
                partition,
                triggers=numbers(jump.trigger for jump in mine),
                nominals=numbers(jump.nominal for jump in mine),
                tos=numbers(jump.to for jump in mine),
                counts=numbers(jump.count for jump in mine),
                reasons=words(jump.reason for jump in mine),
                nexts=numbers(jump.next for jump in mine),
                tzdata=tzdata,
            )
            await ask(Step(SQL["add_gaps"], values))
            await ask(Step(SQL["jump_triggers"], values))
            if over := [jump.trigger for jump in mine if jump.over]:
                ended = self._values(partition, triggers=numbers(over))
                await ask(Step(SQL["end_triggers"], ended))
            return len(mine)

        return await self._connections.converse(talk)

    async def fire_delayed(self, partition: int, trigger: int) -> Fired:
        async def talk(ask: Ask) -> Fired:
            if not await self._lock(ask, partition, [trigger]):
                return Fired()
            values = self._values(partition, trigger=trigger)
            found = await ask(Step(SQL["get_delayed"], values))
            if not found:
                await ask(Step(SQL["forget_triggers"], {**values, "triggers": numbers([trigger])}))
                return Fired(moved=1)
            [(id, delay, active_from)] = found
            [(live, ended, now)] = await ask(Step(SQL["find_last_end"], {**values, "id": id}))
            due = ceil(max(active_from, -1 if ended is None else ended + delay))
            fired = Fired()
            if live:
                due = ceil(now + delay)  # it ends after now, so the next run is not due before that
            elif due <= now:
                move = Move(trigger, stateful=True, nominal=due, cursor=None, upper=None, next=None)
                fired = await self._fire(ask, partition, [move])
                due = ceil(now + delay)
            await ask(Step(SQL["delay_trigger"], {**values, "next": due}))
            return msgspec.structs.replace(fired, moved=1)

        return await converse_again(self._connections, talk)

    async def gaps(self, partition: int, *, limit: int, chunk: int) -> list[OpenGap]:
        values = self._values(partition, limit=limit, chunk=chunk)
        found = await self._connections.read(SQL["find_gaps"], values)
        return [rows.open_gap(row, tuple) for row in found]

    async def catch_up(self, partition: int, steps: Sequence[CatchUp]) -> Fired:
        async def talk(ask: Ask) -> Fired:
            triggers = numbers(step.gap.trigger for step in steps)
            values = self._values(partition, triggers=triggers)
            locked = {tuple(row) for row in await ask(Step(SQL["lock_gaps"], values))}
            mine = [step for step in steps if step.gap.position in locked]
            # Who pauses or changes a schedule locks its trigger; so does who fires.
            await ask(Step(SQL["lock_triggers"], values))
            if told := missed_of(mine):
                missed = self._values(partition, policy=mine[0].policy, **_missed(told))
                await ask(Step(SQL["tell_missed"], missed))
            moves = [step.move for step in mine if step.nominal is not None]
            fired = Fired()
            if moves:
                policy, place = mine[0].policy, mine[0].place
                fired = await self._fire(ask, partition, moves, policy=policy, place=place)
                withdrawn = self._values(partition, **_chunks(moves))
                await ask(Step(SQL["withdraw_runs"], withdrawn))
            await self._move_gaps(ask, partition, mine)
            return msgspec.structs.replace(fired, moved=len(mine))

        return await converse_again(self._connections, talk)

    async def _move_gaps(self, ask: Ask, partition: int, steps: Sequence[CatchUp]) -> None:
        if not steps:
            return
        values = self._values(
            partition,
            triggers=numbers(step.gap.trigger for step in steps),
            starts=numbers(step.gap.start for step in steps),
            thens=optional_numbers(step.then for step in steps),
            afters=texts(step.after for step in steps),
        )
        await ask(Step(SQL["move_gaps"], values))
        if ended := [step.gap.trigger for step in steps if step.ends]:
            values = self._values(partition, triggers=numbers(ended))
            await ask(Step(SQL["end_triggers"], values))

    async def overdue(self, *, seconds: float) -> list[LateTrigger]:
        values: Values = {
            "partitions": numbers(range(self._partitions)),
            "seconds": seconds,
            "limit": MOST_LATE,
            "cap": MOST_SHARING,
            "now": self._clock.now_for_store(),
        }
        found = await self._connections.read(SQL["find_overdue_triggers"], values)
        return [LateTrigger(*row) for row in found]

    async def first_of(self, partition: int, trigger: int) -> str | None:
        values: Values = {"partition": partition, "trigger": trigger}
        found = await self._connections.read(SQL["get_first_schedule"], values)
        return str(found[0][0]) if found else None

    async def forecast(self, *, limit: int) -> tuple[list[Group], int]:
        groups = await self._connections.read(SQL["forecast_triggers"], {"limit": limit})
        [(triggers, _)] = await self._connections.read(SQL["count_triggers"], {})
        return [Group(*row) for row in groups], triggers

    async def prune(self, partition: int, *, keep: float, limit: int) -> int:
        pruned = 0
        for name in ("prune_ledger", "prune_gaps", "prune_versions"):
            count = limit
            while count >= limit:
                values = self._values(partition, keep=keep, limit=limit)
                [gone] = await self._connections.transact([Step(SQL[name], values)])
                count = len(gone)
                pruned += count
        return pruned

    async def _lock(
        self, ask: Ask, partition: int, triggers: Sequence[int] | dict[int, Move] | dict[int, Jump]
    ) -> Rows:
        return await ask(
            Step(SQL["lock_triggers"], self._values(partition, triggers=numbers(triggers)))
        )

    async def _fire(
        self,
        ask: Ask,
        partition: int,
        moves: Sequence[Move],
        *,
        policy: str | None = None,
        place: int = 0,
    ) -> Fired:
        lanes: list[tuple[int, JobState, int]] = []
        others: list[str] = []
        for stateful, statement in ((False, "fire_schedules"), (True, "fire_stateful")):
            some = [move for move in moves if move.stateful is stateful]
            if not some:
                continue
            values = self._values(partition, policy=policy, place=place, **_chunks(some))
            for row in await ask(Step(SQL[statement], values)):
                if row[0] is None:
                    others.append(row[3])
                else:
                    lanes.append((row[0], JobState(row[1]), row[2]))
        return await self._cancel(ask, partition, others, Fired(lanes, len(moves)))

    async def _cancel(self, ask: Ask, partition: int, others: Sequence[str], fired: Fired) -> Fired:
        """Earlier runs, in the transaction of the one that takes their place."""
        if not others:
            return fired
        asked = await ask_to_end(ask, partition, self._clock.now_for_store(), others)
        return Fired(fired.lanes, fired.moved, asked.found, asked.ended, asked.advance)

    async def _move(self, ask: Ask, partition: int, moves: Sequence[Move], tzdata: str) -> None:
        ended = [move.trigger for move in moves if move.next is None and move.upper is None]
        on = [move for move in moves if move.next is not None or move.upper is not None]
        if on:
            values = self._values(
                partition,
                triggers=numbers(move.trigger for move in on),
                uppers=texts(move.upper for move in on),
                nexts=optional_numbers(move.next for move in on),
                counts=numbers(move.count for move in on),
                tzdata=tzdata,
            )
            await ask(Step(SQL["move_triggers"], values))
        if ended:
            values = self._values(partition, triggers=numbers(ended))
            await ask(Step(SQL["end_triggers"], values))
        empty = [move.trigger for move in on if not move.count and move.cursor is None]
        if empty:
            values = self._values(partition, triggers=numbers(empty))
            await ask(Step(SQL["forget_triggers"], values))

    def _values(self, partition: int, **values: object) -> Values:
        return {"partition": partition, "now": self._clock.now_for_store(), **values}


def _missed(told: Sequence[Missed]) -> dict[str, object]:
    triggers, starts, tos, firsts, lasts, cursors, uppers = zip(*told, strict=True)
    return {
        "triggers": numbers(triggers),
        "starts": numbers(starts),
        "tos": numbers(tos),
        "firsts": words(firsts),
        "lasts": words(lasts),
        "cursors": texts(cursors),
        "uppers": texts(uppers),
    }


def _chunks(moves: Sequence[Move]) -> dict[str, object]:
    return {
        "triggers": numbers(move.trigger for move in moves),
        "nominals": numbers(move.nominal for move in moves),
        "cursors": texts(move.cursor for move in moves),
        "uppers": texts(move.upper for move in moves),
    }
