"""A job that is submitted on a connection of the caller's exists if and only if the caller's transaction commits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from foliot import Foliot, FoliotError, JobState
from foliot.errors import InvalidValue, SchemaMissing, UnknownJob
from support.callers import (
    ON_POSTGRES,
    ON_SQLITE,
    AsyncPsycopg,
    AsyncSqlalchemyAsyncpgSession,
    Caller,
    Django,
    Job,
    Psycopg,
    Sqlite,
    libpq_words,
    path_of,
    sqlalchemy_url,
)
from support.stores import Databases


def app_of(job: Job) -> Foliot:
    return cast(Foliot, job._owner)


TABLE = "CREATE TABLE notes (text text)"


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    with asyncio.Runner() as runner:
        borrowed = databases.borrow(1)
        url = databases.server.url(runner.run(borrowed.__aenter__()))
        with psycopg.connect(url) as connection:
            connection.execute(TABLE)
        yield url
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE notes")
        runner.run(borrowed.__aexit__(None, None, None))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/shop.db"
    with Foliot(url) as app:
        app.submit_many([])
        app._portal.call(app._portal.store())
    with sqlite3.connect(path_of(url)) as connection:
        connection.execute(TABLE)
    connection.close()
    return url


CALLERS = [("postgres", kind) for kind in ON_POSTGRES] + [("sqlite", kind) for kind in ON_SQLITE]


@pytest.fixture(params=CALLERS, ids=lambda param: f"{param[0]}-{param[1].__name__}")
def caller(request: pytest.FixtureRequest) -> Iterator[Caller]:
    engine, kind = request.param
    with kind(request.getfixturevalue(f"{engine}_url")) as caller:
        yield caller


@pytest.fixture
def job(caller: Caller) -> Iterator[Job]:
    yield from make_job(caller.url)


def make_job(url: str) -> Iterator[Job]:
    with Foliot(url) as app:

        @app.job
        def double(number: int) -> int:
            return 2 * number

        yield double


@pytest.fixture
def postgres_job(postgres_url: str) -> Iterator[Job]:
    yield from make_job(postgres_url)


@pytest.fixture
def sqlite_job(sqlite_url: str) -> Iterator[Job]:
    yield from make_job(sqlite_url)


def notes(url: str) -> int:
    connection: Any = (
        sqlite3.connect(path_of(url)) if url.startswith("sqlite:") else psycopg.connect(url)
    )
    try:
        return int(connection.execute("SELECT count(*) FROM notes").fetchone()[0])
    finally:
        connection.close()


def exists(handle: Any) -> bool:
    try:
        return bool(handle.status())
    except UnknownJob:
        return False


def test_it_is_there_after_the_commit_and_not_before(caller: Caller, job: Job) -> None:
    caller.insert()
    handle = caller.submit(job)
    assert not exists(handle)
    caller.commit()
    assert handle.status() is JobState.READY
    assert handle.job().payload == b'{"number":1}'
    assert notes(caller.url) == 1


def test_a_rollback_leaves_no_job(caller: Caller, job: Job) -> None:
    handle = caller.submit(job)
    caller.insert()
    caller.rollback()
    assert not exists(handle)
    assert notes(caller.url) == 0


def test_a_savepoint_that_is_rolled_back_takes_its_job_along(caller: Caller, job: Job) -> None:
    caller.insert()
    kept = caller.submit(job, 1)
    gone = caller.in_savepoint(lambda: caller.submit(job, 2))
    caller.commit()
    assert exists(kept)
    assert not exists(gone)


def test_of_a_key_that_is_taken_the_job_that_has_it_is_returned(caller: Caller, job: Job) -> None:
    taken = job.options(key="taken").submit(1)
    caller.insert()
    assert caller.submit(job.options(key="taken")).id == taken.id
    # Within the same transaction, too.
    mine = caller.submit(job.options(key="mine"))
    assert caller.submit(job.options(key="mine")).id == mine.id
    assert caller.submit(job.options(key="other")).id not in (taken.id, mine.id)
    caller.commit()
    assert exists(mine)


@pytest.mark.parametrize("commits", [True, False])
def test_keys_that_replace_and_idempotency_keys_go_with_the_transaction(
    caller: Caller, job: Job, commits: bool
) -> None:
    waiting = job.options(key="k", delay=60).submit(1)
    assert caller.submit(job.options(key="k", key_mode="debounce", delay=99), 3).id == waiting.id
    once = caller.submit(job.options(idempotency_key="i"), 4)
    assert caller.submit(job.options(idempotency_key="i"), 4).id == once.id
    if commits:
        caller.commit()
    else:
        caller.rollback()
    assert waiting.job().payload == (b'{"number":3}' if commits else b'{"number":1}')
    assert exists(once) is commits
    assert (job.options(idempotency_key="i").submit(4).id == once.id) is commits


def test_many_at_once_are_one_with_the_transaction(caller: Caller, job: Job) -> None:
    app = app_of(job)
    calls = [job.prepare(number) for number in range(1500)]
    caller.submit_many(app, calls)
    caller.rollback()
    assert not any(app._portal.call(count(app)).values())


async def count(app: Foliot) -> dict[JobState, int]:
    return await (await app._portal.store()).jobs.count()


def test_settings_of_the_caller_are_neither_in_the_way_nor_changed(
    postgres_url: str, postgres_job: Job
) -> None:
    with psycopg.connect(postgres_url, row_factory=dict_row) as connection:
        connection.execute("CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.jobs (id text)")
        connection.execute("SET search_path = elsewhere")
        connection.adapters.register_loader("text", Shouting)
        connection.adapters.register_loader("int4", Shouting)
        connection.cursor_factory = psycopg.ClientCursor
        connection.prepare_threshold = 0
        on = postgres_job.options(connection=connection, key="once")
        handle = on.submit(1)
        assert on.submit(2).id == handle.id
        assert connection.info.transaction_status.name == "INTRANS"
        assert connection.row_factory is dict_row
        assert connection.cursor_factory is psycopg.ClientCursor
        row = connection.execute("SHOW search_path").fetchone()
        assert row == {"search_path": "ELSEWHERE"}
        connection.execute("DROP SCHEMA elsewhere CASCADE")
    assert handle.status() is JobState.READY


class Shouting(psycopg.adapt.Loader):
    def load(self, data: Any) -> str:
        return bytes(data).decode().upper()


def test_settings_of_a_sqlite_connection_are_neither_in_the_way_nor_changed(
    sqlite_url: str, sqlite_job: Job
) -> None:
    connection = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    connection.execute("BEGIN")
    on = sqlite_job.options(connection=connection, key="once")
    handle = on.submit(1)
    assert on.submit(2).id == handle.id
    assert connection.in_transaction
    assert connection.row_factory is sqlite3.Row
    assert connection.text_factory is bytes
    connection.execute("COMMIT")
    connection.close()
    assert handle.status() is JobState.READY


def test_without_a_transaction_it_is_there_at_once(postgres_url: str, postgres_job: Job) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        on = postgres_job.options(connection=connection)
        assert on.submit(1).status() is JobState.READY
        calls = [postgres_job.prepare(number) for number in range(1001)]
        with pytest.raises(InvalidValue, match=r"has no transaction.*begin one first"):
            app_of(postgres_job).submit_many(calls, connection=connection)
        with connection.transaction():
            app_of(postgres_job).submit_many(calls, connection=connection)


@pytest.fixture
def woken(postgres_job: Job, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What workers are told."""
    told: list[object] = []
    monkeypatch.setattr(app_of(postgres_job)._portal, "wake", told.append)
    return told


def test_django_wakes_the_workers_after_the_commit(
    postgres_url: str, postgres_job: Job, woken: list[object]
) -> None:
    with Django(postgres_url) as caller:
        caller.submit(postgres_job)
        assert not woken
        caller.commit()
        assert len(woken) == 1


def test_a_session_of_sqlalchemy_wakes_the_workers_after_each_commit(
    postgres_url: str, postgres_job: Job, woken: list[object]
) -> None:
    engine = sa.create_engine(sqlalchemy_url(postgres_url, "psycopg"))
    with Session(engine) as session:
        on = postgres_job.options(connection=session)
        on.submit(1)
        with session.begin_nested():
            on.submit(2)
        assert not woken  # a savepoint is nothing to others
        session.commit()
        assert len(woken) == 2
        session.execute(sa.text("SELECT 1"))
        session.commit()
        assert len(woken) == 2
        on.submit(3)
        session.rollback()
        session.commit()
        assert len(woken) == 2
        on.submit(4)
        session.commit()
        assert len(woken) == 3
    engine.dispose()


def test_a_session_of_a_thread_wakes_the_workers_after_the_commit(
    postgres_url: str, postgres_job: Job, woken: list[object]
) -> None:
    engine = sa.create_engine(sqlalchemy_url(postgres_url, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    handle = postgres_job.options(connection=session).submit(1)
    assert not woken
    session.commit()
    assert len(woken) == 1
    assert handle.status() is JobState.READY
    session.remove()
    engine.dispose()


def test_a_session_of_a_task_wakes_the_workers_after_the_commit(
    postgres_url: str, postgres_job: Job, woken: list[object]
) -> None:
    async def run() -> None:
        engine = create_async_engine(sqlalchemy_url(postgres_url, "asyncpg"))
        session = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        await postgres_job.options(connection=session).asubmit(1)
        assert not woken
        await session.commit()
        assert len(woken) == 1
        await session.remove()
        await engine.dispose()

    asyncio.run(run())


def test_an_async_session_wakes_the_workers_after_the_commit(
    postgres_url: str, postgres_job: Job, woken: list[object]
) -> None:
    with AsyncSqlalchemyAsyncpgSession(postgres_url) as caller:
        caller.submit(postgres_job)
        assert not woken
        caller.commit()
        assert len(woken) == 1


def test_what_is_no_connection_is_refused(postgres_url: str, postgres_job: Job) -> None:
    engine = sa.create_engine(sqlalchemy_url(postgres_url, "psycopg"))
    with (
        ConnectionPool(postgres_url, min_size=0, max_size=1, open=True) as pool,
        psycopg.connect(postgres_url) as connection,
        connection.cursor() as cursor,
    ):
        for wrong in (postgres_url, object(), pool, cursor, engine):
            with pytest.raises(InvalidValue, match=r"is not a connection of psycopg.*Django"):
                postgres_job.options(connection=wrong).submit(1)
    engine.dispose()


def test_async_and_blocking_connections_are_not_mixed_up(
    postgres_url: str, postgres_job: Job
) -> None:
    refused = pytest.raises(InvalidValue, match=r"is async; await asubmit")
    with AsyncPsycopg(postgres_url) as caller, refused:
        postgres_job.options(connection=caller.connection).submit(1)
    with Psycopg(postgres_url) as blocking:
        work = postgres_job.options(connection=blocking.connection).asubmit(1)
        with pytest.raises(InvalidValue, match=r"is not async; call submit"):
            asyncio.run(work)


def test_two_connections_in_one_call_are_refused(postgres_url: str, postgres_job: Job) -> None:
    app = app_of(postgres_job)
    with Psycopg(postgres_url) as one, Psycopg(postgres_url) as two:
        first = postgres_job.options(connection=one.connection).prepare(1)
        second = postgres_job.options(connection=two.connection).prepare(1)
        for calls in ([first, second], [first, postgres_job.prepare(1)]):
            with pytest.raises(InvalidValue, match="is not the same for all"):
                app.submit_many(calls)
        with pytest.raises(InvalidValue, match="is not the same for all"):
            app.submit_many([first], connection=two.connection)
        app.submit_many([first, postgres_job.prepare(1)], connection=one.connection)


def test_a_closed_connection_is_refused(
    postgres_url: str, postgres_job: Job, sqlite_url: str, sqlite_job: Job
) -> None:
    with psycopg.connect(postgres_url) as connection:
        pass
    with pytest.raises(InvalidValue, match="connection is closed"):
        postgres_job.options(connection=connection).submit(1)
    file = sqlite3.connect(path_of(sqlite_url))
    file.close()
    with pytest.raises(InvalidValue, match="connection is closed"):
        sqlite_job.options(connection=file).submit(1)


@pytest.mark.parametrize("kind", ON_POSTGRES)
def test_a_transaction_that_has_failed_is_named(
    kind: type[Caller], postgres_url: str, postgres_job: Job
) -> None:
    with kind(postgres_url) as caller:
        with pytest.raises(Exception, match="division by zero"):
            caller.execute("SELECT 1 / 0")
        if kind is Django:
            caller.connection.set_rollback(True)
        with pytest.raises(FoliotError, match=r"transaction.*has failed; roll it back"):
            caller.submit(postgres_job)
        caller.rollback()


def test_a_connection_to_another_store_is_refused(
    databases: Databases, postgres_url: str, postgres_job: Job, sqlite_url: str, sqlite_job: Job
) -> None:
    with psycopg.connect(databases.server.url("postgres")) as connection:
        with pytest.raises(InvalidValue, match="without the app's store"):
            postgres_job.options(connection=connection).submit(1)
        assert connection.execute("SELECT 1").fetchone() == (1,), "its transaction goes on"
        with pytest.raises(InvalidValue, match="not the engine of the app's store"):
            sqlite_job.options(connection=connection).submit(1)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE foliot.migrations SET applied_at = now() WHERE number = 1")
        with pytest.raises(InvalidValue, match="another store than the app's"):
            postgres_job.options(connection=connection).submit(1)
        connection.rollback()
    for path in (":memory:", path_of(sqlite_url) + "-other"):
        file = sqlite3.connect(path)
        with pytest.raises(InvalidValue, match="which is not the app's store"):
            sqlite_job.options(connection=file).submit(1)
        file.execute("ATTACH ? AS jobs", [path_of(sqlite_url)])
        with pytest.raises(InvalidValue, match="which is not the app's store"):
            sqlite_job.options(connection=file).submit(1)
        file.close()


def test_a_store_in_memory_and_one_without_tables_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with Sqlite(url) as caller:
        caller.execute(TABLE)
        caller.insert()
        with Foliot("sqlite:///:memory:") as app:
            double = app.job(kind="double")(abs_of)
            with pytest.raises(InvalidValue, match="store in memory"):
                caller.submit(double)
        with Foliot(url) as app:
            double = app.job(kind="double")(abs_of)
            with pytest.raises(SchemaMissing, match="foliot db init"):
                caller.submit(double)


def abs_of(number: int) -> int:
    return abs(number)


def test_codecs_of_asyncpg_are_not_in_the_way(postgres_url: str, postgres_job: Job) -> None:
    async def submit() -> Any:
        connection = await asyncpg.connect(**libpq_words(postgres_url))
        await connection.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")
        await connection.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
        async with connection.transaction():
            handle = await postgres_job.options(connection=connection, key="one").asubmit(1)
        await connection.close()
        return handle

    assert asyncio.run(submit()).status() is JobState.READY
