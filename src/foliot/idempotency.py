"""Submitting once: what was submitted under an idempotency key stands for whatever comes under it again.

First the key is reserved for the job's id, in the key's own partition; then the job is inserted under the id that is
reserved, as one that may have been sent before. Whoever is cut off in between has acknowledged nothing, and the next
one with that key inserts the job under the same id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from foliot.errors import InvalidValue
from foliot.ids import JobId, partition_of_slot
from foliot.model.job import NewJob
from foliot.model.key import Reservation, idempotency_key_of, reservation_of
from foliot.options import idempotency_slot
from foliot.store.guest import GuestStore
from foliot.store.port import Store

Place = tuple[int, Reservation]  # the partition of a key, and for what it is asked


async def reserve(
    store: Store | GuestStore, jobs: Sequence[NewJob], *, keep: float
) -> list[NewJob]:
    """The jobs, each under the id that stands for its key."""
    asked: dict[int, Place] = {}
    first: dict[tuple[str, str, str], Place] = {}
    for position, job in enumerate(jobs):
        key = idempotency_key_of(job)
        if key is not None:
            partition = partition_of_slot(idempotency_slot(job, key), store.partitions)
            asked[position] = partition, reservation_of(job, key)
            first.setdefault(asked[position][1].scope, asked[position])
    stands: dict[tuple[str, str, str], Reservation] = {}
    for partition in sorted({partition for partition, _ in first.values()}):
        some = [one for there, one in first.values() if there == partition]
        found = await store.jobs.reserve(partition, some, keep=keep)
        stands.update((one.scope, one) for one in found)
    return [
        job if position not in asked else _under(job, asked[position][1], stands)
        for position, job in enumerate(jobs)
    ]


async def give_back(store: Store | GuestStore, jobs: Sequence[NewJob]) -> None:
    """Free the keys that were reserved for these jobs, which were refused: under other arguments they will come again.
    Of a batch, some may be stored, in partitions that were reached before."""
    asked = [(job, key) for job in jobs if (key := idempotency_key_of(job)) is not None]
    if not isinstance(store, GuestStore):
        ids = [job.id for job, _ in asked]
        stored = {job.id for job in await store.jobs.ended(ids)} | set(await store.jobs.live(ids))
        asked = [(job, key) for job, key in asked if job.id not in stored]
    places: dict[int, list[Reservation]] = {}
    for job, key in asked:
        partition = partition_of_slot(idempotency_slot(job, key), store.partitions)
        places.setdefault(partition, []).append(reservation_of(job, key))
    for partition, some in sorted(places.items()):
        await store.jobs.unreserve(partition, some)


async def redirect(store: Store | GuestStore, jobs: Sequence[NewJob], ids: Sequence[JobId]) -> None:
    """Where the live job with the same unique key stands for one of these, it stands for its idempotency key, too."""
    for job, id in zip(jobs, ids, strict=True):
        key = idempotency_key_of(job)
        if key is not None and id != job.id:
            partition = partition_of_slot(idempotency_slot(job, key), store.partitions)
            await store.jobs.redirect(partition, reservation_of(job, key), id)


def _under(
    job: NewJob, asked: Reservation, stands: dict[tuple[str, str, str], Reservation]
) -> NewJob:
    found = stands[asked.scope]
    if found.fingerprint != asked.fingerprint:
        raise InvalidValue(
            "idempotency_key",
            asked.key,
            f"was used with other arguments, for job {found.job}",
            hint="use a key of its own for each thing that is to be done once",
        )
    return job if found.job == job.id else msgspec.structs.replace(job, id=found.job)
