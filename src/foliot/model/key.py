"""Reservation: an idempotency key, and the job that it stands for."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from foliot.ids import JobId
from foliot.model.job import NewJob


class Reservation(msgspec.Struct, frozen=True):
    namespace: str
    kind: str
    key: str
    job: JobId
    fingerprint: str  # of what was submitted: the same key must not mean something else later

    @property
    def scope(self) -> tuple[str, str, str]:
        return self.namespace, self.kind, self.key


def idempotency_key_of(job: NewJob) -> str | None:
    more = job.more
    return None if more is None or more.extras is None else more.extras.idempotency_key


def reservation_of(job: NewJob, key: str) -> Reservation:
    """Its arguments, and what decides where it lives: under the same key, the same place."""
    ordering = job.more.ordering_key if job.more is not None else None
    told = msgspec.json.encode([job.key, ordering]) + job.payload
    fingerprint = blake2b(told, digest_size=16).hexdigest()
    return Reservation(job.namespace, job.kind, key, job.id, fingerprint)
