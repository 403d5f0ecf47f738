"""Schedules: a population of them in the store; then creating, firing, punctuality, a burst and idling are measured.

Each phase stands for itself. The population is made once; with `keep` it stays for the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from foliot.bench.creating import BATCH, Hands, populate
from foliot.bench.fires import Fires
from foliot.bench.firing import fire
from foliot.bench.histogram import picture
from foliot.bench.jobs import usage
from foliot.bench.on_time import Punctuality, calm_down, next_window, watch
from foliot.bench.population import Crowd, Population
from foliot.bench.probe_schedules import ScheduleProbe, open_schedule_probe
from foliot.bench.report import surroundings, worker_settings
from foliot.bench.resting import rest
from foliot.bench.stage import Say, Stage, open_stage
from foliot.bench.workers import Workers
from foliot.config import Settings
from foliot.errors import FoliotError, InvalidValue
from foliot.shown import redact
from foliot.when import tzdata_version

PHASES: Final = ("create", "fire", "on-time", "burst", "idle")
_MINUTE: Final = 60
_CROWD: Final = 1_000_000_000  # number of the first schedule that is not of the population
_BURST: Final = 2_000_000_000
_UP: Final = 60.0  # seconds for the workers to come up in
_CREATED: Final = 2_000  # schedules that are made in a second, at least
_READY: Final = 0.5  # seconds before a burst at which it must be there
_TRIES: Final = 4


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    count: int = 100_000
    own_triggers: float = 0.1
    phases: tuple[str, ...] = PHASES
    fires: int = 1_000_000
    due_per_second: int = 1000
    seconds: int = 10
    burst: int = 10_000
    runs: int = 3
    plot: str | None = None
    keep: bool = False
    force: bool = False


class Bench(msgspec.Struct, frozen=True):
    plan: Plan
    stage: Stage
    probe: ScheduleProbe
    hands: Hands
    population: Population


def schedules(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with _open(settings, plan, say) as bench:
        made = populate(bench.stage, bench.hands, bench.probe, bench.population)
        if "create" not in plan.phases:
            made = {}
        else:
            bench.probe.settle()
        report: dict[str, object] = {"bench": "schedules", **made}
        for name, phase in (
            ("fire", _fire),
            ("on-time", _on_time),
            ("burst", _burst),
            ("idle", _idle),
        ):
            if name in plan.phases:
                say(f"{name}:")
                report |= phase(bench)
        around = surroundings(bench.stage.probe)
        versions = around.pop("versions")
        assert isinstance(versions, dict)
        return {
            **report,
            "settings": {**msgspec.structs.asdict(plan), **worker_settings(settings.worker)},
            "versions": {**versions, "tzdata": tzdata_version()},
            **around,
        }


@contextmanager
def _open(settings: Settings, plan: Plan, say: Say) -> Iterator[Bench]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        probe = open_schedule_probe(stage.url)
        try:
            if not plan.force and probe.others():
                raise InvalidValue(
                    "url",
                    redact(stage.url),
                    "has schedules in it, and a bench would fire them",
                    hint="name an empty store, or add --force",
                )
            population = Population(plan.count, plan.own_triggers)
            yield Bench(plan, stage, probe, Hands(stage.client), population)
            if not plan.keep:
                probe.remove()
        finally:
            probe.close()


def _fire(bench: Bench) -> dict[str, object]:
    return fire(bench.stage, bench.probe, fires=bench.plan.fires)


def _idle(bench: Bench) -> dict[str, object]:
    return rest(bench.stage, bench.probe, seconds=bench.plan.seconds)


def _on_time(bench: Bench) -> dict[str, object]:
    """The population fires by itself; what is missing to the wanted rate is due every minute."""
    plan, stage, population = bench.plan, bench.stage, bench.population
    missing = max(0, ceil(plan.due_per_second - population.due_per_second))
    crowd = Crowd(missing * _MINUTE, _CROWD, "minutely", int(stage.probe.now()))
    fires = Fires(stage.directory)
    with _working(bench) as workers:
        try:
            _create(bench, crowd)
            calm_down(stage, bench.probe, workers)
            window = next_window(stage, plan.seconds)
            stage.say(f"watching {plan.seconds} s")
            found = watch(
                stage,
                fires,
                workers,
                window,
                lambda second: [*population.due(second), *crowd.due(second)],
            )
        finally:
            _delete(bench, crowd)
    _plot(plan, found, f"{found.per_second:,.0f} fires a second among {plan.count:,} schedules")
    return {
        "lateness_ms": found.lateness_ms,
        "on_time": {**msgspec.structs.asdict(found), "added_schedules": crowd.count},
    }


def _burst(bench: Bench) -> dict[str, object]:
    stage = bench.stage
    fires = Fires(stage.directory)
    runs: list[Punctuality] = []
    with _working(bench) as workers:
        calm_down(stage, bench.probe, workers)
        for run in range(1, bench.plan.runs + 1):
            crowd = _gather(bench, run)
            try:
                at = crowd.at or 0
                found = watch(stage, fires, workers, range(at, at + 1), crowd.due, of=crowd.first)
            finally:
                _delete(bench, crowd)
            told = ", ".join(f"{name} {value:g} ms" for name, value in found.lateness_ms.items())
            stage.say(f"run {run}: {told}")
            runs.append(found)
    middle = {name: median(run.lateness_ms[name] for run in runs) for name in runs[0].lateness_ms}
    if "on-time" not in bench.plan.phases:
        _plot(bench.plan, runs[-1], f"{bench.plan.burst:,} schedules due at one instant")
    return {"burst": {"schedules": bench.plan.burst, "lateness_ms": middle, "runs": runs}}


def _gather(bench: Bench, run: int) -> Crowd:
    """Schedules that are due at one instant, which is still ahead when all are there."""
    lead = 1.0 + bench.plan.burst / _CREATED
    for attempt in range(_TRIES):
        now = bench.stage.probe.now()
        at = ceil(now + lead)
        name, first = f"burst{run}-{attempt}", _BURST + (run * _TRIES + attempt) * bench.plan.burst
        crowd = Crowd(bench.plan.burst, first, name, int(now), at)
        _create(bench, crowd)
        if bench.stage.probe.now() < at - _READY:
            return crowd
        _delete(bench, crowd)
        lead *= 2
    raise FoliotError(f"{bench.plan.burst:,} schedules were not created within {lead / 2:.0f} s")


@contextmanager
def _working(bench: Bench) -> Iterator[Workers]:
    """Workers that are up and have passed over what became due before."""
    stage = bench.stage
    with stage.workers(directory=stage.directory) as workers:
        stage.client.submit(usage.prepare()).result(timeout=_UP)
        calm_down(stage, bench.probe, workers)
        yield workers
    stage.probe.empty()


def _create(bench: Bench, crowd: Crowd) -> None:
    for first in range(0, crowd.count, BATCH):
        places = range(first, min(crowd.count, first + BATCH))
        bench.hands.create(crowd.item(place) for place in places)


def _delete(bench: Bench, crowd: Crowd) -> None:
    bench.hands.delete([crowd.item(place).name for place in range(crowd.count)])


def _plot(plan: Plan, found: Punctuality, title: str) -> None:
    if plan.plot is not None:
        Path(plan.plot).write_text(picture(title, found.histogram, found.lateness_ms))


def read_phases(text: str) -> tuple[str, ...]:
    """In the order in which they are run."""
    named: Sequence[str] = [name.strip() for name in text.split(",") if name.strip()]
    for name in named:
        if name not in PHASES:
            problem = f"is not one of {', '.join(PHASES)}"
            raise InvalidValue("phases", name, problem, example="--phases create,on-time")
    return tuple(name for name in PHASES if name in named)
