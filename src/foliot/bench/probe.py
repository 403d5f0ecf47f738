"""Probe: the bench's own look into a store, beside the engine. One for each kind of store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from foliot.bench.probe_postgres import PostgresProbe
from foliot.bench.probe_sqlite import SqliteProbe
from foliot.bench.sizes import Sizes


class Probe(Protocol):
    def describe(self) -> dict[str, str]:
        """What the numbers depend on: server, its version, how durable a commit is."""
        ...

    def others(self) -> int:
        """Jobs, live or ended, that are not the bench's; counted up to a few."""
        ...

    def empty(self, *, keep_backdrop: bool = False) -> None:
        """Remove the bench's own jobs."""
        ...

    def busy(self) -> bool:
        """Whether any job of the bench is ready or running."""
        ...

    def running(self) -> int:
        """How many jobs of the bench run now."""
        ...

    def now(self) -> float:
        """The store's clock, in seconds since 1970."""
        ...

    def first_start(self) -> float:
        """When the first finished job was claimed, by the same clock."""
        ...

    def finished(self) -> Iterable[int]:
        """The number of each succeeded job, as often as it is in history."""
        ...

    def waiting(self) -> Iterable[int]:
        """The number of each ready job."""
        ...

    def finished_by_slice(self, start: float, width: float) -> dict[int, int]:
        """How many jobs finished in each slice of time."""
        ...

    def add_backdrop(self, jobs: int) -> None:
        """Put that many jobs that are due in a month or two."""
        ...

    def sizes(self) -> Sizes: ...

    def claim_seconds(self, room: int) -> float:
        """How long a claim takes now. It is rolled back."""
        ...

    def make_twin(self) -> str:
        """The URL of a new, empty store beside this one."""
        ...

    def drop_twin(self) -> None: ...

    def leave(self) -> None:
        """Remove the bench's own jobs, and the room they took, and close."""
        ...

    def close(self) -> None: ...


def open_probe(url: str) -> Probe:
    return SqliteProbe(url) if url.startswith("sqlite:") else PostgresProbe(url)
