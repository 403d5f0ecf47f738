"""Batches of a size that every store takes in one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from foliot.ids import JobId, partition_of

Item = TypeVar("Item")

MOST: Final = 1000  # items in one batch; more only makes longer arrays
LARGEST: Final = 16 << 20  # bytes in one batch, far from where a store refuses


def chunks(
    items: Sequence[Item], weigh: Callable[[Item], int], *, most: int = MOST
) -> Iterator[Sequence[Item]]:
    """In order. One that is larger than a batch may be has one to itself."""
    start = weight = 0
    for position, item in enumerate(items):
        size = weigh(item)
        if position - start >= most or (position > start and weight + size > LARGEST):
            yield items[start:position]
            start, weight = position, 0
        weight += size
    if start < len(items):
        yield items[start:]


def by_partition(ids: Iterable[JobId], partitions: int) -> dict[int, list[JobId]]:
    """Which of them live where."""
    found: dict[int, list[JobId]] = {}
    for id in ids:
        found.setdefault(partition_of(id, partitions), []).append(id)
    return found
