"""Charts of a terminal: how many in each step of time, as bars of blocks; and short words for numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from foliot.cli.output import ago

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_FULL: Final = len(_BLOCKS) - 1


def resample(values: Sequence[float], width: int) -> list[float]:
    """The same in so many columns at most: neighbours share one, as their mean; or each has several, if they fit."""
    count = len(values)
    if count <= width:
        return [value for value in values for _ in range(max(1, width // max(1, count)))]
    edges = [column * count // width for column in range(width + 1)]
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]


def bars(columns: Sequence[float], height: int, most: float) -> list[str]:
    """Lines from the top down; `most` is as high as they go. What is not nothing is seen."""
    eighths = [_eighths(value, height, most) for value in columns]
    return [
        "".join(_BLOCKS[min(_FULL, max(0, filled - row * _FULL))] for filled in eighths)
        for row in reversed(range(height))
    ]


def _eighths(value: float, height: int, most: float) -> int:
    if value <= 0 or most <= 0:
        return 0
    return max(1, round(value / most * height * _FULL))


def number(value: float) -> str:
    """With three digits that count, or all before the point: 0.25, 12.3, 4,510."""
    if value <= 0:
        return "0"
    if value < 0.01:
        return "<0.01"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def share(value: float) -> str:
    if value <= 0:
        return "0 %"
    return "<0.1 %" if value < 0.001 else f"{value:.1%}".replace("%", " %")


def length(seconds: float | None) -> str:
    """A length of time, in two digits where that is all that is known: 80µs, 3.1ms, 250ms, 4.0s, 2h10m."""
    if seconds is None:
        return "-"
    if seconds >= 10:
        return ago(seconds)
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            parts = seconds / size
            return f"{parts:.1f}{unit}" if parts < 10 else f"{parts:.0f}{unit}"
    return f"{seconds * 1e6:.0f}µs"
