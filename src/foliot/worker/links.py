"""Links: whom the end of a claimed job concerns besides itself. Most jobs have none."""

from __future__ import annotations

import msgspec

from foliot.ids import JobId
from foliot.model.job import ClaimedJob, Order, Outcome


class Link(msgspec.Struct, frozen=True):
    lane: int
    order: Order | None  # whose next job may follow
    flow: JobId | None  # the workflow that it is a step of
    gates: tuple[str, ...]  # limits of which it holds a slot


class Links:
    """Of all that is claimed."""

    def __init__(self) -> None:
        self._links: dict[JobId, Link] = {}

    def __bool__(self) -> bool:
        """Whether there are any: for every job is asked."""
        return bool(self._links)

    def add(self, job: ClaimedJob) -> None:
        self._links[job.id] = Link(job.lane, job.order, job.flow, job.gates)

    def take(self, id: JobId) -> Link | None:
        return self._links.pop(id, None)


def told(outcome: Outcome, link: Link) -> Outcome:
    """The outcome, with whom it concerns."""
    return msgspec.structs.replace(outcome, order=link.order, flow=link.flow, gates=link.gates)
