"""What is in a store, read past its adapter: all rows, of either engine, as the same plain values."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import psycopg
from psycopg import sql

from foliot.ids import JobId, SessionId

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A row of jobs."""

    partition: int
    id: JobId
    state: str
    fence: int = 0
    lane: int
    band: int
    rank: int
    priority: int
    attempt: int = 0
    max_attempts: int
    losses: int = 0
    cancel_requested: bool = False
    namespace: str
    kind: str
    queue: str
    created_at: datetime
    run_at: datetime
    timeout: float | None
    session: SessionId | None = None
    claimed_at: datetime | None = None
    deadline_at: datetime | None = None
    key: str | None
    hold: str | None = None
    ordering_key: str | None = None
    fair_key: str | None = None
    generation: int = 0
    payload: bytes

    @property
    def in_line(self) -> bool:
        """It waits for an earlier one of its key."""
        return self.hold in ("admission", "order") and self.ordering_key is not None

    @property
    def order(self) -> tuple[int, str, str] | None:
        """What it shares with the jobs that it may not run beside."""
        if self.ordering_key is None:
            return None
        return (self.partition, self.namespace, self.ordering_key)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A row of history, or of dead."""

    partition: int
    id: JobId
    state: str
    fence: int
    priority: int
    attempt: int
    losses: int
    namespace: str
    kind: str
    queue: str
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime
    session: SessionId | None
    key: str | None
    ordering_key: str | None
    fair_key: str | None
    generation: int
    reason: str | None
    payload: bytes
    result: bytes | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A row of attempts."""

    partition: int
    job: JobId
    fence: int
    attempt: int
    outcome: str
    session: SessionId | None
    started_at: datetime | None
    finished_at: datetime


class Beat(msgspec.Struct, frozen=True):
    """A row of sessions."""

    id: SessionId
    beat_at: datetime
    expires_at: datetime
    executing: tuple[JobId, ...]


class Content(msgspec.Struct, frozen=True):
    """Everything, each list in the order of its keys."""

    live: tuple[Live, ...] = ()
    history: tuple[Ended, ...] = ()
    dead: tuple[Ended, ...] = ()
    attempts: tuple[Failure, ...] = ()
    sessions: tuple[Beat, ...] = ()
    paused: tuple[str, ...] = ()

    @property
    def ended(self) -> Iterator[Ended]:
        yield from self.history
        yield from self.dead

    @property
    def rows(self) -> list[Live | Ended]:
        return [*self.live, *self.history, *self.dead]

    def find(self, id: JobId) -> Live | None:
        return next((row for row in self.live if row.id == id), None)


class Reader(Protocol):
    def read(self) -> Content: ...

    def clear(self) -> None:
        """Leave the schema, and nothing in it."""
        ...

    def close(self) -> None: ...


_LIVE: Final = Live.__struct_fields__
_KEPT: Final = tuple(name for name in Ended.__struct_fields__ if name not in ("state", "result"))
_ENDED: Final = ("state", "result", *_KEPT)
_FAILURE: Final = Failure.__struct_fields__
_BEAT: Final = Beat.__struct_fields__
_TABLES: Final = (
    "jobs",
    "history",
    "dead",
    "workflows",
    "steps",
    "signals",
    "links",
    "followers",
    "attempts",
    "sessions",
    "queues",
    "fair",
    "turns",
    "audit",
)
_QUERIES: Final = (
    f"SELECT {', '.join(_LIVE)} FROM foliot_jobs ORDER BY partition, id",
    f"SELECT {', '.join(_ENDED)} FROM foliot_history ORDER BY partition, id, finished_at",
    f"SELECT 'dead', NULL, {', '.join(_KEPT)} FROM foliot_dead ORDER BY partition, id",
    f"SELECT {', '.join(_FAILURE)} FROM foliot_attempts ORDER BY partition, job, fence",
    f"SELECT {', '.join(_BEAT)} FROM foliot_sessions ORDER BY id",
    "SELECT name FROM foliot_queues WHERE paused_at IS NOT NULL ORDER BY name",
)
Rows = Sequence[Sequence[Any]]


def _content(answers: Sequence[Rows]) -> Content:
    live, history, dead, attempts, sessions, queues = answers
    return Content(
        tuple(Live(**dict(zip(_LIVE, row, strict=True))) for row in live),
        tuple(Ended(**dict(zip(_ENDED, row, strict=True))) for row in history),
        tuple(Ended(**dict(zip(_ENDED, row, strict=True))) for row in dead),
        tuple(Failure(**dict(zip(_FAILURE, row, strict=True))) for row in attempts),
        tuple(Beat(row[0], row[1], row[2], tuple(sorted(row[3]))) for row in sessions),
        tuple(row[0] for row in queues),
    )


class PostgresReader:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._queries = [_for_postgres(query) for query in _QUERIES]
        # The triggers that keep transactions to one partition are not meant for `clear`.
        self._connection.execute("SET session_replication_role = replica")

    def read(self) -> Content:
        with self._connection.pipeline():
            cursors = [self._connection.execute(query) for query in self._queries]
        return _content([[_in_utc(row) for row in cursor.fetchall()] for cursor in cursors])

    def clear(self) -> None:
        for table in _TABLES:
            self._connection.execute(sql.SQL("DELETE FROM foliot.{}").format(sql.Identifier(table)))
        self._connection.execute("UPDATE foliot.leases SET holder = NULL, expires_at = '-infinity'")

    def close(self) -> None:
        self._connection.close()


class SqliteReader:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def read(self) -> Content:
        self._connection.execute("BEGIN")
        answers = [self._connection.execute(query).fetchall() for query in _QUERIES]
        self._connection.execute("COMMIT")
        columns = (_LIVE, _ENDED, _ENDED, _FAILURE, _BEAT)
        return _content(
            [
                *(
                    [_typed(names, row) for row in rows]
                    for names, rows in zip(columns, answers[:5], strict=True)
                ),
                answers[5],
            ]
        )

    def clear(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            self._connection.execute(f"DELETE FROM foliot_{table}")
        self._connection.execute("UPDATE foliot_leases SET holder = NULL, expires_at = 0")
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _for_postgres(query: str) -> str:
    """The same with its names, and ids as text."""
    columns = query.replace("foliot_", "foliot.").replace("executing", "executing::text[]")
    for name in ("id", "job", "session"):
        columns = re.sub(rf"(?<=[ ,]){name}(?=,| FROM)", f"{name}::text", columns, count=1)
    return columns


def _in_utc(row: Sequence[Any]) -> list[Any]:
    return [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]


def _typed(names: Sequence[str], row: Sequence[Any]) -> list[Any]:
    return [_value(name, value) for name, value in zip(names, row, strict=True)]


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name.endswith("_at"):
        return _EPOCH + timedelta(microseconds=value)
    if name == "cancel_requested":
        return bool(value)
    if name == "executing":
        return msgspec.json.decode(value)
    return value
