"""The bench of explain, from a small real run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from foliot.clock import SystemClock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.model.rollup import Rollup
from foliot.model.session import Session
from foliot.store.open import open_store

Bench = Callable[..., dict[str, Any]]


def test_explain_reports_the_median_and_the_spread_of_its_runs(bench: Bench) -> None:
    report = bench("explain", "--jobs", "30", "--steps", "20", "--asked", "5", "--runs", "3")
    assert report["bench"] == "explain"
    for measure in ("latency_ms", "join_ms", "signal_ms"):
        assert set(report[measure]) == {"p50", "p95", "p99"}
    for measure in ("p50_ms", "p99_ms", "max_ms"):
        found = report[measure]
        assert len(found["runs"]) == 3
        assert found["median"] == sorted(found["runs"])[1] > 0
        assert found["least"] <= found["median"] <= found["most"]
    assert (report["settings"]["asked"], report["settings"]["runs"]) == (5, 3)


def test_explain_is_asked_beside_a_fleet_of_which_nothing_is_left(
    bench: Bench, settings: Settings
) -> None:
    """Each answer must tell the pace, or the bench fails."""
    report = bench("explain", "--jobs", "5", "--steps", "2", "--asked", "5", "--runs", "1")
    assert (report["settings"]["processes"], report["settings"]["kinds"]) == (40, 10)

    async def left() -> tuple[list[Rollup], list[Session]]:
        store = await open_store(settings.store, clock=SystemClock(), ids=Ids())
        try:
            return await store.rollups.read(0, 1 << 40), await store.sessions.all()
        finally:
            await store.close()

    assert asyncio.run(left()) == ([], [])
