"""Statements: the same in both dialects, all of them used, all of them qualified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from foliot.store.sql import JOB_FILES, load_statements, parse_statement

FILES = [
    *JOB_FILES,
    "dead.sql",
    "search.sql",
    "audit.sql",
    "sessions.sql",
    "logs.sql",
    "upkeep.sql",
    "overview.sql",
    "guest.sql",
    "definitions.sql",
    "keys.sql",
    "repartition.sql",
    "schedules.sql",
    "fire.sql",
    "runs.sql",
    "workflows.sql",
    "steps.sql",
    "steering.sql",
    "gates.sql",
    "limits.sql",
    "events.sql",
    "rollups.sql",
    "breakers.sql",
]
POSTGRES, SQLITE = "foliot.store.postgres", "foliot.store.sqlite"

# Where the dialects must differ, each with its reason.
ONLY_POSTGRES = {
    "list_history_days": "history is kept by day",
    "lock_holders": "the same",
    "limit_key_wait": "there is one writer, so a key is never held",
    "lock_jobs": "there is one writer, so nobody waits crosswise",
    "lock_dead_jobs": "the same",
    "limit_locking": "the same",
    "limit_search": "the time is looked at between steps",
    "lock_orders": "there is one writer, so nobody admits beside it",
    "lock_turns": "the same",
    "lock_triggers_of": "there is one writer, so nobody fires beside it",
    "find_strays": "the same",
    "lock_schedule": "the same",
    "get_now": "a file has no clock",
    "prune_default_history": "what no day was made for",
    "prune_attempts": "in SQLite they go with their job's history",
    "count_dead_tuples": "freed pages are used again by themselves",
    "grade_server": "a file has no server",
    "limit_transaction": "a timer of the process does",
    "limit_transaction_wholly": "the same",
    "find_own_workflow": "the same",
    "mark_locks": "there is one writer, so nobody waits crosswise",
    "let_go_of_locks": "the same",
    "lock_old_workflows": "there is one writer, so nobody follows meanwhile",
    "grade_oldest_transaction": "nor other transactions to wait for",
    "lock_rules": "there is one writer, so nobody claims beside it",
    "change_rules": "the same",
    "lock_door": "the same",
    "renew_rules": "whoever writes sees what runs, so sessions divide nothing",
    "count_sessions": "the same",
    "count_leaving": "whoever writes is alone, so there is nobody to keep waiting",
    "leave_keys": "the same",
    "claim_keyed": "the same",
}
ONLY_SQLITE = {
    "find_ready_lanes": "looks before it writes",
    "list_payloads": "large payloads are read apart",
    "find_refused_jobs": "a statement changes one table only",
    "record_attempts": "the same",
    "any_running_workflow": "one look spares plain jobs all others",
    "prune_history": "there are no days to drop",
    "count_all_running": "in place of what sessions divide",
}
TABLES = "fair|turns|jobs|history|history_default|dead|attempts|queues|sessions|leases|migrations|definitions|keys"
TABLES += (
    "|triggers|schedules|versions|ledger|gaps|calendars|workflows|steps|signals|links|followers|limits|uses|rules"
    "|listeners|outbox|rollups|rollup_writers|breakers"
)


def names(package: str, file: str) -> list[str]:
    return list(load_statements(package, file))


def every_statement(package: str) -> Iterator[tuple[str, str]]:
    for name, statement in load_statements(package, *FILES).items():
        yield name, statement.text


def adapter_source(package: str) -> str:
    """What both stores say in the same words is written once, beside them."""
    folder = Path(str(files(package)))
    shared = (
        "flowing",
        "growing",
        "adding",
        "following",
        "steering",
        "retrying",
        "conversing",
        "delivering",
        "hearing",
    )
    both = [folder.parent / f"{name}.py" for name in shared]
    return "\n".join(path.read_text("utf-8") for path in (*folder.glob("*.py"), *both))


@pytest.mark.parametrize("file", FILES)
def test_both_dialects_have_the_same_statements_in_the_same_order(file: str) -> None:
    postgres = [name for name in names(POSTGRES, file) if name not in ONLY_POSTGRES]
    sqlite = [name for name in names(SQLITE, file) if name not in ONLY_SQLITE]
    assert postgres == sqlite


@pytest.mark.parametrize("package", [POSTGRES, SQLITE])
def test_no_name_is_written_twice(package: str) -> None:
    load_statements(package, *FILES)


def test_the_exceptions_are_still_exceptions() -> None:
    postgres, sqlite = (dict(every_statement(package)) for package in (POSTGRES, SQLITE))
    assert set(ONLY_POSTGRES) <= set(postgres) - set(sqlite)
    assert set(ONLY_SQLITE) <= set(sqlite) - set(postgres)


@pytest.mark.parametrize("package", [POSTGRES, SQLITE])
def test_every_statement_is_used_by_its_adapter(package: str) -> None:
    source = adapter_source(package)
    unused = [name for name, _ in every_statement(package) if f'"{name}"' not in source]
    assert not unused


def test_every_table_in_postgres_is_qualified() -> None:
    """Callers' connections have a search_path of their own."""
    bare = re.compile(
        rf"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(?:ONLY\s+)?({TABLES})\b", re.IGNORECASE
    )
    found = [(name, bare.findall(text)) for name, text in every_statement(POSTGRES)]
    assert not [each for each in found if each[1]]


def test_every_hot_statement_names_its_partition() -> None:
    """But those that read across all of them, for people or to find where there is something to do."""
    across = {"find_lost_sessions", "peek_jobs", "count_jobs", "grade_jobs", "list_history_days"}
    across |= {
        "count_running",
        "find_waited",
        "list_holders",
        "list_ordered_keys",
        "count_queues",
        "count_held",
        "count_dead",
        "list_active_jobs",
    }
    hot = re.compile(r"foliot\.(jobs|history|dead|attempts)\b")
    for name, text in every_statement(POSTGRES):
        if hot.search(text) and name not in across:
            assert ":partition" in text, name


def test_every_change_of_state_names_the_state_it_comes_from() -> None:
    leave_it = {"link_jobs", "carry_fences", "note_began"}
    for name, text in every_statement(POSTGRES):
        if name in leave_it:
            assert not re.search(r"state\s*=", text), name
        elif re.search(r"UPDATE foliot\.jobs|DELETE FROM foliot\.jobs", text):
            # What is taken back is what nobody has claimed; cancelling flags whatever the state.
            told = "fence = 0" if name.startswith("withdraw_") else "state"
            assert told in text, name


def test_time_comes_from_the_clock_that_is_passed() -> None:
    """So that a test or a simulation decides what time it is."""
    passed = re.compile(r":now, (now|statement_timestamp)\(\)\)")
    read = re.compile(r"now\(\)|_timestamp\(\)|CURRENT_(DATE|TIME)", re.IGNORECASE)
    for name, text in every_statement(POSTGRES):
        assert name.startswith("grade_") or not read.search(passed.sub("", text)), name
    for name, text in every_statement(SQLITE):
        assert not re.search(r"strftime|datetime\(|julianday|CURRENT_", text), name


def test_whoever_tells_of_something_asks_first_whether_anybody_listens() -> None:
    """So that it costs nothing where nobody does: asked once in PostgreSQL, first in the join in SQLite."""
    first = {
        POSTGRES: r"WHERE \(SELECT 1 FROM foliot\.listeners l WHERE l\.event (=|IN) .*? LIMIT 1\) IS NOT NULL",
        SQLITE: r"FROM \(SELECT 1 FROM foliot_listeners WHERE event (=|IN) .*? LIMIT 1\)( \w+)? CROSS JOIN",
    }
    for package, asked in first.items():
        telling = {n: t for n, t in every_statement(package) if re.search(r"INTO foliot.outbox", t)}
        assert {"finish_jobs", "bury_jobs", "reap_jobs", "settle_workflows"} <= set(telling)
        del telling["emit_events"]  # which was told what to look for
        for name, text in telling.items():
            parts = re.split(r"INSERT INTO foliot.outbox", text)[1:]
            assert all(re.search(asked, part) for part in parts), name


def test_whoever_ends_a_job_tells_of_it() -> None:
    silent = {"skip_steps"}  # what was ruled out by others has not happened
    ends = re.compile(r"INTO foliot[._](history|dead) ")
    for package in (POSTGRES, SQLITE):
        for name, text in every_statement(package):
            if ends.search(text) and name not in silent:
                assert re.search(r"INTO foliot[._]outbox ", text), name


def test_a_worker_is_told_the_same_of_a_job_whatever_has_let_it_in() -> None:
    told = re.compile(r"(?:RETURNING|FROM \(SELECT) (j\.id, j\.fence\b.*? AS more)\b")
    for package in (POSTGRES, SQLITE):
        claims = {"claim_jobs", "take_jobs", "claim_keyed"}
        found = {n: told.findall(t) for n, t in every_statement(package) if n in claims}
        # The first has the place as well, by which it puts them in order.
        lists = {one.replace(" j.band, j.rank,", "") for (one,) in found.values()}
        assert len(lists) == 1, lists


def test_a_cast_is_no_parameter() -> None:
    statement = parse_statement("x", "SELECT :a::int, :b, :a -- :c\n;")
    assert statement.numbered.strip() == "SELECT $1::int, $2, $1"
    assert statement.names == ("a", "b")
