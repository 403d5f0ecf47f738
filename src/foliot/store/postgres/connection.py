"""Connections to PostgreSQL: one transaction in one round trip, and what its errors mean.

Nothing here depends on the session of a connection, so a transaction pooler may stand in between; where one does,
statements are not prepared. A lost connection is reported as `StoreUnavailable`; the pool makes new ones by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final, Protocol, TypeVar

import msgspec
import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import Diagnostic
from psycopg.generators import send as flush
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from foliot.clock import Clock
from foliot.errors import InvalidValue, StoreUnavailable
from foliot.ids import Ids
from foliot.store.postgres.failures import (
    CROSSED,
    explain,
    primary,
    role_of,
    silenced,
    translate,
    unavailable,
)
from foliot.store.postgres.outage import POOL, Outage
from foliot.store.reply import Reply, Rows
from foliot.store.sql import Statement

T = TypeVar("T")
Values = Mapping[str, object]

_TRIES: Final = 6  # of a transaction that deadlocked or could not be serialised
_TURN: Final = 0.5  # seconds to wait for a connection before asking again
_AT_ONCE: Final = 1.0  # seconds in which a cut connection shows; what takes longer is an outage
_PLANS_LAST: Final = (
    5.0  # seconds: a plan that was made while a table was empty is no good when it is full
)
# A process that is stopped between two statements keeps what it has locked from others no longer than this, which is
# less than the term of a lease.
_BEGIN: Final = ("BEGIN", "SET LOCAL idle_in_transaction_session_timeout = '3s'")
# Longer where it has to think of many rows meanwhile, and others in this process do as well.
_PATIENCE: Final = "SET LOCAL idle_in_transaction_session_timeout = '{}s'"
_IN_A_SECOND: Final = 5_000  # rows


class Step(msgspec.Struct, frozen=True):
    """One statement of a transaction."""

    statement: Statement
    values: Values
    prepared: bool = True  # its plan is kept for the next time


class Ask:
    """Asks within a transaction, one question after the other. What is only said goes with the next question, in one
    round trip, or with the commit."""

    def __init__(
        self,
        send: Callable[[Sequence[Step]], Awaitable[list[Rows]]],
        before: list[str] | None = None,
    ) -> None:
        """`before`: what goes before the next question, where the transaction is our own."""
        self._send = send
        self._before = before
        self._said: list[tuple[Step, Reply]] = []
        self._patience = 0

    def expect(self, rows: int) -> None:
        """So many have to be thought of between two questions: the server waits for us accordingly."""
        patience = rows // _IN_A_SECOND
        if self._before is not None and patience > self._patience:
            self._patience = patience
            self._before.append(_PATIENCE.format(3 + patience))

    async def __call__(self, step: Step) -> Rows:
        reply = self.say(step)
        await self.hear()
        return reply.rows

    def say(self, step: Step) -> Reply:
        reply = Reply()
        self._said.append((step, reply))
        return reply

    async def hear(self) -> None:
        """Until everything that was said has been answered."""
        if self._said:
            self.answer(await self._send(self.unheard))

    @property
    def unheard(self) -> list[Step]:
        return [step for step, _ in self._said]

    def answer(self, answers: Sequence[Rows]) -> None:
        said, self._said = self._said, []
        for (_, reply), rows in zip(said, answers, strict=True):
            reply.come(rows)


class Transacting(Protocol):
    """Where statements are run: a pool of our own, or a connection that was lent."""

    async def read(self, statement: Statement, values: Values) -> Rows:
        """One statement that only reads, or whose effect may be repeated."""
        ...

    async def transact(self, steps: Sequence[Step]) -> list[Rows]:
        """All steps in one transaction; the rows of each."""
        ...

    async def converse(self, talk: Callable[[Ask], Awaitable[T]]) -> T:
        """One transaction in which an answer may decide what comes next."""
        ...


class Line(AsyncConnection[Any]):
    """A connection that knows when its plans were made, and whether the server has ended it because we were silent in
    the middle of a transaction: the error that follows does not say so."""

    planned_at = 0.0
    was_silent = False

    def note(self, said: Diagnostic) -> None:
        if said.sqlstate == errors.IdleInTransactionSessionTimeout.sqlstate:
            self.was_silent = True


class Connections:
    """A pool, and the ways to use it: `read` one statement, `transact` several, `converse` to and fro."""

    def __init__(self, url: str, *, size: int, timeout: float, clock: Clock, ids: Ids) -> None:
        self.conninfo = to_conninfo(url, timeout=timeout)
        self._role = role_of(self.conninfo)
        self.pooled = False  # a transaction pooler stands in between
        self._clock = clock
        self._ids = ids
        self._timeout = timeout
        self._size = size
        self._outage = Outage(self.conninfo, clock)
        self._pool: AsyncConnectionPool[Line] = AsyncConnectionPool(
            self.conninfo,
            connection_class=Line,
            name=POOL,
            min_size=1,
            max_size=size,
            open=False,
            timeout=timeout,
            reconnect_timeout=0,  # a connection that cannot be made is asked for again by the next caller
            max_lifetime=30 * 60,
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=self._configure,
            reconnect_failed=self._outage.begins,
        )

    async def open(self, *, pooler: str) -> None:
        with translate(self.conninfo):
            async with await AsyncConnection.connect(self.conninfo, autocommit=True) as probe:
                # A pooler makes up the process number that it tells its clients.
                row = await (await probe.execute("SELECT pg_backend_pid()")).fetchone()
                detected = row is None or row[0] != probe.info.backend_pid
                version = probe.info.server_version
        self.pooled = detected if pooler == "auto" else pooler == "yes"
        if version < 140000:
            raise InvalidValue(
                "store.url",
                f"PostgreSQL {version // 10000}",
                "is older than version 14, the oldest supported",
            )
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close()

    async def read(self, statement: Statement, values: Values) -> Rows:
        """One statement that only reads, or whose effect may be repeated. A connection may have been cut while it lay
        idle: then the next one is tried."""
        steps = [Step(statement, values)]
        started = self._clock.monotonic()
        for _ in range(self._size):
            try:
                return (await self._attempt(lambda line: self._run(line, steps)))[0]
            except StoreUnavailable as error:
                if not error.unknown or self._clock.monotonic() - started > _AT_ONCE:
                    raise
        return (await self._attempt(lambda line: self._run(line, steps)))[0]

    async def transact(self, steps: Sequence[Step]) -> list[Rows]:
        """All steps in one transaction and one round trip; the rows of each. It has committed when this returns."""
        return await self._retry(lambda connection: self._run(connection, steps))

    async def converse(self, talk: Callable[[Ask], Awaitable[T]]) -> T:
        """One transaction of as many round trips as `talk` asks questions, and one to commit: an answer may decide what
        comes next. It may be begun again."""

        async def run(connection: Line) -> T:
            before = [*_BEGIN]

            # One pipeline with marks in it: after a mark the server counts the time that it waits for us, after a
            # pipeline it does not.
            async with connection.pipeline() as pipeline:

                async def send(steps: Sequence[Step]) -> list[Rows]:
                    cursors = await self._send(connection, steps, before=before)
                    before.clear()
                    # `sync` waits for the server when the socket has taken a part, and the server for the rest.
                    await connection.wait(flush(connection.pgconn))
                    await pipeline.sync()
                    return await _fetch(cursors)

                ask = Ask(send, before)
                told = await talk(ask)
                cursors = await self._send(
                    connection, ask.unheard, before=before, after=("COMMIT",)
                )
            ask.answer(await _fetch(cursors))
            return told

        return await self._retry(run)

    async def _retry(self, run: Callable[[Line], Awaitable[T]]) -> T:
        for attempt in range(1, _TRIES):
            try:
                return await self._attempt(run)
            except CROSSED:
                await self._clock.sleep(self._ids.up_to(0.02 * attempt))
        try:
            return await self._attempt(run)
        except CROSSED as error:
            raise StoreUnavailable(f"the store is too contended: {primary(error)}") from error

    async def _attempt(self, run: Callable[[Line], Awaitable[T]]) -> T:
        connection = await self._borrow()
        try:
            return await run(connection)
        except CROSSED:
            await _forgive(connection)
            raise
        except errors.LockNotAvailable as error:
            await _forgive(connection)
            raise explain(error, role=self._role) from error
        except psycopg.Error as error:
            # A server that has become read-only, or forgot a statement, is left for a new connection.
            await connection.close()
            if connection.was_silent:
                raise silenced() from error
            raise explain(error, role=self._role) from error
        except Exception:
            # Refused in the middle of a conversation, or to be begun again: nothing is wrong with the connection.
            await _forgive(connection)
            raise
        except BaseException:
            # Cancelled in the middle: nobody knows what the connection is waiting for.
            await connection.close()
            raise
        finally:
            await self._pool.putconn(connection)

    async def _borrow(self) -> Line:
        """Asked for in short turns: a pool that failed to connect tries again only when it is asked."""
        turns = ceil(self._timeout / _TURN)
        for turn in range(1, turns + 1):
            try:
                return await self._pool.getconn(self._timeout / turns)
            except PoolTimeout as error:
                if turn == turns:
                    said = f"no connection was to be had within {self._timeout:g} s"
                    raise StoreUnavailable(f"PostgreSQL: {said}") from error
            except psycopg.OperationalError as error:
                raise unavailable(error, unknown=False) from error
        raise AssertionError("there is always a last turn")

    async def _run(self, connection: Line, steps: Sequence[Step]) -> list[Rows]:
        # One statement is a transaction by itself.
        before, after = (("BEGIN",), ("COMMIT",)) if len(steps) > 1 else ((), ())
        async with connection.pipeline():
            cursors = await self._send(connection, steps, before=before, after=after)
        return await _fetch(cursors)

    async def _send(
        self,
        connection: Line,
        steps: Sequence[Step],
        *,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> list[AsyncRawCursor[Any]]:
        """Within a pipeline: the answers are there when that has been synchronised."""
        await self._forget_old_plans(connection)
        prepare = not self.pooled
        cursors = [AsyncRawCursor(connection) for _ in steps]
        for word in before:
            await connection.execute(word, prepare=prepare)
        for cursor, step in zip(cursors, steps, strict=True):
            await self._execute(cursor, step)
        for word in after:
            await connection.execute(word, prepare=prepare)
        return cursors

    async def _execute(self, cursor: AsyncRawCursor[Any], step: Step) -> None:
        statement = step.statement
        await cursor.execute(
            statement.numbered,
            statement.bind(step.values),
            prepare=not self.pooled and step.prepared,
            binary=True,
        )

    async def _forget_old_plans(self, connection: Line) -> None:
        now = self._clock.monotonic()
        if not self.pooled and now - connection.planned_at > _PLANS_LAST:
            await connection.execute("DISCARD PLANS")
            connection.planned_at = now

    async def _configure(self, connection: Line) -> None:
        connection.prepare_threshold = None if self.pooled else 0
        connection.planned_at = self._clock.monotonic()
        connection.add_notice_handler(connection.note)
        self._outage.ends()


async def _fetch(cursors: Sequence[AsyncRawCursor[Any]]) -> list[Rows]:
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


def to_conninfo(url: str, *, timeout: float) -> str:
    """What libpq needs, with dead peers noticed within seconds."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise InvalidValue(
            "url", url, f"cannot be read: {error}", example="postgresql://user:secret@host/database"
        ) from error
    defaults: dict[str, str | int] = {
        "application_name": "foliot",
        "connect_timeout": max(2, round(timeout)),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 15000,
    }
    if "," in str(given.get("host", "")):
        defaults["target_session_attrs"] = "read-write"
    return make_conninfo("", **{**defaults, **given})


async def _forgive(connection: AsyncConnection[Any]) -> None:
    try:
        await connection.rollback()
    except psycopg.Error:
        await connection.close()
