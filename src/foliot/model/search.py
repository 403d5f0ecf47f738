"""What a search gives back: pages of jobs, counts with a limit, and where a job stands among others."""

from __future__ import annotations

from typing import Self

import msgspec

from foliot.ids import JobId
from foliot.model.job import Job, JobState


class Page(msgspec.Struct, frozen=True):
    """Jobs, newest first. `next` is where to search on, None at the end; where none were found, there may be more."""

    jobs: list[Job]
    next: JobId | None


class Tally(msgspec.Struct, frozen=True):
    """How many were counted, and where to count on, None at the end."""

    found: int
    next: JobId | None


class Count(int):
    """A number of jobs. Not `exact`: there are at least so many, and the search has ended before all were looked at."""

    exact: bool

    def __new__(cls, found: int, *, exact: bool = True) -> Self:
        count = super().__new__(cls, found)
        count.exact = exact
        return count

    def __str__(self) -> str:
        return f"{int(self):,}" if self.exact else f"at least {int(self):,}"


class Standing(msgspec.Struct, frozen=True):
    """Who is before a job: `ahead` ready jobs of its lane, and `earlier` live ones of its ordering key, first first.
    Both end at the limit that was asked for."""

    ahead: int
    earlier: list[tuple[JobId, JobState]]
