"""Submitting to PostgreSQL: what the statements promise is written in sql/submit.sql and sql/change.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.errors import KeyHeld
from foliot.ids import JobId
from foliot.model.change import last_of_each_key
from foliot.model.job import NewJob
from foliot.store.batches import chunks
from foliot.store.guest import Release, settle
from foliot.store.postgres.arrays import blobs, numbers, optional_numbers, texts, words
from foliot.store.postgres.change import release_steps, replace_steps
from foliot.store.postgres.connection import Step, Transacting, Values
from foliot.store.postgres.keys import wait_steps
from foliot.store.reply import Rows
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "submit.sql")


class Submissions:
    def __init__(
        self,
        connections: Transacting,
        clock: Clock,
        key_wait: float | None = None,
        release: Release | None = None,
    ) -> None:
        """`release` has running jobs give up their keys in a transaction of its own: a caller's would keep them from
        finishing."""
        self._connections = connections
        self._clock = clock
        self._key_wait = key_wait
        self._release = release

    async def submit(self, partition: int, jobs: Sequence[NewJob], *, resend: bool) -> list[JobId]:
        if any(job.key is not None for job in jobs):
            if any(job.key_mode != "keep" for job in jobs):
                kept, positions = last_of_each_key(jobs)
                ids = await self._submit_keyed(partition, kept, resend=resend)
                return [ids[position] for position in positions]
            return await self._submit_keyed(partition, jobs, resend=resend)
        steps = self._insert(partition, jobs)
        if not resend:
            await self._connections.transact(steps)
            return [job.id for job in jobs]
        await self._connections.transact([*steps, _withdraw(partition, jobs)])
        return [job.id for job in jobs]

    async def _submit_keyed(
        self, partition: int, jobs: Sequence[NewJob], *, resend: bool
    ) -> list[JobId]:
        """Where the holder of a key ended, or was claimed, between one statement and the next, that job is sent again
        until it stands or has taken effect."""
        stands: dict[JobId, JobId] = {}
        left = list(jobs)
        release = self._release is None
        if resend:
            # One that has taken effect must not do so again: the key may be another's by now.
            known = [job for job in jobs if job.key_mode != "keep"]
            find = _find(partition, known, resend=True)
            found = await self._connections.read(find.statement, find.values) if known else []
            stands.update(_settled(known, found))
        while left := [job for job in left if job.id not in stands]:
            # One order for everybody: two batches with the same keys cannot wait for each other crosswise.
            ordered = sorted(left, key=lambda job: (job.kind, job.key or ""))
            steps = self._insert(partition, ordered)
            replacing = [job for job in ordered if job.key_mode != "keep"]
            if replacing:
                now = self._clock.now_for_store()
                steps = [*replace_steps(partition, replacing, now, release=release), *steps]
            if resend:
                steps.append(_withdraw(partition, left))
            steps = [*wait_steps(self._key_wait), *steps, _find(partition, left, resend=resend)]
            stands.update(_settled(left, (await self._connections.transact(steps))[-1]))
            resend = True
            release = await self._release_apart(partition, replacing, stands)
        return [stands[job.id] for job in jobs]

    async def _release_apart(
        self, partition: int, replacing: Sequence[NewJob], stands: Mapping[JobId, JobId]
    ) -> bool:
        """Whether those that still run under the keys are left to the transaction itself."""
        if self._release is None:
            return True
        left = [job for job in replacing if job.id not in stands]
        try:
            if left:
                await settle(self._release(partition, left))
        except KeyHeld:
            return True  # perhaps by that transaction: its job may be the one that runs
        return False

    async def release_keys(self, partition: int, jobs: Sequence[NewJob]) -> None:
        steps = [*wait_steps(self._key_wait), *release_steps(partition, jobs)]
        await self._connections.transact(steps)

    def _insert(self, partition: int, jobs: Sequence[NewJob]) -> list[Step]:
        return insert_steps(partition, jobs, self._clock.now_for_store())


def insert_steps(partition: int, jobs: Sequence[NewJob], now: datetime | None) -> list[Step]:
    return [
        Step(SQL["submit_jobs"], _submission(partition, some, now))
        for some in chunks(jobs, lambda job: len(job.payload))
    ]


def _submission(partition: int, jobs: Sequence[NewJob], now: datetime | None) -> Values:
    return {
        "partition": partition,
        "now": now,
        "ids": words([job.id for job in jobs]),
        "lanes": numbers([job.lane for job in jobs]),
        "priorities": numbers([job.priority for job in jobs]),
        "max_attempts": numbers([job.max_attempts for job in jobs]),
        "namespaces": words([job.namespace for job in jobs]),
        "kinds": words([job.kind for job in jobs]),
        "queues": words([job.queue for job in jobs]),
        "run_ats": texts([None if job.run_at is None else job.run_at.isoformat() for job in jobs]),
        "delays": optional_numbers([job.delay for job in jobs]),
        "timeouts": optional_numbers([job.timeout for job in jobs]),
        "keys": texts([job.key for job in jobs]),
        "payloads": blobs([job.payload for job in jobs]),
        "mores": texts(
            [None if job.more is None else msgspec.json.encode(job.more).decode() for job in jobs]
        ),
    }


def _withdraw(partition: int, jobs: Sequence[NewJob]) -> Step:
    ids = words(job.id for job in jobs)
    return Step(SQL["withdraw_resent_jobs"], {"partition": partition, "ids": ids})


def _find(partition: int, jobs: Sequence[NewJob], *, resend: bool) -> Step:
    return Step(SQL["find_submitted_jobs"], _keys(partition, jobs, resend=resend))


def _settled(jobs: Sequence[NewJob], found: Rows) -> dict[JobId, JobId]:
    """Which job stands for each of these, as far as it can be said. One that replaces has taken effect if it is that
    job itself, or if that job took over its content."""
    settled: dict[JobId, JobId] = {}
    for position, id, submission in found:
        job = jobs[position]
        if id is not None and (job.key_mode == "keep" or job.id in (id, submission)):
            settled[job.id] = JobId(id)
    return settled


def _keys(partition: int, jobs: Sequence[NewJob], *, resend: bool) -> Values:
    return {
        "partition": partition,
        "resend": resend,
        "ids": words([job.id for job in jobs]),
        "namespaces": words([job.namespace for job in jobs]),
        "kinds": words([job.kind for job in jobs]),
        "keys": texts([job.key for job in jobs]),
    }
