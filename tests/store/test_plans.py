"""Plans: every hot statement rides its index, whatever the planner knows or believes about the tables."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from foliot.filter import parse
from foliot.store.searching import FIRST_ID, LAST_ID, conditions
from foliot.store.sql import compose
from foliot.testing.clock import ManualClock
from support.plans import STATEMENTS, STILL, Mode, Scan, explain, literal, nodes, scans
from support.stores import CLEANER, Databases, open_world, postgres_place

PARTITION = 3
BATCH = 500
ROWS = 200_000

# Which indexes a statement may use, by name.
RIDES = {
    "submit_jobs": set(),
    "withdraw_resent_jobs": {"history_id", "dead_pkey", "jobs_pkey"},
    "find_submitted_jobs": {"jobs_pkey", "jobs_key", "history_id", "dead_pkey"},
    "claim_jobs": {"jobs_ready", "jobs_pkey"},
    "lock_jobs": {"jobs_pkey"},
    "finish_jobs": {"jobs_pkey"},
    "retry_jobs": {"jobs_pkey"},
    "bury_jobs": {"jobs_pkey"},
    "cancel_failed_jobs": {"jobs_pkey"},
    "release_jobs": {"jobs_pkey"},
    "request_cancel": {"jobs_pkey"},
    "cancel_jobs": {"jobs_pkey"},
    "admit_jobs": {"jobs_scheduled", "jobs_pkey"},
    "admit_kinds": {"jobs_held", "jobs_pkey"},
    "find_lost_sessions": {"jobs_running", "jobs_deadline"},
    "find_lost_steps": {"jobs_running", "jobs_deadline"},
    "reap_jobs": {"jobs_running", "jobs_deadline", "jobs_pkey", "attempts_pkey"},
    "find_held_jobs": {"jobs_admission"},
    "find_turns": {"jobs_turns"},
    "find_idle_orders": {"jobs_order", "jobs_active"},
    "admit_orders": {"jobs_order", "jobs_active", "jobs_pkey"},
    "order_jobs": {"jobs_pkey"},
    "admit_turns": {"jobs_ready", "jobs_pkey"},
    "expire_jobs": {"jobs_expires", "jobs_pkey"},
    "hold_kinds": {"jobs_ready", "jobs_pkey"},
    "admit_payloads": {"jobs_held", "jobs_pkey"},
    "list_unheard": {"jobs_held"},
    "peek_jobs": {
        "jobs_ready",
        "jobs_scheduled",
        "jobs_admission",
        "jobs_turns",
        "jobs_order",
        "jobs_expires",
        "jobs_gated",
    },
    "list_running_jobs": {"jobs_running"},
    "get_claim": {"jobs_running", "jobs_pkey"},
    "find_settled_jobs": {"history_id", "attempts_pkey"},
    "lock_dead_jobs": {"dead_pkey"},
    "retry_dead_jobs": {"dead_pkey"},
    "remove_retried_jobs": {"dead_pkey"},
    "find_key_holders": {"dead_pkey", "jobs_key"},
    "purge_dead_jobs": {"dead_pkey", "attempts_pkey"},
    "count_ahead": {"jobs_pkey", "jobs_ready"},
    "list_earlier_jobs": {"jobs_pkey", "jobs_order", "jobs_active"},
    "get_live_job": {"jobs_pkey"},
    "get_recent_job": {"history_id"},
    "get_dead_job": {"dead_pkey"},
    "list_ended_jobs": {"history_id", "dead_pkey"},
    "list_attempts": {"attempts_pkey"},
    "set_progress": {"jobs_pkey"},
    "extend_session": set(),
    "close_session": {"jobs_running"},
    "prune_sessions": {"jobs_running"},
    "find_waited": {"jobs_gated"},
    "count_waiting": {"jobs_gated"},
    "count_behind": {"jobs_gated", "jobs_admitted"},
    "find_behind": {"jobs_gated", "jobs_admitted", "jobs_running"},
    "count_running": {"jobs_running"},
    "list_holders": {"jobs_running"},
}
READ_ALL_PARTITIONS = {
    "find_lost_sessions",
    "peek_jobs",
    "find_waited",
    "count_running",
    "list_holders",
}
# What a worker waits for. They must be right even if planned while the store was new and empty.
HOTTEST = [
    "submit_jobs",
    "withdraw_resent_jobs",
    "find_submitted_jobs",
    "claim_jobs",
    "lock_jobs",
    "finish_jobs",
    "retry_jobs",
    "bury_jobs",
    "cancel_failed_jobs",
    "release_jobs",
    "request_cancel",
    "cancel_jobs",
    "admit_jobs",
    "admit_orders",
    "admit_turns",
    "peek_jobs",
    "find_settled_jobs",
    "get_live_job",
    "get_recent_job",
    "list_ended_jobs",
]

# What moves jobs to where they end.
TELLING = [
    "finish_jobs",
    "bury_jobs",
    "cancel_failed_jobs",
    "cancel_jobs",
    "reap_jobs",
    "expire_jobs",
]

_FILL = f"""
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace, kind,
                         queue, created_at, run_at, payload, session, fence, claimed_at, deadline_at, hold, key)
SELECT i % 8, gen_random_uuid(), i % 20, i, i % 3, i % 3, 5, state, 'default', 'kind' || i % 50,
       'queue' || i % 20, now(), now() + i * interval '1 second', '\\x7b7d',
       CASE state WHEN 'running' THEN md5((i % 40)::text)::uuid END, 1,
       CASE state WHEN 'running' THEN now() END,
       CASE WHEN state = 'running' AND i % 100 = 7 THEN now() + interval '1 hour' END,
       CASE state WHEN 'held' THEN 'unknown_kind' END, CASE WHEN i % 10 = 0 THEN 'key' || i END
FROM (SELECT i, CASE WHEN i % 16 < 8 THEN 'ready' WHEN i % 160 < 150 THEN 'scheduled'
                     WHEN i % 320 < 318 THEN 'running' ELSE 'held' END AS state
      FROM generate_series(1, {ROWS}) AS i) AS new;
INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state, namespace,
                            kind, queue, created_at, run_at, finished_at, payload)
SELECT i % 8, gen_random_uuid(), 1, 2, 1, 0, 0, 'succeeded', 'default', 'kind', 'queue', now(), now(),
       now() + (i % 10 - 1) * interval '1 day', '\\x7b7d'
FROM generate_series(1, {ROWS}) AS i;
INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                         namespace, kind, queue, created_at, run_at, finished_at, payload)
SELECT i % 8, gen_random_uuid(), 1, 1, 2, 1, 1, 0, 0, 'default', 'kind', 'queue', now(), now(), now(),
       '\\x7b7d'
FROM generate_series(1, 20000) AS i;
INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, finished_at)
SELECT i % 8, gen_random_uuid(), 1, 1, 'failed', now() FROM generate_series(1, 50000) AS i;
INSERT INTO foliot.sessions (id, host, pid, version, queues, kinds, duties, started_at, beat_at, expires_at)
SELECT md5(i::text)::uuid, 'host', 1, '0', '{{}}', '{{}}', true, now(), now(), now() FROM generate_series(0, 49) AS i;
"""


@pytest.fixture(scope="module")
def full(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A store with history, analysed."""

    async def make() -> str:
        return await databases.template(8)

    name = "plans"
    url = databases.server.create_database(name, asyncio.run(make()))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(STILL)
        connection.execute(_FILL)
        connection.execute("ANALYZE")
        yield connection
    databases.server.drop_database(name)


@pytest.fixture(scope="module")
def empty(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A store just made."""

    async def make() -> str:
        return await databases.template(8)

    name = "plans_of_nothing"
    url = databases.server.create_database(name, asyncio.run(make()))
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    databases.server.drop_database(name)


def _values(connection: psycopg.Connection[Any]) -> dict[str, object]:
    """Something for each parameter, like what a busy worker would send."""
    found = connection.execute(
        "SELECT id::text, session::text FROM foliot.jobs"
        " WHERE partition = %s AND state = 'running' ORDER BY id LIMIT %s",
        (PARTITION, BATCH),
    ).fetchall()
    ids = [row[0] for row in found] or ["00000000-0000-7000-8000-000000000000"]

    def repeat(value: object) -> str:
        return "{" + ",".join([str(value)] * len(ids)) + "}"

    names = ["lanes", "queues", "quotas", "kinds", "partitions"]
    lists: dict[str, object] = dict.fromkeys(names, "{1,2,3}")
    return {
        "partition": PARTITION,
        "version": None,
        "now": None,
        "beat": None,
        "resend": "true",
        "id": ids[0],
        "session": found[0][1] if found else ids[0],
        "ids": "{" + ",".join(ids) + "}",
        "fences": repeat(1),
        "delays": repeat(1.5),
        "states": repeat("succeeded"),
        "payloads": repeat('"\\\\x7b7d"'),
        "mores": repeat("NULL"),
        "run_ats": repeat("NULL"),
        "timeouts": repeat("NULL"),
        **{name: repeat(1) for name in ("priorities", "max_attempts")},
        **{n: repeat("word") for n in ("namespaces", "keys", "reasons", "errors", "tracebacks")},
        **{name: repeat("NULL") for name in ("results", "holds", "notes")},
        **lists,
        "sessions": "{" + (found[0][1] if found else ids[0]) + "}",
        "executing": "{}",
        "flows": "{}",
        "steps": "{}",
        "waiting": 0,
        "moved": "true",
        "note": None,
        "progress": repeat('"[0.5,null]"'),
        "lease": 15,
        "grace": 10,
        "room": BATCH,
        "limit": BATCH,
        "loss_limit": 3,
        "since": "2000-01-01",
        "payload": None,
        "extras": None,
        "choosy": "{f,f,f}",
        "namespace": "",
        "key": "",
        "turn": 1e6,
    }


def _plan(
    connection: psycopg.Connection[Any], name: str, *, mode: Mode, analyse: bool = False
) -> dict[str, Any]:
    values = _values(connection) | {"lane": -(2**63)}
    if name == "submit_jobs":
        values |= {"lanes": values["fences"], "kinds": values["namespaces"]}
        values |= {"queues": values["namespaces"]}
    elif name == "find_submitted_jobs":
        values |= {"kinds": values["namespaces"]}
    elif name in ("find_lost_sessions", "peek_jobs", "count_ahead", "count_behind"):
        values |= {"partitions": 8, "names": "{one,other}"}
    elif name == "find_behind":
        values |= {"partitions": 8, "name": "one", "since": 1e9}
    elif name == "list_holders":
        values |= {"names": "{key:a}", "scopes": "{key}", "words": "{a}", "namespaces": "{default}"}
    elif name == "count_waiting":
        values |= {"numbers": "{0,0,1}", "names": "{queue:a,key:b,key:c}"}
    return explain(connection, STATEMENTS[name], values, mode=mode, analyse=analyse)


def _check(connection: psycopg.Connection[Any], name: str, found: list[Scan]) -> None:
    # Before PostgreSQL 17 a small partition may be walked once to filter a batch of ids from it.
    strict = connection.info.server_version >= 170000
    assert {scan.index for scan in found} == RIDES[name] or not strict, found
    for scan in found:
        assert scan.index is not None, scan
        # By its id, not by walking a whole partition.
        if strict and scan.index in ("jobs_pkey", "dead_pkey", "history_id"):
            assert "(id = " in scan.condition, scan
        assert "partition" in scan.condition or name in READ_ALL_PARTITIONS, scan


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", RIDES)
def test_a_statement_rides_its_indexes(
    full: psycopg.Connection[Any], name: str, mode: Mode
) -> None:
    """With a plan for all values, and, as through a pooler, for these."""
    _check(full, name, scans(_plan(full, name, mode=mode)))


@pytest.mark.parametrize("name", HOTTEST)
def test_no_plan_looks_through_a_batch_for_each_row(
    empty: psycopg.Connection[Any], name: str
) -> None:
    """Believed to be one row, a batch would be walked again for each of the others: minutes instead of milliseconds."""
    for node in nodes(_plan(empty, name, mode="generic")):
        if node["Node Type"] == "Nested Loop":
            inner = node["Plans"][1]["Node Type"]
            assert inner not in ("CTE Scan", "Function Scan", "Materialize"), node


@pytest.mark.parametrize("name", HOTTEST)
def test_a_plan_made_while_the_store_was_empty_is_good_when_it_is_full(
    empty: psycopg.Connection[Any], name: str
) -> None:
    _check(empty, name, scans(_plan(empty, name, mode="generic")))


def test_a_claim_sorts_only_what_it_has_claimed(full: psycopg.Connection[Any]) -> None:
    plan = _plan(full, "claim_jobs", mode="generic", analyse=True)
    for node in nodes(plan):
        assert node["Actual Rows"] <= BATCH, node["Node Type"]
        if node.get("Index Name") == "jobs_ready":
            assert "(lane = l.lane)" in node["Index Cond"]
            assert node.get("Rows Removed by Filter", 0) == 0


@pytest.mark.parametrize("name", ["finish_jobs", "retry_jobs", "bury_jobs", "release_jobs"])
def test_finishing_costs_the_same_behind_an_old_open_transaction(
    databases: Databases, full: psycopg.Connection[Any], name: str
) -> None:
    """Dead entries that cannot be cleaned away pile up in jobs_ready and jobs_running."""
    there = """UPDATE foliot.jobs SET state = 'running', session = md5('7')::uuid
               WHERE partition = 3 AND lane = 3 AND state = 'ready'"""
    back = """UPDATE foliot.jobs SET state = 'ready', session = NULL
              WHERE partition = 3 AND lane = 3 AND state = 'running' AND session = md5('7')::uuid"""
    with psycopg.connect(databases.server.url("plans")) as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1 FROM foliot.jobs LIMIT 1")
        before = _touched(_plan(full, name, mode="generic", analyse=True))
        for _ in range(3):
            full.execute(there)
            full.execute(back)
        after = _touched(_plan(full, name, mode="generic", analyse=True))
    assert after <= before * 1.5


def _touched(plan: dict[str, Any]) -> int:
    """Pages read to find the rows."""
    return sum(
        node["Shared Hit Blocks"] + node["Shared Read Blocks"]
        for node in nodes(plan)
        if node.get("Index Name") == "jobs_pkey"
    )


@pytest.mark.anyio
async def test_a_store_that_was_empty_for_long_does_not_walk_its_tables_when_it_fills(
    databases: Databases, clock: ManualClock
) -> None:
    """An empty table that was vacuumed is cheapest to read as a whole; such plans must not stay."""
    async with postgres_place(databases, partitions=1) as place:
        with psycopg.connect(place.direct, autocommit=True) as connection:
            connection.execute("VACUUM foliot.jobs")
            read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'jobs'"
            before = _value(connection, read)
            async with open_world(place, clock, size=1) as world:
                session = await world.open_session(lease=1000)
                for _ in range(10):
                    await world.end(session, await world.run(session))
                await world.submit_many(5000)
                clock.advance(10)
                for job in await world.claim(session, 10):
                    await world.end(session, job)
            _wait_until_alone(connection)  # what a connection has read is counted when it ends
            assert _value(connection, read) - before < 5000


def _wait_until_alone(connection: psycopg.Connection[Any]) -> None:
    others = (
        "SELECT count(*) - 1 FROM pg_stat_activity"
        f" WHERE datname = current_database() AND application_name <> '{CLEANER}'"
    )
    for _ in range(500):
        if _value(connection, others) == 0:
            return
        time.sleep(0.01)


def _value(connection: psycopg.Connection[Any], statement: str) -> int:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    "filter",
    [
        "",
        "kind:kind7",
        "kind:nothing",
        "payload.customer:42",
        "state:held",
        "state:scheduled queue:queue3",
        "state:succeeded",
        "state:dead kind:kind",
        "key:key10",
        "created>-1h",
        "finished>-1h kind:nothing",
        "-tag:test created<-1h",
    ],
)
def test_a_search_looks_at_a_window_and_sorts_no_more(
    full: psycopg.Connection[Any], filter: str
) -> None:
    """Whatever the filter: none of the two hundred thousand rows but those of the window is read."""
    window = 8_000
    whole, told = conditions(parse(filter), "postgres", now=datetime.now(UTC))
    values: dict[str, object] = {
        "partitions": 8,
        "after": LAST_ID,
        "edge": FIRST_ID,
        "skipped": window // 8 - 1,
        "limit": 100,
        "payloads": "true",
    }
    statement = compose(STATEMENTS["find_search_edge"], told.sql)
    plan = explain(full, statement, {**told.values, **values}, mode="custom", analyse=True)
    assert _read(plan) <= 3 * window * 1.1 + 1_000, filter
    with full.cursor() as cursor:
        row = cursor.execute(
            "SELECT id::text FROM foliot.history WHERE partition = 3 ORDER BY id DESC OFFSET %s LIMIT 1",
            (window // 8,),
        ).fetchone()
    assert row is not None
    for name in ("search_jobs", "count_found_jobs"):
        statement = compose(STATEMENTS[name], whole.sql)
        asked = {**whole.values, **values, "edge": row[0]}
        plan = explain(full, statement, asked, mode="custom", analyse=True)
        assert _read(plan) <= 3 * window * 1.5, (name, filter)


def _read(plan: dict[str, Any]) -> float:
    """Rows that scans have looked at."""
    return sum(
        float(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        * float(node["Actual Loops"])
        for node in nodes(plan)
        if "Scan" in node["Node Type"] and "Relation Name" in node
    )


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", TELLING)
def test_where_nobody_listens_no_job_is_looked_at_to_tell_of_its_end(
    full: psycopg.Connection[Any], name: str, mode: Mode
) -> None:
    """Whether anybody does is asked once, and what would be told is then not even begun to be read."""
    plan = _plan(full, name, mode=mode, analyse=True)
    [gate], _ = _telling(plan)
    assert "One-Time Filter" in gate
    [read] = gate["Plans"][-1:]
    assert (gate["Actual Rows"], read["Actual Loops"]) == (0, 0)


@pytest.mark.parametrize("name", TELLING)
def test_where_somebody_listens_to_something_else_nothing_is_read_either(
    full: psycopg.Connection[Any], name: str
) -> None:
    with full.transaction(force_rollback=True):
        full.execute(
            "INSERT INTO foliot.listeners VALUES ('worker.lost', 'on.x', 'm', '*', '*', '', now())"
        )
        [gate], asked = _telling(_plan(full, name, mode="generic", analyse=True))
    assert gate["Plans"][-1]["Actual Loops"] == 0
    assert asked == 1


def _telling(plan: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """What feeds the insert into the outbox, and how often those who listen were looked at."""
    [emitted] = [node for node in nodes(plan) if node.get("Relation Name") == "outbox"]
    assert emitted["Operation"] == "Insert"
    listeners = [node for node in nodes(plan) if node.get("Relation Name") == "listeners"]
    gates = [child for child in emitted["Plans"] if child.get("Parent Relationship") == "Outer"]
    return gates, sum(node["Actual Loops"] for node in listeners)


@pytest.mark.parametrize("name", TELLING)
def test_ending_one_job_is_not_planned_anew_every_time(
    empty: psycopg.Connection[Any], name: str
) -> None:
    """What would be believed dearer for ten jobs than for one would have it so: see submit.sql."""
    statement = STATEMENTS[name]
    given = ", ".join(map(literal, statement.bind(_values(empty))))
    empty.execute(f"PREPARE {name} AS {statement.numbered}")
    try:
        for _ in range(10):
            empty.execute(f"EXECUTE {name} ({given})")
        asked = "SELECT generic_plans FROM pg_prepared_statements WHERE name = %s"
        assert empty.execute(asked, [name]).fetchone() == (5,)  # the first five are tried
    finally:
        empty.execute(f"DEALLOCATE {name}")
