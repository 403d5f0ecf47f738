"""Idle: what a worker costs that has nothing to do, and whether its memory grows with the jobs it has run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from foliot.bench.jobs import Usage, usage
from foliot.bench.relay import Relay
from foliot.bench.report import surroundings, worker_settings
from foliot.bench.stage import Say, Stage, open_stage, pause
from foliot.bench.stream import stream
from foliot.bench.workers import Workers
from foliot.config import Settings
from foliot.errors import FoliotError

_SETTLE = 5.0  # seconds after a start before a worker counts as idle
_STEPS = 10
_ANSWER = 60.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float = 30.0
    jobs: int = 1_000_000
    force: bool = False


def idle(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        report: dict[str, object] = {
            "bench": "idle",
            **_rest(stage, plan),
            "settings": {
                **msgspec.structs.asdict(plan),
                **worker_settings(settings.worker),
                "processes": 1,
            },
            **surroundings(stage.probe),
        }
        if plan.jobs:
            report |= _grow(stage, plan)
        return report


def _rest(stage: Stage, plan: Plan) -> dict[str, object]:
    with relayed(stage) as relay:
        with stage.workers(relay.url if relay else None, processes=1) as workers:
            _ask(stage, workers)
            pause(_SETTLE)
            before, sent, started = _ask(stage, workers), _sent(relay), stage.clock.monotonic()
            pause(plan.seconds)
            seconds, sent = stage.clock.monotonic() - started, _sent(relay) - sent
            after = _ask(stage, workers)
        return {
            "statements_per_second": round(sent / seconds, 2) if relay else None,
            "cpu_share": round((after.cpu_seconds - before.cpu_seconds) / seconds, 5),
        }


def _grow(stage: Stage, plan: Plan) -> dict[str, object]:
    """Memory at the start, and each time another tenth of the jobs has been run."""
    stage.probe.empty()
    sheet = stage.new_sheet(plan.jobs)
    with stage.workers(processes=1) as workers:
        memory = [_ask(stage, workers).resident_bytes]
        done = 0
        for step in range(1, _STEPS + 1):
            goal = plan.jobs * step // _STEPS
            done = stream(stage.client, sheet, jobs=goal, start=done)
            stage.wait(sheet, goal, workers)
            memory.append(_ask(stage, workers).resident_bytes)
            stage.say(f"after {goal:,} jobs: {memory[-1] / 1e6:.1f} MB")
    stage.check(sheet, plan.jobs, workers)
    return {
        "memory_bytes": memory,
        # The first tenth fills caches and pools; what comes after it should add nothing.
        "memory_growth": round(memory[-1] / memory[1], 3),
    }


def _ask(stage: Stage, workers: Workers) -> Usage:
    workers.check()
    answer = stage.client.submit(usage.prepare()).result(timeout=_ANSWER)
    if not isinstance(answer, Usage):
        raise FoliotError(f"the worker's answer is not what it has used: {answer!r}")
    return answer


def _sent(relay: Relay | None) -> int:
    return relay.statements if relay else 0


@contextmanager
def relayed(stage: Stage) -> Iterator[Relay | None]:
    """What counts the statements of a process; none for SQLite."""
    if stage.url.startswith("sqlite:"):
        yield None
        return
    with Relay(stage.url, stage.directory) as relay:
        yield relay
