"""Latency: an idle worker in another process. How long from the return of submit to the first line of the job?"""

from __future__ import annotations

import msgspec

from foliot.bench.jobs import note_moment
from foliot.bench.report import percentiles, surroundings, worker_settings
from foliot.bench.sheet import Moments, Sheet
from foliot.bench.stage import Say, Stage, open_stage, pause
from foliot.config import Settings

_WARM = 50  # submissions that are not counted: connections are made, statements prepared


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    jobs: int = 1000
    gap: float = 0.0075  # seconds between two submissions, give or take a third
    force: bool = False


def latency(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    places = _WARM + plan.jobs
    with open_stage(settings, force=plan.force, say=say) as stage:
        sheet = stage.new_sheet(places)
        moments = Moments(stage.new_path("moments"), places)
        with stage.workers() as workers:
            _submit(stage, sheet, moments, plan.gap, range(1))
            stage.wait(sheet, 1, workers)
            times = _submit(stage, sheet, moments, plan.gap, range(1, places))
            stage.wait(sheet, places, workers)
        stage.check(sheet, places, workers)
        counted = range(_WARM, places)
        returned = [max(0.0, moments.at(n) - times[n][1]) for n in counted]
        called = [moments.at(n) - times[n][0] for n in counted]
        return {
            "bench": "latency",
            "latency_ms": percentiles(returned),
            "from_call_ms": percentiles(called),
            "submit_ms": percentiles([times[n][1] - times[n][0] for n in counted]),
            "settings": {**msgspec.structs.asdict(plan), **worker_settings(settings.worker)},
            **surroundings(stage.probe),
        }


def _submit(
    stage: Stage, sheet: Sheet, moments: Moments, gap: float, numbers: range
) -> dict[int, tuple[float, float]]:
    """For each, when submit was called and when it returned."""
    times = {}
    for n in numbers:
        call = note_moment.prepare(n, str(sheet.path), str(moments.path))
        before = stage.clock.monotonic()
        stage.client.submit(call)
        times[n] = (before, stage.clock.monotonic())
        pause(stage.ids.jitter(gap, 1 / 3))
    return times
