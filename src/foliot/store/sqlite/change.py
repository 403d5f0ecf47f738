"""Changes of jobs that have not started, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from foliot.ids import JobId
from foliot.model.change import Change, take_over
from foliot.model.job import NewJob
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts
from foliot.store.sqlite.times import to_microseconds

SQL: Final = load_parts("change.sql")


def change_job(connection: Connection, partition: int, id: JobId, change: Change, now: int) -> Rows:
    nobody: Values = {"namespace": None, "kind": None, "key": None, "submission": None}
    values = {**_values(partition, change, now), **nobody, "id": id}
    return execute(connection, SQL["change_job"], values)


def replace(connection: Connection, partition: int, job: NewJob, now: int) -> None:
    """Before the insert: whoever waits under its key takes over its content, whoever runs gives up the key."""
    release(connection, partition, [job])
    values = {**_values(partition, take_over(job), now), **_holder(partition, job), "id": None}
    execute(connection, SQL["change_job"], values)


def release(connection: Connection, partition: int, jobs: Sequence[NewJob]) -> None:
    for job in jobs:
        execute(connection, SQL["release_key"], _holder(partition, job))


def _holder(partition: int, job: NewJob) -> Values:
    return {
        "partition": partition,
        "namespace": job.namespace,
        "kind": job.kind,
        "key": job.key,
        "submission": job.id,
    }


def _values(partition: int, change: Change, now: int) -> Values:
    return {
        "partition": partition,
        "now": now,
        "whole": change.whole,
        "moves": change.moves,
        "retime": change.retime,
        "run_at": None if change.run_at is None else to_microseconds(change.run_at),
        "delay": change.delay,
        "queue": change.queue,
        "lane": change.lane,
        "priority": change.priority,
        "max_attempts": change.max_attempts,
        "timeout": change.timeout,
        "payload": change.payload,
        "more": change.more_json,
    }
