"""How a bug is switched on from outside: the text of a statement is changed, or a function. No hook in what ships."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import pytest
from psycopg import AsyncRawCursor

from foliot.client.sender import Sender
from foliot.clock import SystemClock
from foliot.errors import StoreUnavailable
from foliot.ids import Ids, JobId, SessionId
from foliot.model.job import ClaimedJob, NewJob
from foliot.store.postgres import dead as postgres_dead
from foliot.store.postgres import ends as postgres_ends
from foliot.store.postgres import gates as postgres_gates
from foliot.store.postgres import jobs as postgres_jobs
from foliot.store.postgres import order as postgres_order
from foliot.store.postgres import sessions as postgres_sessions
from foliot.store.postgres import submit as postgres_submit
from foliot.store.postgres import trips as postgres_trips
from foliot.store.postgres import upkeep as postgres_upkeep
from foliot.store.postgres import workflows as postgres_workflows
from foliot.store.postgres.connection import Connections, Line, Step
from foliot.store.reply import Rows
from foliot.store.sql import parse_statement
from foliot.store.sqlite import claim as sqlite_claim
from foliot.store.sqlite import connection as sqlite_connection
from foliot.store.sqlite import dead as sqlite_dead
from foliot.store.sqlite import ends as sqlite_ends
from foliot.store.sqlite import jobs as sqlite_jobs
from foliot.store.sqlite import order as sqlite_order
from foliot.store.sqlite import outcomes as sqlite_outcomes
from foliot.store.sqlite import sessions as sqlite_sessions
from foliot.store.sqlite import submit as sqlite_submit
from foliot.store.sqlite import upkeep as sqlite_upkeep
from foliot.store.sqlite import workflows as sqlite_workflows
from foliot.store.sqlite.file import begin
from machine.scenarios import Scenario

_MODULES: Final = {
    "postgres": (
        postgres_jobs,
        postgres_submit,
        postgres_sessions,
        postgres_upkeep,
        postgres_order,
        postgres_dead,
        postgres_ends,
        postgres_trips,
        postgres_gates,
        postgres_workflows,
    ),
    "sqlite": (
        sqlite_jobs,
        sqlite_submit,
        sqlite_claim,
        sqlite_outcomes,
        sqlite_sessions,
        sqlite_upkeep,
        sqlite_order,
        sqlite_dead,
        sqlite_ends,
        sqlite_workflows,
    ),
}
Edit = tuple[str, str, str]  # statement, a piece of its text, what stands there instead
Change = Callable[[pytest.MonkeyPatch], None]


class Bug(msgspec.Struct, frozen=True):
    """What to change on each engine (nothing: it cannot have this bug), and what must notice."""

    name: str
    scenario: Scenario
    caught_by: tuple[str, ...]
    both: Sequence[Edit | Change] = ()
    postgres: Sequence[Edit | Change] = ()
    sqlite: Sequence[Edit | Change] = ()

    @property
    def engines(self) -> list[str]:
        return [name for name in ("sqlite", "postgres") if self.changes(name)]

    def changes(self, engine: str) -> list[Edit | Change]:
        return [*self.both, *(self.postgres if engine == "postgres" else self.sqlite)]

    def switch_on(self, engine: str, patch: pytest.MonkeyPatch) -> None:
        for change in self.changes(engine):
            if callable(change):
                change(patch)
            else:
                edit(patch, engine, *change)


def edit(patch: pytest.MonkeyPatch, engine: str, name: str, old: str, new: str) -> None:
    """Wherever the statement is kept. It must have had the piece, or the bug would be none."""
    found: Any = next((m.SQL[name] for m in _MODULES[engine] if name in m.SQL), None)
    assert found is not None, f"{engine} has no statement {name}"
    text = found.text if engine == "postgres" else ";".join(found)
    assert old in text, f"{name} of {engine} has no {old!r}: {text}"
    replace_statement(patch, engine, name, text.replace(old, new))


def replace_statement(patch: pytest.MonkeyPatch, engine: str, name: str, text: str) -> None:
    parsed: Any = parse_statement(name, text)
    if engine == "sqlite":
        parsed = tuple(part.strip() for part in parsed.text.split(";"))
    for module in _MODULES[engine]:
        if name in module.SQL:
            patch.setitem(module.SQL, name, parsed)


def claim_by_subquery(patch: pytest.MonkeyPatch) -> None:
    """The shape that may update more than its limit."""
    text = """
    UPDATE foliot.jobs j
    SET state = 'running', session = :session, fence = j.fence + 1, attempt = j.attempt + 1,
        claimed_at = coalesce(:now, now()), deadline_at = NULL
    WHERE j.partition = :partition AND j.id IN (
        SELECT r.id FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = ANY (:lanes::bigint[]) AND r.state = 'ready'
          AND (SELECT v.version FROM foliot.rules v) = :version::bigint
        ORDER BY r.band, r.rank, r.id
        LIMIT :room
        FOR UPDATE SKIP LOCKED)
    RETURNING j.id::text, j.fence, j.kind, j.payload, j.attempt, j.max_attempts, j.losses, j.timeout, false, j.lane
    """
    replace_statement(patch, "postgres", "claim_jobs", text)


def prune_the_dead(patch: pytest.MonkeyPatch) -> None:
    text = """
    WITH gone AS (
        DELETE FROM foliot.dead d
        WHERE d.partition = :partition
          AND d.finished_at < coalesce(:now, now()) - make_interval(secs => :keep)
        RETURNING d.id
    )
    SELECT count(*), max(id::text) FROM gone
    """
    replace_statement(patch, "postgres", "prune_default_history", text)


def name_sessions_after_the_host(patch: pytest.MonkeyPatch) -> None:
    host = SessionId("00000000-0000-4000-8000-000000000001")
    patch.setattr(Ids, "session", lambda self: host)


def compare_with_our_own_clock(patch: pytest.MonkeyPatch) -> None:
    def now(self: SystemClock) -> datetime:
        return self.now()

    patch.setattr(SystemClock, "now_for_store", now)


def always_try_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimedJob, "last_attempt", property(lambda self: False))


def resend_with_a_new_id(patch: pytest.MonkeyPatch) -> None:
    async def send(self: Sender, jobs: Sequence[NewJob], **options: object) -> list[JobId]:
        while True:
            try:
                return await self._insert(jobs, resend=False)
            except StoreUnavailable:
                jobs = [msgspec.structs.replace(job, id=self._ids.job()) for job in jobs]

    patch.setattr(Sender, "_send_patiently", send)


def answer_before_commit_in_postgres(patch: pytest.MonkeyPatch) -> None:
    """And the power fails in between."""

    async def run(self: Connections, connection: Line, steps: Sequence[Step]) -> list[Rows]:
        await connection.execute("BEGIN")
        answers: list[Rows] = []
        for step in steps:
            cursor = AsyncRawCursor(connection)
            values = step.statement.bind(step.values)
            await cursor.execute(step.statement.numbered, values, binary=True)
            answers.append(await cursor.fetchall() if cursor.description else [])
        await connection.close()
        return answers

    patch.setattr(Connections, "_run", run)


def answer_before_commit_in_sqlite(patch: pytest.MonkeyPatch) -> None:
    def commit(self: sqlite_connection.Writer, group: sqlite_connection.Group) -> None:
        begin(self._connection, self._timeout)
        for request in group:
            self._run(request)
        self._connection.execute("ROLLBACK")

    patch.setattr(sqlite_connection.Writer, "_commit", commit)
