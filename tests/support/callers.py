"""Callers with transactions of their own, one for each driver: what they do is the same, how they say it is not."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Final, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
import django
import psycopg
import psycopg2
import sqlalchemy as sa
from django.conf import settings as django_settings
from django.db import connections as django_connections
from django.db import transaction as django_transaction
from django.db.utils import ConnectionHandler
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from foliot import Foliot
from foliot.client.function import JobFunction, Prepared
from foliot.client.handle import Handle

T = TypeVar("T")
Job = JobFunction[[int], int, int]

INSERT: Final = "INSERT INTO notes (text) VALUES ('one')"
ALIAS: Final = "shop"


class Caller:
    """Blocking. The transaction begins with the first statement, or before."""

    connection: Any

    def __init__(self, url: str) -> None:
        self.url = url
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def open(self) -> None:
        raise NotImplementedError

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def insert(self) -> None:
        self.execute(INSERT)

    def submit(self, job: Job, number: int = 1) -> Handle[int]:
        return job.options(connection=self.connection).submit(number)

    def submit_many(self, app: Foliot, calls: Sequence[Prepared]) -> list[Handle[Any]]:
        return app.submit_many(calls, connection=self.connection)

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def in_savepoint(self, act: Callable[[], T]) -> T:
        """Do it, and roll it back."""
        self.execute("SAVEPOINT here")
        done = act()
        self.execute("ROLLBACK TO SAVEPOINT here")
        return done


class Psycopg(Caller):
    def open(self) -> None:
        self.connection = self.stack.enter_context(psycopg.connect(self.url))
        self.stack.callback(self.connection.rollback)


class Psycopg2(Caller):
    def open(self) -> None:
        self.connection = psycopg2.connect(self.url)
        self.stack.callback(self.connection.close)

    def execute(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)


class Sqlite(Caller):
    def open(self) -> None:
        self.connection = sqlite3.connect(path_of(self.url))
        self.stack.callback(self.connection.close)


class Sqlalchemy(Caller):
    driver = ""

    def open(self) -> None:
        engine = sa.create_engine(sqlalchemy_url(self.url, self.driver), poolclass=NullPool)
        self.stack.callback(engine.dispose)
        self.connection = self.stack.enter_context(self.enter(engine))

    def enter(self, engine: sa.Engine) -> sa.Connection | Session:
        return engine.connect()

    def execute(self, statement: str) -> None:
        self.connection.execute(sa.text(statement))

    def in_savepoint(self, act: Callable[[], T]) -> T:
        savepoint = self.connection.begin_nested()
        done = act()
        savepoint.rollback()
        return done


class SqlalchemyPsycopg(Sqlalchemy):
    driver = "psycopg"


class SqlalchemyPsycopg2Session(Sqlalchemy):
    driver = "psycopg2"

    def enter(self, engine: sa.Engine) -> Session:
        return Session(engine)


class SqlalchemySqlite(Sqlalchemy):
    driver = "pysqlite"


class SqlalchemySqliteSession(SqlalchemyPsycopg2Session):
    driver = "pysqlite"


class Django(Caller):
    """In an atomic block, rolled back by leaving it with an error."""

    def open(self) -> None:
        if not django_settings.configured:
            django_settings.configure(USE_TZ=True)
            django.setup()
        handler = ConnectionHandler({"default": django_database(self.url)})
        django_connections.settings[ALIAS] = handler.settings["default"]
        self.connection = django_connections[ALIAS]
        self.stack.callback(self._forget)
        self._atomic = django_transaction.atomic(using=ALIAS)
        self._atomic.__enter__()

    def execute(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        self._atomic.__exit__(ValueError, ValueError("no"), None)

    def in_savepoint(self, act: Callable[[], T]) -> T:
        done: list[T] = []
        try:
            with django_transaction.atomic(using=ALIAS):
                done.append(act())
                raise ValueError("no")
        except ValueError:
            return done[0]

    def _forget(self) -> None:
        self.connection.close()
        del django_connections[ALIAS]
        del django_connections.settings[ALIAS]


class AsyncCaller(Caller):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._runner = self.stack.enter_context(asyncio.Runner())
        self.async_stack = AsyncExitStack()

    def open(self) -> None:
        self.stack.callback(lambda: self.run(self.async_stack.aclose()))
        self.run(self.aopen())

    async def aopen(self) -> None:
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def execute(self, statement: str) -> None:
        self.run(self.connection.execute(statement))

    def submit(self, job: Job, number: int = 1) -> Handle[int]:
        return self.run(job.options(connection=self.connection).asubmit(number))

    def submit_many(self, app: Foliot, calls: Sequence[Prepared]) -> list[Handle[Any]]:
        return self.run(app.asubmit_many(calls, connection=self.connection))

    def commit(self) -> None:
        self.run(self.connection.commit())

    def rollback(self) -> None:
        self.run(self.connection.rollback())


class AsyncPsycopg(AsyncCaller):
    async def aopen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self.url)
        self.connection = await self.async_stack.enter_async_context(connection)
        self.async_stack.push_async_callback(self.connection.rollback)


class Asyncpg(AsyncCaller):
    async def aopen(self) -> None:
        self.connection = await asyncpg.connect(**libpq_words(self.url))
        self.async_stack.push_async_callback(self.connection.close)
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    def commit(self) -> None:
        self.run(self._transaction.commit())

    def rollback(self) -> None:
        self.run(self._transaction.rollback())


class AsyncSqlalchemy(AsyncCaller):
    driver = ""

    async def aopen(self) -> None:
        engine = create_async_engine(sqlalchemy_url(self.url, self.driver), poolclass=NullPool)
        self.async_stack.push_async_callback(engine.dispose)
        self.connection = await self.async_stack.enter_async_context(self.enter(engine))

    def enter(self, engine: Any) -> AsyncConnection | AsyncSession:
        connection: AsyncConnection = engine.connect()
        return connection

    def execute(self, statement: str) -> None:
        self.run(self.connection.execute(sa.text(statement)))

    def in_savepoint(self, act: Callable[[], T]) -> T:
        async def begin() -> Any:
            return await self.connection.begin_nested()

        savepoint = self.run(begin())
        done = act()
        self.run(savepoint.rollback())
        return done


class AsyncSqlalchemyPsycopg(AsyncSqlalchemy):
    driver = "psycopg"


class AsyncSqlalchemyAsyncpgSession(AsyncSqlalchemy):
    driver = "asyncpg"

    def enter(self, engine: Any) -> AsyncSession:
        return AsyncSession(engine)


class AsyncSqlalchemySqliteSession(AsyncSqlalchemyAsyncpgSession):
    driver = "aiosqlite"


ON_POSTGRES: Final[tuple[type[Caller], ...]] = (
    Psycopg,
    AsyncPsycopg,
    Psycopg2,
    Asyncpg,
    SqlalchemyPsycopg,
    SqlalchemyPsycopg2Session,
    AsyncSqlalchemyPsycopg,
    AsyncSqlalchemyAsyncpgSession,
    Django,
)
ON_SQLITE: Final[tuple[type[Caller], ...]] = (
    Sqlite,
    SqlalchemySqlite,
    SqlalchemySqliteSession,
    AsyncSqlalchemySqliteSession,
    Django,
)


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def libpq_words(url: str) -> dict[str, Any]:
    """For drivers that do not read the URLs of libpq, with a directory as their host."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return {
        "host": query.get("host", parts.hostname),
        "port": int(query.get("port", parts.port or 5432)),
        "user": query.get("user", parts.username),
        "password": parts.password,
        "database": parts.path.removeprefix("/"),
    }


def sqlalchemy_url(url: str, driver: str) -> sa.URL:
    if url.startswith("sqlite:"):
        return sa.URL.create(f"sqlite+{driver}", database=path_of(url))
    words = libpq_words(url)
    return sa.URL.create(
        f"postgresql+{driver}",
        username=words["user"],
        password=words["password"],
        database=words["database"],
        query={"host": words["host"], "port": str(words["port"])},
    )


def django_database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(url)}
    words = libpq_words(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": words["database"],
        "USER": words["user"],
        "PASSWORD": words["password"] or "",
        "HOST": words["host"],
        "PORT": str(words["port"]),
    }
