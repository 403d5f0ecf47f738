"""The bench of schedules, from small real runs, and whether it would notice what it says it checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from foliot import when
from foliot.bench.fires import Record
from foliot.bench.histogram import Step, histogram, lines, picture
from foliot.bench.on_time import check_fires
from foliot.bench.population import Crowd, Population
from foliot.errors import FoliotError

Run = Callable[..., tuple[int, str, str]]
Bench = Callable[..., dict[str, Any]]

NOON = 1_794_999_600  # 2026-11-18T11:00:00Z
SMALL = ("--count", "300", "--processes", "1", "--seconds", "1", "--runs", "1")


def times_of(expression: str, timezone: str, start: int, stop: int) -> list[int]:
    timetable = when.parse(expression, timezone=timezone).timetable()
    return list(when.between(timetable, start - 1, stop - 1))


def test_every_phase_reports_its_numbers(bench: Bench, tmp_path: Path) -> None:
    report = bench(
        "schedules", *SMALL, "--due-per-second", "20", "--burst", "30", "--plot", "late.svg"
    )
    assert report["bench"] == "schedules"
    assert report["created_per_second"] > 0
    assert report["create"]["schedules"] == 300
    assert report["create"]["bytes"] > 0
    assert report["fires_per_second"] > 0
    assert report["stateful_fires_per_second"] > 0
    # All but the paused ones; one may have fired at its own time as well.
    assert sum(sort["jobs"] for sort in report["fire"].values()) >= 285
    assert report["on_time"]["fires"] >= 20
    assert report["burst"]["schedules"] == 30
    for found in (report["lateness_ms"], report["burst"]["lateness_ms"]):
        assert 0 <= found["p50"] <= found["p95"] <= found["p99"] <= found["max"]
    assert report["idle"]["resident_bytes"] > 1_000_000
    if report["store"]["engine"] == "PostgreSQL":
        assert report["idle"]["statements_per_second"] > 0
    assert set(report["versions"]) == {"foliot", "python", "tzdata"}
    assert report["settings"]["count"] == 300
    assert ET.parse(tmp_path / "late.svg").getroot().tag.endswith("svg")


def test_a_population_that_is_kept_is_used_again_and_another_one_is_refused(run: Run) -> None:
    code, _, err = run("schedules", *SMALL, "--phases", "create", "--keep")
    assert code == 0, err
    code, out, err = run("schedules", *SMALL, "--phases", "create", "--keep")
    assert code == 0, err
    assert "300 schedules are there already" in err
    assert '"created":0' in out
    code, _, err = run("schedules", *SMALL, "--phases", "create", "--own-triggers", "1.0")
    assert code == 1
    assert "another bench" in err
    code, out, err = run("schedules", *SMALL, "--phases", "create")
    assert code == 0, err
    code, out, err = run("schedules", *SMALL, "--phases", "create", "--own-triggers", "1.0")
    assert code == 0, err
    assert '"triggers":300' in out


def test_a_phase_that_there_is_not_is_refused(run: Run) -> None:
    code, _, err = run("schedules", "--phases", "create,sleep")
    assert code == 2
    assert "create, fire, on-time, burst, idle" in err


def test_a_picture_is_not_drawn_over_another_file(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "late.svg"
    kept.write_text("kept")
    code, _, err = run("schedules", *SMALL, "--plot", "late.svg")
    assert (code, kept.read_text()) == (2, "kept")
    assert "plot: 'late.svg' is there already\nhint: --force overwrites it" in err


@pytest.mark.parametrize("own", [0.1, 1.0])
def test_the_population_is_due_when_its_expressions_say_so(own: float) -> None:
    population = Population(3000, own)
    span = 1800
    expected: dict[int, set[int]] = defaultdict(set)
    for number in range(population.count):
        item = population.item(number)
        if not population.is_paused(number):
            for second in times_of(item.expression, item.timezone, NOON, NOON + span):
                expected[second].add(number)
    found = {second: list(population.due(second)) for second in range(NOON, NOON + span)}
    assert {at: sorted(some) for at, some in found.items() if some} == {
        at: sorted(some) for at, some in expected.items()
    }
    assert expected or own == 1.0


def test_the_population_is_mixed_as_it_says() -> None:
    population = Population(20_000)
    items = [population.item(number) for number in range(population.count)]
    assert sum(population.is_paused(number) for number in range(population.count)) == 1000
    assert sum(item.stateful for item in items) == 2000
    triggers = {(item.expression, item.timezone) for item in items}
    assert len(triggers) == 2000 + 20 * 20
    assert len({item.name for item in items}) == population.count


@pytest.mark.parametrize("at", [None, NOON + 90])
def test_a_crowd_is_due_when_its_expressions_say_so(at: int | None) -> None:
    crowd = Crowd(1500, 10_000, "crowd", NOON, at)
    for place in range(crowd.count):
        item = crowd.item(place)
        for second in times_of(item.expression, item.timezone, NOON, NOON + 120):
            assert item.number in crowd.due(second)
    assert sum(len(crowd.due(second)) for second in range(NOON, NOON + 120)) == (
        3000 if at is None else 1500
    )


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([Record(1, 100, 100.0)], "1 missed: schedule 2 at 100"),
        (
            [Record(1, 100, 100.0), Record(2, 100, 100.0), Record(2, 100, 100.0)],
            "1 twice: schedule 2 at 100",
        ),
        ([Record(1, 100, 99.9), Record(2, 100, 100.0)], "1 early: schedule 1 at 100"),
        (
            [Record(1, 100, 100.0), Record(2, 100, 100.0), Record(3, 100, 100.0)],
            "1 not due: schedule 3 at 100",
        ),
    ],
)
def test_what_is_missed_twice_early_or_not_due_is_named(records: list[Record], said: str) -> None:
    lateness = [one.began - one.nominal for one in records]
    with pytest.raises(FoliotError, match=said):
        check_fires({(1, 100), (2, 100)}, records, lateness, error=0.01)


def test_right_fires_pass_the_check() -> None:
    records = [Record(1, 100, 100.0), Record(2, 100, 99.995)]
    check_fires({(1, 100), (2, 100)}, records, [0.0, -0.005], error=0.01)


def test_a_histogram_has_every_value_in_one_step() -> None:
    steps = histogram([0.5, 1.0, 1.5, 40.0, 99_999.0])
    assert steps[0] == Step(1.0, 2)
    assert Step(2.0, 1) in steps
    assert Step(50.0, 1) in steps
    assert steps[-1] == Step(None, 1)
    assert sum(step.count for step in steps) == 5
    assert len(lines(steps)) == len(steps)
    drawn = ET.fromstring(picture("a < b", steps, {"p50": 1.5}))
    assert sum(part.tag.endswith("rect") for part in drawn) == len(steps) + 1


def test_no_values_make_an_empty_histogram() -> None:
    assert histogram([]) == []
    assert ET.fromstring(picture("none", [], {})).tag.endswith("svg")
