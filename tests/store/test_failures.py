"""Failures of PostgreSQL as users meet them: never an error of the driver, always what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.errors import FoliotError, SchemaMissing, StoreUnavailable
from foliot.ids import Ids
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.store.open import open_store, read_schema, schema_script, upgrade_store
from foliot.store.port import Store
from foliot.store.postgres.connection import Connections
from foliot.store.postgres.failures import explain, role_of
from support.proxy import CuttingProxy
from support.stores import Databases, Place, open_world, postgres_place

pytestmark = pytest.mark.anyio


async def _open(settings: StoreSettings) -> Store:
    return await open_store(settings, clock=SystemClock(), ids=Ids())


@pytest.fixture
async def powerless(databases: Databases) -> AsyncIterator[Place]:
    """A store, and its address for a role that may do nothing there."""
    async with postgres_place(databases, partitions=1) as place:
        with psycopg.connect(place.direct, autocommit=True) as connection:
            connection.execute("CREATE ROLE powerless LOGIN")
            try:
                url = place.direct.replace("postgres@", "powerless@")
                yield Place("postgres", StoreSettings(url=url), place.direct)
            finally:
                connection.execute("DROP OWNED BY powerless")
                connection.execute("DROP ROLE powerless")


@pytest.mark.parametrize("act", [_open, upgrade_store, read_schema, schema_script])
async def test_a_role_without_rights_is_told_which(powerless: Place, act: Any) -> None:
    with pytest.raises(FoliotError, match="the role powerless may not") as caught:
        await act(powerless.settings)
    assert 'TO "powerless"' in (caught.value.hint or "")
    assert not isinstance(caught.value, StoreUnavailable)


async def test_a_role_that_may_only_look_is_told_what_it_lacks(powerless: Place) -> None:
    with psycopg.connect(powerless.direct) as connection:
        connection.execute("GRANT USAGE ON SCHEMA foliot TO powerless")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA foliot TO powerless")
    store = await _open(powerless.settings)
    try:
        with pytest.raises(FoliotError, match="the role powerless may not") as caught:
            await store.queues.pause("mail")
        assert "GRANT SELECT, INSERT, UPDATE, DELETE" in (caught.value.hint or "")
        assert await store.queues.all() == []
        with pytest.raises(FoliotError, match="the role powerless may not"):
            await store.upkeep.prune(keep=0, limit=10)
    finally:
        await store.close()


async def test_a_role_with_a_schema_made_for_it_needs_no_right_on_the_database(
    databases: Databases, powerless: Place
) -> None:
    database = databases.server.create_database("made_for_it")
    try:
        with psycopg.connect(database) as connection:
            connection.execute("CREATE SCHEMA foliot")
            connection.execute("GRANT USAGE, CREATE ON SCHEMA foliot TO powerless")
        settings = StoreSettings(url=database.replace("postgres@", "powerless@"))
        assert await upgrade_store(settings)
        assert await upgrade_store(settings) == []
        await (await _open(settings)).close()
    finally:
        databases.server.drop_database("made_for_it")


def test_a_role_that_is_not_named_is_that_of_the_process() -> None:
    assert role_of("host=here user=me") == "me"
    assert role_of("host=here")


async def test_a_connection_cut_while_a_store_is_opened_is_unavailable(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = databases.server
    execute = psycopg.AsyncConnection.execute
    with CuttingProxy(str(server.directory), server.port) as proxy:
        async with databases.borrow(1) as name:

            async def cut_first(self: Any, query: Any, *values: Any, **options: Any) -> Any:
                proxy.cut_all()
                return await execute(self, query, *values, **options)

            connections = Connections(
                proxy.url(name), size=1, timeout=2, clock=SystemClock(), ids=Ids()
            )
            monkeypatch.setattr(psycopg.AsyncConnection, "execute", cut_first)
            with pytest.raises(StoreUnavailable):
                await connections.open(pooler="auto")
            with pytest.raises(StoreUnavailable):
                await read_schema(StoreSettings(url=proxy.url(name)))


@pytest.mark.parametrize(
    ("error", "kind", "unknown"),
    [
        (psycopg.errors.QueryCanceled, StoreUnavailable, False),
        (psycopg.errors.InternalError_, StoreUnavailable, False),
        (psycopg.errors.DiskFull, StoreUnavailable, False),
        (psycopg.errors.AdminShutdown, StoreUnavailable, True),
        (psycopg.errors.ReadOnlySqlTransaction, StoreUnavailable, False),
        (psycopg.errors.UndefinedTable, SchemaMissing, None),
        (psycopg.errors.UndefinedColumn, FoliotError, None),
        (psycopg.errors.RaiseException, FoliotError, None),
        (psycopg.OperationalError, StoreUnavailable, True),
    ],
)
def test_every_error_of_the_driver_has_a_meaning(
    error: type[psycopg.Error], kind: type[FoliotError], unknown: bool | None
) -> None:
    explained = explain(error("no"), role="me")
    assert isinstance(explained, kind)
    assert getattr(explained, "unknown", None) is unknown


async def test_ends_of_every_kind_and_cancelling_do_not_wait_for_each_other(
    databases: Databases, clock: Any
) -> None:
    """They lock the same rows in one order, so nobody is chosen as the victim of a deadlock."""
    async with (
        postgres_place(databases, partitions=1) as place,
        open_world(place, clock, size=4) as world,
    ):
        session = await world.open_session()
        before = databases.server.log_text().count("deadlock detected")
        for _ in range(6):
            await world.submit_many(400)
            jobs = sorted(await world.claim(session, 400), key=lambda job: job.id)
            await asyncio.gather(
                world.finish(session, *map(_retried_first, range(400), jobs)),
                *[world.cancel(*[job.id for job in jobs]) for _ in range(3)],
            )
        assert databases.server.log_text().count("deadlock detected") == before


def _retried_first(position: int, job: ClaimedJob) -> Outcome:
    """What is locked last by its statement has the lowest ids."""
    end = End.RETRY if position < 200 else End.SUCCEED
    return Outcome(job.id, job.fence, end, delay=9999)
