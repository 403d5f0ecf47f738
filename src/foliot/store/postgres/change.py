"""Changes of jobs that have not started, in PostgreSQL, as steps of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from foliot.ids import JobId
from foliot.model.change import Change, take_over
from foliot.model.job import NewJob
from foliot.store.postgres.arrays import texts
from foliot.store.postgres.connection import Step, Values
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "change.sql")
_NOBODY: Final[Values] = {"namespace": None, "kind": None, "key": None, "submission": None}


def change_steps(partition: int, id: JobId, change: Change, now: datetime | None) -> list[Step]:
    named: Values = {"ids": texts([id]), **dict.fromkeys(("namespaces", "kinds", "keys"), "{NULL}")}
    values = {**_values(partition, change, now), **_NOBODY, "id": id}
    return [
        Step(SQL["lock_holders"], {"partition": partition, "running": True, **named}),
        Step(SQL["change_job"], values),
    ]


def replace_steps(
    partition: int, jobs: Sequence[NewJob], now: datetime | None, *, release: bool
) -> list[Step]:
    """Before the insert: whoever waits under the key of one of these takes over its content, whoever runs gives up
    the key, with `release`."""
    steps = [_lock(partition, jobs, running=release)]
    for job in jobs:
        holder = _holder(partition, job)
        if release:
            steps.append(Step(SQL["release_key"], holder))
        values = {**_values(partition, take_over(job), now), **holder, "id": None}
        steps.append(Step(SQL["change_job"], values))
    return steps


def release_steps(partition: int, jobs: Sequence[NewJob]) -> list[Step]:
    released = [Step(SQL["release_key"], _holder(partition, job)) for job in jobs]
    return [_lock(partition, jobs, running=True), *released]


def _lock(partition: int, jobs: Sequence[NewJob], *, running: bool) -> Step:
    named: Values = {
        "partition": partition,
        "running": running,
        "ids": texts([None] * len(jobs)),
        "namespaces": texts([job.namespace for job in jobs]),
        "kinds": texts([job.kind for job in jobs]),
        "keys": texts([job.key for job in jobs]),
    }
    return Step(SQL["lock_holders"], named)


def _holder(partition: int, job: NewJob) -> Values:
    return {
        "partition": partition,
        "namespace": job.namespace,
        "kind": job.kind,
        "key": job.key,
        "submission": job.id,
    }


def _values(partition: int, change: Change, now: datetime | None) -> Values:
    return {
        "partition": partition,
        "now": now,
        "whole": change.whole,
        "moves": change.moves,
        "retime": change.retime,
        "run_at": change.run_at,
        "delay": change.delay,
        "queue": change.queue,
        "lane": change.lane,
        "priority": change.priority,
        "max_attempts": change.max_attempts,
        "timeout": change.timeout,
        "payload": change.payload,
        "more": change.more_json,
    }
