"""Events in SQLite: bind, execute, map. What happens is written in store/delivering.py and sql/events.sql."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from sqlite3 import Connection
from typing import Any, Final, TypeVar

from foliot.clock import Clock
from foliot.model.event import Listener
from foliot.store.delivering import deliver, listener_rows, listeners_of
from foliot.store.events import Delivered
from foliot.store.guest import at_once
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Rows, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.times import store_now
from foliot.store.sqlite.workflows import SqliteTalk

T = TypeVar("T")
SQL: Final = load_parts("events.sql")


class SqliteEvents:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def deliver(self, partition: int, *, limit: int) -> Delivered:
        return await self._converse(partition, lambda talk: deliver(talk, limit=limit))

    async def listeners(self) -> list[Listener]:
        def read(connection: Connection) -> Rows:
            return execute(connection, SQL["list_listeners"], {"now": store_now(self._clock)})

        return listeners_of(await self._connections.read(read))

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
            now = store_now(self._clock)
            execute(connection, SQL["put_listeners"], {"rows": rows, "now": now})
            execute(connection, SQL["remove_listeners"], {"rows": rows, "hooks": hooks})
            write_record(connection, record, list(gone), now=now)

        await self._connections.transact(run)

    async def _converse(
        self, partition: int, act: Callable[[SqliteTalk], Coroutine[Any, Any, T]]
    ) -> T:
        def run(connection: Connection) -> T:
            return at_once(act(SqliteTalk(connection, partition, store_now(self._clock))))

        return await self._connections.transact(run)
