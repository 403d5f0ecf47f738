"""Explain: how long the answer takes while many jobs wait, wherever the job stands in the line, and many processes have
counted how fast it moves; and of steps of a large workflow: one that waits for many, and one for a signal."""

from __future__ import annotations

import msgspec

from foliot.bench.fleet import Fleet, fleet_of
from foliot.bench.jobs import QUEUE, count_async
from foliot.bench.report import Spread, percentiles, surroundings
from foliot.bench.sheet import Sheet
from foliot.bench.stage import BATCH, Say, Stage, open_stage, prepare
from foliot.config import Settings
from foliot.errors import FoliotError
from foliot.ids import JobId


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    jobs: int = 1_000_000
    steps: int = 9_000  # that one waits for
    asked: int = 200
    runs: int = 5
    processes: int = 40  # that count what ended
    kinds: int = 10  # of what they run
    force: bool = False


def explaining(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        stage.probe.empty()
        sheet = stage.new_sheet(plan.jobs + plan.steps + 2)
        ids: list[JobId] = []
        for start in range(0, plan.jobs, BATCH):
            stop = min(plan.jobs, start + BATCH)
            handles = stage.client.submit_many(prepare(count_async, sheet, start, stop))
            ids += [handle.id for handle in handles]
            if stop % 200_000 == 0:
                say(f"{stop:,} jobs wait in {QUEUE}")
        join, signal = _draw(stage, sheet, plan)
        chosen = ids[:: max(1, len(ids) // plan.asked)]
        runs, joins, signals = [], list[float](), list[float]()
        with fleet_of(stage, processes=plan.processes, kinds=plan.kinds) as fleet:
            for run in range(1, plan.runs + 1):
                runs.append([_ask(stage, fleet, id) for id in chosen])
                joins += [_ask(stage, fleet, join, "parents have ended") for _ in chosen]
                signals += [_ask(stage, fleet, signal, "waits for the signal") for _ in chosen]
                p50, p99 = _share(runs[-1], "p50"), _share(runs[-1], "p99")
                most = _most(runs[-1])
                say(f"run {run}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, at most {most:.2f} ms")
        return {
            "bench": "explain",
            "latency_ms": percentiles([seconds for took in runs for seconds in took]),
            "p50_ms": Spread.of([_share(took, "p50") for took in runs]),
            "p99_ms": Spread.of([_share(took, "p99") for took in runs]),
            "max_ms": Spread.of([_most(took) for took in runs]),
            "join_ms": percentiles(joins),
            "signal_ms": percentiles(signals),
            "settings": msgspec.structs.asdict(plan),
            **surroundings(stage.probe),
        }


def _draw(stage: Stage, sheet: Sheet, plan: Plan) -> tuple[JobId, JobId]:
    """A step that waits for all others of its workflow, and a signal for which one waits."""
    flow = stage.client.workflow("bench-explain")
    after = plan.jobs + plan.steps
    calls = enumerate(prepare(count_async, sheet, plan.jobs, after))
    above = [flow.add(call, name=f"s{n}") for n, call in calls]
    join, use = prepare(count_async, sheet, after, after + 2)
    waiting = flow.add(join, name="join", after=above)
    signal = flow.wait_for("approval")
    flow.add(use, name="use", after=[signal])
    flow.submit()
    return waiting.id, signal.id


def _ask(stage: Stage, fleet: Fleet, id: JobId, expected: str = "/s, exp") -> float:
    """Seconds until the answer. Of a job that waits for others the pace of the queue is part of it."""
    fleet.work()
    handle = stage.client.get(id)
    before = stage.clock.monotonic()
    explanation = handle.explain()
    took = stage.clock.monotonic() - before
    if not explanation.why.startswith("the next of its lane") and expected not in explanation.why:
        raise FoliotError(f"job {id} is explained as {explanation}")
    return took


def _share(took: list[float], name: str) -> float:
    return percentiles(took)[name]


def _most(took: list[float]) -> float:
    return max(took) * 1000
