"""The filter language: what is read, what is refused, and that both stores and Python answer alike."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import count
from time import perf_counter
from typing import Any, Literal, cast

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from psycopg import RawCursor

from foliot import filter_sql
from foliot.errors import InvalidValue
from foliot.filter import LONGEST, MOST_VALUES, Filter, Term, matches, parse
from foliot.filter_sql import TABLE_STATES, Condition, Table
from foliot.filter_value import (
    ANY,
    FIELDS,
    Age,
    Constant,
    Day,
    Instant,
    Kind,
    Number,
    Text,
)
from foliot.ids import Ids, JobId, SessionId
from foliot.model.job import Extras, Job, JobState
from foliot.store.migrate import load_migrations
from foliot.testing.clock import ManualClock
from support.stores import Databases

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
TABLES: tuple[Table, ...] = ("jobs", "history", "dead")
EXAMPLE = (
    "state:dead kind:send_* queue:mail tag:vip created>2026-11-01 payload.customer:42 -tag:test"
)


def job(**changes: Any) -> Job:
    plain: dict[str, Any] = {
        "id": JobId("0192f3a4-1111-7000-8000-000000000001"),
        "kind": "send_mail",
        "state": JobState.READY,
        "queue": "mail",
        "namespace": "default",
        "priority": 2,
        "attempt": 0,
        "losses": 0,
        "generation": 0,
        "fence": 0,
        "created_at": NOW,
        "run_at": NOW,
    }
    return Job(**{**plain, **changes})


def meant(text: str, **changes: Any) -> bool:
    return matches(parse(text), job(**changes), now=NOW)


# Reading and writing


def test_the_example_is_read_as_it_is_meant() -> None:
    assert parse(EXAMPLE) == Filter(
        (
            Term("state", ":", (Text(("dead",)),)),
            Term("kind", ":", (Text(("send_", "")),)),
            Term("queue", ":", (Text(("mail",)),)),
            Term("tag", ":", (Text(("vip",)),)),
            Term("created", ">", (Day(date(2026, 11, 1)),)),
            Term("payload", ":", (Number(42),), ("customer",)),
            Term("tag", ":", (Text(("test",)),), negated=True),
        )
    )
    assert str(parse(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  state:dead\t\nkind:a  ", "state:dead kind:a"),
        ("0192F3A4", "id:0192f3a4*"),
        ("-0192f3a4-11", "-id:0192f3a4-11*"),
        ("0192f3a4-1111-7000-8000-000000000001", "id:0192f3a4-1111-7000-8000-000000000001"),
        ('kind:"send_mail"', "kind:send_mail"),
        ('kind:"a b"*', 'kind:"a b"*'),
        ('kind:"a*b"', 'kind:"a*b"'),
        ("kind:a**b", "kind:a*b"),
        ('key:""', 'key:""'),
        (r'key:"say \"hi\" \\"', r'key:"say \"hi\" \\"'),
        (r"key:a\b", r'key:"a\\b"'),
        ("key:https://x.example/?a=b", "key:https://x.example/?a=b"),
        ("created>2026-11-01T10:00+01:00", "created>2026-11-01T09:00:00Z"),
        ("created>-90m", "created>-1h30m"),
        ("run<+2h", "run<+2h"),
        ("priority<=007", "priority<=7"),
        ("payload.a:1.0,1e2,0.5", "payload.a:1,100,0.5"),
        ('payload.a:"1",true,"true",null', 'payload.a:"1",true,"true",null'),
        ('payload."unit price"[3]."a":x', 'payload."unit price"[3].a:x'),
        ("payload.año.$ref:1", 'payload.año."$ref":1'),
    ],
)
def test_a_filter_is_printed_in_one_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("knd:send_*", 1, "did you mean kind?"),
        ("state:dead craeted>-2h", 12, "did you mean created?"),
        ("xyzzy:1", 1, "the fields are id, kind, queue"),
        ("state:daed", 7, "did you mean dead?"),
        ("state:dead,x*", 12, "is none of scheduled"),
        ("state=dead", 6, 'equality is written with ":"'),
        ("kind!=a", 6, 'equality is written with ":"'),
        ("kind:", 6, "has no value for kind"),
        ("kind: a", 6, "has no value for kind"),
        ("kind:a,,b", 8, "has no value for kind"),
        ("kind:a,", 8, "has no value for kind"),
        ("kind>a", 5, "kind has no order"),
        ('kind:"a', 6, "does not end"),
        (r'kind:"a\n"', 6, "does not end"),
        ("kind:a\0b", 7, "no text can hold"),
        ("kind:a\ud800", 7, "no text can hold"),
        ("- kind:a", 2, "has nothing to negate"),
        ("--kind:a", 2, "did you mean kind?"),
        ("tag.a:1", 1, "without a field"),
        ("mail", 1, "stands alone"),
        ("0192f3a", 1, "stands alone"),
        ("0192f3a41", 1, "stands alone"),
        ("state:dead or state:held", 12, "with a comma"),
        ("not kind:a", 1, "-tag:test"),
        ("kind:a and", 8, "already means and"),
        ("kind", 1, "for example kind:send_*"),
        ("id:0192f3a4", 4, "end a part of one with a star"),
        ("id:mail*", 4, "other characters than an id"),
        ("session:x", 9, "other characters than an id"),
        ("priority:high", 10, "is not a whole number"),
        ("priority:1*", 10, "is not a whole number"),
        ("attempt>1.5", 9, "is not a whole number"),
        ("attempt>1,2", 10, "several values after >"),
        ("losses>", 8, "has no value for losses"),
        ("created>yesterday", 9, "is not a date"),
        ("created>2026-11-01T10:00", 9, "a time with its zone"),
        ("created>2026-02-30", 9, "is in no calendar"),
        ("created>0001-01-01T00:00+10:00", 9, "is in no calendar"),
        ("created>2026-11-01T25:00Z", 9, "is in no calendar"),
        ("created>2h", 9, "nor an age (-2h)"),
        ("created:-2h", 9, "it needs < or >"),
        ("created>-2 weeks", 12, "without a field"),
        ("created>-2w", 9, "is not a duration"),
        ("created>-99999d", 9, "is longer than"),
        ("created>*", 9, "is not a time"),
        ("payload:1", 1, "names no place in the payload"),
        ("payload", 1, "for example payload.customer:42"),
        ("payload.:1", 8, "has a broken path"),
        ("payload.a[x]:1", 10, "has a broken path"),
        ("payload.a[-1]:1", 10, "has a broken path"),
        (r'payload."a\"b":1', 9, "has a key with a quote"),
        ("payload.a\x01:1", 9, "has a key with a quote"),
        ("payload" + ".a" * 17 + ":1", 8, "more than 16 steps"),
        ('payload.a>"5"', 11, "is not a number"),
        ("payload.a<2026-11-01", 11, "is not a number"),
        ("payload.a:99999999999999999999", 11, "is too large"),
        ("payload.a:1e999", 11, "is too large"),
        (" ".join(["kind:a"] * 33), 225, "has more than 32 terms"),
        ("kind:" + ",".join("a" * 65), 134, "has more than 64 values"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_an_example(
    text: str, place: int, said: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse(text)
    error = caught.value
    assert error.field == "filter"
    assert said in str(error)
    assert f"at character {place}" in str(error)
    assert error.example is not None and parse(error.example).terms


@pytest.mark.parametrize(
    "given",
    [None, 5, b"kind:a", ["kind:a"], "kind:" + "a" * 996, r"key:" + "\\" * 600],
)
def test_what_is_no_text_or_too_long_is_refused(given: Any) -> None:
    with pytest.raises(InvalidValue, match="filter"):
        parse(given)


@pytest.mark.parametrize(
    "text",
    [
        "kind:" + "a*" * 497,
        "kind:" + '""' * 497,
        "kind:" + '"' + "\\" * 993,
        '"' * 1000,
        "-" * 1000,
        "a" * 1000,
        "f" * 1000,
        " " * 1000,
        "payload" + ".a" * 496,
        "payload" + "[" * 990,
        "payload.a:" + "9" * 990,
        "payload.a:0." + "9" * 980,
        "created>-" + "1" * 990,
        "a" * 990 + ":1",
        "kind:" + ",".join("a" * MOST_VALUES),
        " ".join(["created>2026-11-01T10:00Z"] * 32),
    ],
)
def test_the_longest_texts_are_read_or_refused_in_five_milliseconds(text: str) -> None:
    def measure() -> float:
        start = perf_counter()
        with suppress(InvalidValue):
            parse(text)
        return perf_counter() - start

    assert min(measure() for _ in range(5)) < 0.005


# What a filter means


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        ("kind:send_*,other -kind:send_sms", {}),
        ("kind:*nd*ai*", {}),
        ("0192F3A4-11", {}),
        ("created:2026-11-02", {"created_at": NOW.replace(hour=0)}),
        ("created:2026-11-02", {"created_at": NOW.replace(hour=23, minute=59, second=59)}),
        ("-created:2026-11-02", {"created_at": NOW.replace(day=3, hour=0)}),
        ("created>-2h created<=-1h", {"created_at": NOW - timedelta(hours=1)}),
        ("created<-7d", {"created_at": NOW - timedelta(days=8)}),
        ("run<+2h run>-0s", {"run_at": NOW + timedelta(hours=1)}),
        ("-key:x -key:*", {}),
        ("key:*", {"key": ""}),
        ("-started>2026-01-01 -finished:* -tag:*", {}),
        ("tag:a tag:b* -tag:c", {"tags": ("a", "bc")}),
        ("-schedule:* -schedule:a", {}),
        ("schedule:night* schedule:*", {"extras": Extras(schedule="nightly")}),
        ("payload.customer:42", {"payload": b'{"customer": 42.0}'}),
        ('-payload.customer:"42"', {"payload": b'{"customer": 42}'}),
        ("payload.customer:4*", {"payload": b'{"customer": "42"}'}),
        ("-payload.customer:4*", {"payload": b'{"customer": 42}'}),
        ("payload.paid:true -payload.paid:1", {"payload": b'{"paid": true}'}),
        ("payload.a:null payload.a:* -payload.b:null -payload.b:*", {"payload": b'{"a": null}'}),
        ("payload.a[1].0:x -payload.a.1:*", {"payload": b'{"a": [0, {"0": "x"}]}'}),
        ("payload.id:9007199254740993", {"payload": b'{"id": 9007199254740993}'}),
        ("-payload.id:9007199254740992", {"payload": b'{"id": 9007199254740993}'}),
        ("payload.a>0.5 payload.a<=1", {"payload": b'{"a": 1}'}),
        ("-payload.a>0", {"payload": b'{"a": "1"}'}),
        ("-payload.a:*", {"payload": b"[1]"}),
        ("-payload.a:*", {"payload": b"not JSON"}),
    ],
)
def test_a_filter_means(text: str, changes: dict[str, Any]) -> None:
    assert meant(text, **changes)
    assert not meant(f"{text} -kind:*", **changes)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("", None),
        ("kind:a", None),
        ("state:*", None),
        ("state:dead", "dead"),
        ("state:dead,held", "dead held"),
        ("state:s*", "scheduled succeeded skipped"),
        ("state:s* -state:succeeded", "scheduled skipped"),
        ("state:dead state:held", ""),
        ("-state:*", ""),
        ("finished>-1h", "succeeded dead cancelled skipped"),
        ("-finished>-1h", None),
    ],
)
def test_a_filter_says_which_states_it_can_match(text: str, states: str | None) -> None:
    expected = None if states is None else frozenset(map(JobState, states.split()))
    assert parse(text).states() == expected


@pytest.mark.parametrize(
    ("text", "table", "sql"),
    [
        ("", "jobs", "true"),
        ("state:dead", "jobs", "false"),
        ("state:dead", "history", "false"),
        ("state:dead", "dead", "true"),
        ("-state:dead", "jobs", "true"),
        ("state:ready,dead", "jobs", "j.state = 'ready'"),
        ("state:ready,held", "jobs", "j.state IN ('held', 'ready')"),
        (
            "state:held",
            "jobs",
            "j.rowid IN (SELECT s.rowid FROM foliot_jobs s WHERE s.state = 'held')",
        ),
        ("finished>-1h kind:a", "jobs", "false"),
        ("-finished>-1h", "jobs", "true"),
        ("finished:*", "dead", "true"),
        ("kind:a -queue:*", "jobs", "false"),
        ("reason:x", "jobs", "j.hold = :f0"),
        ("reason:x", "dead", "j.reason = :f0"),
        ("schedule:x", "dead", "json_extract(j.extras, '$.schedule') = :f0"),
        ("-key:x", "dead", "(j.key = :f0) IS NOT TRUE"),
        ("started:*", "jobs", "j.claimed_at IS NOT NULL"),
        ("started:*", "history", "j.started_at IS NOT NULL"),
    ],
)
def test_a_condition_is_as_short_as_the_table_allows(text: str, table: Table, sql: str) -> None:
    found = filter_sql.compile(parse(text), "sqlite", now=NOW, table=table)
    assert found.sql == sql
    assert len(found.values) == sql.count(":")


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_no_value_is_ever_written_into_the_statement(
    dialect: Literal["postgres", "sqlite"],
) -> None:
    evil = "'; drop table jobs; --"
    text = f'kind:"{evil}" tag:"{evil}"* payload."{evil}":"{evil}" payload.a:"{evil}"*'
    found = filter_sql.compile(parse(text), dialect, now=NOW, table="jobs")
    assert "drop" not in found.sql
    assert sum("drop" in str(value) for value in found.values.values()) == 5


# Trees, texts and jobs at random, from few letters so that they often fit each other

LETTERS = "ab%_*?[]^\\\"', -é"
words = st.text(LETTERS, max_size=3)
pieces = st.lists(st.text(LETTERS, min_size=1, max_size=2), max_size=2)
texts = st.one_of(
    words.map(lambda word: Text((word,))),
    st.builds(lambda first, inner, last: Text((first, *inner, last)), words, pieces, words),
    st.just(ANY),
)
_ids = Ids(seed=1, clock=ManualClock(NOW))
IDS: Sequence[str] = [
    *(_ids.job() for _ in range(8)),
    "0192f3a4-1111-7000-8000-000000000001",
    "0192f3a4-1111-7000-8000-0000000000ff",
    "ffffffff-ffff-7fff-bfff-ffffffffffff",
]
ids = st.one_of(
    st.sampled_from(IDS).map(lambda one: Text((one,))),
    st.builds(lambda one, size: Text((one[:size], "")), st.sampled_from(IDS), st.integers(0, 36)),
    st.builds(lambda one, size: Text(("", one[size:])), st.sampled_from(IDS), st.integers(30, 36)),
    st.sampled_from([Text(("01", "7", "")), Text(("-", "")), Text(("0192f3a41", "")), ANY]),
)
moments = st.one_of(
    st.sampled_from([NOW, NOW.replace(hour=0), NOW - timedelta(hours=2), NOW - timedelta(days=1)]),
    st.datetimes(NOW.replace(tzinfo=None) - timedelta(days=2), NOW.replace(tzinfo=None)).map(
        lambda time: time.replace(tzinfo=UTC)
    ),
)
times = st.one_of(
    st.sampled_from([-1, 0, 1, -7200 * 10**6, 86_400 * 10**6, -86_400 * 10**6]).map(Age),
    st.integers(-(10**12), 10**12).map(Age),
    moments.map(Instant),
    moments.map(lambda time: Day(time.date())),
)
dates = st.one_of(moments.map(Instant), moments.map(lambda time: Day(time.date())), st.just(ANY))
numbers = st.sampled_from(
    [0, 1, -1, 42, 0.1, 0.5, -1.25, 1e-7, 1.5e300, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
)
scalars = st.one_of(
    numbers, words, st.booleans(), st.none(), st.sampled_from(["1", "true", "null"])
)
json_values = st.one_of(
    texts,
    st.sampled_from(["1", "0.5", "true", "null", "-1"]).map(lambda text: Text((text,))),
    numbers.map(Number),
    st.sampled_from([Constant("true"), Constant("false"), Constant("null")]),
)
KEYS = ["a", "b", "0", "", "a.b", "$x", "é", "a b", "[0]", "a'b"]
paths = st.lists(
    st.one_of(st.sampled_from(KEYS[:3]), st.sampled_from(KEYS), st.integers(0, 1)),
    min_size=1,
    max_size=3,
).map(tuple)
payloads = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    max_size=4,
).map(msgspec.json.encode)
bodies = st.one_of(
    payloads, payloads, payloads, st.sampled_from([b"null", b"1", b"[1]", b'"a"', b"{}"])
)

equals = st.just(":")
compares = st.sampled_from([">", ">=", "<", "<="])
names = {kind: [name for name in FIELDS if FIELDS[name] == kind] for kind in FIELDS.values()}
states = st.sampled_from([*JobState, "s*", "*", "*d", "*ea*"]).map(
    lambda text: Text(tuple(text.split("*")))
)


def terms_of(
    kind: Kind,
    operators: st.SearchStrategy[str],
    values: st.SearchStrategy[Any],
    most: int = 3,
) -> st.SearchStrategy[Term]:
    path: st.SearchStrategy[Any] = paths if kind == "json" else st.just(())
    values_ = st.lists(values, min_size=1, max_size=most).map(tuple)
    build = cast(Callable[..., Term], Term)
    return st.builds(build, st.sampled_from(names[kind]), operators, values_, path, st.booleans())


whole = st.integers(-1, 4).map(Number)
terms = st.one_of(
    terms_of("text", equals, texts),
    terms_of("id", equals, ids),
    terms_of("state", equals, states),
    terms_of("number", equals, st.one_of(whole, st.just(ANY))),
    terms_of("number", compares, whole, 1),
    terms_of("time", equals, dates),
    terms_of("time", compares, times, 1),
    terms_of("json", equals, json_values),
    terms_of("json", compares, numbers.map(Number), 1),
)
filters = st.lists(terms, max_size=3).map(lambda found: Filter(tuple(found)))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    state = draw(st.sampled_from(JobState))
    optional = st.one_of(st.none(), words)
    return job(
        id=JobId(""),
        kind=draw(words),
        state=state,
        queue=draw(words),
        namespace=draw(words),
        key=draw(optional),
        reason=draw(optional),
        tags=tuple(draw(st.lists(words, max_size=2))),
        extras=Extras(schedule=draw(optional)),
        session=draw(st.one_of(st.none(), st.sampled_from(IDS).map(SessionId))),
        priority=draw(st.integers(0, 3)),
        attempt=draw(st.integers(0, 3)),
        losses=draw(st.integers(0, 3)),
        created_at=draw(moments),
        run_at=draw(moments),
        started_at=draw(st.one_of(st.none(), moments)),
        finished_at=draw(moments) if state.final else None,
        payload=draw(bodies),
    )


def with_ids(found: list[Job]) -> list[Job]:
    return [msgspec.structs.replace(one, id=JobId(id)) for one, id in zip(found, IDS, strict=False)]


batches = st.lists(jobs(), min_size=5, max_size=len(IDS)).map(with_ids)


@given(filters)
def test_every_tree_is_printed_and_read_back(filter: Filter) -> None:
    assume(len(str(filter)) <= LONGEST)
    assert parse(str(filter)) == filter


tokens = st.sampled_from(
    [
        *FIELDS,
        *JobState,
        *':<>=,.*-+"\\[] ',
        ">=",
        " -",
        "2026-11-01",
        "T10:00Z",
        "2h",
        "1e5",
        "0192f3a4",
    ]
)


@given(
    st.one_of(
        st.lists(tokens, max_size=12).map("".join), st.text(max_size=30), st.text(LETTERS + ":>")
    )
)
@settings(max_examples=400)
def test_any_text_is_read_or_refused_and_never_breaks(text: str) -> None:
    try:
        filter = parse(text)
    except InvalidValue as error:
        parse(str(error.example))
        return
    assert parse(str(filter)) == filter
    assert str(parse(str(filter))) == str(filter)
    for dialect in ("postgres", "sqlite"):
        for table in TABLES:
            filter_sql.compile(filter, cast(Any, dialect), now=NOW, table=table)


# Three answers to the same question


def columns(position: int, job: Job) -> tuple[Table, dict[str, Any]]:
    table = next(table for table in TABLES if job.state in TABLE_STATES[table])
    names = ["id", "kind", "queue", "namespace", "key", "session", "priority", "attempt", "losses"]
    row: dict[str, Any] = {name: getattr(job, name) for name in names}
    # A partition of its own: the same key may then be drawn twice.
    row |= {"partition": position, "fence": 0, "generation": 0, "payload": job.payload}
    row |= {"created_at": job.created_at, "run_at": job.run_at, "tags": list(job.tags)}
    if job.extras != Extras():
        row["extras"] = msgspec.json.encode(job.extras).decode()
    if table == "jobs":
        row |= {"claimed_at": job.started_at, "hold": job.reason, "rank": 0, "band": 0}
    else:
        row |= {"started_at": job.started_at, "finished_at": job.finished_at, "reason": job.reason}
    if table != "history":
        row |= {"lane": 0, "max_attempts": 5}
    if table != "dead":
        row["state"] = str(job.state)
    return table, row


def to_microseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return json.dumps(value) if isinstance(value, list) else value


class SqliteSide:
    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for migration in load_migrations("foliot.store.sqlite"):
            self.connection.executescript(migration.text)

    def fill(self, jobs: list[Job]) -> None:
        for table in TABLES:
            self.connection.execute(f"DELETE FROM foliot_{table}")
        for table, row in map(columns, count(), jobs):
            marks = ", ".join(f":{name}" for name in row)
            values = {name: to_microseconds(value) for name, value in row.items()}
            insert = f"INSERT INTO foliot_{table} ({', '.join(row)}) VALUES ({marks})"
            self.connection.execute(insert, values)

    def find(self, filter: Filter) -> set[str]:
        found: set[str] = set()
        for table in TABLES:
            condition = filter_sql.compile(filter, "sqlite", now=NOW, table=table)
            query = f"SELECT j.id FROM foliot_{table} j WHERE {condition.sql}"
            found |= {row[0] for row in self.connection.execute(query, condition.values)}
        return found


class PostgresSide:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.execute("CREATE SCHEMA foliot")
        for migration in load_migrations("foliot.store.postgres"):
            connection.execute(cast(Any, migration.text))

    def fill(self, jobs: list[Job]) -> None:
        self.connection.execute("DELETE FROM foliot.jobs")
        self.connection.execute("DELETE FROM foliot.history_default")
        self.connection.execute("DELETE FROM foliot.dead")
        with self.connection.pipeline():
            for table, row in map(columns, count(), jobs):
                marks = ", ".join(f"%({name})s" for name in row)
                insert = f"INSERT INTO foliot.{table} ({', '.join(row)}) VALUES ({marks})"
                self.connection.execute(cast(Any, insert), row)

    def find_all(self, filters: list[Filter]) -> list[set[str]]:
        """One answer for each filter. Raw cursors, as in the store."""
        asked: list[tuple[int, RawCursor[Any]]] = []
        with self.connection.pipeline():
            for position, filter in enumerate(filters):
                for table in TABLES:
                    condition = filter_sql.compile(filter, "postgres", now=NOW, table=table)
                    cursor = RawCursor(self.connection)
                    text, values = numbered(condition)
                    query = f"SELECT j.id::text FROM foliot.{table} j WHERE {text}"
                    cursor.execute(query, values, binary=True)
                    asked.append((position, cursor))
            found: list[set[str]] = [set() for _ in filters]
            for position, cursor in asked:
                found[position] |= {row[0] for row in cursor.fetchall()}
        return found


def numbered(condition: Condition) -> tuple[str, list[object]]:
    names = list(condition.values)
    text = re.sub(
        r"(?<![:\w]):(f\d+)", lambda found: f"${names.index(found[1]) + 1}", condition.sql
    )
    return text, list(condition.values.values())


@pytest.fixture(scope="module")
def sqlite_side() -> Iterator[SqliteSide]:
    side = SqliteSide()
    yield side
    side.connection.close()


@pytest.fixture(scope="module")
def postgres_side(databases: Databases) -> Iterator[PostgresSide]:
    url = databases.server.create_database("filters")
    with psycopg.connect(url, autocommit=True) as connection:
        yield PostgresSide(connection)


def answer(filter: Filter, jobs: list[Job]) -> set[str]:
    found = [job for job in jobs if matches(filter, job, now=NOW)]
    states = filter.states()
    assert states is None or {job.state for job in found} <= states
    return {job.id for job in found}


@given(jobs=batches, filters=st.lists(filters, min_size=10, max_size=20))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_sqlite_finds_the_jobs_that_match(
    sqlite_side: SqliteSide, jobs: list[Job], filters: list[Filter]
) -> None:
    sqlite_side.fill(jobs)
    for filter in filters:
        assert sqlite_side.find(filter) == answer(filter, jobs), str(filter)


@given(jobs=batches, filters=st.lists(filters, min_size=10, max_size=20))
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a failure shrinks faster in SQLite
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_postgresql_finds_the_jobs_that_match(
    postgres_side: PostgresSide, jobs: list[Job], filters: list[Filter]
) -> None:
    postgres_side.fill(jobs)
    for filter, found in zip(filters, postgres_side.find_all(filters), strict=True):
        assert found == answer(filter, jobs), str(filter)


TEXTS = [
    *["", "a", "b", "ab", "ba", "aa", "aab", "aba", "abab", "abba", "A", "é", "aé"],
    *[f"a{special}b" for special in "%_*?[]^\\\"', -"],
    *["a[b]", "[ab]", "%", "\\", "a\\", "a\\%", "[", "?", "axb", "ax", "x" * 40],
]
GLOBS = [
    *[
        "*",
        "a*",
        "*a",
        "*b*",
        "a*b",
        "a*a",
        "ab*ab",
        "ab*ba",
        "*a*b*",
        "a*b*a",
        "a*ab*b",
        "*b*b*",
        "*ab*ba*",
        "*é",
    ],
    *[f'"a{special}"*' for special in "%_*?[]^', -"],
    *[f'*"{special}b"' for special in "%_*?[]^', -"],
    *[
        '"a["*"]"',
        '"[ab]"*',
        '"[a"*',
        '*"%"',
        r'*"\\"',
        r'"a\\"*',
        r'*"\\%"',
        "x*x*x*x*x*x*xy",
        "a*x*",
    ],
]


def test_every_star_stands_for_the_same_in_both_stores(
    sqlite_side: SqliteSide, postgres_side: PostgresSide
) -> None:
    made = [
        job(id=_ids.job(), kind=text, tags=(text,), payload=msgspec.json.encode({"a": text}))
        for text in TEXTS
    ]
    plain = [Filter((Term("kind", ":", (Text((text,)),)),)) for text in TEXTS]
    fields = ("kind", "tag", "payload.a")
    filters = [*plain, *(parse(f"{field}:{glob}") for glob in GLOBS for field in fields)]
    agree(sqlite_side, postgres_side, made, filters)
    # Star by star against Python's own patterns, so that not all three are wrong together.
    for filter in filters[len(plain) :: len(fields)]:
        (text,) = filter.terms[0].values
        assert isinstance(text, Text)
        pattern = re.compile(".*".join(map(re.escape, text.pieces)), re.DOTALL)
        assert answer(filter, made) == {one.id for one in made if pattern.fullmatch(one.kind)}


JSON = [
    *[
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "42",
        "42.0",
        "4.2e1",
        "0.1",
        "0.5",
        "1e-7",
        "1.5e300",
    ],
    *["9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808"],
    *['""', '"1"', '"42"', '"true"', '"null"', '"a"', '"[]"', '"{}"', '"é"', r'"\u00e9"', r'"\n"'],
    *["[]", "{}", "[1]", '["a"]', '{"0": 1}', '{"a": 1}', "[[1]]", '[{"0": "a"}]', '{"": {"": 1}}'],
]


def test_every_json_value_compares_the_same_in_both_stores(
    sqlite_side: SqliteSide, postgres_side: PostgresSide
) -> None:
    scalars = [text for text in JSON if text[0] not in "[{" and "\\" not in text]
    written = [f"payload.v:{text}" for text in [*scalars, "*", "4*", "*e*", '"["*', "é"]]
    numbers = [text for text in scalars if text[0] in "-0123456789"]
    written += [f"payload.v{sign}{text}" for text in numbers for sign in (">", ">=", "<", "<=")]
    paths = ("", "[0]", ".0", ".a", '."".""', "[0][0]", "[0].0", "[1]", "[0].a")
    written += [f"payload.v{path}:{value}" for path in paths for value in ("*", "1", "a")]
    written += ["payload[0]:*", "payload.v:1,a,null"]
    bodies = [*(f'{{"v": {text}}}' for text in JSON), *JSON]
    made = [job(id=_ids.job(), payload=body.encode()) for body in bodies]
    agree(sqlite_side, postgres_side, made, [parse(text) for text in written])


def agree(
    sqlite_side: SqliteSide,
    postgres_side: PostgresSide,
    jobs: list[Job],
    filters: list[Filter],
) -> None:
    sqlite_side.fill(jobs)
    postgres_side.fill(jobs)
    for filter, found in zip(filters, postgres_side.find_all(filters), strict=True):
        expected = answer(filter, jobs)
        assert found == expected, f"PostgreSQL: {filter}"
        assert sqlite_side.find(filter) == expected, f"SQLite: {filter}"


def test_one_strange_payload_does_not_spoil_the_search_for_the_others(
    sqlite_side: SqliteSide, postgres_side: PostgresSide
) -> None:
    strange = job(id=JobId(IDS[0]), payload=msgspec.json.encode({"a": "x\0y", "b": 1}))
    plain = job(id=JobId(IDS[1]), payload=b'{"b": 1}')
    filter = parse("payload.b:1")
    sqlite_side.fill([strange, plain])
    postgres_side.fill([strange, plain])
    assert sqlite_side.find(filter) == {strange.id, plain.id}
    assert postgres_side.find_all([filter]) == [{strange.id, plain.id}]


def test_a_payload_that_is_no_json_does_not_stop_a_search_in_sqlite(
    sqlite_side: SqliteSide,
) -> None:
    sqlite_side.fill([job(id=JobId(IDS[0]), payload=b"{"), job(id=JobId(IDS[1]), payload=b"{}")])
    assert sqlite_side.find(parse("-payload.a:1")) == {IDS[0], IDS[1]}
