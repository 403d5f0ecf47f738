"""Submit: how many jobs a second one process hands over, durably: in batches, one by one, and from many threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import msgspec

from foliot.bench.count import check_once, tally
from foliot.bench.jobs import count_async
from foliot.bench.report import Spread, surroundings
from foliot.bench.stage import PAYLOAD, Say, Stage, open_stage, prepare
from foliot.config import Settings


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float = 3.0
    runs: int = 5
    batch: int = 1000
    threads: int = 32
    force: bool = False


def submit(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    measures: dict[str, Callable[[Stage, Plan], int]] = {
        "submit_many": _in_batches,
        "one_thread": lambda stage, plan: _one_by_one(stage, plan, 1),
        f"{plan.threads}_threads": lambda stage, plan: _one_by_one(stage, plan, plan.threads),
    }
    rates: dict[str, list[float]] = {name: [] for name in measures}
    with open_stage(settings, force=plan.force, say=say) as stage:
        for run in range(1, plan.runs + 1):
            for name, measure in measures.items():
                rates[name].append(_measure(stage, plan, measure))
                say(f"run {run}: {name} {rates[name][-1]:,.0f} jobs/s")
        spreads = {name: Spread.of(some) for name, some in rates.items()}
        return {
            "bench": "submit",
            "jobs_per_second": spreads["submit_many"].median,
            **spreads,
            "settings": {**msgspec.structs.asdict(plan), "payload_bytes": PAYLOAD},
            **surroundings(stage.probe),
        }


def _measure(stage: Stage, plan: Plan, measure: Callable[[Stage, Plan], int]) -> float:
    stage.probe.empty()
    started = stage.clock.monotonic()
    submitted = measure(stage, plan)
    rate = submitted / (stage.clock.monotonic() - started)
    rows = tally(submitted, stage.probe.waiting())
    check_once(b"\1" * submitted, rows, where="in the store")
    return rate


def _in_batches(stage: Stage, plan: Plan) -> int:
    sheet = stage.new_sheet(1)
    until = stage.clock.monotonic() + plan.seconds
    submitted = 0
    while stage.clock.monotonic() < until:
        calls = prepare(count_async, sheet, submitted, submitted + plan.batch)
        submitted += len(stage.client.submit_many(calls))
    return submitted


def _one_by_one(stage: Stage, plan: Plan, threads: int) -> int:
    sheet = stage.new_sheet(1)
    numbers = count()
    until = stage.clock.monotonic() + plan.seconds

    def run() -> int:
        submitted = 0
        while stage.clock.monotonic() < until:
            n = next(numbers)
            [call] = prepare(count_async, sheet, n, n + 1)
            stage.client.submit(call)
            submitted += 1
        return submitted

    with ThreadPoolExecutor(threads) as pool:
        return sum(future.result() for future in [pool.submit(run) for _ in range(threads)])
