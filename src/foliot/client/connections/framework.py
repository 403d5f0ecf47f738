"""Connections that a library keeps around those of a driver: SQLAlchemy, Django."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foliot.client.connections.driver import (
    Values,
    closed,
    failed,
    module_of,
    percent_style,
    strict_style,
    tuples,
)
from foliot.errors import InvalidValue
from foliot.store.guest import Answer
from foliot.store.sql import Statement

_WAITING = "foliot_after_commit"  # what a session calls then
_ENGINES = {"postgresql": "postgres", "sqlite": "sqlite"}


class Sqlalchemy:
    """A Connection, or a Session, which begins its transaction if it has none. Statements go by way of it, not of the
    driver: it must know that a transaction has begun."""

    waits = False

    def __init__(self, given: Any) -> None:
        self._session = None if hasattr(given, "exec_driver_sql") else session_of(given)
        self._connection = given if self._session is None else self._session.connection()
        dialect = self._connection.dialect
        self.engine = engine_of(dialect.name)
        self._style = dialect.paramstyle
        if self.engine == "postgres" and self._style not in ("pyformat", "numeric_dollar"):
            raise InvalidValue(
                "connection",
                f"{dialect.name}+{dialect.driver}",
                "is not a driver that jobs can be submitted through",
                example="postgresql+psycopg://…, or +psycopg2, or +asyncpg",
            )

    @property
    def known_as(self) -> Any:
        return self._connection.engine

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.get_isolation_level() != "AUTOCOMMIT")

    def check(self) -> None:
        if self._connection.closed:
            raise closed()

    def run(self, statement: Statement, values: Values) -> Answer:
        result = self._connection.exec_driver_sql(*self._said(statement, values))
        return Answer(tuples(result.fetchall()) if result.returns_rows else [], result.rowcount)

    def after_commit(self, call: Callable[[], None]) -> None:
        """A session does. Connections speak up before the commit, not after."""
        if (session := self._session) is None:
            return
        if _WAITING not in session.info:
            session.info[_WAITING] = []
            event = module_of("sqlalchemy").event
            event.listen(session, "after_commit", _committed)
            event.listen(session, "after_transaction_end", _ended)
        session.info[_WAITING].append(call)

    def _said(self, statement: Statement, values: Values) -> tuple[str, Any]:
        if self.engine == "sqlite":
            return statement.text, dict(values)
        if self._style == "pyformat":
            return percent_style(statement), dict(values)
        return strict_style(statement), tuple(statement.bind(values))


def session_of(given: Any) -> Any:
    """A scoped one is called for the session of this thread or task."""
    return given() if callable(given) else given


def _committed(session: Any) -> None:
    """Also said of a savepoint, which nobody else sees yet."""
    if not session.in_nested_transaction():
        for call in session.info[_WAITING]:
            call()


def _ended(session: Any, transaction: Any) -> None:
    if transaction.parent is None:
        session.info[_WAITING].clear()


class Django:
    """`django.db.connection`, or one of `django.db.connections`."""

    waits = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.engine = engine_of(connection.vendor)

    @property
    def known_as(self) -> object | None:
        """It may be closed and opened again at any time: to ask again costs little."""
        return None

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_atomic_block) or not self._connection.get_autocommit()

    def check(self) -> None:
        if self._connection.needs_rollback:
            raise failed()

    def run(self, statement: Statement, values: Values) -> Answer:
        with self._connection.cursor() as cursor:
            cursor.execute(percent_style(statement), dict(values))
            return Answer(tuples(cursor.fetchall()) if cursor.description else [], cursor.rowcount)

    def after_commit(self, call: Callable[[], None]) -> None:
        self._connection.on_commit(call)


def engine_of(name: str) -> str:
    if name not in _ENGINES:
        raise InvalidValue("connection", name, "is neither PostgreSQL nor SQLite")
    return _ENGINES[name]
