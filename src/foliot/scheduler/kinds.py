"""Kinds: what no live session knows is held, and goes back as soon as one knows it.

Also what did not fit the arguments of its kind, as soon as these have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from foliot.ids import JobId
from foliot.scheduler.duty import Duty, Office
from foliot.store.port import Wake

log = logging.getLogger("foliot.scheduler")
_NAMED: Final = 10  # jobs
_FRONT: Final = 200  # jobs that are looked at in each lane
_SELDOM: Final = (
    4  # times the pause of reaping: old and new versions meet during a deployment, not all day
)


class Kinds(Duty):
    name = "kinds"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._known: set[str] = set()  # at the last look
        self._every = office.settings.scheduler.reap_every * _SELDOM

    async def tick(self) -> float:
        held = self._partitions.held
        if held:
            sessions = await self._store.sessions.all()
            known = {kind for session in sessions if session.live for kind in session.kinds}
            # Where nobody lives, nobody is missed; and who was there a moment ago may just be starting again.
            for partition in sorted(held) if known else ():
                await self._admit(partition, sorted(known))
                await self._hold(partition, sorted(known | self._known))
            self._known = known
        return self.ids.jitter(self._every)

    async def _hold(self, partition: int, known: Sequence[str]) -> None:
        strange = await self._store.admission.hold_kinds(partition, known, limit=_FRONT)
        if strange:
            log.warning("held because no worker knows their kinds: %s", await self._names(strange))
            self._announce(Wake(due=True))

    async def _names(self, jobs: Sequence[JobId]) -> str:
        """The kinds, each with its jobs, as far as they are named."""
        by_kind: dict[str, list[JobId]] = {}
        for id in jobs[:_NAMED]:
            if (job := await self._store.jobs.get(id)) is not None:
                by_kind.setdefault(job.kind, []).append(id)
        return "; ".join(f"{kind}: {', '.join(ids)}" for kind, ids in by_kind.items())

    async def _admit(self, partition: int, known: Sequence[str]) -> None:
        lanes: Sequence[int] = range(self._batch)
        while len(lanes) >= self._batch:
            lanes = await self._store.jobs.admit_kinds(partition, known, limit=self._batch)
            self._tell(partition, lanes)
        self._tell(
            partition, await self._store.admission.admit_payloads(partition, limit=self._batch)
        )

    def _tell(self, partition: int, lanes: Sequence[int]) -> None:
        if lanes:
            self._announce(Wake(tuple((partition, lane) for lane in set(lanes))))
