"""Limits: what they cost where they are never reached, how many keys can take turns, and how busy one is kept; and what
counting and asking for listeners cost where nobody asks for either.

Every drain is run in turn with one without a limit: what slows the machine for a while slows both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean, median
from typing import Any, TypeVar

import msgspec

from foliot.bench.jobs import QUEUE, count_async, count_slowly
from foliot.bench.report import Spread, surroundings, worker_settings
from foliot.bench.sheet import Sheet
from foliot.bench.stage import PAYLOAD, Choose, Say, Stage, open_stage, pause
from foliot.client.function import JobFunction
from foliot.config import Settings
from foliot.errors import FoliotError
from foliot.limit_commands import delete_limit, limit_of, set_limit
from foliot.model.limit import Limit
from foliot.store.open import open_store
from foliot.store.port import Store

_KEYS = "key:bench:*"
_BARE = "foliot.bench.bare:app"
_LOOK = 0.005

T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    jobs: int = 100_000
    keys: int = 10_000
    slots: int = 50
    runs: int = 5
    force: bool = False


def limits(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        bare: list[float] = []
        free: list[float] = []
        never: list[float] = []
        keyed: list[float] = []
        busy: list[float] = []
        for run in range(1, plan.runs + 1):
            for turn in (run, run + 1):  # they differ by little: twice, and each is the first once
                for drains, target in _swapped(turn, (bare, _BARE), (free, None)):
                    drains.append(_drain(stage, plan.jobs, target=target))
            with _limit(stage, limit_of(f"queue:{QUEUE}", concurrency=1_000_000)):
                never.append(_drain(stage, plan.jobs))
            with _limit(stage, limit_of(_KEYS, concurrency=1)):
                keyed.append(_drain(stage, plan.jobs, _by_key(plan.keys)))
            with _limit(stage, limit_of(_KEYS, concurrency=plan.slots)):
                busy.append(_busy(stage, plan))
            plain = f"{free[-1]:,.0f} jobs/s, uncounted {bare[-1]:,.0f}"
            limited = f"never reached {never[-1]:,.0f}, {plan.keys:,} keys {keyed[-1]:,.0f}"
            say(f"run {run}: {plain}, {limited}, {plan.slots} slots busy {busy[-1]:.1%}")
        last = free[1::2]  # those just before the others
        return {
            "bench": "limits",
            "jobs_per_second": Spread.of(keyed).median,
            "unlimited": Spread.of(free),
            "uncounted": Spread.of(bare),
            "ratio_to_uncounted": _ratio(free, bare),
            "never_reached": Spread.of(never),
            "ratio_never_reached": _ratio(never, last),
            "keys": Spread.of(keyed),
            "ratio_keys": _ratio(keyed, last),
            "busy": round(median(busy), 4),
            "settings": {
                **msgspec.structs.asdict(plan),
                "payload_bytes": PAYLOAD,
                **worker_settings(settings.worker),
            },
            **surroundings(stage.probe),
        }


def _ratio(some: list[float], others: list[float]) -> float:
    return round(median(one / other for one, other in zip(some, others, strict=True)), 3)


def _swapped(run: int, one: T, other: T) -> tuple[T, T]:
    """Neither is always the first of the two."""
    return (one, other) if run % 2 else (other, one)


def _by_key(keys: int) -> Choose:
    return lambda n: {"limit_key": f"bench:{n % keys}"}


def _drain(
    stage: Stage, jobs: int, choose: Choose | None = None, *, target: str | None = None
) -> float:
    """Jobs per second of one run, if every job was run once."""
    sheet = _fill(stage, jobs, choose, count_async)
    with stage.workers(target=target) as workers:
        stage.wait(sheet, jobs, workers)
        end = stage.probe.now()
    stage.check(sheet, jobs, workers)
    return jobs / (end - stage.probe.first_start())


def _busy(stage: Stage, plan: Plan) -> float:
    """The share of its slots that one key has taken, as seen again and again from the first start until no more jobs
    wait than it has slots."""
    sheet = _fill(stage, plan.jobs, _by_key(1), count_slowly)
    seen: list[int] = []
    with stage.workers() as workers:
        while sheet.missing(plan.jobs) > plan.slots:
            pause(_LOOK)
            workers.check()
            if (running := stage.probe.running()) or seen:
                seen.append(running)
        stage.wait(sheet, plan.jobs, workers)
    stage.check(sheet, plan.jobs, workers)
    if max(seen) > plan.slots:
        raise FoliotError(f"{max(seen)} jobs ran at once under a limit of {plan.slots}")
    return mean(seen) / plan.slots


def _fill(
    stage: Stage, jobs: int, choose: Choose | None, function: JobFunction[..., Any, Any]
) -> Sheet:
    stage.probe.empty()
    sheet = stage.new_sheet(jobs)
    stage.fill(function, sheet, jobs, choose)
    return sheet


@contextmanager
def _limit(stage: Stage, limit: Limit) -> Iterator[None]:
    async def run(*, there: bool) -> None:
        store: Store = await open_store(stage.settings.store, clock=stage.clock, ids=stage.ids)
        try:
            if there:
                await set_limit(store, limit, by="bench")
            else:
                await delete_limit(store, limit.name, by="bench")
        finally:
            await store.close()

    asyncio.run(run(there=True))
    try:
        yield
    finally:
        asyncio.run(run(there=False))
