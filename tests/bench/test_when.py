"""`foliot bench when` needs no store."""

from __future__ import annotations

import json

import pytest

from foliot.bench.when import EXPRESSIONS, OURS_ALONE, ZONES
from foliot.cli.main import main


def test_it_reports_the_next_fire_beside_croniter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "when", "--fires", "3", "--runs", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = report["next_fire_us"]
    assert 0 < found["median"] <= found["p95"] <= found["most"]
    assert report["compile_us"] > 0
    assert report["croniter_us"] > 0
    assert report["times_faster"] > 0
    assert report["expressions"] == len(EXPRESSIONS) + len(OURS_ALONE)
    assert report["zones"] == len(ZONES)
    assert set(report["versions"]) == {"foliot", "python", "tzdata"}
