"""Notes: what jobs say while they run, log lines and progress, on its way to the store.

Collected from any thread, written in batches beside the cycle: no job waits for it. While the store is away they pile
up to a bound; then the oldest are lost, and the worker's log says how many.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob
from foliot.model.note import NewLine, NewProgress
from foliot.store.port import Store

log = logging.getLogger("foliot.worker")
_MOST_WAITING: Final = 20_000
_NEVER: Final = logging.CRITICAL + 1


class Batch(msgspec.Struct, frozen=True):
    lines: list[NewLine]
    progress: list[NewProgress]

    def __bool__(self) -> bool:
        return bool(self.lines or self.progress)


class Notes:
    def __init__(self, settings: Settings, clock: Clock, *, wake: Callable[[], None]) -> None:
        """`wake` is called, from any thread, when there is something new after everything was taken."""
        self._clock = clock
        self._wake = wake
        self._longest = settings.limits.log_line
        self._most = settings.limits.log_lines
        kept = settings.log.jobs
        self.level = _NEVER if kept == "none" or not self._most else getattr(logging, kept.upper())
        self._lock = threading.Lock()
        self._lines: deque[NewLine] = deque(maxlen=_MOST_WAITING)
        self._progress: dict[JobId, NewProgress] = {}
        self._lost = 0

    def add_line(self, job: ClaimedJob, number: int, level: int, logger: str, message: str) -> None:
        """The `number` of a line counts from 1 for each attempt."""
        if number > self._most + 1:
            return
        if number > self._most:
            level, logger = logging.WARNING, "foliot"
            message = f"more lines are not kept: limits.log_lines is {self._most}"
        self.put_line(
            NewLine(
                job.id,
                job.fence,
                number,
                job.attempt,
                self._clock.now(),
                logging.getLevelName(level).lower(),
                _fit(logger, 200),
                _fit(message, self._longest),
            )
        )

    def add_progress(self, job: ClaimedJob, fraction: float, message: str | None) -> None:
        text = None if message is None else _fit(message, self._longest)
        self.put_progress(NewProgress(job.id, job.fence, fraction, text))

    def put_line(self, line: NewLine) -> None:
        with self._lock:
            first = not self._lines and not self._progress
            self._lost += len(self._lines) == _MOST_WAITING
            self._lines.append(line)
        if first:
            self._wake()

    def put_progress(self, progress: NewProgress) -> None:
        """Only the last of each job counts."""
        with self._lock:
            first = not self._lines and not self._progress
            self._progress[progress.job] = progress
        if first:
            self._wake()

    def take(self, most: int = 1000) -> Batch:
        with self._lock:
            lines = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
            progress, self._progress = list(self._progress.values()), {}
            lost, self._lost = self._lost, 0
        if lost:
            log.warning("%d log lines of jobs were lost: the store took too long", lost)
        return Batch(lines, progress)

    def put_back(self, batch: Batch) -> None:
        """What could not be written, in front of what has come since."""
        with self._lock:
            room = _MOST_WAITING - len(self._lines)
            self._lost += max(0, len(batch.lines) - room)
            self._lines.extendleft(reversed(batch.lines[:room]))
            for one in batch.progress:
                self._progress.setdefault(one.job, one)


async def write_batch(store: Store, session: SessionId, batch: Batch) -> None:
    """Each partition by itself, like all that is written."""
    lines: dict[int, list[NewLine]] = {}
    for line in batch.lines:
        lines.setdefault(partition_of(line.job, store.partitions), []).append(line)
    for partition, some in lines.items():
        await store.logs.write(partition, some)
    progress: dict[int, list[NewProgress]] = {}
    for one in batch.progress:
        progress.setdefault(partition_of(one.job, store.partitions), []).append(one)
    for partition, ones in progress.items():
        await store.logs.set_progress(partition, session, ones)


def _fit(text: str, longest: int) -> str:
    """Text that every store can keep; of a long one, the beginning."""
    if len(text) > longest:
        text = f"{text[:longest]} [{len(text) - longest} characters cut]"
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
