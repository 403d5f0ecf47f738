"""Sessions and partition leases in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

import psycopg
from msgspec.structs import asdict
from psycopg import RawCursor

from foliot.clock import Clock
from foliot.errors import SchemaChanged
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.session import Claim, NewSession, Session
from foliot.store import rows
from foliot.store.leasing import choose_leases
from foliot.store.living import IDLE, Extended, Load
from foliot.store.postgres.allowances import CHANGE_RULES
from foliot.store.postgres.arrays import numbers, texts, words
from foliot.store.postgres.audit import act_by_hand
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.postgres.failures import unavailable
from foliot.store.postgres.gates import SQL as LIMITS
from foliot.store.reply import Rows
from foliot.store.searching import Record
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "sessions.sql")
RENEW_RULES: Final = Step(LIMITS["renew_rules"], {})


class PostgresSessions:
    def __init__(self, connections: Connections, clock: Clock, *, partitions: int) -> None:
        self._connections = connections
        self._clock = clock
        self._partitions = partitions
        self._all = numbers(range(partitions))

    async def open(self, session: NewSession, *, lease: float) -> None:
        values: Values = {
            "id": session.id,
            "host": session.host,
            "pid": session.pid,
            "version": session.version,
            "queues": texts(session.queues),
            "kinds": texts(session.kinds),
            "modules": texts(session.modules),
            "duties": session.duties,
            "capabilities": texts(session.capabilities),
            "concurrency": session.concurrency,
            "lease": lease,
            "count": self._partitions,
            "now": self._clock.now_for_store(),
        }
        steps = [CHANGE_RULES, Step(SQL["open_session"], values), RENEW_RULES]
        _, opened, _ = await self._connections.transact(steps)
        if not opened:
            raise SchemaChanged(self._partitions)

    def heart(self, session: SessionId, *, lease: float) -> PostgresHeart:
        return PostgresHeart(self._connections, self._clock, session, lease)

    async def know(self, session: SessionId, kinds: Sequence[str], modules: Sequence[str]) -> None:
        values: Values = {"id": session, "kinds": texts(kinds), "modules": texts(modules)}
        await self._connections.transact([Step(SQL["know_kinds"], values)])

    async def close(self, session: SessionId) -> None:
        values: Values = {"id": session, "partitions": self._all}
        await self._forget(Step(SQL["close_session"], values))

    async def all(self) -> list[Session]:
        step = sessions_step(self._clock)
        return to_sessions(await self._connections.read(step.statement, step.values))

    async def claim(self, id: JobId) -> Claim | None:
        values: Values = {
            "id": id,
            "partition": partition_of(id, self._partitions),
            "partitions": self._all,
        }
        found = await self._connections.read(SQL["get_claim"], values)
        return Claim(*found[0]) if found else None

    async def drain(
        self, ids: Sequence[SessionId], *, record: Record | None = None
    ) -> list[SessionId]:
        values: Values = {"ids": words(ids), "now": self._clock.now_for_store()}
        steps = [Step(SQL["drain_sessions"], values)]
        found = await act_by_hand(self._connections, steps, record, self._clock)
        return [SessionId(row[0]) for row in found]

    async def prune(self) -> int:
        if all(one.live for one in await self.all()):
            return 0
        values: Values = {"now": self._clock.now_for_store(), "partitions": self._all}
        return len(await self._forget(Step(SQL["prune_sessions"], values)))

    async def _forget(self, step: Step) -> Rows:
        """Its last claim may still be under way, or to come if its process sleeps. That one claims nothing uncounted:
        the others may claim more from now on."""
        return (await self._connections.transact([CHANGE_RULES, step, RENEW_RULES]))[1]


def sessions_step(clock: Clock) -> Step:
    return Step(SQL["list_sessions"], {"now": clock.now_for_store()})


def to_sessions(found: Rows) -> list[Session]:
    return [rows.session(row, rows.as_is, tuple) for row in found]


class PostgresHeart:
    """Its own connection, used by its own thread."""

    def __init__(
        self, connections: Connections, clock: Clock, session: SessionId, lease: float
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._session = session
        self._lease = lease
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._told: datetime | None = None  # the store's time, no later than at _told_at on ours
        self._told_at = 0.0

    def extend(self, executing: Sequence[JobId], load: Load = IDLE) -> Extended | None:
        statement = SQL["extend_session"]
        now = self._clock.now_for_store()
        values: dict[str, object] = {
            "id": self._session,
            "lease": self._lease,
            "executing": words(executing),
            "now": now,
            "beat": now or self._store_time(),
            **asdict(load),
        }
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(
                    self._connections.conninfo, autocommit=True, prepare_threshold=None
                )
            cursor = RawCursor(self._connection)
            row = cursor.execute(statement.numbered, statement.bind(values)).fetchone()
            self._told = row[0] if row else None
            self._told_at = self._clock.monotonic()
            return None if row is None else Extended(drain=row[1])
        except psycopg.Error as error:
            self.close()
            raise unavailable(error, unknown=True) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _store_time(self) -> datetime | None:
        """What the store's clock shows now, or a little less; unknown before the first answer."""
        if self._told is None:
            return None
        return self._told + timedelta(seconds=self._clock.monotonic() - self._told_at)


class PostgresLeases:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def divide(self, session: SessionId, *, term: float) -> frozenset[int]:
        now: datetime | None = self._clock.now_for_store()
        found = await self._list(session, term)
        choice = choose_leases(
            session,
            {row[0]: (row[1] if row[2] else None) for row in found},
            share=ceil(len(found) / max(1, found[0][3] if found else 1)),
        )
        if choice.surplus:
            await self._give_up(session, choice.surplus)
        if not choice.wanted:
            return frozenset()
        values: Values = {
            "session": session,
            "term": term,
            "partitions": numbers(choice.wanted),
            "now": now,
        }
        taken = (await self._connections.transact([Step(SQL["take_leases"], values)]))[0]
        return frozenset(row[0] for row in taken)

    async def give_up(self, session: SessionId) -> None:
        found = await self._list(session, 0)
        await self._give_up(session, [row[0] for row in found if row[1] == session])

    async def _list(self, session: SessionId, term: float) -> Rows:
        values: Values = {"session": session, "term": term, "now": self._clock.now_for_store()}
        return await self._connections.read(SQL["list_leases"], values)

    async def _give_up(self, session: SessionId, partitions: Sequence[int]) -> None:
        values: Values = {"session": session, "partitions": numbers(partitions)}
        await self._connections.transact([Step(SQL["give_up_leases"], values)])
