"""Everything a user may ask of a store, once: the SDK, the command line and the API all call these."""

from __future__ import annotations

from collections.abc import Sequence

from foliot.errors import InvalidValue, UnknownJob
from foliot.ids import JobId, is_job_id, mark_of, partition_of
from foliot.model.job import Job, JobState, NewJob
from foliot.store.guest import GuestStore
from foliot.store.port import Store, Wake


async def submit(
    store: Store | GuestStore, jobs: Sequence[NewJob], *, resend: bool = False
) -> list[JobId]:
    """Atomic in each partition. Returns the id that stands for each job: its own, or that of the live job
    with the same key."""
    if store.partitions == 1:
        ids = await store.jobs.submit(0, jobs, resend=resend)
    else:
        ids = await _submit_by_partition(store, jobs, resend=resend)
    store.wake(_news(store, jobs))
    return ids


async def cancel(store: Store, id: str) -> JobState:
    """Ask for a job's end. Returns its state then: cancelled; running, which its worker will end; or final."""
    known = check_id(id)
    found = await store.jobs.cancel(partition_of(known, store.partitions), [known])
    if known not in found:
        return (await get(store, id)).state
    if found[known] is JobState.RUNNING:
        store.wake(Wake(cancel=True))
        return JobState.RUNNING
    store.wake(Wake(ended=(mark_of(known),)))
    return JobState.CANCELLED


async def get(store: Store, id: str) -> Job:
    job = await store.jobs.get(check_id(id))
    if job is None:
        raise UnknownJob(id)
    return job


def check_id(id: str) -> JobId:
    if not isinstance(id, str) or not is_job_id(id):
        raise InvalidValue(
            "id", id, "is not a job's id", example="0192d5f0-5b7c-7a3b-8000-5c1f2e3d4c5b"
        )
    return JobId(id)


async def _submit_by_partition(
    store: Store | GuestStore, jobs: Sequence[NewJob], *, resend: bool
) -> list[JobId]:
    positions: dict[int, list[int]] = {}
    for position, job in enumerate(jobs):
        positions.setdefault(partition_of(job.id, store.partitions), []).append(position)
    ids: dict[int, JobId] = {}
    for partition, some in sorted(positions.items()):
        sent = await store.jobs.submit(partition, [jobs[p] for p in some], resend=resend)
        ids.update(zip(some, sent, strict=True))
    return [ids[position] for position in range(len(jobs))]


def _news(store: Store | GuestStore, jobs: Sequence[NewJob]) -> Wake:
    ready = {
        (partition_of(job.id, store.partitions), job.lane) for job in jobs if not _is_later(job)
    }
    return Wake(tuple(ready), due=any(_is_later(job) for job in jobs))


def _is_later(job: NewJob) -> bool:
    return job.run_at is not None or job.delay is not None
