"""Drain: a full queue, then workers. How fast do they empty it?

The time runs from the first claim, as history has it, until the bench sees that the last finish has been committed,
both by the store's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Literal

import msgspec

from foliot.bench.floor import Floor, Shape, open_floor
from foliot.bench.jobs import count_async, count_process, count_sync, count_transaction
from foliot.bench.report import Spread, surroundings, worker_settings
from foliot.bench.stage import PAYLOAD, Choose, Say, Stage, at_url, open_stage
from foliot.client.function import JobFunction
from foliot.config import Settings

Kind = Literal["async", "sync", "process", "transaction"]
FUNCTIONS: dict[Kind, JobFunction[..., Any, Any]] = {
    "async": count_async,
    "sync": count_sync,
    "process": count_process,
    "transaction": count_transaction,
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    jobs: int = 200_000
    kind: Kind = "async"
    runs: int = 5
    floor: bool = False
    backdrop: int = 0
    ordering_keys: int = 0
    fair_keys: int = 0
    force: bool = False


def drain(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    """All runs, interleaved: the floor's, the workers', and those beside the backdrop take turns."""
    with (
        open_stage(settings, force=plan.force, say=say) as stage,
        _in_turns(stage, plan),
        _scene(stage, plan) as scene,
    ):
        rates: list[float] = []
        beside: list[float] = []
        limits: list[float] = []
        for run in range(1, plan.runs + 1):
            if scene.floor is not None and scene.shape is not None:
                limits.append(scene.floor.drain(plan.jobs, scene.shape))
                say(f"run {run}: floor {limits[-1]:,.0f} jobs/s")
            rates.append(drain_once(stage, plan, keep_backdrop=plan.backdrop > 0))
            say(f"run {run}: {rates[-1]:,.0f} jobs/s")
            if scene.crowded is not None:
                beside.append(drain_once(scene.crowded, plan, keep_backdrop=True))
                say(f"run {run}: {beside[-1]:,.0f} jobs/s beside {plan.backdrop:,} scheduled jobs")
        own = {**msgspec.structs.asdict(plan), "payload_bytes": PAYLOAD}
        return {
            "bench": "drain",
            **_results(rates, limits, beside),
            **(_floor_settings(scene) if limits else {}),
            "settings": {**own, **worker_settings(settings.worker)},
            **surroundings(stage.probe),
        }


def _results(rates: list[float], limits: list[float], beside: list[float]) -> dict[str, object]:
    spread = Spread.of(rates)
    results: dict[str, object] = {"jobs_per_second": spread.median, "drain": spread}
    if limits:
        limit = Spread.of(limits)
        results |= {"floor": limit, "ratio_to_floor": _ratio(rates, limits)}
    if beside:
        crowded = Spread.of(beside)
        results |= {"beside_backdrop": crowded, "ratio_beside_backdrop": _ratio(beside, rates)}
    return results


def _ratio(some: list[float], others: list[float]) -> float:
    """Of each run to its neighbour, then the median: what slows the machine for a while slows both."""
    return round(median(one / other for one, other in zip(some, others, strict=True)), 3)


def _floor_settings(scene: Scene) -> dict[str, object]:
    assert scene.floor is not None
    return {"floor_shape": scene.shape, "floor_sweep": scene.floor.sweep}


def drain_once(stage: Stage, plan: Plan, *, keep_backdrop: bool = False) -> float:
    """Jobs per second of one run, if every job was run once."""
    stage.probe.empty(keep_backdrop=keep_backdrop)
    sheet = stage.new_sheet(plan.jobs)
    stage.fill(FUNCTIONS[plan.kind], sheet, plan.jobs, _choose(plan))
    with stage.workers() as workers:
        stage.wait(sheet, plan.jobs, workers)
        end = stage.probe.now()
    stage.check(sheet, plan.jobs, workers)
    return plan.jobs / (end - stage.probe.first_start())


def _choose(plan: Plan) -> Choose | None:
    """What each job is submitted with: a plain one with nothing."""
    if not plan.ordering_keys and not plan.fair_keys:
        return None

    def choose(n: int) -> dict[str, str]:
        chosen = {}
        if plan.ordering_keys:
            chosen["ordering_key"] = f"key{n % plan.ordering_keys}"
        if plan.fair_keys:
            chosen["fair_key"] = f"key{n % plan.fair_keys}"
        return chosen

    return choose


@contextmanager
def _in_turns(stage: Stage, plan: Plan) -> Iterator[None]:
    """With fair keys the bench's queue is served round robin, as long as it lasts."""
    if not plan.fair_keys:
        yield
        return
    stage.configure("round_robin")
    try:
        yield
    finally:
        stage.configure("priority")


class Scene(msgspec.Struct):
    """What stands beside the workers."""

    floor: Floor | None = None
    shape: Shape | None = None
    crowded: Stage | None = None


@contextmanager
def _scene(stage: Stage, plan: Plan) -> Iterator[Scene]:
    with _maybe_floor(stage, plan) as floor, _maybe_crowded(stage, plan) as crowded:
        shape = floor.find_shape(plan.jobs) if floor is not None else None
        yield Scene(floor, shape, crowded)


@contextmanager
def _maybe_floor(stage: Stage, plan: Plan) -> Iterator[Floor | None]:
    if not plan.floor:
        yield None
        return
    with open_floor(stage) as floor:
        yield floor


@contextmanager
def _maybe_crowded(stage: Stage, plan: Plan) -> Iterator[Stage | None]:
    """A second store of the same make, with the backdrop in it."""
    if not plan.backdrop:
        yield None
        return
    settings = at_url(stage.settings, stage.probe.make_twin())
    try:
        with open_stage(settings, force=False, say=stage.say) as crowded:
            stage.say(f"adding {plan.backdrop:,} scheduled jobs")
            crowded.probe.add_backdrop(plan.backdrop)
            yield crowded
    finally:
        stage.probe.drop_twin()
