"""Steps of workflows, as far as a worker has to do with them beyond running them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import ClaimedJob, Outcome
from foliot.model.workflow import Advance
from foliot.store.admission import Admitted
from foliot.store.port import Store, Wake

log = logging.getLogger("foliot.worker")


class PassOn(Protocol):
    """Told of what may run now: here, or elsewhere."""

    def __call__(self, partition: int, admitted: Sequence[Admitted], *, claimed: bool) -> None: ...


class Steps:
    def __init__(self, store: Store, pass_on: PassOn, announce: Callable[[Wake], None]) -> None:
        self._store = store
        self._pass_on = pass_on
        self._announce = announce

    async def with_parents(self, partition: int, claimed: Sequence[ClaimedJob]) -> list[ClaimedJob]:
        """Those that have parents get to see them, with their results."""
        steps = [job for job in claimed if job.linked and job.facts.extras.parents]
        if not steps:
            return list(claimed)
        known = await self._store.workflows.parents(partition, steps)
        return [
            msgspec.structs.replace(job, parents=known[job.id]) if job.id in known else job
            for job in claimed
        ]

    async def linked(
        self, partition: int, outcomes: Sequence[Outcome], refused: Sequence[JobId]
    ) -> list[Outcome]:
        """Of refused outcomes those whose job has become a step since it was claimed: as they are to be sent again."""
        if not refused:
            return []
        links = await self._store.workflows.linked(partition, refused)
        return [
            msgspec.structs.replace(outcome, flow=links[outcome.id])
            for outcome in outcomes
            if outcome.id in links and links[outcome.id] != outcome.flow
        ]

    async def carry_on(self, partition: int, advance: Advance) -> None:
        """What the end of a step has begun. If this is lost, a duty finds it."""
        try:
            while advance.more:
                advance = await self._store.workflows.advance(partition, advance.more)
                self._announce(Wake(cancel=True))
                self._pass_on(
                    partition,
                    [Admitted(lane, state) for lane, state in advance.lanes],
                    claimed=False,
                )
        except StoreUnavailable as error:
            log.warning("a workflow is carried on later: %s", error)
        except Exception:
            log.exception("a workflow is carried on later")
