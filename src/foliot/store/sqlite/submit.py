"""Submitting to SQLite: what the statements promise is written in sql/submit.sql and sql/change.sql."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Final

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.change import last_of_each_key
from foliot.model.job import NewJob
from foliot.store.sqlite.batches import Values, execute, load_parts, submissions, to_json
from foliot.store.sqlite.change import replace
from foliot.store.sqlite.connection import Transacting
from foliot.store.sqlite.times import store_now

SQL: Final = load_parts("submit.sql")


async def submit(
    connections: Transacting,
    clock: Clock,
    partition: int,
    jobs: Sequence[NewJob],
    *,
    resend: bool,
) -> list[JobId]:
    if any(job.key_mode != "keep" for job in jobs):
        kept, positions = last_of_each_key(jobs)
    else:
        kept, positions = list(jobs), None
    batches = list(submissions(kept))
    replacing = [job for job in kept if positions is not None and job.key_mode != "keep"]

    def run(connection: Connection) -> list[JobId] | None:
        now = store_now(clock)
        values: Values = {"partition": partition, "now": now}
        for job in replacing:
            if not resend or not _has_settled(connection, job, values):
                replace(connection, partition, job, now)
        inserted = insert(connection, batches, values)
        if inserted == len(kept) and not resend:
            return None
        if resend:
            _withdraw(connection, kept, values)
        return _find(connection, kept, batches, values)

    ids = await connections.transact(run) or [job.id for job in kept]
    return ids if positions is None else [ids[position] for position in positions]


def _has_settled(connection: Connection, job: NewJob, values: Values) -> bool:
    """Whether it has taken effect: it must not do so again, for the key may be another's by now."""
    [batch] = submissions([job])
    [(_, id, submission)] = execute(connection, SQL["find_submitted_jobs"], {**batch, **values})
    return job.id in (id, submission)


def insert(connection: Connection, batches: Iterable[Values], values: Values) -> int:
    """How many there were none of."""
    (submit,) = SQL["submit_jobs"]
    return sum(connection.execute(submit, {**batch, **values}).rowcount for batch in batches)


def _withdraw(connection: Connection, jobs: Sequence[NewJob], values: Values) -> None:
    ids = to_json([job.id for job in jobs])
    execute(connection, SQL["withdraw_resent_jobs"], {**values, "ids": ids})


def _find(
    connection: Connection, jobs: Sequence[NewJob], batches: Sequence[Values], values: Values
) -> list[JobId]:
    """Which job stands for each. Where none does, a withdrawn one had its key: that is free again."""
    found: list[JobId | None] = []
    for batch in batches:
        answer = execute(connection, SQL["find_submitted_jobs"], {**batch, **values})
        found.extend(row[1] for row in answer)
    missing = [job for job, id in zip(jobs, found, strict=True) if id is None]
    if not missing:
        return [id for id in found if id is not None]
    batches = list(submissions(missing))
    insert(connection, batches, values)
    again = iter(_find(connection, missing, batches, values))
    return [next(again) if id is None else id for id in found]
