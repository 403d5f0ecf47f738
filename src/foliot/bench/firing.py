"""Firing: how fast due triggers become jobs. No workers, and no other scheduler: the duty alone, in this process."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from foliot.bench.probe_schedules import ScheduleProbe
from foliot.bench.stage import Stage, pause
from foliot.scheduler.duty import Office
from foliot.scheduler.fire import Fire
from foliot.scheduler.partitions import AllPartitions
from foliot.store.open import open_store
from foliot.store.port import Peek, Store

_SORTS: Final = (
    ("plain", False, False),
    ("own", False, True),
    ("stateful", True, False),
    ("stateful_own", True, True),
)
_FIRST: Final = 20_000  # schedules that are due at once to begin with
_ASIDE: Final = 3.0  # seconds of firing that are due at once: later than 10 s would be missed
_SECOND: Final = 1.1  # new schedules answer for whole seconds after they were made


class Fired(msgspec.Struct, frozen=True):
    jobs: int
    seconds: float
    waves: int

    @property
    def per_second(self) -> float:
        return round(self.jobs / self.seconds, 1) if self.seconds else 0.0


def fire(stage: Stage, probe: ScheduleProbe, *, fires: int) -> dict[str, object]:
    """Of plain schedules that share triggers, of plain ones with triggers of their own, and of stateful ones."""
    found = {}
    pause(_SECOND)
    asyncio.run(_catch_up(stage))
    for name, stateful, own in _SORTS:
        stage.probe.empty()
        fired = asyncio.run(_fire_many(stage, probe, stateful=stateful, own=own, fires=fires))
        if fired.jobs:
            stage.say(f"{name}: {fired.jobs:,} jobs, {fired.per_second:,.0f} a second")
            found[name] = {**msgspec.structs.asdict(fired), "per_second": fired.per_second}
    stage.probe.empty()
    rates = {name: one["per_second"] for name, one in found.items()}
    return {
        "fires_per_second": rates.get("plain", rates.get("own")),
        "stateful_fires_per_second": rates.get("stateful", rates.get("stateful_own")),
        "fire": found,
    }


async def _catch_up(stage: Stage) -> None:
    """What became due by itself meanwhile is not to be measured."""
    store = await open_store(stage.settings.store, clock=stage.clock, ids=stage.ids)
    try:
        await _fire_all(stage, store)
    finally:
        await store.close()


async def _fire_many(
    stage: Stage, probe: ScheduleProbe, *, stateful: bool, own: bool, fires: int
) -> Fired:
    """In waves, each of triggers that have not been in one yet."""
    store = await open_store(stage.settings.store, clock=stage.clock, ids=stage.ids)
    try:
        jobs, seconds, waves, wave = 0, 0.0, 0, _FIRST
        after: tuple[int, int] | None = None
        while jobs < fires:
            due, after = probe.make_due(
                stateful=stateful, own=own, schedules=min(wave, fires - jobs), after=after
            )
            if not due:
                break
            seconds += await _fire_all(stage, store)
            waves += 1
            jobs = probe.live()
            wave = max(_FIRST, int(jobs / seconds * _ASIDE))
            stage.say(f"{jobs:,} jobs in {seconds:.1f} s")
        return Fired(jobs, round(seconds, 3), waves)
    finally:
        await store.close()


async def _fire_all(stage: Stage, store: Store) -> float:
    """Until nothing is due; seconds."""
    partitions = AllPartitions(
        store, stage.ids.session(), clock=stage.clock, ids=stage.ids, term=60.0
    )
    duty = Fire(Office(store, partitions, stage.clock, stage.ids))
    duty.see(Peek([], {}, fire_in=dict.fromkeys(range(store.partitions), 0.0)))
    before = stage.clock.monotonic()
    await duty.tick()
    return stage.clock.monotonic() - before
