"""Rollup: how many attempts ended in a minute, how they ended, and how long they had waited and run. Of the last
minutes, in each ten seconds.

Lengths of time are kept as histograms of fixed buckets, ten to a factor of ten: 1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3,
8, 10 … from 10 microseconds to nine days. So a percentile is known to a quarter, and the parts of a sum may be added up
in any order, by any process, at any time.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

MINUTE: Final = 60
STEP: Final = 10  # seconds that are counted together at first
BOUNDS: Final = tuple(
    float(f"{step}e{power}")
    for power in range(-5, 6)
    for step in (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
)
BUCKETS: Final = (
    len(BOUNDS) + 1
)  # the first is what is shorter than all bounds, the last what is not

# How many were of each length, by bucket; buckets without any are left out.
Histogram = dict[int, int]


class Ended(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # another attempt follows
    DEAD = "dead"  # none does
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # its worker stopped, or its transaction was undone for others


class Key(msgspec.Struct, frozen=True, order=True):
    """What is counted together."""

    namespace: str
    queue: str
    kind: str
    outcome: Ended


class Rollup(msgspec.Struct, frozen=True):
    """The attempts of one key that ended in one minute, or in a step of it, or some of them: the parts are added up by
    whoever reads."""

    minute: int  # its first second, since 1970, or that of the step
    key: Key
    count: int
    seconds: int  # a bit for each second of the minute in which one ended
    waits: Histogram  # from when the job was due to when its function was called
    runs: Histogram  # from then to the function's end


class Sum(msgspec.Struct, frozen=True):
    """All of a queue that ended in one minute, or in a step of it, whatever they were."""

    minute: int
    count: int
    seconds: int
    waits: Histogram
    runs: Histogram

    @property
    def ends(self) -> list[int]:
        """The seconds, since 1970, in which one ended."""
        minute = _minute(self)
        return [minute + second for second in range(MINUTE) if self.seconds >> second & 1]


def bucket_of(seconds: float) -> int:
    return bisect(BOUNDS, seconds)


def bounds_of(bucket: int) -> tuple[float, float]:
    """From, and up to but without. Of the last bucket nobody knows the end."""
    low = BOUNDS[bucket - 1] if bucket else 0.0
    return low, BOUNDS[min(bucket, len(BOUNDS) - 1)]


def add_up(histograms: Iterable[Mapping[int, int]]) -> Histogram:
    total: Histogram = {}
    for histogram in histograms:  # of a fleet there are thousands
        for bucket, count in histogram.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """The length that this share of them did not exceed; as if they lay evenly within a bucket. None of none."""
    rank, below = share * sum(histogram.values()), 0
    for bucket, count in sorted(histogram.items()):
        if below + count >= rank:
            low, high = bounds_of(bucket)
            return low + (high - low) * max(0.0, rank - below) / count
        below += count
    return None


def merge(rollups: Iterable[Rollup]) -> list[Rollup]:
    """One for each minute and key, in this order."""
    parts: dict[tuple[int, Key], list[Rollup]] = {}
    for rollup in rollups:
        parts.setdefault((_minute(rollup), rollup.key), []).append(rollup)
    return [_sum(*place, parts[place]) for place in sorted(parts)]


def _minute(one: Rollup | Sum) -> int:
    return one.minute - one.minute % MINUTE


def _sum(minute: int, key: Key, parts: list[Rollup]) -> Rollup:
    seconds = 0
    for part in parts:
        seconds |= part.seconds
    return Rollup(
        minute,
        key,
        sum(part.count for part in parts),
        seconds,
        add_up(part.waits for part in parts),
        add_up(part.runs for part in parts),
    )
