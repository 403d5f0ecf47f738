"""Events in PostgreSQL: bind, execute, map. What happens is written in store/delivering.py and sql/events.sql."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from foliot.clock import Clock
from foliot.model.event import Listener
from foliot.store.delivering import deliver, listener_rows, listeners_of
from foliot.store.events import Delivered
from foliot.store.flowing import to_json
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Connections, Step, Values
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
        gone: Sequence[str] = (),
        record: Record | None = None,
    ) -> None:
        values: Values = {
            "hooks": to_json(sorted({*gone, *(one.hook for one in listeners)})),
            "rows": to_json(listener_rows(listeners)),
            "now": self._clock.now_for_store(),
        }
        steps = [Step(SQL[name], values) for name in ("put_listeners", "remove_listeners")]
        if record is not None:
            steps += audit_steps(record(list(gone)), self._clock)
        await self._connections.transact(steps)

    async def _converse(self, partition: int, act: Callable[[PostgresTalk], Awaitable[T]]) -> T:
        async def talk(ask: Ask) -> T:
            return await act(PostgresTalk(ask, partition, self._clock.now_for_store()))

        return await self._connections.converse(talk)
