"""The part of a store's contract that is about queues as such."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from foliot.model.lane import Strategy
from foliot.store.searching import Record


class Queue(msgspec.Struct, frozen=True):
    name: str
    paused_at: datetime | None
    paused_by: str | None
    note: str | None
    strategy: Strategy = Strategy.PRIORITY
    aging: float = 60.0  # seconds that one step of priority is worth
    weights: dict[str, float] = {}  # of fair keys; one that is not named has weight 1
    updated_by: str | None = None  # who said last how it is ordered
    said: str | None = None  # what code said last of that: see model/said.py

    @property
    def bare(self) -> bool:
        """Nothing else is said of it than of any queue: as when it was paused once, and goes on."""
        return self == Queue(self.name, None, None, None, updated_by=self.updated_by)


class Queues(Protocol):
    """By hand, `record` says what is to be written down of a change."""

    async def pause(
        self,
        name: str,
        *,
        by: str | None = None,
        note: str | None = None,
        record: Record | None = None,
    ) -> None:
        """When this returns no claim takes from the queue."""
        ...

    async def resume(self, name: str, *, record: Record | None = None) -> bool:
        """Whether it was paused."""
        ...

    async def configure(
        self,
        name: str,
        *,
        strategy: Strategy | None = None,
        aging: float | None = None,
        weights: Mapping[str, float] | None = None,
        by: str | None = None,
        said: str | None = None,
        record: Record | None = None,
    ) -> bool:
        """What is None stays as it is. `said`: the text of what code says, which counts if model/said.py says so; None:
        by hand. What is submitted from now on goes by it; jobs that are there keep their order, and are served side by
        side with the new ones. Whether it changed anything."""
        ...

    async def all(self) -> list[Queue]: ...
