"""Events in PostgreSQL: bind, execute, map. What happens is written in store/delivering.py and sql/events.sql."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.audit import Deed
from foliot.model.event import Listener
from foliot.store.delivering import deliver
from foliot.store.events import Delivered, Listened
from foliot.store.hearing import listen, listeners_of, settle
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Connections, Values
from foliot.store.postgres.workflows import PostgresTalk
from foliot.store.searching import Record
from foliot.store.sql import load_statements

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.postgres", "events.sql")


class PostgresEvents:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def deliver(self, partition: int, *, limit: int) -> Delivered:
        return await self._converse(partition, lambda talk: deliver(talk, limit=limit))

    async def listeners(self) -> list[Listener]:
        return listeners_of(
            await self._connections.read(
                SQL["list_listeners"], {"now": self._clock.now_for_store()}
            )
        )

    async def listen(
        self,
        listeners: Sequence[Listener],
        *,
        modules: Collection[str] = (),
        gone: Sequence[str] = (),
        record: Record | None = None,
    ) -> Listened:
        deeds = [] if record is None else record(list(gone))
        return await self._converse(
            0, lambda talk: listen(talk, listeners, modules=modules, gone=gone), deeds
        )

    async def settle(self, *, grace: float) -> list[str]:
        values: Values = {"grace": grace, "now": self._clock.now_for_store()}
        found = await self._connections.read(SQL["find_unsettled"], values)
        hooks = [row[0] for row in found]
        if not hooks:
            return []
        return await self._converse(0, lambda talk: settle(talk, hooks, grace=grace))

    async def unheard(self, partition: int, *, limit: int) -> list[JobId]:
        values: Values = {"partition": partition, "limit": limit}
        found = await self._connections.read(SQL["list_unheard"], values)
        return [JobId(row[0]) for row in found]

    async def _converse(
        self,
        partition: int,
        act: Callable[[PostgresTalk], Awaitable[T]],
        deeds: Sequence[Deed] = (),
    ) -> T:
        async def talk(ask: Ask) -> T:
            told = await act(PostgresTalk(ask, partition, self._clock.now_for_store()))
            for step in audit_steps(deeds, self._clock):
                await ask(step)
            return told

        return await self._connections.converse(talk)
