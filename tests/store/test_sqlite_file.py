"""The file of an SQLite store: its URL, what may happen to it, what is wrong with it, and its schema."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.errors import (
    FoliotError,
    InvalidValue,
    SchemaMissing,
    SchemaNewer,
    StoreUnavailable,
)
from foliot.ids import Ids
from foliot.store.open import open_store
from foliot.store.sql import JOB_FILES
from foliot.store.sqlite.batches import load_parts
from foliot.store.sqlite.file import parse_url
from foliot.store.sqlite.migrations import read_schema, script, upgrade
from support.sqlite import IDS, a_store, new_job, opened, submit, url_of
from support.stores import NEWEST

pytestmark = pytest.mark.anyio


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_deleted_file_is_noticed_until_it_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "f.db"
    async with a_store(url_of(path)) as store:
        session = IDS.session()
        heart = store.sessions.heart(session, lease=10)
        assert not heart.extend([])
        path.rename(tmp_path / "elsewhere.db")
        calls: list[Callable[[], Awaitable[object]]] = [lambda: submit(store), store.jobs.peek]
        for call in calls:
            with pytest.raises(StoreUnavailable, match=r"f\.db was opened and is gone"):
                await call()
        with pytest.raises(StoreUnavailable, match="gone"):
            heart.extend([])
        (tmp_path / "elsewhere.db").rename(path)
        await submit(store)
        heart.close()


async def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f.db"
    async with a_store(url_of(path)) as store:
        shutil.copy(path, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(path)
        with pytest.raises(StoreUnavailable, match="replaced"):
            await submit(store)
        with pytest.raises(StoreUnavailable, match="replaced"):
            await store.jobs.peek()


async def test_closing_leaves_one_file_and_refuses_calls(tmp_path: Path) -> None:
    store = await opened(url_of(tmp_path / "f.db"))
    await submit(store)
    await store.close()
    assert names_in(tmp_path) == ["f.db"]
    with pytest.raises(StoreUnavailable, match="closed"):
        await submit(store)


async def test_a_missing_directory_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="mkdir -p") as refused:
        await opened(url_of(tmp_path / "none" / "f.db"))
    assert str(tmp_path / "none") in str(refused.value)
    assert "for example sqlite:///" in str(refused.value)


async def test_a_directory_and_a_text_are_no_databases(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="is a directory"):
        await opened(url_of(tmp_path))
    (tmp_path / "notes.txt").write_text("not a database at all\n" * 100)
    with pytest.raises(InvalidValue, match="not an SQLite database"):
        await opened(url_of(tmp_path / "notes.txt"))


async def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "f.db"
    async with a_store(url_of(path)) as store:
        await store.jobs.submit(0, [new_job(b"x" * 500) for _ in range(1000)])
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(FoliotError, match="damaged"):
        async with a_store(url_of(path)) as store:
            await store.jobs.count()


@pytest.mark.parametrize(
    "url", ["sqlite://f.db", "sqlite://", "sqlite:///", "sqlite:///a/", "sqlite:///f?x=1"]
)
def test_a_url_without_a_file_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(InvalidValue, match=r"for example sqlite:///foliot\.db"):
        parse_url(url)


def test_paths_are_relative_after_three_slashes_and_full_after_four() -> None:
    assert parse_url("sqlite:///some/f.db") == Path.cwd() / "some" / "f.db"
    assert parse_url("sqlite:////some/f.db") == Path("/some/f.db")
    assert parse_url("sqlite:///:memory:") is None
    assert parse_url("sqlite://:memory:") is None


async def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(InvalidValue, match=r"older than version 3\.35"):
        await opened(url_of(tmp_path / "f.db"))


# The schema


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    url = url_of(tmp_path / "f.db")
    await upgrade(url)
    with sqlite3.connect(tmp_path / "f.db") as connection:
        connection.execute(
            "INSERT INTO foliot_migrations (number, name, checksum) VALUES (99, 'future', '')"
        )
    connection.close()
    with pytest.raises(SchemaNewer):
        await opened(url)
    with pytest.raises(SchemaNewer):
        await upgrade(url)


async def test_a_file_is_made_only_if_that_is_wanted(tmp_path: Path) -> None:
    url = url_of(tmp_path / "f.db")
    with pytest.raises(SchemaMissing):
        await opened(url, create=False)
    assert (await read_schema(url)).version is None
    assert names_in(tmp_path) == []
    assert [migration.number for migration in await upgrade(url, partitions=8)] == [
        *range(1, NEWEST + 1)
    ]
    assert await upgrade(url) == []
    assert (await read_schema(url)).partitions == 8
    store = await opened(url, create=False)
    assert store.partitions == 8
    await store.close()


async def test_the_script_makes_the_same_tables(tmp_path: Path) -> None:
    await upgrade(url_of(tmp_path / "made.db"))
    tables = []
    for name in ("made.db", "scripted.db"):
        connection = sqlite3.connect(tmp_path / name)
        if name == "scripted.db":
            connection.executescript(script({}))
        tables.append(
            connection.execute("SELECT name, sql FROM sqlite_master ORDER BY 1").fetchall()
        )
        connection.close()
    assert tables[0] == tables[1]
    async with a_store(url_of(tmp_path / "scripted.db")) as store:
        assert store.partitions == 1


async def test_tables_of_an_application_may_be_in_the_same_file(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("CREATE TABLE jobs (title TEXT)")
    connection.close()
    async with a_store(url_of(tmp_path / "app.db")) as store:
        assert await submit(store)


async def test_no_statement_on_the_way_of_a_job_scans_a_table(tmp_path: Path) -> None:
    await upgrade(url_of(tmp_path / "f.db"))
    connection = sqlite3.connect(tmp_path / "f.db")
    connection.execute("CREATE TEMP TABLE foliot_fates (place INTEGER PRIMARY KEY, why, fate)")
    connection.execute(
        "CREATE TEMP TABLE foliot_places (place INTEGER PRIMARY KEY, lane, fair_key, head, rank, ends)"
    )
    whole = {"count_jobs"}
    for name, parts in load_parts(*JOB_FILES).items():
        for part in parts:
            values = dict.fromkeys(re.findall(r":([a-z_]+)", part))
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {part}", values)]
            # To walk the ready or running ones in order is how the first of them is found.
            scans = [
                step
                for step in plan
                if step.startswith(("SCAN foliot_jobs", "SCAN j", "SCAN foliot_history"))
                and not step.startswith(("SCAN json_each", "SCAN j USING INDEX foliot_jobs_r"))
            ]
            assert name in whole or not scans, (name, plan)
    connection.close()


def test_the_doctor_makes_no_file_where_a_path_was_mistyped(tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"
    answer = subprocess.run(
        [sys.executable, "-m", "foliot", "doctor", "--url", url_of(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode in (1, 2)
    assert f"there is no file {path}" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert names_in(tmp_path) == []


async def test_a_store_is_opened_but_not_made_where_that_is_asked_for(tmp_path: Path) -> None:
    settings = StoreSettings(url=url_of(tmp_path / "f.db"))
    with pytest.raises(SchemaMissing, match=r"there is no file .*f\.db"):
        await open_store(settings, clock=SystemClock(), ids=Ids(), create=False)
    assert names_in(tmp_path) == []
