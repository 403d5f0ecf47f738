"""Change: what is to become of a job that has not started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from foliot.ids import JobId
from foliot.model.job import Extras, More, NewJob


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """None: as it is. With `whole`, all that a submission says is taken over, None included."""

    whole: bool = False
    retime: bool = False  # its time starts anew: run_at, else delay, else now
    run_at: datetime | None = None
    delay: float | None = None
    queue: str | None = None
    lane: int | None = None  # of that queue
    priority: int | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    payload: bytes | None = None
    tags: tuple[str, ...] | None = None
    more: More | None = None

    @property
    def moves(self) -> bool:
        """Whether its place among the others is to be found anew."""
        return self.whole or self.retime or self.queue is not None or self.priority is not None

    @property
    def more_json(self) -> str:
        """With the tags even if there are none: that is something to say, too."""
        said = msgspec.to_builtins(self.more or More())
        if self.tags is not None:
            said["tags"] = self.tags
        return msgspec.json.encode(said).decode()


def take_over(job: NewJob) -> Change:
    """What a submission makes of the live job that has its key."""
    more = job.more or More()
    extras = msgspec.structs.replace(more.extras or Extras(), submission=job.id)
    return Change(
        whole=True,
        retime=job.key_mode == "debounce",
        run_at=job.run_at,
        delay=job.delay,
        queue=job.queue,
        lane=job.lane,
        priority=job.priority,
        max_attempts=job.max_attempts,
        timeout=job.timeout,
        payload=job.payload,
        tags=more.tags,
        more=msgspec.structs.replace(more, extras=extras),
    )


def last_of_each_key(jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[int]]:
    """The jobs of a batch without those that share a unique key: of these, the last that replaces, else the first.
    And for each job of the batch, the position of the one that stands for it."""
    winners: dict[tuple[str, str, str], NewJob] = {}
    for job in jobs:
        if job.key is not None:
            scope = (job.namespace, job.kind, job.key)
            if scope not in winners or job.key_mode != "keep":
                winners[scope] = job
    kept: list[NewJob] = []
    places: dict[JobId, int] = {}
    positions = []
    for job in jobs:
        stands = job if job.key is None else winners[job.namespace, job.kind, job.key]
        if stands.id not in places:
            places[stands.id] = len(kept)
            kept.append(stands)
        positions.append(places[stands.id])
    return kept, positions
