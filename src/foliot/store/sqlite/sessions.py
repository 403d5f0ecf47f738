"""Sessions and partition leases in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from math import ceil
from sqlite3 import Connection
from typing import Final

import msgspec
from msgspec.structs import asdict

from foliot.clock import Clock
from foliot.errors import SchemaChanged, StoreUnavailable
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.session import Claim, NewSession, Session
from foliot.store import rows
from foliot.store.leasing import Choice, choose_leases
from foliot.store.living import IDLE, Extended, Load
from foliot.store.searching import Record
from foliot.store.sqlite.audit import write_record
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, to_json
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.file import begin, explain, impatient, roll_back
from foliot.store.sqlite.times import from_microseconds, store_now

SQL: Final = load_parts("sessions.sql")
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteSessions:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._all = to_json(list(range(partitions)))

    async def open(self, session: NewSession, *, lease: float) -> None:
        values: Values = {
            "id": session.id,
            "host": session.host,
            "pid": session.pid,
            "version": session.version,
            "queues": to_json(session.queues),
            "kinds": to_json(session.kinds),
            "modules": to_json(session.modules),
            "duties": session.duties,
            "capabilities": to_json(session.capabilities),
            "concurrency": session.concurrency,
            "lease": lease,
            "count": self._partitions,
        }
        opened = await self._connections.transact(
            lambda c: execute(c, SQL["open_session"], {**values, "now": self._now()})
        )
        if not opened:
            raise SchemaChanged(self._partitions)

    def heart(self, session: SessionId, *, lease: float) -> SqliteHeart:
        return SqliteHeart(self._connections, self._clock, session, lease)

    async def know(self, session: SessionId, kinds: Sequence[str], modules: Sequence[str]) -> None:
        values: Values = {"id": session, "kinds": to_json(kinds), "modules": to_json(modules)}
        await self._connections.transact(lambda c: execute(c, SQL["know_kinds"], values))

    async def close(self, session: SessionId) -> None:
        values: Values = {"id": session, "partitions": self._all}
        await self._connections.transact(lambda c: execute(c, SQL["close_session"], values))

    async def all(self) -> list[Session]:
        return await self._connections.read(lambda c: list_sessions(c, self._clock))

    async def claim(self, id: JobId) -> Claim | None:
        values: Values = {
            "id": id,
            "partition": partition_of(id, self._partitions),
            "partitions": self._all,
        }
        found = await self._connections.read(lambda c: execute(c, SQL["get_claim"], values))
        return Claim(bool(found[0][0]), bool(found[0][1]), *found[0][2:]) if found else None

    async def drain(
        self, ids: Sequence[SessionId], *, record: Record | None = None
    ) -> list[SessionId]:
        named = to_json(list(ids))

        def run(connection: Connection) -> list[SessionId]:
            now = self._now()
            found = execute(connection, SQL["drain_sessions"], {"ids": named, "now": now})
            drained = [SessionId(row[0]) for row in found]
            write_record(connection, record, drained, now=now)
            return drained

        return await self._connections.transact(run)

    async def prune(self) -> int:
        find, *prune = SQL["prune_sessions"]

        def look(connection: Connection) -> Rows | None:
            return None if execute(connection, [find], {"now": self._now()}) else []

        def run(connection: Connection) -> Rows:
            values: Values = {"now": self._now(), "partitions": self._all}
            return execute(connection, prune, values)

        return len(await self._connections.transact(run, look=look))

    def _now(self) -> int:
        return store_now(self._clock)


def list_sessions(connection: Connection, clock: Clock) -> list[Session]:
    found = execute(connection, SQL["list_sessions"], {"now": store_now(clock)})
    return [rows.session(row, from_microseconds, _decode_names) for row in found]


class SqliteHeart:
    """Its own connection, used by its own thread. A store in memory has only one, and lends it."""

    def __init__(
        self, connections: Connections, clock: Clock, session: SessionId, lease: float
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._values: Values = {"id": session, "lease": lease}
        self._connection: Connection | None = None

    def extend(self, executing: Sequence[JobId], load: Load = IDLE) -> Extended | None:
        named: Values = {"executing": to_json(list(executing)), "beat": store_now(self._clock)}
        values: Values = {**self._values, **named, **asdict(load)}
        if self._connections.file.path is None:
            return self._connections.writer.ask_and_wait(lambda c: self._extend(c, values))
        try:
            self._connections.file.check()
            return self._extend_alone(self._open(), values)
        except sqlite3.Error as error:
            self.close()
            raise explain(error, self._connections.file) from error
        except StoreUnavailable:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        if self._connection is None:
            timeout = self._connections.timeout
            self._connection = impatient(self._connections.file.connect(timeout=timeout))
            # A beat must be quick: the journal is written back by those who fill it.
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        return self._connection

    def _extend_alone(self, connection: Connection, values: Values) -> Extended | None:
        begin(connection, self._connections.timeout)
        try:
            extended = self._extend(connection, values)
        except BaseException:
            roll_back(connection)
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            roll_back(connection)
            raise explain(error, self._connections.file, unknown=True) from error
        return extended

    def _extend(self, connection: Connection, values: Values) -> Extended | None:
        # The time is read when nobody else can write any more: it may have taken a while.
        now: Values = {"now": store_now(self._clock)}
        found = execute(connection, SQL["extend_session"], {**values, **now})
        return Extended(drain=bool(found[0][0])) if found else None


class SqliteLeases:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def divide(self, session: SessionId, *, term: float) -> frozenset[int]:
        def look(connection: Connection) -> frozenset[int] | None:
            choice = self._choose(connection, session, term)
            return None if choice.surplus or choice.wanted else frozenset()

        def run(connection: Connection) -> frozenset[int]:
            choice = self._choose(connection, session, term)
            values: Values = {"session": session, "term": term, "now": store_now(self._clock)}
            surplus: Values = {"partitions": to_json(choice.surplus)}
            execute(connection, SQL["give_up_leases"], {**values, **surplus})
            wanted: Values = {"partitions": to_json(choice.wanted)}
            taken = execute(connection, SQL["take_leases"], {**values, **wanted})
            return frozenset(row[0] for row in taken)

        return await self._connections.transact(run, look=look)

    async def give_up(self, session: SessionId) -> None:
        def run(connection: Connection) -> None:
            found = self._list(connection, session, 0)
            held = to_json([row[0] for row in found if row[1] == session])
            execute(connection, SQL["give_up_leases"], {"session": session, "partitions": held})

        await self._connections.transact(run)

    def _choose(self, connection: Connection, session: SessionId, term: float) -> Choice:
        found = self._list(connection, session, term)
        return choose_leases(
            session,
            {row[0]: (row[1] if row[2] else None) for row in found},
            share=ceil(len(found) / max(1, found[0][3] if found else 1)),
        )

    def _list(self, connection: Connection, session: SessionId, term: float) -> Rows:
        values: Values = {"session": session, "term": term, "now": store_now(self._clock)}
        return execute(connection, SQL["list_leases"], values)
