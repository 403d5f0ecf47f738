"""The bench of workflows, from a small real run, and whether it would notice what it says it checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foliot.bench.probe import open_probe
from foliot.bench.sheet import Sheet
from foliot.bench.workflows import DIAMONDS, check_calls, gaps_of
from foliot.cli.main import main
from foliot.errors import FoliotError

Bench = Callable[..., dict[str, Any]]
SMALL = ("--width", "30", "--flows", "5", "--length", "6", "--runs", "1", "--processes", "1")


def test_every_phase_reports_its_numbers(bench: Bench, url: str) -> None:
    report = bench("workflows", *SMALL)
    assert report["bench"] == "workflows"
    for phase in ("fan_submitted_seconds", "fan_finished_seconds"):
        spread = report[phase]
        assert 0 <= spread["least"] <= spread["median"] <= spread["most"]
    rates = report["steps_per_second"]
    assert len(rates["runs"]) == 1 and rates["median"] > 0
    found = report["chain_step_ms"]
    assert 0 < found["p50"] <= found["p95"] <= found["p99"]
    settings = report["settings"]
    assert (settings["width"], settings["flows"], settings["length"]) == (30, 5, 6)
    assert report["store"]["engine"] in {"PostgreSQL", "SQLite"}
    probe = open_probe(url)
    assert not probe.busy()
    probe.close()


def test_diamonds_are_a_graph_of_ten_steps() -> None:
    assert len(DIAMONDS) == 10
    assert all(parent < step for step, parents in enumerate(DIAMONDS) for parent in parents)


def test_a_step_that_ran_twice_or_never_is_noticed(tmp_path: Path) -> None:
    sheet = Sheet(tmp_path / "sheet", 3)
    sheet._calls[0] = sheet._calls[1] = 1
    with pytest.raises(FoliotError, match="1 of 3 steps were not run exactly once"):
        check_calls(sheet, 3)
    sheet._calls[2] = 2
    with pytest.raises(FoliotError, match="1 of 3 steps"):
        check_calls(sheet, 3)
    sheet._calls[2] = 1
    check_calls(sheet, 3)


def test_a_step_that_began_before_its_parent_is_noticed() -> None:
    assert gaps_of([1.0, 1.5, 3.0]) == [0.5, 1.5]
    with pytest.raises(FoliotError, match="began before"):
        gaps_of([1.0, 3.0, 2.0])


@pytest.mark.parametrize(
    "wrong",
    [("--width", "0"), ("--flows", "0"), ("--length", "0"), ("--length", "1"), ("--runs", "0")],
)
def test_what_cannot_be_measured_is_refused(
    wrong: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "workflows", *wrong]) == 2
    assert not list(tmp_path.iterdir())
