"""Floor: what the store can do on this machine when nothing else has to be done.

The shipped claim and finish statements, in the shipped order, one transaction after the other: no functions, no
SDK, no runtime. Of several batch sizes and numbers of connections the best is found first.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import product
from multiprocessing import get_context
from threading import Event
from typing import Final

import msgspec

from foliot.bench.floor_postgres import drain_postgres
from foliot.bench.floor_sqlite import drain_sqlite
from foliot.bench.jobs import count_async
from foliot.bench.stage import Stage
from foliot.errors import FoliotError

_BATCHES: Final = (250, 500, 1000, 2000)
_CONNECTIONS: Final = (1, 2, 3)
_FINALISTS: Final = 3
_SWEPT: Final = 100_000  # jobs at most for each shape
_HEAD_START: Final = 0.25  # seconds for all processes to connect, before all begin at once


class Shape(msgspec.Struct, frozen=True):
    """How the floor is driven: jobs in one transaction, connections of one process."""

    batch: int
    connections: int


class Tried(msgspec.Struct, frozen=True):
    shape: Shape
    jobs_per_second: float


class Floor:
    def __init__(self, stage: Stage, pool: ProcessPoolExecutor, processes: int) -> None:
        self._stage = stage
        self._pool = pool
        self._processes = processes
        self.sweep: list[Tried] = []

    def find_shape(self, jobs: int) -> Shape:
        """Every shape once, the best of them twice more."""
        some = min(jobs, _SWEPT)
        shapes = [Shape(*pair) for pair in product(_BATCHES, _CONNECTIONS)]
        self.sweep = [Tried(shape, round(self.drain(some, shape), 1)) for shape in shapes]
        self.sweep.sort(key=lambda tried: -tried.jobs_per_second)
        finals: dict[Shape, list[float]] = {
            tried.shape: [tried.jobs_per_second] for tried in self.sweep[:_FINALISTS]
        }
        for _ in range(2):
            for shape, rates in finals.items():
                rates.append(self.drain(some, shape))
        # The best run of each, not the middle one: whatever else this machine does only takes away.
        best = max(finals, key=lambda shape: max(finals[shape]))
        for tried in self.sweep:
            text = f"batch {tried.shape.batch}, {tried.shape.connections} connections"
            self._stage.say(f"floor sweep: {text}: {tried.jobs_per_second:,.0f} jobs/s")
        self._stage.say(f"floor: batch {best.batch}, {best.connections} connections a process")
        return best

    def drain(self, jobs: int, shape: Shape) -> float:
        """Jobs per second, measured as the workers' are."""
        stage = self._stage
        stage.probe.empty()
        stage.fill(count_async, stage.new_sheet(jobs), jobs)
        drive = drain_sqlite if stage.url.startswith("sqlite:") else drain_postgres
        begin = stage.clock.monotonic() + _HEAD_START
        sessions = [stage.ids.session() for _ in range(self._processes)]
        futures = [
            self._pool.submit(drive, stage.url, session, shape.batch, shape.connections, begin)
            for session in sessions
        ]
        finished = sum(future.result() for future in futures)
        end = stage.probe.now()
        if finished != jobs:
            raise FoliotError(f"the floor finished {finished} jobs of {jobs}")
        return jobs / (end - stage.probe.first_start())


@contextmanager
def open_floor(stage: Stage) -> Iterator[Floor]:
    processes = stage.settings.worker.processes
    # Spawned, not forked: the app's thread would not survive a fork.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for started in [pool.submit(pause, _HEAD_START) for _ in range(processes)]:
            started.result()  # importing takes longer than connecting
        yield Floor(stage, pool, processes)


def pause(seconds: float) -> None:
    Event().wait(seconds)
