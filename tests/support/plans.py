"""What PostgreSQL would do: the plan of a shipped statement, and the indexes that it rides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
import psycopg

from foliot.store.sql import JOB_FILES, Statement, load_statements

Mode = Literal["generic", "custom"]
HOT = ("jobs", "history", "dead", "attempts")
# Plans go by what ANALYZE finds in a test, and not by what autovacuum may have found half-way.
STILL = """
DO $$ DECLARE one regclass; BEGIN
    FOR one IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'foliot'::regnamespace AND c.relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', one);
    END LOOP;
END $$
"""
STATEMENTS: Mapping[str, Statement] = load_statements(
    "foliot.store.postgres",
    *JOB_FILES,
    "dead.sql",
    "search.sql",
    "sessions.sql",
    "logs.sql",
    "upkeep.sql",
    "gates.sql",
    "limits.sql",
    "breakers.sql",
    "events.sql",
)


class Scan(msgspec.Struct, frozen=True):
    """One visit to a hot table: by an index, or through the whole of it. A day of history is history."""

    table: str
    index: str | None
    condition: str


def explain(
    connection: psycopg.Connection[Any],
    statement: Statement,
    values: Mapping[str, object],
    *,
    mode: Mode,
    analyse: bool = False,
) -> dict[str, Any]:
    """As the adapter has it run: prepared, with the plan that is made for all values or for these."""
    name = statement.name
    arguments = [literal(value) for value in statement.bind(values)]
    called = f"{name}({', '.join(arguments)})" if arguments else name
    options = "ANALYZE, BUFFERS, FORMAT JSON" if analyse else "FORMAT JSON"
    with connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
        connection.execute(f"PREPARE {name} AS {statement.numbered}")
        try:
            row = connection.execute(f"EXPLAIN ({options}) EXECUTE {called}").fetchone()
        finally:
            connection.execute(f"DEALLOCATE {name}")
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def scans(plan: dict[str, Any]) -> list[Scan]:
    found = []
    for node in nodes(plan):
        # A bitmap is filled from an index by a node of its own, which names no table.
        kind, index = node["Node Type"], node.get("Index Name")
        named = str(index if kind == "Bitmap Index Scan" else node.get("Relation Name", ""))
        table = named.partition("_")[0]
        if table not in HOT or "Scan" not in kind or kind == "Bitmap Heap Scan":
            continue
        if index is not None and "_partition_id_idx" in index:
            index = "history_id"
        found.append(Scan(table, index, node.get("Index Cond", "")))
    return found


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int | float):
        return str(value)
    return "'{}'".format(str(value).replace("'", "''"))
