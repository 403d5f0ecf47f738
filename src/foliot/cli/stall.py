"""Stall: where somebody waits and nothing changes, what `explain` says of that, once after each change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from foliot.clock import Clock
from foliot.explain_commands import NOT_BEGUN, explain_job, first_held_up, of_step
from foliot.explain_gate import Reason
from foliot.ids import JobId
from foliot.model.job import Job, JobState
from foliot.model.workflow import Step
from foliot.store.port import Store

_QUIET: Final = 3.0  # seconds without any change


class Stall:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen: object = None
        self._since = clock.monotonic()
        self._asked = False
        self._told: list[str] = []
        self.shown: list[str] = []  # what was said since the last change

    async def of_job(self, job: Job) -> list[str]:
        """Lines to be shown now: none while it runs, for that may take its time."""
        if not self._is_due((job.state, job.reason, job.attempt)) or job.state not in NOT_BEGUN:
            return []
        reason = await self._reason(job.id)
        return [] if reason is None else self._new(reason, f"{job.state}: {reason.why}")

    async def of_steps(self, steps: Sequence[Step]) -> list[str]:
        """Of the first that could begin, unless another one runs."""
        due = self._is_due(hash(tuple((step.job, step.state, step.reason) for step in steps)))
        if not due or any(step.state is JobState.RUNNING for step in steps):
            return []
        step = first_held_up(steps, NOT_BEGUN)
        reason = None if step is None else await self._reason(step.job)
        return (
            [] if step is None or reason is None else self._new(reason, of_step(step, reason.why))
        )

    def _is_due(self, seen: object) -> bool:
        now = self._clock.monotonic()
        if seen != self._seen:
            self._seen, self._since, self._asked, self.shown = seen, now, False, []
        if self._asked or now - self._since < _QUIET:
            return False
        self._asked = True
        return True

    async def _reason(self, id: JobId) -> Reason | None:
        """None, if it has ended or begun, or nobody can tell: the wait goes on either way."""
        with suppress(Exception):
            found = await explain_job(self._store, id)
            if found.state in NOT_BEGUN:
                return found.reasons[0]
        return None

    def _new(self, reason: Reason, first: str) -> list[str]:
        """The same again is nothing new."""
        self.shown = [first, *([] if reason.change is None else [f"  until {reason.change}"])]
        known, self._told = self._told, self.shown
        return [] if known == self.shown else self.shown
