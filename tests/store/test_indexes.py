"""Indexes: a plain job pays for the primary key, jobs_ready and jobs_running, and for nothing else."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import psycopg
import pytest

from foliot.model.job import End
from support.stores import Place, World

pytestmark = pytest.mark.anyio


def _rows(place: Place, statement: str) -> list[tuple[Any, ...]]:
    if place.engine == "sqlite":
        connection = sqlite3.connect(place.settings.url.removeprefix("sqlite:///"))
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()
    with psycopg.connect(place.direct) as link:
        return link.execute(statement).fetchall()


def _indexes(place: Place, table: str) -> dict[str, str | None]:
    """Each index of a table, with what a row must be to be in it (None: every row is)."""
    if place.engine == "sqlite":
        found = _rows(
            place,
            f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'foliot_{table}'",
        )
        return {
            "pkey" if sql is None else name.removeprefix(f"foliot_{table}_"): _predicate(sql)
            for name, sql in found
        }
    found = _rows(
        place,
        "SELECT i.indexrelid::regclass::text, pg_get_expr(i.indpred, i.indrelid)"
        f" FROM pg_index i WHERE i.indrelid = 'foliot.{table}'::regclass",
    )
    return {name.removeprefix(f"foliot.{table}_"): predicate for name, predicate in found}


def _whole(place: Place, table: str) -> set[str]:
    """The indexes that every row of a table is in."""
    return {name for name, predicate in _indexes(place, table).items() if predicate is None}


def _predicate(sql: str | None) -> str | None:
    found = re.search(r"\bWHERE\b(.*)", sql or "", re.DOTALL)
    return found[1] if found else None


def _entries(place: Place) -> set[str]:
    """The indexes that the live jobs are in."""
    jobs = "foliot_jobs" if place.engine == "sqlite" else "foliot.jobs"
    return {
        name
        for name, predicate in _indexes(place, "jobs").items()
        if _rows(place, f"SELECT count(*) FROM {jobs} WHERE {predicate or 'true'}") != [(0,)]
    }


async def test_a_plain_job_is_in_the_primary_key_and_one_more_index_at_a_time(
    world: World,
) -> None:
    await world.submit()
    assert _entries(world.place) == {"pkey", "ready"}
    session = await world.open_session()
    [job] = await world.claim(session)
    assert _entries(world.place) == {"pkey", "running"}
    await world.end(session, job, End.RELEASE)
    assert _entries(world.place) == {"pkey", "ready"}
    [job] = await world.claim(session)
    await world.end(session, job)
    assert _entries(world.place) == set()


@pytest.mark.parametrize(
    ("fields", "index"),
    [({"key": "k"}, "key"), ({"timeout": 5}, "deadline")],
    ids=["with a key", "with a timeout"],
)
async def test_a_job_pays_only_for_what_it_asks_for(
    world: World, fields: dict[str, object], index: str
) -> None:
    await world.run(await world.open_session(), **fields)
    assert _entries(world.place) == {"pkey", "running", index}


async def test_a_job_that_waits_is_in_the_index_of_what_it_waits_for(world: World) -> None:
    await world.submit(run_at=world.after(60))
    assert _entries(world.place) == {"pkey", "scheduled"}
    session = await world.open_session()
    await world.end(session, await world.run(session), End.HOLD, reason="unknown_kind")
    assert _entries(world.place) == {"pkey", "scheduled", "held"}


async def test_every_index_of_live_jobs_but_the_primary_key_is_partial(place: Place) -> None:
    assert _whole(place, "jobs") == {"pkey"}


async def test_what_has_ended_pays_for_one_index_more_on_sqlite_and_none_on_postgres(
    place: Place,
) -> None:
    """PostgreSQL drops days whole; SQLite must find the old rows. Runs that schedules look at are few."""
    expected = {"id", "finished"} if place.engine == "sqlite" else {"id"}
    assert _whole(place, "history") == expected
    assert _whole(place, "dead") == {"pkey"}
    for table in ("history", "dead"):
        assert "schedule IS NOT NULL" in (_indexes(place, table)["schedule"] or "")


async def test_the_partition_comes_first_in_every_key_and_index(place: Place) -> None:
    if place.engine == "sqlite":
        found = _rows(
            place,
            "SELECT m.name, i.name FROM sqlite_master m, pragma_index_info(m.name) i"
            " WHERE m.type = 'index' AND i.seqno = 0 AND m.tbl_name IN"
            " ('foliot_jobs', 'foliot_dead', 'foliot_attempts')",
        )
    else:
        found = _rows(
            place,
            "SELECT i.indexrelid::regclass::text, a.attname FROM pg_index i"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
            " WHERE i.indrelid = ANY ('{foliot.jobs,foliot.history,foliot.dead,foliot.attempts}'::regclass[])",
        )
    assert found
    assert {column for _, column in found} == {"partition"}, found
