"""Keys, as a store keeps them: unique ones with their jobs, idempotency keys apart from them, for they outlive them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foliot.ids import JobId
from foliot.model.job import NewJob
from foliot.model.key import Reservation


class Reserving(Protocol):
    async def release_keys(self, partition: int, jobs: Sequence[NewJob]) -> None:
        """Jobs that run under the unique keys of these submissions give them up, for they are to be replaced."""
        ...

    async def reserve(
        self, partition: int, reservations: Sequence[Reservation], *, keep: float
    ) -> list[Reservation]:
        """Reserve idempotency keys, each named once, for `keep` seconds. Returns what stands for each: itself, or what
        was reserved before and has not run out. Repeating is harmless."""
        ...

    async def redirect(self, partition: int, reservation: Reservation, id: JobId) -> None:
        """Let the key stand for another job than the one it was reserved for."""
        ...

    async def unreserve(self, partition: int, reservations: Sequence[Reservation]) -> None:
        """Take back what is still reserved for these jobs, which were refused."""
        ...
