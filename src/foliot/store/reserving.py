"""Idempotency keys, as a store keeps them: apart from their jobs, which they outlive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foliot.ids import JobId
from foliot.model.key import Reservation


class Reserving(Protocol):
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
