"""Batches of a size that every store takes in one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

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
