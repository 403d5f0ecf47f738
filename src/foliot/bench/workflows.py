"""Workflows: a wide graph, many small ones, and a chain on an idle system.

Every step is a job of the bench: that each ran once, and in its place, is checked like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from foliot.bench.jobs import count_async, note_moment
from foliot.bench.report import Spread, percentiles, surroundings, worker_settings
from foliot.bench.sheet import Moments, Sheet
from foliot.bench.stage import Say, Stage, open_stage, pause
from foliot.client.function import Prepared
from foliot.client.workflow import Flow, StepRef
from foliot.config import Settings
from foliot.errors import FoliotError

# Steps of one diamond chain, each with the steps before it: a, b and c at once, d, e and f at once …
DIAMONDS: Sequence[tuple[int, ...]] = (
    (),
    (0,),
    (0,),
    (1, 2),
    (3,),
    (3,),
    (4, 5),
    (6,),
    (6,),
    (7, 8),
)
_LOOK = 0.005
_PATIENCE = 120.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    width: int = 10_000
    flows: int = 1_000
    length: int = 100
    runs: int = 5
    force: bool = False


def workflows(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        submitted: list[float] = []
        finished: list[float] = []
        rates: list[float] = []
        gaps: list[float] = []
        for run in range(1, plan.runs + 1):
            took = _fan(stage, plan.width)
            submitted.append(took[0])
            finished.append(took[1])
            say(
                f"run {run}: {plan.width:,} wide: submitted in {took[0]:.2f} s, done in {took[1]:.2f} s"
            )
            rates.append(_diamonds(stage, plan.flows))
            say(f"run {run}: {plan.flows:,} diamond chains: {rates[-1]:,.0f} steps/s")
            gaps += _chain(stage, plan.length)
            say(f"run {run}: chain of {plan.length}: p50 {percentiles(gaps)['p50']:.2f} ms a step")
        return {
            "bench": "workflows",
            "fan_submitted_seconds": _seconds(submitted),
            "fan_finished_seconds": _seconds(finished),
            "steps_per_second": Spread.of(rates),
            "chain_step_ms": percentiles(gaps),
            "settings": {**msgspec.structs.asdict(plan), **worker_settings(settings.worker)},
            **surroundings(stage.probe),
        }


def _seconds(runs: Sequence[float]) -> dict[str, float]:
    ordered = sorted(runs)
    return {
        "median": round(ordered[len(ordered) // 2], 3),
        "least": round(ordered[0], 3),
        "most": round(ordered[-1], 3),
    }


def _fan(stage: Stage, width: int) -> tuple[float, float]:
    """One step, then so many, then one: seconds to submit it, and from then until it has ended."""
    stage.probe.empty()
    steps = width + 2
    sheet = stage.new_sheet(steps)
    with stage.workers() as workers:
        _warm_up(stage)
        flow = stage.client.workflow("bench-fan")
        first = flow.add(_count(sheet, 0), name="first")
        middle = [
            flow.add(_count(sheet, n), name=f"m{n}", after=[first]) for n in range(1, width + 1)
        ]
        flow.add(_count(sheet, width + 1), name="last", after=middle)
        began = stage.clock.monotonic()
        flow.submit()
        submitted = stage.clock.monotonic()
        _wait(stage, [flow])
        ended = stage.clock.monotonic()
        stage.wait(sheet, steps, workers)
    check_calls(sheet, steps)
    return submitted - began, ended - submitted


def _diamonds(stage: Stage, flows: int) -> float:
    """Steps a second, of so many workflows that wait for workers."""
    stage.probe.empty()
    steps = flows * len(DIAMONDS)
    sheet = stage.new_sheet(steps)
    made = [_diamond(stage, sheet, start) for start in range(0, steps, len(DIAMONDS))]
    with stage.workers() as workers:
        stage.wait(sheet, steps, workers)
        end = stage.probe.now()
        _wait(stage, made[-1:])
    check_calls(sheet, steps)
    return steps / (end - stage.probe.first_start())


def _diamond(stage: Stage, sheet: Sheet, start: int) -> Flow:
    flow = stage.client.workflow("bench-diamond")
    refs: list[StepRef] = []
    for n, parents in enumerate(DIAMONDS):
        after = [refs[parent] for parent in parents]
        refs.append(flow.add(_count(sheet, start + n), name=f"s{n}", after=after))
    flow.submit()
    return flow


def _chain(stage: Stage, length: int) -> list[float]:
    """Seconds from the beginning of each step to that of the next, nothing else running."""
    stage.probe.empty()
    sheet = stage.new_sheet(length)
    moments = Moments(stage.new_path("moments"), length)
    with stage.workers() as workers:
        _warm_up(stage)
        flow = stage.client.workflow("bench-chain")
        last = None
        for n in range(length):
            call = note_moment.prepare(n, str(sheet.path), str(moments.path))
            last = flow.add(call, name=f"s{n}", after=[] if last is None else [last])
        flow.submit()
        _wait(stage, [flow])
        stage.wait(sheet, length, workers)
    check_calls(sheet, length)
    return gaps_of([moments.at(n) for n in range(length)])


def gaps_of(moments: Sequence[float]) -> list[float]:
    """Between one step and the next; none begins before its parent."""
    gaps = [after - before for before, after in pairwise(moments)]
    if any(gap < 0 for gap in gaps):
        raise FoliotError("a step began before the one that it waits for")
    return gaps


def _count(sheet: Sheet, n: int) -> Prepared:
    return count_async.prepare(n, str(sheet.path), "")


def _warm_up(stage: Stage) -> None:
    """Until the workers answer: connections are made, statements prepared."""
    sheet = stage.new_sheet(1)
    stage.client.submit(_count(sheet, 0)).result(timeout=_PATIENCE)


def _wait(stage: Stage, flows: Sequence[Flow]) -> None:
    until = stage.clock.monotonic() + _PATIENCE
    for flow in flows:
        while not flow.status().final:
            if stage.clock.monotonic() > until:
                raise FoliotError(f"workflow {flow.id} has not ended within {_PATIENCE:g} s")
            pause(_LOOK)


def check_calls(sheet: Sheet, steps: int) -> None:
    calls = sheet.calls(steps)
    wrong = [n for n, times in enumerate(calls) if times != 1]
    if wrong:
        raise FoliotError(f"{len(wrong)} of {steps} steps were not run exactly once")
