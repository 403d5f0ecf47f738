"""The dead-letter queue in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.store.postgres.arrays import words
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.searching import Record, Retried, retried_of
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "dead.sql")


class PostgresDead:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def retry(
        self,
        partition: int,
        ids: Sequence[JobId],
        *,
        record: Record,
        payload: bytes | None = None,
        extras: str | None = None,
    ) -> Retried:
        values: Values = {
            "partition": partition,
            "ids": words(ids),
            "payload": payload,
            "extras": extras,
            "now": self._clock.now_for_store(),
        }

        async def talk(ask: Ask) -> Retried:
            await ask(Step(SQL["lock_dead_jobs"], values))
            lanes = {
                JobId(id): lane for id, lane in await ask(Step(SQL["retry_dead_jobs"], values))
            }
            await ask(Step(SQL["remove_retried_jobs"], {**values, "ids": words(lanes)}))
            left = await ask(Step(SQL["find_key_holders"], values))
            for step in audit_steps(record(list(lanes)), self._clock):
                await ask(step)
            return retried_of(lanes, left)

        return await self._connections.converse(talk)

    async def purge(self, partition: int, ids: Sequence[JobId], *, record: Record) -> list[JobId]:
        values: Values = {"partition": partition, "ids": words(ids)}

        async def talk(ask: Ask) -> list[JobId]:
            await ask(Step(SQL["lock_dead_jobs"], values))
            gone = [JobId(row[0]) for row in await ask(Step(SQL["purge_dead_jobs"], values))]
            for step in audit_steps(record(gone), self._clock):
                await ask(step)
            return gone

        return await self._connections.converse(talk)
