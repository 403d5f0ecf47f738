"""Events in SQLite: bind, execute, map. What happens is written in store/delivering.py and sql/events.sql."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from sqlite3 import Connection
from typing import Any, Final, TypeVar

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.event import Listener
from foliot.store.delivering import deliver
from foliot.store.events import Delivered, Listened
from foliot.store.guest import at_once
from foliot.store.hearing import listen, listeners_of, settle
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts
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
        modules: Collection[str] = (),
        gone: Sequence[str] = (),
        record: Record | None = None,
    ) -> Listened:
        def run(connection: Connection) -> Listened:
            now = store_now(self._clock)
            act = listen(SqliteTalk(connection, 0, now), listeners, modules=modules, gone=gone)
            told = at_once(act)
            write_record(connection, record, list(gone), now=now)
            return told

        return await self._connections.transact(run)

    async def settle(self, *, grace: float) -> list[str]:
        def find(connection: Connection) -> list[str]:
            values: Values = {"grace": grace, "now": store_now(self._clock)}
            return [row[0] for row in execute(connection, SQL["find_unsettled"], values)]

        hooks = await self._connections.read(find)
        if not hooks:
            return []
        return await self._converse(0, lambda talk: settle(talk, hooks, grace=grace))

    async def unheard(self, partition: int, *, limit: int) -> list[JobId]:
        values: Values = {"partition": partition, "limit": limit}
        found = await self._connections.read(lambda c: execute(c, SQL["list_unheard"], values))
        return [JobId(row[0]) for row in found]

    async def _converse(
        self, partition: int, act: Callable[[SqliteTalk], Coroutine[Any, Any, T]]
    ) -> T:
        def run(connection: Connection) -> T:
            return at_once(act(SqliteTalk(connection, partition, store_now(self._clock))))

        return await self._connections.transact(run)
