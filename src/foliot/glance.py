"""Glance: everything that is going on, at one moment, for people who watch.

A glance costs a handful of small statements whatever is in the store: live jobs are counted up to a cap, history is
never counted. How fast things go follows from the difference of two glances.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foliot.model.job import JobState
from foliot.model.overview import ActiveJob, Failure, Loads, QueueLoad, Tally
from foliot.model.session import Session
from foliot.store.port import Store
from foliot.store.queueing import Queue

CAP: Final = 10_000
_LIVE: Final = (JobState.READY, JobState.RUNNING, JobState.SCHEDULED, JobState.HELD)


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    loads: Loads
    queues: list[Queue]
    sessions: list[Session]
    tally: Tally
    dead: int
    running: list[ActiveJob]
    failures: list[Failure]

    @property
    def states(self) -> dict[JobState, int]:
        """How many jobs there are in each state that is not behind them, counted up to a cap."""
        return {state: self.loads.total(state) for state in _LIVE} | {JobState.DEAD: self.dead}

    @property
    def at_least(self) -> frozenset[JobState]:
        """The states in which there may be more."""
        return self.loads.at_least | ({JobState.DEAD} if self.dead >= CAP else set())

    @property
    def by_queue(self) -> list[tuple[QueueLoad, Queue | None]]:
        """Every queue that has jobs or settings, by name."""
        loads = {load.queue: load for load in self.loads.queues}
        known = {queue.name: queue for queue in self.queues}
        return [
            (loads.get(name) or QueueLoad(queue=name), known.get(name))
            for name in sorted({*loads, *known})
        ]


class Rates(msgspec.Struct, frozen=True):
    """A second."""

    submitted: float
    started: float
    finished: float
    failed: float  # attempts


async def look(store: Store, *, running: int = 100, failures: int = 100) -> Glance:
    overview = store.overview
    return Glance(
        loads=await overview.queues(cap=CAP),
        queues=await store.queues.all(),
        sessions=await store.sessions.all(),
        tally=await overview.tally(),
        dead=await overview.dead(cap=CAP),
        running=await overview.running(limit=running),
        failures=await overview.failures(limit=failures),
    )


def rates(before: Glance, after: Glance, seconds: float) -> Rates:
    """What was started is what runs now and did not before, and what has stopped running since."""
    first, last = before.tally, after.tally
    ended, failed = last.ended - first.ended, last.failed - first.failed
    more_running = after.loads.total(JobState.RUNNING) - before.loads.total(JobState.RUNNING)

    def pace(count: int) -> float:
        return max(0, count) / seconds if seconds > 0 else 0.0

    return Rates(
        submitted=pace(last.submitted - first.submitted),
        started=pace(more_running + ended + failed),
        finished=pace(ended + max(0, last.buried - first.buried)),
        failed=pace(failed),
    )
