"""What a bench reports beside its number: spread, settings, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from statistics import median

import msgspec

from foliot import __version__
from foliot.bench.probe import Probe
from foliot.config import WorkerSettings


class Spread(msgspec.Struct, frozen=True):
    """Several runs of one measure."""

    median: float
    least: float
    most: float
    runs: list[float]

    @classmethod
    def of(cls, runs: Sequence[float]) -> Spread:
        rounded = [round(run, 1) for run in runs]
        return cls(round(median(runs), 1), min(rounded), max(rounded), rounded)

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.least:,.0f} to {self.most:,.0f})"


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 of seconds, in milliseconds."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        f"p{share}": round(ordered[min(last, len(ordered) * share // 100)] * 1000, 3)
        for share in (50, 95, 99)
    }


def surroundings(probe: Probe) -> dict[str, object]:
    """What every bench names: versions, durability, size of the machine."""
    return {
        "versions": {"foliot": __version__, "python": platform.python_version()},
        "store": probe.describe(),
        "cpus": os.cpu_count(),
    }


def worker_settings(worker: WorkerSettings) -> dict[str, object]:
    return {
        "processes": worker.processes,
        "concurrency": worker.concurrency,
        "threads": worker.threads,
        "in_flight": worker.in_flight,
    }
