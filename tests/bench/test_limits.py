"""The bench of limits, from a small real run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foliot.bench.limits import _ratio

Bench = Callable[..., dict[str, Any]]
SMALL = ("--jobs", "300", "--keys", "30", "--slots", "5", "--processes", "1", "--runs", "1")


def test_every_drain_reports_its_numbers(bench: Bench) -> None:
    report = bench("limits", *SMALL)
    assert report["bench"] == "limits"
    for drain in ("unlimited", "never_reached", "keys"):
        assert report[drain]["median"] > 0
    assert report["jobs_per_second"] == report["keys"]["median"]
    assert report["ratio_keys"] > 0
    assert report["ratio_never_reached"] > 0
    assert 0 < report["busy"] <= 1
    assert report["settings"]["slots"] == 5


def test_a_ratio_is_of_runs_that_were_next_to_each_other() -> None:
    assert _ratio([1.0, 20.0, 3.0], [2.0, 40.0, 3.0]) == 0.5
