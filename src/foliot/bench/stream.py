"""Stream: submit for as long as it takes, never further ahead of the workers than a limit."""

from __future__ import annotations

from pathlib import Path

from foliot.bench.jobs import count_async
from foliot.bench.sheet import Sheet
from foliot.bench.stage import BATCH, pause, prepare
from foliot.client.app import Foliot
from foliot.errors import FoliotError

AHEAD = 20_000  # jobs submitted and not yet called
_STALLED = 60.0


def stream(
    client: Foliot, sheet: Sheet, *, jobs: int, seconds: float | None = None, start: int = 0
) -> int:
    """Submit jobs start … jobs - 1, or as many of them as `seconds` allow. Returns where it stopped."""
    began = moved = client.clock.monotonic()
    submitted = start
    while submitted < jobs:
        now = client.clock.monotonic()
        if seconds is not None and now - began >= seconds:
            break
        if sheet.missing(submitted) > AHEAD - BATCH:
            if now - moved > _STALLED:
                raise FoliotError(f"no job was called for {_STALLED:g} s")
            pause(0.002)
            continue
        moved = now
        calls = prepare(count_async, sheet, submitted, min(jobs, submitted + BATCH))
        submitted += len(client.submit_many(calls))
    return submitted


def stream_alone(url: str, path: str, places: int, seconds: float) -> int:
    """The same in a process of its own."""
    with Foliot(url) as client:
        return stream(client, Sheet(Path(path), places), jobs=places, seconds=seconds)
