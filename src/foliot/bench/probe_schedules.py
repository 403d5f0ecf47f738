"""The bench's look at schedules and triggers, beside the engine. One for each kind of store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, LiteralString, Protocol

import psycopg

from foliot.bench.population import NAMES
from foliot.bench.probe_sqlite import path_of
from foliot.clock import SystemClock
from foliot.errors import FoliotError, StoreUnavailable

_LIKE: Final = NAMES + "%"
_MILLION: Final = 1_000_000
_TABLES: Final = ("schedules", "triggers", "versions", "ledger", "gaps")
_FEW: Final = 10


class ScheduleProbe(Protocol):
    def others(self) -> int:
        """Schedules that are not the bench's; counted up to a few."""
        ...

    def count(self) -> tuple[int, int]:
        """Schedules and triggers."""
        ...

    def bytes(self) -> int:
        """What both tables take on disk, with their indexes; of SQLite, the whole file."""
        ...

    def settle(self) -> None:
        """What a database does some time after so many rows were written, done now."""
        ...

    def make_due(
        self, *, stateful: bool, own: bool, schedules: int, after: tuple[int, int] | None
    ) -> tuple[int, tuple[int, int] | None]:
        """Let triggers of about so many schedules be due now, in the order of their numbers after this one; `own`: of
        one schedule each. Returns how many schedules, and the last trigger; None: there are no more."""
        ...

    def late(self, seconds: float) -> int:
        """Triggers that should have fired so long ago, and times that are still to be caught up with; up to a few."""
        ...

    def live(self) -> int:
        """Jobs that have not ended."""
        ...

    def ended(self) -> int:
        """Runs of schedules in history."""
        ...

    def put_off(self, seconds: float) -> None:
        """Triggers that are due within so many seconds are not, until `bring_back`."""
        ...

    def bring_back(self) -> None: ...

    def remove(self) -> None:
        """All schedules of the bench, and their triggers."""
        ...

    def close(self) -> None: ...


_MAKE_DUE: Final = """
WITH ordered AS (
    SELECT t.partition, t.id, t.size, sum(t.size) OVER (ORDER BY t.id, t.partition) AS total
    FROM foliot.triggers t
    WHERE t.stateful = %(stateful)s AND (t.size = 1) = %(own)s AND (t.id, t.partition) > (%(id)s, %(partition)s)
), chosen AS MATERIALIZED (
    SELECT * FROM ordered WHERE total - size < %(schedules)s
), due AS (
    UPDATE foliot.triggers t SET next_fire_at = date_trunc('second', now())
    FROM chosen c WHERE t.partition = c.partition AND t.id = c.id
)
SELECT c.id, c.partition, c.total::bigint FROM chosen c ORDER BY c.id DESC, c.partition DESC LIMIT 1
"""


class PostgresScheduleProbe:
    def __init__(self, url: str) -> None:
        try:
            self._connection = psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    def others(self) -> int:
        query: LiteralString = (
            "SELECT count(*) FROM (SELECT FROM foliot.schedules WHERE name NOT LIKE %s LIMIT %s) o"
        )
        return int(self._row(query, [_LIKE, _FEW])[0])

    def count(self) -> tuple[int, int]:
        query: LiteralString = (
            "SELECT (SELECT count(*) FROM foliot.schedules), (SELECT count(*) FROM foliot.triggers)"
        )
        schedules, triggers = self._row(query)
        return schedules, triggers

    def bytes(self) -> int:
        query: LiteralString = """
            SELECT pg_total_relation_size('foliot.schedules') + pg_total_relation_size('foliot.triggers')"""
        return int(self._row(query)[0])

    def settle(self) -> None:
        self._run("VACUUM (FREEZE, ANALYZE) foliot.schedules")
        self._run("VACUUM (ANALYZE) foliot.triggers")
        try:
            self._connection.execute("CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            return

    def make_due(
        self, *, stateful: bool, own: bool, schedules: int, after: tuple[int, int] | None
    ) -> tuple[int, tuple[int, int] | None]:
        id, partition = after or (-(2**63), -1)
        values = {
            "stateful": stateful,
            "own": own,
            "schedules": schedules,
            "id": id,
            "partition": partition,
        }
        found = self._run(_MAKE_DUE, values).fetchone()
        return (0, None) if found is None else (found[2], (found[0], found[1]))

    def late(self, seconds: float) -> int:
        query: LiteralString = """
            SELECT (SELECT count(*) FROM foliot.leases l CROSS JOIN LATERAL (
                        SELECT t.id FROM foliot.triggers t
                        WHERE t.partition = l.partition AND t.next_fire_at < now() - make_interval(secs => %s)
                        ORDER BY t.next_fire_at LIMIT %s) t)
                 + (SELECT count(*) FROM (SELECT FROM foliot.gaps WHERE NOT done LIMIT %s) g)"""
        return int(self._row(query, [seconds, _FEW, _FEW])[0])

    def live(self) -> int:
        return int(self._row("SELECT count(*) FROM foliot.jobs")[0])

    def ended(self) -> int:
        return int(
            self._row(
                "SELECT count(*) FROM foliot.history WHERE kind = 'bench.fire' AND state = 'succeeded'"
            )[0]
        )

    def put_off(self, seconds: float) -> None:
        self._run(
            """CREATE TEMPORARY TABLE foliot_bench_put_off AS
               SELECT partition, id, next_fire_at FROM foliot.triggers
               WHERE next_fire_at < now() + make_interval(secs => %s)""",
            [seconds],
        )
        self._run(
            """UPDATE foliot.triggers t SET next_fire_at = p.next_fire_at + interval '1 day'
               FROM foliot_bench_put_off p WHERE t.partition = p.partition AND t.id = p.id"""
        )

    def bring_back(self) -> None:
        self._run(
            """UPDATE foliot.triggers t SET next_fire_at = p.next_fire_at
               FROM foliot_bench_put_off p WHERE t.partition = p.partition AND t.id = p.id"""
        )
        self._run("DROP TABLE foliot_bench_put_off")

    def remove(self) -> None:
        if not self.others():
            self._run(
                "TRUNCATE foliot.schedules, foliot.triggers, foliot.versions, foliot.ledger, foliot.gaps"
            )
            return
        self._run("DELETE FROM foliot.schedules WHERE name LIKE %s", [_LIKE])
        self._run(
            """DELETE FROM foliot.triggers t WHERE NOT EXISTS (
                   SELECT FROM foliot.schedules s WHERE s.partition = t.partition AND s.trigger = t.id)"""
        )

    def close(self) -> None:
        self._connection.close()

    def _run(self, query: LiteralString, values: Any = None) -> psycopg.Cursor[Any]:
        try:
            return self._connection.execute(query, values)
        except psycopg.Error as error:
            raise FoliotError(f"PostgreSQL: {error}") from error

    def _row(self, query: LiteralString, values: Any = None) -> Any:
        return self._run(query, values).fetchone()


class SqliteScheduleProbe:
    def __init__(self, url: str) -> None:
        self._path = path_of(url)
        self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=60)
        self._clock = SystemClock()

    def others(self) -> int:
        return self._number("SELECT count(*) FROM foliot_schedules WHERE name NOT LIKE ?", [_LIKE])

    def count(self) -> tuple[int, int]:
        return (
            self._number("SELECT count(*) FROM foliot_schedules"),
            self._number("SELECT count(*) FROM foliot_triggers"),
        )

    def bytes(self) -> int:
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._path.stat().st_size

    def settle(self) -> None:
        self._run("ANALYZE")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")

    def make_due(
        self, *, stateful: bool, own: bool, schedules: int, after: tuple[int, int] | None
    ) -> tuple[int, tuple[int, int] | None]:
        id, partition = after or (-(2**63), -1)
        chosen, total = [], 0
        self._run("BEGIN IMMEDIATE")
        found = self._run(
            """SELECT id, partition, size FROM foliot_triggers
               WHERE stateful = ? AND (size = 1) = ? AND (id, partition) > (?, ?) ORDER BY id, partition""",
            [stateful, own, id, partition],
        )
        for *key, size in found:
            if total >= schedules:
                break
            chosen.append(key)
            total += size
        found.close()
        now = self._now() // _MILLION * _MILLION
        query = "UPDATE foliot_triggers SET next_fire_at = ? WHERE id = ? AND partition = ?"
        self._connection.executemany(query, [(now, *key) for key in chosen])
        self._run("COMMIT")
        return total, (chosen[-1][0], chosen[-1][1]) if chosen else None

    def late(self, seconds: float) -> int:
        before = self._now() - int(seconds * _MILLION)
        return self._number(
            "SELECT count(*) FROM foliot_triggers WHERE next_fire_at < ?", [before]
        ) + self._number("SELECT count(*) FROM foliot_gaps WHERE NOT done")

    def live(self) -> int:
        return self._number("SELECT count(*) FROM foliot_jobs")

    def ended(self) -> int:
        return self._number(
            "SELECT count(*) FROM foliot_history WHERE kind = 'bench.fire' AND state = 'succeeded'"
        )

    def put_off(self, seconds: float) -> None:
        self._run(
            """CREATE TEMPORARY TABLE put_off AS
               SELECT partition, id, next_fire_at FROM foliot_triggers WHERE next_fire_at < ?""",
            [self._now() + int(seconds * _MILLION)],
        )
        self._put_back(86_400 * _MILLION)

    def bring_back(self) -> None:
        self._put_back(0)
        self._run("DROP TABLE put_off")

    def remove(self) -> None:
        self._run("BEGIN IMMEDIATE")
        if not self.others():
            for table in _TABLES:
                self._run(f"DELETE FROM foliot_{table}")  # noqa: S608 - names of ours
        self._run("DELETE FROM foliot_schedules WHERE name LIKE ?", [_LIKE])
        self._run(
            """DELETE FROM foliot_triggers AS t WHERE NOT EXISTS (
                   SELECT 1 FROM foliot_schedules s WHERE s.partition = t.partition AND s.trigger = t.id)"""
        )
        self._run("COMMIT")

    def close(self) -> None:
        self._connection.close()

    def _put_back(self, later: int) -> None:
        self._run(
            """UPDATE foliot_triggers AS t SET next_fire_at = p.next_fire_at + ?
               FROM put_off p WHERE t.partition = p.partition AND t.id = p.id""",
            [later],
        )

    def _now(self) -> int:
        return int(self._clock.now().timestamp() * _MILLION)

    def _number(self, query: str, values: Sequence[object] = ()) -> int:
        return int(self._run(query, values).fetchone()[0])

    def _run(self, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise FoliotError(f"SQLite: {error}") from error


def open_schedule_probe(url: str) -> ScheduleProbe:
    return SqliteScheduleProbe(url) if url.startswith("sqlite:") else PostgresScheduleProbe(url)
