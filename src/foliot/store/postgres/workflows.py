"""Workflows in PostgreSQL: bind, execute, map. What is said is written once, in store/conversing.py."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.job import NewJob
from foliot.store import rows, steering
from foliot.store.conversing import Conversing
from foliot.store.flowing import Talk, to_json
from foliot.store.postgres.arrays import words
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Step, Transacting, Values
from foliot.store.postgres.keys import wait_steps
from foliot.store.postgres.submit import insert_steps
from foliot.store.reply import Reply, Rows
from foliot.store.searching import Record
from foliot.store.sql import load_statements

T = TypeVar("T")
SQL: Final = load_statements(
    "foliot.store.postgres", "workflows.sql", "steps.sql", "steering.sql", "events.sql"
)
CANCEL: Final = load_statements("foliot.store.postgres", "cancel.sql")["cancel_jobs"]
_KEY_WAIT: Final = 0.1  # seconds


class PostgresTalk:
    """A conversation about workflows and events, in a transaction that has begun."""

    def __init__(self, ask: Ask, partition: int, now: datetime | None) -> None:
        self._ask = ask
        self._partition = partition
        self._now = now

    async def ask(self, name: str, /, **values: object) -> Rows:
        return await self._ask(self._step(name, values))

    def say(self, name: str, /, **values: object) -> Reply:
        return self._ask.say(self._step(name, values))

    async def hear(self) -> None:
        await self._ask.hear()

    def _step(self, name: str, values: Values) -> Step:
        return Step(SQL[name], {**values, "partition": self._partition, "now": self._now})

    def expect(self, steps: int) -> None:
        self._ask.expect(steps)

    async def insert(self, jobs: Sequence[NewJob]) -> None:
        inserts = insert_steps(self._partition, jobs, self._now)
        if any(job.key is not None for job in jobs):
            # A transaction of others may hold one: whoever waits for this workflow is not to wait for that.
            inserts = [*wait_steps(_KEY_WAIT), *inserts, *wait_steps(0)]
        for step in inserts:
            await self._ask(step)

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None:
        values: Values = {
            "partition": self._partition,
            "now": self._now,
            "ids": words(ids),
            "flows": words(flows),
        }
        await self._ask(Step(CANCEL, values))


class PostgresWorkflows(Conversing):
    def __init__(self, connections: Transacting, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._read_time = rows.as_is
        self._write_time = rows.as_is

    async def prune(self, *, keep: float, limit: int) -> int:
        pruned = 0
        for partition in range(self._partitions):
            while gone := await self._prune(partition, keep=keep, limit=limit):
                pruned += gone
        return pruned

    async def _prune(self, partition: int, *, keep: float, limit: int) -> int:
        values: Values = {"partition": partition, "keep": keep, "limit": limit, "now": self._now()}

        async def talk(ask: Ask) -> int:
            old = [row[0] for row in await ask(Step(SQL["lock_old_workflows"], values))]
            prune = Step(SQL["prune_workflows"], {**values, "ids": to_json(old)})
            return len(await ask(prune)) if old else 0

        return await self._connections.converse(talk)

    def _now(self) -> datetime | None:
        return self._clock.now_for_store()

    async def _read(self, statement: str, partition: int, /, **values: object) -> Rows:
        return await self._connections.read(
            SQL[statement], {**values, "partition": partition, "now": self._now()}
        )

    async def _converse(
        self,
        partition: int,
        act: Callable[[Talk], Coroutine[Any, Any, T]],
        record: Record | None = None,
        id: JobId | None = None,
    ) -> T:
        async def talk(ask: Ask) -> T:
            told = await act(PostgresTalk(ask, partition, self._now()))
            if record is not None and id is not None and steering.has_changed(told):
                for step in audit_steps(record([id]), self._clock):
                    await ask(step)
            return told

        return await self._connections.converse(talk)
