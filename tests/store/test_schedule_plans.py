"""Plans of what fires: each statement rides its indexes, whatever the planner knows or believes about the tables."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foliot.store.sql import load_statements
from foliot.store.sqlite.batches import load_parts
from foliot.store.sqlite.file import File
from foliot.store.sqlite.migrations import migrate
from support.plans import Mode, explain, nodes
from support.stores import Databases

PARTITION = 3
SCHEDULES = 100_000
STATEMENTS = load_statements("foliot.store.postgres", "schedules.sql", "fire.sql", "runs.sql")
FIRST, LAST = (f"{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "0f")

# By which index a statement may look into a table.
RIDES = {
    "find_due_triggers": {"triggers_due", "schedules_trigger"},
    "lock_triggers": {"triggers_pkey"},
    "fire_schedules": {"schedules_trigger"},
    "fire_stateful": {
        "schedules_trigger",
        "schedules_pkey",
        "jobs_schedule",
        "history_schedule",
        "dead_schedule",
        "triggers_pkey",
        "ledger_pkey",
    },
    "move_triggers": {"triggers_pkey"},
    "end_triggers": {"triggers_pkey", "schedules_trigger"},
    "forget_triggers": {"triggers_pkey", "schedules_trigger"},
    "add_gaps": {"triggers_pkey", "gaps_pkey"},
    "jump_triggers": {"triggers_pkey"},
    "find_gaps": {"gaps_open", "triggers_pkey", "schedules_trigger"},
    "find_last_end": {"jobs_schedule", "history_schedule", "dead_schedule"},
    "find_live_runs": {"jobs_schedule"},
    "get_schedules": {"schedules_pkey", "triggers_pkey"},
    "pause_schedules": {"schedules_pkey", "triggers_pkey"},
    "delete_schedules": {"schedules_pkey", "ledger_pkey", "versions_pkey"},
}
# Through a whole table, named or by one letter, or through all of a partition; what is open is few.
WALK = r"^SCAN (foliot_\w+|[st])\b(?! VIRTUAL)|(?<!_open )\(partition=\?\)$"
TABLES = {"jobs", "history", "dead", "schedules", "triggers", "versions", "ledger", "gaps"}

_FILL = f"""
INSERT INTO foliot.triggers (partition, id, stateful, expression, timezone, next_fire_at, fired_at, tzdata)
SELECT p, i, i % 2 = 0, 'every minute', 'UTC', now() + (i - 5) * interval '1 minute', now(), ''
FROM generate_series(0, 7) p, generate_series(1, 400) i;
INSERT INTO foliot.schedules (partition, id, trigger, lane, since, active_from, priority, max_attempts, state, overlap,
                              misfire, namespace, name, kind, queue, extras, rules, created_at, updated_at, payload)
SELECT i % 8, gen_random_uuid(), i / 8 % 400 + 1, 4, now(), now(), 2, 5, 'active', 'skip', 'latest', 'default',
       'n' || i, 'kind', 'queue', '{{}}', '{{}}', now(), now(), '\\x7b7d'
FROM generate_series(1, {SCHEDULES}) i;
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace, kind, queue,
                         created_at, run_at, payload, schedule)
SELECT s.partition, gen_random_uuid(), 4, 1, 0, 2, 5, 'ready', 'default', 'kind', 'queue', now(), now(), '\\x7b7d',
       CASE WHEN random() < 0.2 THEN s.id END
FROM foliot.schedules s;
INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state, namespace, kind, queue,
                            created_at, run_at, finished_at, payload, schedule)
SELECT s.partition, gen_random_uuid(), 1, 2, 1, 0, 0, 'succeeded', 'default', 'kind', 'queue', now(), now(),
       now() + (random() * 4 - 1) * interval '1 day', '\\x7b7d', CASE WHEN random() < 0.2 THEN s.id END
FROM foliot.schedules s;
INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                         namespace, kind, queue, created_at, run_at, finished_at, payload, schedule)
SELECT s.partition, gen_random_uuid(), 1, 4, 2, 1, 1, 0, 0, 'default', 'kind', 'queue', now(), now(), now(),
       '\\x7b7d', CASE WHEN random() < 0.5 THEN s.id END
FROM foliot.schedules s WHERE random() < 0.2;
INSERT INTO foliot.ledger (partition, schedule, from_at, to_at, count, reason)
SELECT s.partition, s.id, now(), now(), 1, 'overlap' FROM foliot.schedules s;
INSERT INTO foliot.versions (partition, schedule, version, active_from, until, rules)
SELECT s.partition, s.id, 1, now(), now(), '{{}}' FROM foliot.schedules s;
INSERT INTO foliot.gaps (partition, trigger, from_at, to_at, count, reason, at, done)
SELECT t.partition, t.id, now() - i * interval '1 hour', now(), 1, 'missed', now(), t.id > 3
FROM foliot.triggers t, generate_series(1, 10) i;
"""


@pytest.fixture(scope="module")
def full(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A hundred thousand schedules, analysed."""
    name = "schedule_plans"
    url = databases.server.create_database(name, asyncio.run(databases.template(8)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_FILL)
        connection.execute("ANALYZE")
        yield connection
    databases.server.drop_database(name)


@pytest.fixture(scope="module")
def empty(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A store just made."""
    name = "schedule_plans_of_nothing"
    url = databases.server.create_database(name, asyncio.run(databases.template(8)))
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    databases.server.drop_database(name)


def _values(connection: psycopg.Connection[Any]) -> dict[str, object]:
    found = connection.execute(
        "SELECT id::text FROM foliot.schedules WHERE partition = %s LIMIT 20", [PARTITION]
    ).fetchall()
    ids = [row[0] for row in found] or [FIRST]
    return {
        "partition": PARTITION,
        "now": None,
        "limit": 1000,
        "chunk": 5000,
        "policy": None,
        "place": 0,
        "tzdata": "",
        "grace": 10,
        "by": None,
        "note": None,
        "state": "paused",
        "id": ids[0],
        "ids": "{" + ",".join(ids) + "}",
        "triggers": "{1,2,3}",
        "nominals": "{1700000000,1700000000,1700000000}",
        "cursors": f"{{NULL,{FIRST},NULL}}",
        "uppers": f"{{NULL,{LAST},NULL}}",
        "nexts": "{1700000060,1700000060,1700000060}",
        "counts": "{1,1,1}",
        "tos": "{1700000000,1700000000,1700000000}",
        "reasons": "{missed,missed,missed}",
    }


def _indexes(plan: dict[str, Any]) -> set[str | None]:
    """By which indexes the tables are looked into; None: by none. A day of history is history."""
    found: set[str | None] = set()
    for node in nodes(plan):
        kind, index = node["Node Type"], node.get("Index Name")
        if "Scan" not in kind or kind == "Bitmap Heap Scan":
            continue
        table = str(node.get("Relation Name", index or "")).partition("_")[0]
        if table not in TABLES:
            continue
        if index is not None and "_partition_schedule_finished_at_idx" in index:
            index = f"{table}_schedule"
        found.add(index)
    return found


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", RIDES)
def test_a_statement_rides_its_indexes(
    full: psycopg.Connection[Any], name: str, mode: Mode
) -> None:
    values = _values(full) | ({"limit": 1} if name == "find_gaps" else {})
    found = _indexes(explain(full, STATEMENTS[name], values, mode=mode))
    assert found <= RIDES[name], found


@pytest.mark.parametrize("name", RIDES)
def test_a_plan_made_while_there_were_no_schedules_is_good_when_there_are_many(
    empty: psycopg.Connection[Any], name: str
) -> None:
    found = _indexes(explain(empty, STATEMENTS[name], _values(empty), mode="generic"))
    assert found <= RIDES[name], found


def test_finding_what_is_due_reads_only_what_is_due(full: psycopg.Connection[Any]) -> None:
    """Of 400 triggers of the partition five are due, with 31 schedules each."""
    plan = explain(
        full, STATEMENTS["find_due_triggers"], _values(full), mode="generic", analyse=True
    )
    for node in nodes(plan):
        assert node["Actual Rows"] <= 40, node


class _Anything(dict[str, object]):
    def __missing__(self, name: str) -> object:
        return None


def test_in_sqlite_nothing_walks_a_table_but_what_counts_or_prunes(tmp_path: Path) -> None:
    file = File(f"sqlite:///{tmp_path / 'foliot.db'}")
    walking = set()
    with closing(file.connect(timeout=5, create=True)) as connection:
        migrate(connection, file)
        for name, parts in load_parts("schedules.sql", "fire.sql", "runs.sql").items():
            for part in parts:
                plan = connection.execute(f"EXPLAIN QUERY PLAN {part}", _Anything()).fetchall()
                walking |= {name for row in plan if re.search(WALK, row[3])}
    assert walking == {
        "count_schedules",
        "forecast_triggers",
        "count_triggers",
        "list_calendars",
        "prune_ledger",
        "prune_gaps",
        "prune_versions",
    }
