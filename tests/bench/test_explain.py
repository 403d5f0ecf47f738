"""The bench of explain, from a small real run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Bench = Callable[..., dict[str, Any]]


def test_explain_reports_the_median_and_the_spread_of_its_runs(bench: Bench) -> None:
    report = bench("explain", "--jobs", "30", "--asked", "5", "--runs", "3")
    assert report["bench"] == "explain"
    assert set(report["latency_ms"]) == {"p50", "p95", "p99"}
    for measure in ("p50_ms", "p99_ms", "max_ms"):
        found = report[measure]
        assert len(found["runs"]) == 3
        assert found["median"] == sorted(found["runs"])[1] > 0
        assert found["least"] <= found["median"] <= found["most"]
    assert (report["settings"]["asked"], report["settings"]["runs"]) == (5, 3)
