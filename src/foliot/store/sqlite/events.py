"""Events in SQLite: bind, execute, map. What happens is written in store/delivering.py and sql/events.sql."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from sqlite3 import Connection
from typing import Any, Final, TypeVar

from foliot.clock import Clock
from foliot.model.event import Listener, NewEvent
from foliot.store.delivering import deliver, listener_rows, listeners_of
from foliot.store.events import Delivered, event_rows
from foliot.store.guest import at_once
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import store_now
from foliot.store.sqlite.workflows import SqliteTalk

T = TypeVar("T")
SQL: Final = load_parts("events.sql")


class SqliteEvents:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def emit(self, partition: int, events: Sequence[NewEvent]) -> None:
        await self._converse(
            partition, lambda talk: talk.ask("emit_events", rows=event_rows(events))
        )

    async def deliver(self, partition: int, *, limit: int) -> Delivered:
        return await self._converse(partition, lambda talk: deliver(talk, limit=limit))

    async def listeners(self) -> list[Listener]:
        found = await self._connections.read(lambda c: execute(c, SQL["list_listeners"], {}))
        return listeners_of(found)

    async def listen(
        self,
        listeners: Sequence[Listener],
        *,
        gone: Sequence[str] = (),
        record: Record | None = None,
    ) -> None:
        hooks = to_json(sorted({*gone, *(one.hook for one in listeners)}))
        rows = to_json(listener_rows(listeners))

        def run(connection: Connection) -> None:
            execute(connection, SQL["remove_listeners"], {"hooks": hooks})
            execute(connection, SQL["put_listeners"], {"rows": rows})
            write_record(connection, record, list(gone), now=store_now(self._clock))

        await self._connections.transact(run)

    async def _converse(
        self, partition: int, act: Callable[[SqliteTalk], Coroutine[Any, Any, T]]
    ) -> T:
        def run(connection: Connection) -> T:
            return at_once(act(SqliteTalk(connection, partition, store_now(self._clock))))

        return await self._connections.transact(run)
