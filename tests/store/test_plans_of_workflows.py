"""Plans of what is done with workflows: nothing looks through all jobs, or through a day of history, be there ever so
many steps in a workflow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
import pytest

from foliot.store.postgres.workflows import SQL
from support.plans import STILL, Mode, explain, nodes
from support.stores import Databases

STEPS: Final = 1_000  # of each workflow, on an average
IDS: Final = [f"00000000-0000-7000-8000-{number:012x}" for number in range(500)]
FILLED: Final = f"""
INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state, namespace, kind, queue,
                            created_at, run_at, started_at, finished_at, session, extras, payload)
SELECT 0, gen_random_uuid(), 1, 2, 1, 0, 0, 'succeeded', 'default', 'kind', 'queue', now(), now(), now(), now(),
       gen_random_uuid(), '{{}}', '\\x7b7d'
FROM generate_series(1, 100000);
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace, kind, queue,
                         created_at, run_at, payload, extras)
SELECT 0, gen_random_uuid(), 4, i, 2, 2, 5, 'ready', 'default', 'kind', 'queue', now(), now(), '\\x7b7d', '{{}}'
FROM generate_series(1, 100000) AS i;
INSERT INTO foliot.workflows (partition, id, total, remaining, chain, state, policy, namespace, name, created_at,
                              fingerprint, finished_at)
SELECT 0, gen_random_uuid(), {STEPS}, 0, i % 2 = 0, CASE WHEN i % 20 = 0 THEN 'running' ELSE 'succeeded' END,
       'continue', 'default', 'chain', now(), '', now()
FROM generate_series(1, 100) AS i;
INSERT INTO foliot.steps (partition, job, workflow, number, pending, begun, told, state, rule, name, parents, children,
                          template, payload, finished_at)
SELECT 0, gen_random_uuid(), w.id, i, 0, true, true, 'succeeded', 'all_succeeded', i::text, '[]', '[]', '{{}}',
       '\\x7b7d', now()
FROM foliot.workflows w, generate_series(1, {STEPS}) AS i;
INSERT INTO foliot.links (partition, workflow, step, side, number, jobs)
SELECT 0, s.workflow, s.job, 'children', i, '[]' FROM foliot.steps s, generate_series(1, 50) AS i
WHERE s.number % 50 = 0;
INSERT INTO foliot.followers (partition, workflow, follower)
SELECT 0, w.id, gen_random_uuid() FROM foliot.workflows w, generate_series(1, {STEPS}) AS i;
"""
VALUES: Final[dict[str, object]] = {
    **dict.fromkeys(("id", "workflow", "job", "session"), IDS[0]),
    **dict.fromkeys(("now", "state", "before", "before_at", "deadline", "waiter", "note"), None),
    **dict.fromkeys(("name", "by", "reason", "policy", "namespace", "fingerprint"), "word"),
    **dict.fromkeys(("number", "live", "edges", "after", "failed", "fence"), 1),
    **dict.fromkeys(("running", "chain"), True),
    "ids": json.dumps(IDS),
    "flows": json.dumps(IDS[:2]),
    "names": json.dumps(["word"]),
    "hooks": "[]",
    "rows": json.dumps([[id, 1, 0, 0, True, False] for id in IDS]),
    "other": IDS[1],
    "partition": 0,
    **dict.fromkeys(("limit", "most"), 100),
    "keep": 86_400.0,
    "grace": 600.0,
    "modules": "[]",
    "payload": "\\x7b7d",
}


@pytest.fixture(scope="module")
def large(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    url = databases.server.create_database("large_workflows", asyncio.run(databases.template(1)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILLED)
        connection.execute("ANALYZE")
        yield connection
    databases.server.drop_database("large_workflows")


@pytest.fixture(scope="module")
def uncounted(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """As large, and nobody has counted anything yet."""
    name = "uncounted_workflows"
    url = databases.server.create_database(name, asyncio.run(databases.template(1)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(STILL)
        connection.execute(FILLED)
        yield connection
    databases.server.drop_database(name)


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("name", [name for name in SQL if name != "list_steps"])
def test_no_table_is_looked_through(large: psycopg.Connection[Any], name: str, mode: Mode) -> None:
    """But for days on which nothing has ended. To list steps reads all of one workflow, as is cheapest."""
    today = f"history_{datetime.now(UTC):%Y%m%d}"
    found = nodes(explain(large, SQL[name], VALUES, mode=mode))
    walked = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}
    assert not walked & {"jobs", "steps", "links", "followers", today}


@pytest.mark.parametrize("mode", ["generic", "custom"])
def test_steps_begin_by_a_look_for_each(large: psycopg.Connection[Any], mode: Mode) -> None:
    """Fifty thousand begin at once when a map is done. Where nobody has counted the jobs for a while, a join may be
    planned as a loop in a loop, which takes minutes for that."""
    found = {
        node["Node Type"] for node in nodes(explain(large, SQL["begin_steps"], VALUES, mode=mode))
    }
    assert not found & {"Nested Loop", "Hash Join", "Merge Join"}


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize(
    ("name", "table", "column"),
    [
        ("find_waiting_children", "steps", "job"),
        ("note_outer", "steps", "job"),
        ("lock_old_workflows", "jobs", "id"),
        ("prune_workflows", "jobs", "id"),
    ],
)
def test_what_is_known_is_looked_up_in_a_store_that_nobody_has_counted(
    uncounted: psycopg.Connection[Any], name: str, table: str, column: str, mode: Mode
) -> None:
    """Each time a step adds another, or a workflow is forgotten. A walk along an index is no look-up."""
    values = VALUES | {"waiter": IDS[0]}
    found = nodes(explain(uncounted, SQL[name], values, mode=mode))
    read = [node for node in found if node.get("Relation Name") == table]
    assert read
    for node in read:
        told = node.get("Index Cond", node.get("Recheck Cond", ""))
        assert f"({column} = " in told, node["Node Type"]
