"""Migrations: safe to run twice at once, to be killed half-way, and never backwards."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.errors import (
    SchemaError,
    SchemaMissing,
    SchemaNewer,
    SchemaOutdated,
    StoreUnavailable,
)
from foliot.ids import Ids
from foliot.store import migrate
from foliot.store.migrate import Migration
from foliot.store.open import open_store, read_schema, schema_script, upgrade_store
from foliot.store.port import Store
from foliot.store.postgres import migrations as postgres_migrations
from foliot.store.sqlite import migrations as sqlite_migrations
from support.stores import NEWEST, Databases

pytestmark = pytest.mark.anyio

# Dies by SIGKILL when all tables are made and nothing is committed.
KILLED_HALF_WAY = """
import asyncio, os, signal, sys
from foliot.config import StoreSettings
from foliot.store.open import upgrade_store
from foliot.store.postgres import migrations as postgres
from foliot.store.sqlite import migrations as sqlite

def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

statements = sqlite._statements

def some(text):
    found = list(statements(text))
    yield from found[: len(found) // 2]
    die()

postgres._furnish = die
sqlite._statements = some
asyncio.run(upgrade_store(StoreSettings(url=sys.argv[1])))
"""
UPGRADE = """
import asyncio, sys
from foliot.config import StoreSettings
from foliot.store.open import upgrade_store
print(len(asyncio.run(upgrade_store(StoreSettings(url=sys.argv[1]), partitions=8))))
"""
_COLUMNS = """
SELECT c.relname, c.reloptions::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'foliot'::regnamespace AND c.relname !~ '\\d{8}' AND c.relkind IN ('r', 'p')
ORDER BY 1, a.attnum
"""
_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'foliot'::regnamespace AND c.relname !~ '\\d{8}' ORDER BY 1
"""


class Bare:
    """A place with no schema yet."""

    def __init__(self, url: str) -> None:
        self.settings = StoreSettings(url=url)
        self.is_sqlite = url.startswith("sqlite")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        if self.is_sqlite:
            connection = sqlite3.connect(self.settings.url.removeprefix("sqlite:///"))
            try:
                found = connection.execute(statement).fetchall()
                connection.commit()
            finally:
                connection.close()
            return found
        with psycopg.connect(self.settings.url) as link:
            cursor = link.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def run_script(self, script: str) -> None:
        if self.is_sqlite:
            connection = sqlite3.connect(self.settings.url.removeprefix("sqlite:///"))
            connection.executescript(script)
            connection.close()
            return
        with psycopg.connect(self.settings.url, autocommit=True) as link:
            link.execute(script)

    def tables(self) -> set[str]:
        if self.is_sqlite:
            return {row[0] for row in self.rows("SELECT name FROM sqlite_master")}
        found = self.rows(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('foliot')"
        )
        return {row[0] for row in found}

    def schema(self) -> list[tuple[Any, ...]]:
        """Everything but the days of history, which depend on the day."""
        if self.is_sqlite:
            return self.rows("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")
        return self.rows(_COLUMNS) + self.rows(_INDEXES)

    @property
    def ledger(self) -> str:
        return "foliot_migrations" if self.is_sqlite else "foliot.migrations"

    async def open(self) -> Store:
        return await open_store(self.settings, clock=SystemClock(), ids=Ids())


@pytest.fixture
def make_bare(
    request: pytest.FixtureRequest, databases: Databases, tmp_path: Path
) -> Iterator[Callable[[str], Bare]]:
    made: list[str] = []

    def make(engine: str) -> Bare:
        if engine == "sqlite":
            return Bare(f"sqlite:///{tmp_path / f'{len(made)}.db'}")
        name = f"bare_{request.node.name[:30]}_{len(made)}"
        made.append(name)
        return Bare(databases.server.create_database(name))

    yield make
    for name in made:
        databases.server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bare(make_bare: Callable[[str], Bare], engine: str) -> Bare:
    return make_bare(engine)


async def test_a_new_store_has_its_tables_and_partitions(bare: Bare) -> None:
    before = await read_schema(bare.settings)
    assert (before.version, before.partitions) == (None, None)
    applied = await upgrade_store(bare.settings, partitions=8)
    assert [migration.number for migration in applied] == list(range(1, len(applied) + 1))
    after = await read_schema(bare.settings)
    assert (after.version, after.partitions) == (after.needed, 8)
    store = await bare.open()
    assert store.partitions == 8
    await store.close()


async def test_asking_what_there_is_makes_nothing(bare: Bare, tmp_path: Path) -> None:
    await read_schema(bare.settings)
    await schema_script(bare.settings)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a look at nothing
    assert bare.is_sqlite or bare.tables() == set()


async def test_upgrading_again_changes_nothing(bare: Bare) -> None:
    await upgrade_store(bare.settings, partitions=8)
    before = bare.schema()
    assert await upgrade_store(bare.settings, partitions=3) == []
    assert bare.schema() == before
    assert (await read_schema(bare.settings)).partitions == 8


async def test_upgrading_at_once_in_one_process_makes_one_schema(bare: Bare) -> None:
    applied = await asyncio.gather(*(upgrade_store(bare.settings, partitions=8) for _ in range(4)))
    assert sorted(len(each) for each in applied)[:3] == [0, 0, 0]
    assert (await read_schema(bare.settings)).partitions == 8


def test_upgrading_at_once_in_many_processes_makes_one_schema(bare: Bare) -> None:
    command = [sys.executable, "-c", UPGRADE, bare.settings.url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    applied = sorted(int(process.communicate(timeout=60)[0]) for process in running)
    assert [process.returncode for process in running] == [0, 0, 0]
    assert applied[:2] == [0, 0] and applied[2] > 0


async def test_an_upgrade_killed_half_way_leaves_nothing(bare: Bare) -> None:
    command = [sys.executable, "-c", KILLED_HALF_WAY, bare.settings.url]
    killed = await asyncio.to_thread(subprocess.run, command, timeout=60)
    assert killed.returncode == -9
    assert bare.tables() == set()
    assert (await read_schema(bare.settings)).version is None
    assert await upgrade_store(bare.settings) != []


async def test_an_upgrade_whose_connection_is_cut_leaves_nothing(
    make_bare: Callable[[str], Bare], databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = make_bare("postgres")
    name = psycopg.conninfo.conninfo_to_dict(bare.settings.url)["dbname"]

    async def cut(*_: object) -> None:
        await asyncio.to_thread(databases.server.terminate_backends, str(name))

    with monkeypatch.context() as patch:
        patch.setattr(postgres_migrations, "_furnish", cut)
        with pytest.raises(StoreUnavailable):
            await upgrade_store(bare.settings)
    assert bare.tables() == set()
    assert await upgrade_store(bare.settings) != []


async def test_a_migration_that_fails_takes_the_others_with_it(
    bare: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sqlite_migrations if bare.is_sqlite else postgres_migrations
    wrong = Migration(len(module.MIGRATIONS) + 1, "wrong", "CREATE TABLE oh_no (;")
    with monkeypatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", [*module.MIGRATIONS, wrong])
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the engine says
            await upgrade_store(bare.settings)
    assert bare.tables() == set()
    assert await upgrade_store(bare.settings) != []


async def test_a_newer_schema_is_refused(bare: Bare) -> None:
    await upgrade_store(bare.settings)
    bare.rows(f"INSERT INTO {bare.ledger} (number, name, checksum) VALUES (99, 'later', 'x')")
    for act in (bare.open, lambda: upgrade_store(bare.settings)):
        with pytest.raises(SchemaNewer) as caught:
            await act()
        assert (caught.value.found, caught.value.needed) == (99, NEWEST)
        assert "version 99" in str(caught.value) and "pip install" in str(caught.value)
    assert (await read_schema(bare.settings)).version == 99


async def test_a_migration_that_is_not_the_shipped_one_is_refused(bare: Bare) -> None:
    await upgrade_store(bare.settings)
    bare.rows(f"UPDATE {bare.ledger} SET checksum = 'another' WHERE number = 1")
    for act in (bare.open, lambda: upgrade_store(bare.settings)):
        with pytest.raises(SchemaError, match=r"migration 1 \(engine\)"):
            await act()


async def test_a_postgres_without_tables_says_how_to_make_them(
    make_bare: Callable[[str], Bare],
) -> None:
    """SQLite makes its file by itself."""
    with pytest.raises(SchemaMissing, match="foliot db init"):
        await make_bare("postgres").open()


async def test_an_older_schema_says_how_to_upgrade(
    make_bare: Callable[[str], Bare], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = make_bare("postgres")
    await upgrade_store(bare.settings)
    later = Migration(NEWEST + 1, "later", "CREATE TABLE foliot.later ();")
    monkeypatch.setattr(postgres_migrations, "MIGRATIONS", [*postgres_migrations.MIGRATIONS, later])
    shipped = postgres_migrations.MIGRATIONS
    with pytest.raises(SchemaOutdated) as caught:
        migrate.check(shipped, {1: shipped[0].checksum})
    assert "version 1" in str(caught.value) and "foliot db upgrade" in str(caught.value)
    schema = await read_schema(bare.settings)
    assert (schema.version, schema.needed) == (NEWEST, NEWEST + 1)
    script = await schema_script(bare.settings)
    assert "foliot.later" in script and "foliot.jobs" not in script
    assert [migration.name for migration in await upgrade_store(bare.settings)] == ["later"]


async def test_the_printed_script_makes_the_same_schema(
    make_bare: Callable[[str], Bare], engine: str
) -> None:
    upgraded, scripted = make_bare(engine), make_bare(engine)
    if engine == "sqlite":
        scripted = Bare(upgraded.settings.url + ".scripted")
    script = await schema_script(scripted.settings)
    await upgrade_store(upgraded.settings)
    scripted.run_script(script)
    assert scripted.schema() == upgraded.schema()
    versions = [(await read_schema(bare.settings)) for bare in (scripted, upgraded)]
    assert versions[0] == versions[1]
    assert await upgrade_store(scripted.settings) == []
    store = await scripted.open()
    assert await store.upkeep.prune(keep=None, limit=10) == 0
    await store.close()


def test_migrations_are_numbered_without_gaps_and_alike_in_both_dialects() -> None:
    names = [
        [(migration.number, migration.name) for migration in module.MIGRATIONS]
        for module in (postgres_migrations, sqlite_migrations)
    ]
    assert names[0] == names[1]
    assert [number for number, _ in names[0]] == list(range(1, len(names[0]) + 1))


async def test_a_database_that_is_not_utf8_is_refused(databases: Databases) -> None:
    with psycopg.connect(databases.server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(ValueError, match="UTF8"):
            await upgrade_store(StoreSettings(url=databases.server.url("latin")))
    finally:
        databases.server.drop_database("latin")


@pytest.mark.parametrize("package", [postgres_migrations, sqlite_migrations])
def test_a_new_store_s_script_says_what_it_does_not_make(package: Any) -> None:
    new, upgraded = package.script({}), package.script({1: package.MIGRATIONS[0].checksum})
    assert "has one partition" in new.partition("BEGIN")[0]
    assert upgraded.startswith("BEGIN")
    if package is postgres_migrations:
        assert "history_default" in new.partition("BEGIN")[0]
