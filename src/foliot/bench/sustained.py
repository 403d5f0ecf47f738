"""Sustained: one process submits while workers run. Do rate, table and claims stay as they are?"""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

import msgspec

from foliot.bench.report import surroundings, worker_settings
from foliot.bench.sizes import Sizes
from foliot.bench.stage import PAYLOAD, Say, Stage, open_stage, pause
from foliot.bench.stream import AHEAD, stream_alone
from foliot.bench.workers import Workers
from foliot.config import Settings
from foliot.errors import FoliotError

SLICE = 5.0  # seconds
_MOST = 200_000  # jobs a second that there is room to count
_CLAIM = 100  # jobs of a claim that is timed


class Moment(msgspec.Struct, frozen=True):
    """How the store is doing at one moment."""

    second: float
    table: Sizes
    claim_ms: float


def sustained(settings: Settings, seconds: float, say: Say, *, force: bool) -> dict[str, object]:
    with open_stage(settings, force=force, say=say) as stage:
        sheet = stage.new_sheet(int(seconds * _MOST))
        with (
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
            stage.workers() as workers,
        ):
            submitting = pool.submit(
                stream_alone, stage.url, str(sheet.path), sheet.places, seconds
            )
            moments = _observe(stage, workers, submitting)
            submitted = submitting.result()
            if not submitted:
                raise FoliotError(f"no job was submitted in {seconds:g} s")
            stage.wait(sheet, submitted, workers)
            end = stage.probe.now()
        stage.check(sheet, submitted, workers)
        start = stage.probe.first_start()
        found = stage.probe.finished_by_slice(start, SLICE)
        whole = [found.get(number, 0) / SLICE for number in range(int((end - start) // SLICE))]
        for number, rate in enumerate(whole):
            say(f"second {number * SLICE:g} to {(number + 1) * SLICE:g}: {rate:,.0f} jobs/s")
        return {
            "bench": "sustained",
            "jobs_per_second": round(submitted / (end - start), 1),
            "jobs": submitted,
            "slices": whole,
            "slowest_slice": min(whole, default=None),
            "median_slice": median(whole) if whole else None,
            "moments": moments,
            "settings": {
                "seconds": seconds,
                "most_ahead": AHEAD,
                "payload_bytes": PAYLOAD,
                **worker_settings(settings.worker),
            },
            **surroundings(stage.probe),
        }


def _observe(stage: Stage, workers: Workers, submitting: Future[int]) -> list[Moment]:
    """A look at the end of each slice, for as long as there is submitting."""
    started = stage.clock.monotonic()
    moments: list[Moment] = []
    while not submitting.done():
        pause(0.05)
        workers.check()
        second = stage.clock.monotonic() - started
        if second >= SLICE * (len(moments) + 1):
            claim = median(stage.probe.claim_seconds(_CLAIM) for _ in range(5))
            moments.append(Moment(round(second, 1), stage.probe.sizes(), round(claim * 1000, 2)))
            table = moments[-1].table
            stage.say(
                f"second {second:.0f}: table {(table.bytes or 0) / 1e6:,.1f} MB, {table.live_rows} live and "
                f"{table.dead_rows or 0} dead rows, a claim of {_CLAIM} takes {claim * 1000:.2f} ms"
            )
    return moments
