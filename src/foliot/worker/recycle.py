"""Recycling: when a worker process has run long enough, by its jobs, its age or its memory."""

from __future__ import annotations

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.units import show_duration, show_size
from foliot.worker.memory import resident


class Recycling:
    """Each limit with some jitter, so that processes that started together are not replaced together."""

    def __init__(self, settings: Settings, clock: Clock, ids: Ids) -> None:
        own = settings.worker
        self._clock = clock
        self._jobs = round(ids.jitter(own.recycle_jobs, 0.1))
        self._memory = own.recycle_memory
        self._age = own.recycle_age
        self._until = (
            None
            if own.recycle_age is None
            else clock.monotonic() + ids.jitter(own.recycle_age, 0.1)
        )

    def find(self, finished: int) -> str | None:
        """Why it is time, if it is."""
        if self._jobs and finished >= self._jobs:
            return f"it has run {finished} jobs"
        if self._until is not None and self._clock.monotonic() >= self._until:
            return f"it is older than {show_duration(self._age or 0)}"
        if self._memory and (used := resident()) >= self._memory:
            return f"it uses {used >> 20} MiB of memory, more than {show_size(self._memory)}"
        return None
