"""Admit: due scheduled jobs become ready, and what is held until it has been compared with others is looked at.

Sleeps until the next due time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from foliot.scheduler.duty import Duty, Office
from foliot.store.port import Peek, Wake

_LONGEST: Final = 60.0
_AGAIN: Final = 0.01


class Admit(Duty):
    name = "admit"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._due: dict[
            int, float
        ] = {}  # partition -> when its next job is due, on our monotonic clock

    def see(self, peek: Peek) -> None:
        now = self.clock.monotonic()
        self._due = {partition: now + seconds for partition, seconds in peek.due_in.items()}
        self.wake()

    async def tick(self) -> float:
        now = self.clock.monotonic()
        held = self._partitions.held
        due = [partition for partition, at in self._due.items() if at <= now and partition in held]
        moved = False
        for partition in due:
            moved |= await self._admit(partition)
        if moved:
            self._look()  # what comes next is not known until somebody has looked
        ahead = [at - now for partition, at in self._due.items() if partition in held and at > now]
        return min([*ahead, _LONGEST])

    async def _admit(self, partition: int) -> bool:
        """Whether anything has moved. What is due does not wait for the end of a long line of looks."""
        moved, more = False, True
        while more:
            lanes = await self._store.jobs.admit(partition, limit=self._batch)
            self._tell(partition, lanes)
            admitted, more = await self._store.admission.look(partition, limit=self._batch)
            self._tell(partition, [one.lane for one in admitted])
            moved |= bool(lanes or admitted)
            more |= len(lanes) >= self._batch
        if moved:
            self._due.pop(partition, None)
        else:  # it is due on our clock and not yet on the store's, or somebody has it locked
            self._due[partition] = self.clock.monotonic() + _AGAIN
        return moved

    def _tell(self, partition: int, lanes: Sequence[int]) -> None:
        if lanes:
            self._announce(Wake(tuple((partition, lane) for lane in set(lanes))))
