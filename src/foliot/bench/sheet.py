"""Sheet: a tally of calls in a file that all processes map. Job number n has the n-th place.

It is the bench's second witness: what functions did, counted where the store cannot see it. Adding one costs
a tenth of a microsecond. (Two calls of the same job in the same instant could count as one; two calls a microsecond
apart do not.)
"""

from __future__ import annotations

import mmap
from functools import cache
from pathlib import Path

_MOMENT = 8  # bytes of a float


class Sheet:
    """The side of the bench: it makes the file and reads it."""

    def __init__(self, path: Path, places: int) -> None:
        """Made if it is not there yet."""
        self.path = path
        self.places = places
        with path.open("ab") as file:
            file.truncate(max(1, places))
        self._calls = calls(str(path))
        self._low = 0  # all places below have been called

    def calls(self, places: int | None = None) -> bytes:
        """How often each job was called; of the first `places` if not of all."""
        return bytes(self._calls[: self.places if places is None else places])

    def missing(self, places: int) -> int:
        """How many of the first `places` have not been called yet. Cheap: it remembers how far all have been."""
        window = bytes(self._calls[self._low : places])
        first = window.find(0)
        self._low = places if first < 0 else self._low + first
        return window.count(0)


class Moments:
    """For each job, when its function began, by the monotonic clock that all processes of a machine share."""

    def __init__(self, path: Path, places: int) -> None:
        self.path = path
        with path.open("wb") as file:
            file.truncate(max(1, places) * _MOMENT)
        self._moments = moments(str(path))

    def at(self, place: int) -> float:
        """Zero: not yet."""
        return float(self._moments[place])


@cache
def calls(path: str) -> memoryview[int]:
    """The side of the jobs: `calls(path)[n] += 1`."""
    return memoryview(_map(path))


@cache
def moments(path: str) -> memoryview[float]:
    return memoryview(_map(path)).cast("d")


def _map(path: str) -> mmap.mmap:
    with Path(path).open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)
