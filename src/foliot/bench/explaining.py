"""Explain: how long the answer takes while many jobs wait, wherever the job stands in the line."""

from __future__ import annotations

import msgspec

from foliot.bench.jobs import QUEUE, count_async
from foliot.bench.report import percentiles, surroundings
from foliot.bench.stage import BATCH, Say, open_stage, prepare
from foliot.config import Settings
from foliot.errors import FoliotError
from foliot.ids import JobId


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    jobs: int = 1_000_000
    asked: int = 200
    force: bool = False


def explaining(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        stage.probe.empty()
        sheet = stage.new_sheet(plan.jobs)
        ids: list[JobId] = []
        for start in range(0, plan.jobs, BATCH):
            stop = min(plan.jobs, start + BATCH)
            handles = stage.client.submit_many(prepare(count_async, sheet, start, stop))
            ids += [handle.id for handle in handles]
            if stop % 200_000 == 0:
                say(f"{stop:,} jobs wait in {QUEUE}")
        took = []
        step = max(1, len(ids) // plan.asked)
        for id in ids[::step]:
            handle = stage.client.get(id)
            before = stage.clock.monotonic()
            explanation = handle.explain()
            took.append(stage.clock.monotonic() - before)
            if explanation.state.final or not explanation.reasons:
                raise FoliotError(f"job {id} is explained as {explanation}")
        return {
            "bench": "explain",
            "latency_ms": percentiles(took),
            "max_ms": round(max(took) * 1000, 3),
            "settings": msgspec.structs.asdict(plan),
            **surroundings(stage.probe),
        }
