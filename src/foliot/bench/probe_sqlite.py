"""The bench's look into SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from foliot.bench.jobs import KINDS, QUEUE
from foliot.bench.sizes import Sizes
from foliot.clock import SystemClock
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import Ids
from foliot.model.lane import lane_of
from foliot.store.sql import load_statements

_CLAIM: Final = load_statements("foliot.store.sqlite", "claim.sql")["claim_jobs"]
_LIKE: Final = KINDS + "%"
_MILLION: Final = 1_000_000
_CHUNK: Final = 500_000
_MONTH: Final = 30 * 86_400
_NUMBER: Final = "json_extract(CAST(payload AS TEXT), '$.n')"
_PAGES: Final = """
SELECT sum(d.pgsize) FROM sqlite_schema s CROSS JOIN dbstat d
WHERE s.tbl_name = 'foliot_jobs' AND d.name = s.name AND d.aggregate = 1
"""
_BACKDROP: Final = """
WITH RECURSIVE g (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM g WHERE n < :last)
INSERT INTO foliot_jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace,
                         kind, queue, created_at, run_at, payload)
SELECT g.n % :partitions,
       printf('%.8s-%s-7%03x-8000-%012x', :stamp, substr(:stamp, 9),
              g.n % :partitions * 4096 / :partitions, g.n),
       :lane, :due + g.n * 200000, 2, 2, 1, 'scheduled', 'default', :kind, :queue, :now,
       :due + g.n * 200000, CAST(printf('%-100s', '{"n":0}') AS BLOB)
FROM g
"""


class SqliteProbe:
    def __init__(self, url: str) -> None:
        self._path = path_of(url)
        self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=60)
        self._clock = SystemClock()
        self._twin: Path | None = None

    def describe(self) -> dict[str, str]:
        return {
            "engine": "SQLite",
            "server_version": sqlite3.sqlite_version,
            "journal_mode": str(self._one("PRAGMA journal_mode")),
            "synchronous": "FULL",  # what the store sets on every connection
        }

    def others(self) -> int:
        return sum(
            int(self._one(f"SELECT count(*) FROM foliot_{table} WHERE kind NOT LIKE ?", [_LIKE]))  # noqa: S608
            for table in ("jobs", "history", "dead")
        )

    def empty(self, *, keep_backdrop: bool = False) -> None:
        self._run("BEGIN IMMEDIATE")
        shared = self.others() > 0
        condition = " WHERE kind LIKE ?" if shared else ""  # without one, pages are dropped whole
        values = [_LIKE] if shared else []
        for table in ("history", "dead"):
            self._run(f"DELETE FROM foliot_{table}{condition}", values)  # noqa: S608 - names of ours
        self._run("DELETE FROM foliot_rollups WHERE kind LIKE ?", [_LIKE])
        self._run("DELETE FROM foliot_workflows WHERE name LIKE 'bench-%'")
        self._run(
            "DELETE FROM foliot_steps WHERE NOT EXISTS (SELECT 1 FROM foliot_workflows w"
            " WHERE w.partition = foliot_steps.partition AND w.id = foliot_steps.workflow)"
        )
        if keep_backdrop:
            for state in ("ready", "running"):
                query = f"DELETE FROM foliot_jobs WHERE state = '{state}' AND kind LIKE ?"  # noqa: S608
                self._run(query, [_LIKE])
        else:
            self._run(f"DELETE FROM foliot_jobs{condition}", values)  # noqa: S608
        self._run("COMMIT")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")

    def busy(self) -> bool:
        return any(
            self._one(
                f"SELECT 1 FROM foliot_jobs WHERE state = '{state}' AND kind LIKE ? LIMIT 1",  # noqa: S608
                [_LIKE],
            )
            for state in ("running", "ready")
        )

    def running(self) -> int:
        query = "SELECT count(*) FROM foliot_jobs WHERE state = 'running' AND kind LIKE ?"
        return int(self._one(query, [_LIKE]) or 0)

    def now(self) -> float:
        return self._clock.now().timestamp()

    def first_start(self) -> float:
        query = "SELECT min(started_at) FROM foliot_history WHERE kind LIKE ?"
        return float(self._one(query, [_LIKE]) or 0) / _MILLION

    def finished(self) -> Iterator[int]:
        query = (
            f"SELECT {_NUMBER} FROM foliot_history "  # noqa: S608
            "WHERE kind LIKE ? AND kind <> 'bench.usage' AND state = 'succeeded'"
        )
        return (row[0] for row in self._run(query, [_LIKE]))

    def waiting(self) -> Iterator[int]:
        query = f"SELECT {_NUMBER} FROM foliot_jobs WHERE kind LIKE ? AND state = 'ready'"  # noqa: S608
        return (row[0] for row in self._run(query, [_LIKE]))

    def finished_by_slice(self, start: float, width: float) -> dict[int, int]:
        query = (
            "SELECT (finished_at - ?) / ?, count(*) FROM foliot_history "
            "WHERE kind LIKE ? AND finished_at >= ? GROUP BY 1 ORDER BY 1"
        )
        begin = int(start * _MILLION)
        return dict(self._run(query, [begin, int(width * _MILLION), _LIKE, begin]).fetchall())

    def add_backdrop(self, jobs: int) -> None:
        now = int(self.now() * _MILLION)
        for first in range(0, jobs, _CHUNK):
            values = {
                "first": first,
                "last": min(jobs, first + _CHUNK) - 1,
                "partitions": self._one("SELECT count(*) FROM foliot_leases"),
                "stamp": f"{now // 1000:012x}",
                "lane": lane_of(QUEUE).number,
                "kind": f"{KINDS}backdrop",
                "queue": QUEUE,
                "now": now,
                "due": now + _MONTH * _MILLION,
            }
            self._run(_BACKDROP, values)
        self._run("ANALYZE")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")

    def sizes(self) -> Sizes:
        try:
            size = self._one(_PAGES)
        except FoliotError:  # this build of SQLite does not count pages by table
            size = None
        return Sizes(size, int(self._one("SELECT count(*) FROM foliot_jobs")), None)

    def claim_seconds(self, room: int) -> float:
        lane = lane_of(QUEUE)
        values = {
            "partition": 0,
            "session": "nobody",
            "now": int(self.now() * _MILLION),
            "grace": 10.0,
            "small": 4096,
            "quota": room,
            "lane": lane.number,
            "queue": lane.queue,
            "kinds": None,
        }
        self._run("BEGIN IMMEDIATE")
        started = self._clock.monotonic()
        try:
            for part in _CLAIM.text.split(";"):
                self._run(part, values).fetchall()
            return self._clock.monotonic() - started
        finally:
            self._run("ROLLBACK")

    def make_twin(self) -> str:
        self._twin = self._path.with_name(f"{self._path.name}.bench-{Ids().session()[:8]}")
        return f"sqlite:///{self._twin}"

    def drop_twin(self) -> None:
        if self._twin is not None:
            for suffix in ("", "-wal", "-shm"):
                self._twin.with_name(self._twin.name + suffix).unlink(missing_ok=True)
            self._twin = None

    def leave(self) -> None:
        self.empty()
        if not self.others():
            self._run("VACUUM")
        self.close()

    def close(self) -> None:
        self._connection.close()

    def _run(self, query: str, values: Any = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise FoliotError(f"SQLite: {error}") from error

    def _one(self, query: str, values: Any = ()) -> Any:
        row = self._run(query, values).fetchone()
        return None if row is None else row[0]


def path_of(url: str) -> Path:
    rest = url.partition("://")[2].removeprefix("/")
    if not rest or ":memory:" in rest:
        raise InvalidValue(
            "url", url, "is not a file that processes can share", example="sqlite:///bench.db"
        )
    return Path(rest).absolute()
