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


class Links(dict[JobId, Link]):
    """Of all that is claimed. A dict itself, for with every end is asked whether there are any."""

    def add(self, job: ClaimedJob) -> None:
        self[job.id] = Link(job.lane, job.order, job.flow, job.gates)


def told(outcome: Outcome, link: Link) -> Outcome:
    """The outcome, with whom it concerns."""
    return msgspec.structs.replace(outcome, order=link.order, flow=link.flow, gates=link.gates)
