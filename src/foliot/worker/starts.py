"""Starts: which attempts with a timeout wait for their child process.

Their timeouts count from when their functions are called, but their deadlines in the store from the claim. So the
deadlines are extended while they wait, and once more when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.job import ClaimedJob

_LATE: Final = 1.0  # seconds that are no matter: deadlines come a while after timeouts


class _Start(msgspec.Struct, frozen=True):
    job: ClaimedJob
    since: float  # it waits, or its deadline was extended; or it was called
    called: bool = False


class Starts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starts: dict[JobId, _Start] = {}

    def wait(self, job: ClaimedJob) -> None:
        self._starts[job.id] = _Start(job, self._clock.monotonic())

    def begin(self, job: ClaimedJob) -> None:
        """Its function is called now."""
        start, now = self._starts.pop(job.id, None), self._clock.monotonic()
        if start is not None and now - start.since > _LATE:
            self._starts[job.id] = _Start(job, now, called=True)

    def forget(self, id: JobId) -> None:
        self._starts.pop(id, None)

    def find_late(self) -> list[ClaimedJob]:
        """Whose deadlines are to be extended now."""
        if not self._starts:
            return []
        before = self._clock.monotonic() - _LATE
        return [one.job for one in self._starts.values() if one.called or one.since < before]

    def extended(self, jobs: Sequence[ClaimedJob], *, since: float) -> None:
        """At `since` or later; what was called meanwhile comes once more."""
        for start in [self._starts[job.id] for job in jobs if job.id in self._starts]:
            if not start.called:
                self._starts[start.job.id] = _Start(start.job, since)
            elif start.since <= since:
                del self._starts[start.job.id]
