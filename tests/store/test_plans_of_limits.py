"""Plans of claims: who waits for a limit is found at the front of its line, whatever the planner believes of how many
wait; and one plan serves all claims."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest

from foliot.clock import SystemClock
from foliot.store.fronts import Fronting, Fronts, Place
from foliot.store.postgres.gates import front_values
from foliot.testing.clock import ManualClock
from support.plans import STATEMENTS, Mode, explain, literal, nodes
from support.stores import Databases

WAITING: Final = 30_000
FREED: Final = 3
SESSION: Final = "00000000-0000-7000-8000-000000000000"
GATE: Final = "key:customer"

# How many of them wait already, and how many are ready, when the tables are analysed; the others come after it.
KNOWN: Final = {"nothing": (0, 0), "half": (15_000, 15_000), "all": (30_000, 0)}

_READY = f"""
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace, kind, queue,
                         created_at, run_at, payload, extras)
SELECT 0, gen_random_uuid(), 4, i, 2, 2, 5, 'ready', 'default', 'kind', 'queue', now(), now(), '\\x7b7d',
       '{{"limit_key":"customer"}}'
FROM generate_series(1, {WAITING}) AS i
"""
_HOLD = (
    f"UPDATE foliot.jobs SET state = 'held', hold = 'limit', hold_note = '{GATE}' WHERE rank <= %s"
)
_VALUES: Final[dict[str, object]] = {
    "partition": 0,
    "now": None,
    "session": SESSION,
    "grace": 10,
    "room": FREED,
    "name": "customer",
    "partitions": 1,
    "names": f"{{{GATE}}}",
    "numbers": f"{{{FREED}}}",
    **front_values(Fronts(SystemClock()).look(0, {GATE: FREED})),
    "lanes": "{4}",
    "queues": "{queue}",
    "quotas": f"{{{FREED}}}",
    "looks": f"{{{FREED}}}",
    "most_looks": FREED,
    "choosy": "{f}",
    "choosy_any": "f",
    "kinds": "{}",
    "exact": '{"customer": 50}',
    "beginnings": "{}",
    "since": 0.0,
    "slots": "{}",
    "limit": FREED,
}


@pytest.fixture(scope="module", params=KNOWN)
def crowd(
    databases: Databases, request: pytest.FixtureRequest
) -> Iterator[psycopg.Connection[Any]]:
    """Where all wait for one limit, analysed some time before."""
    held, ready = KNOWN[request.param]
    name = f"crowd_{request.param}"
    url = databases.server.create_database(name, asyncio.run(databases.template(1)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE foliot.jobs SET (autovacuum_enabled = off)")
        if held + ready:
            connection.execute(_READY)
            connection.execute(_HOLD, [held])
        connection.execute("VACUUM ANALYZE foliot.jobs")
        if not held + ready:
            connection.execute(_READY)
        connection.execute(_HOLD, [WAITING])
        yield connection
    databases.server.drop_database(name)


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", ["pick_jobs", "claim_keyed", "admit_held"])
def test_no_more_is_read_of_a_crowd_at_a_limit_than_may_go_on(
    crowd: psycopg.Connection[Any], name: str, mode: Mode
) -> None:
    """As it was, one look read and sorted all of them: some hundred jobs a second instead of six thousand."""
    [version] = crowd.execute("SELECT version FROM foliot.rules").fetchall()[0]
    values = {**_VALUES, "version": version}
    plan = explain(crowd, STATEMENTS[name], values, mode=mode, analyse=True)
    seen = [node for node in nodes(plan) if node.get("Index Name") == "jobs_gated"]
    assert sum(node["Actual Rows"] for node in seen) == FREED
    for node in nodes(plan):
        assert node["Actual Rows"] <= 10 * FREED, node  # also of dead versions of a row
        assert node.get("Rows Removed by Filter", 0) <= FREED, node


GONE: Final = 20_000


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", ["pick_jobs", "claim_keyed", "admit_held"])
def test_behind_an_old_snapshot_those_who_have_gone_on_are_walked_past_once_a_turn(
    crowd: psycopg.Connection[Any], name: str, mode: Mode
) -> None:
    """As it was, each claim walked past all who had left since the snapshot: eight thousand jobs a second became three
    hundred within a minute."""
    [version] = crowd.execute("SELECT version FROM foliot.rules").fetchall()[0]
    fronts = Fronts(clock := ManualClock())

    def read(looked: Fronting) -> int:
        values = {**_VALUES, "version": version, **front_values(looked)}
        plan = explain(crowd, STATEMENTS[name], values, mode=mode, analyse=True)
        seen = [node for node in nodes(plan) if node.get("Index Name") == "jobs_gated"]
        assert sum(node["Actual Rows"] for node in seen) == FREED
        return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in seen)

    with psycopg.connect(crowd.info.dsn) as old, crowd.transaction(force_rollback=True):
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM foliot.rules")
        crowd.execute(
            "UPDATE foliot.jobs SET state = 'ready', hold = NULL WHERE rank <= %s", [GONE]
        )
        first = fronts.look(0, {GATE: FREED})
        assert read(first) > GONE / 100
        asked = "SELECT lane, band, rank, id::text FROM foliot.jobs WHERE rank BETWEEN %s AND %s"
        found: list[tuple[str, Place]] = [
            (GATE, place) for place in crowd.execute(asked, [GONE + 1, GONE + FREED]).fetchall()
        ]
        first.learn(found)
        assert read(fronts.look(0, {GATE: FREED})) < 30
        clock.advance(seconds=10)
        assert read(fronts.look(0, {GATE: FREED})) > GONE / 100


@pytest.mark.parametrize("mode", ["generic", "custom"])
def test_whether_anybody_waits_for_a_limit_is_seen_by_the_first(
    crowd: psycopg.Connection[Any], mode: Mode
) -> None:
    values = {**_VALUES, "names": f"{{{GATE},key:nobody}}"}
    plan = explain(crowd, STATEMENTS["find_gates_among"], values, mode=mode, analyse=True)
    for node in nodes(plan):
        assert node["Actual Rows"] <= 2, node
        assert node.get("Rows Removed by Filter", 0) == 0, node


@pytest.mark.parametrize("mode", ["generic", "custom"])
def test_whether_anybody_waits_for_a_breaker_is_seen_by_the_first(
    crowd: psycopg.Connection[Any], mode: Mode
) -> None:
    with crowd.transaction(force_rollback=True):
        crowd.execute("UPDATE foliot.jobs SET hold_note = 'breaker:customer'")
        plan = explain(crowd, STATEMENTS["find_behind"], _VALUES, mode=mode, analyse=True)
    for node in nodes(plan):
        assert node["Actual Rows"] <= 1, node
        assert node.get("Rows Removed by Filter", 0) == 0, node


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", ["find_behind", "count_behind", "find_gates_among"])
def test_whether_anybody_waits_is_seen_without_those_who_wait_for_another(
    crowd: psycopg.Connection[Any], name: str, mode: Mode
) -> None:
    """As it was, every report to a breaker that was half open read all jobs of all partitions."""
    values = {**_VALUES, "name": "nobody", "names": "{breaker:nobody}"}
    plan = explain(crowd, STATEMENTS[name], values, mode=mode, analyse=True)
    for node in nodes(plan):
        assert node["Node Type"] != "Seq Scan" or node["Relation Name"] != "jobs", node
        assert node.get("Rows Removed by Filter", 0) == 0, node


@pytest.mark.parametrize("name", ["claim_jobs", "pick_jobs", "claim_keyed"])
def test_a_claim_of_one_lane_is_not_planned_anew_every_time(
    crowd: psycopg.Connection[Any], name: str
) -> None:
    statement = STATEMENTS[name]
    given = ", ".join(map(literal, statement.bind({**_VALUES, "version": 0})))
    with crowd.transaction(force_rollback=True):
        crowd.execute(f"PREPARE {name} AS {statement.numbered}")
        for _ in range(10):
            crowd.execute(f"EXECUTE {name} ({given})")
        asked = "SELECT generic_plans FROM pg_prepared_statements WHERE name = %s"
        assert crowd.execute(asked, [name]).fetchone() == (5,)  # the first five are tried
        crowd.execute(f"DEALLOCATE {name}")
