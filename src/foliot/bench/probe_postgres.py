"""The bench's look into PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, LiteralString
from urllib.parse import quote, urlencode

import psycopg
from psycopg import RawCursor, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from foliot.bench.jobs import KINDS, QUEUE
from foliot.bench.sizes import Sizes
from foliot.clock import SystemClock
from foliot.errors import FoliotError, StoreUnavailable
from foliot.ids import Ids
from foliot.model.lane import lane_of
from foliot.store.sql import load_statements

_CLAIM: Final = load_statements("foliot.store.postgres", "claim.sql")["claim_jobs"]
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"
_LIKE: Final = KINDS + "%"
_FEW: Final = 10
_CHUNK: Final = 500_000
_NUMBER: Final[LiteralString] = "(convert_from(payload, 'UTF8')::json ->> 'n')::integer"
_BACKDROP: Final = """
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace,
                         kind, queue, created_at, run_at, payload)
SELECT g %% p.count,
       (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0')
        || '7' || lpad(to_hex(g %% p.count * 4096 / p.count), 3, '0')
        || '8' || lpad(to_hex(g), 15, '0'))::uuid,
       %(lane)s, (extract(epoch FROM t.due) * 1000000)::bigint, 2, 2, 1, 'scheduled', 'default',
       %(kind)s, %(queue)s, now(), t.due, convert_to(rpad('{"n":0}', 100), 'UTF8')
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS g,
     (SELECT count(*)::integer AS count FROM foliot.leases) AS p,
     LATERAL (SELECT now() + interval '30 days' + g * interval '0.2 seconds' AS due) AS t
"""


class PostgresProbe:
    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = _connect(url)
        self._twin: str | None = None

    def describe(self) -> dict[str, str]:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        values = {name: self._one("SELECT current_setting(%s)", [name]) for name in names}
        return {"engine": "PostgreSQL", **values}

    def others(self) -> int:
        count = 0
        for table in ("jobs", "history", "dead"):
            query = sql.SQL(
                "SELECT count(*) FROM (SELECT FROM foliot.{} WHERE kind NOT LIKE %s LIMIT %s) AS o"
            ).format(sql.Identifier(table))
            count += int(self._one(query, [_LIKE, _FEW]))
        return count

    def empty(self, *, keep_backdrop: bool = False) -> None:
        shared = self.others() > 0
        if shared:
            for table in ("history", "dead"):
                self._run(
                    sql.SQL("DELETE FROM foliot.{} WHERE kind LIKE %s").format(
                        sql.Identifier(table)
                    ),
                    [_LIKE],
                )
        else:
            self._run("TRUNCATE foliot.history, foliot.dead, foliot.attempts")
        self._run("DELETE FROM foliot.rollups WHERE kind LIKE %s", [_LIKE])
        self._run("DELETE FROM foliot.workflows WHERE name LIKE 'bench-%'")
        self._run(
            "DELETE FROM foliot.steps s WHERE NOT EXISTS ("
            "SELECT FROM foliot.workflows w WHERE w.partition = s.partition AND w.id = s.workflow)"
        )
        if keep_backdrop or shared:
            states = ["ready", "running"] if keep_backdrop else ["ready", "running", "scheduled"]
            for state in states:
                # A literal, so that the state's own index is used.
                query = sql.SQL("DELETE FROM foliot.jobs WHERE state = {} AND kind LIKE %s")
                self._run(query.format(sql.Literal(state)), [_LIKE])
            self._run("VACUUM foliot.jobs")
        else:
            self._run("TRUNCATE foliot.jobs")

    def busy(self) -> bool:
        query = sql.SQL("SELECT FROM foliot.jobs WHERE state = {} AND kind LIKE %s LIMIT 1")
        return any(
            self._run(query.format(sql.Literal(state)), [_LIKE]).fetchone() is not None
            for state in ("running", "ready")
        )

    def running(self) -> int:
        query = "SELECT count(*) FROM foliot.jobs WHERE state = 'running' AND kind LIKE %s"
        return int(self._one(query, [_LIKE]))

    def now(self) -> float:
        return float(self._one("SELECT extract(epoch FROM clock_timestamp())"))

    def first_start(self) -> float:
        query = "SELECT extract(epoch FROM min(started_at)) FROM foliot.history WHERE kind LIKE %s"
        return float(self._one(query, [_LIKE]) or 0)

    def finished(self) -> Iterator[int]:
        where = "kind LIKE %s AND kind <> 'bench.usage' AND state = 'succeeded'"
        return self._numbers("history", where)

    def waiting(self) -> Iterator[int]:
        return self._numbers("jobs", "kind LIKE %s AND state = 'ready'")

    def finished_by_slice(self, start: float, width: float) -> dict[int, int]:
        query = (
            "SELECT floor((extract(epoch FROM finished_at) - %s) / %s)::integer, count(*) "
            "FROM foliot.history WHERE kind LIKE %s GROUP BY 1 ORDER BY 1"
        )
        return dict(self._run(query, [start, width, _LIKE]).fetchall())

    def add_backdrop(self, jobs: int) -> None:
        for first in range(0, jobs, _CHUNK):
            values = {
                "lane": lane_of(QUEUE).number,
                "kind": f"{KINDS}backdrop",
                "queue": QUEUE,
                "first": first,
                "last": min(jobs, first + _CHUNK) - 1,
            }
            self._run(_BACKDROP, values)
        self._run("VACUUM (FREEZE, ANALYZE) foliot.jobs")
        try:
            self._connection.execute(
                "CHECKPOINT"
            )  # or writing all this out would weigh on what is measured
        except psycopg.errors.InsufficientPrivilege:
            return

    def sizes(self) -> Sizes:
        query = (
            "SELECT pg_total_relation_size(relid), n_live_tup, n_dead_tup "
            "FROM pg_stat_user_tables WHERE schemaname = 'foliot' AND relname = 'jobs'"
        )
        row = self._run(query).fetchone()
        assert row is not None
        return Sizes(*row)

    def claim_seconds(self, room: int) -> float:
        lane = lane_of(QUEUE)
        values: dict[str, object] = {
            "partition": 0,
            "session": _NOBODY,
            "now": None,
            "grace": 10.0,
            "room": room,
            "lanes": [lane.number],
            "queues": [lane.queue],
            "choosy": [False],
            "kinds": [],
            "quotas": [room],
            "version": None,
        }
        clock = SystemClock()
        cursor = RawCursor(self._connection)
        self._run("BEGIN")
        try:
            started = clock.monotonic()
            cursor.execute(_CLAIM.numbered, _CLAIM.bind(values), prepare=True, binary=True)
            cursor.fetchall()
            return clock.monotonic() - started
        finally:
            self._run("ROLLBACK")

    def make_twin(self) -> str:
        given = conninfo_to_dict(self._url)
        self._twin = f"{self._connection.info.dbname}_bench_{Ids().session()[:8]}"
        try:
            self._run(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(
                    sql.Identifier(self._twin)
                )
            )
        except FoliotError as error:
            self._twin = None
            raise FoliotError(
                f"no second database could be made for the comparison: {error}",
                hint="the bench's user needs the right: ALTER ROLE … CREATEDB",
            ) from error
        return "postgresql:///?" + urlencode({**given, "dbname": self._twin}, quote_via=quote)

    def drop_twin(self) -> None:
        if self._twin is not None:
            twin = sql.Identifier(self._twin)
            self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(twin))
            self._twin = None

    def leave(self) -> None:
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            # The bench was told to end in the middle of a statement.
            self._connection.close()
            self._connection = _connect(self._url)
        self.empty()
        self.close()

    def close(self) -> None:
        self._connection.close()

    def _run(
        self, query: LiteralString | sql.SQL | sql.Composed, values: Any = None
    ) -> psycopg.Cursor[Any]:
        try:
            return self._connection.execute(query, values)
        except psycopg.Error as error:
            raise FoliotError(f"PostgreSQL: {error}") from error

    def _one(self, query: LiteralString | sql.SQL | sql.Composed, values: Any = None) -> Any:
        row = self._run(query, values).fetchone()
        return None if row is None else row[0]

    def _numbers(self, table: str, where: LiteralString) -> Iterator[int]:
        query = sql.SQL("SELECT {} FROM foliot.{} WHERE {}").format(
            sql.SQL(_NUMBER), sql.Identifier(table), sql.SQL(where)
        )
        with self._connection.transaction(), self._connection.cursor("numbers") as cursor:
            cursor.itersize = 50_000
            cursor.execute(query, [_LIKE])
            for (number,) in cursor:
                yield number


def _connect(url: str) -> psycopg.Connection[Any]:
    try:
        return psycopg.connect(url, autocommit=True)
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"PostgreSQL: {error}") from error
