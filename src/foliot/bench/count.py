"""The check without which no number counts: every job was called once, and is in history once."""

from __future__ import annotations

from collections.abc import Iterable

from foliot.errors import FoliotError

_SHOWN = 5


def tally(places: int, numbers: Iterable[int]) -> bytes:
    """How often each of 0 … places - 1 is among the numbers."""
    found = bytearray(places)
    for number in numbers:
        if not 0 <= number < places:
            raise FoliotError(f"the store has a job number {number}, and only {places} were made")
        found[number] = min(255, found[number] + 1)
    return bytes(found)


def check_once(calls: bytes, rows: bytes, *, where: str = "in history") -> None:
    """Raises unless both say one for every job."""
    once = b"\1" * len(calls)
    if calls == once and rows == once:
        return
    different = [n for n in range(len(calls)) if calls[n] != 1 or rows[n] != 1]
    lines = [f"job {n}: called {calls[n]} times, {where} {rows[n]} times" for n in different]
    shown = "\n".join(lines[:_SHOWN])
    more = f"\nand {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    raise FoliotError(
        f"of {len(calls)} jobs {len(lines)} were not called exactly once and kept exactly once:\n"
        f"{shown}{more}"
    )
