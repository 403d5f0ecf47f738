"""Resting: what a scheduler costs while none of the schedules is due."""

from __future__ import annotations

from typing import Final

from foliot.bench.idle import relayed
from foliot.bench.probe_schedules import ScheduleProbe
from foliot.bench.stage import Stage, pause
from foliot.bench.workers import Scheduler

_SETTLE: Final = 5.0  # seconds after its start before it counts as idle
_MARGIN: Final = 60.0


def rest(stage: Stage, probe: ScheduleProbe, *, seconds: float) -> dict[str, object]:
    settle = min(_SETTLE, seconds)
    probe.put_off(seconds + settle + _MARGIN)
    try:
        with (
            relayed(stage) as relay,
            Scheduler(relay.url if relay else stage.url, log=stage.new_path("log")) as scheduler,
        ):
            pause(settle)
            scheduler.check()
            sent, began = relay.statements if relay else 0, stage.clock.monotonic()
            pause(seconds)
            scheduler.check()
            took = stage.clock.monotonic() - began
            return {
                "idle": {
                    "statements_per_second": (
                        round((relay.statements - sent) / took, 2) if relay else None
                    ),
                    "resident_bytes": scheduler.resident_bytes,
                    "seconds": round(took, 1),
                }
            }
    finally:
        probe.bring_back()
