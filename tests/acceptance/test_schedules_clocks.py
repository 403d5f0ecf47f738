"""Processes whose own clock is an hour off: the store's clock says what is due."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from acceptance.conftest import FleetMaker
from acceptance.test_schedules_many import make_schedules
from support.calendar_checker import CalendarChecker
from support.fleet import Fleet

# Imported by Python before anything else: what foliot.clock takes for the wall clock is so many seconds off.
WRONG = """
import datetime, time, foliot.clock
off = datetime.timedelta(seconds={seconds})
class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + off
foliot.clock.datetime = Shifted
right = time.time
time.time = lambda: right() + off.total_seconds()
"""


def wrong_clock(folder: Path, seconds: int) -> Path:
    place = folder / f"off{seconds}"
    place.mkdir()
    (place / "sitecustomize.py").write_text(WRONG.format(seconds=seconds))
    return place


def test_clocks_that_are_an_hour_off_fire_nothing_early_twice_or_never(
    make_fleet: FleetMaker, tmp_path: Path
) -> None:
    fleet = make_fleet(partitions=8)
    ahead, behind = wrong_clock(tmp_path, 3600), wrong_clock(tmp_path, -3600)
    names = make_schedules(fleet, 12)
    for path in (ahead, behind, None):
        fleet.start_scheduler(path=path)
    fleet.start("--no-scheduler", path=ahead)
    fleet.start("--no-scheduler", path=behind)
    fleet.wait_for("start")
    checker = CalendarChecker(fleet)
    began = checker.now()
    for name, path in (("ahead", ahead), ("behind", behind)):
        create(fleet, path, name, "* * * * * *")
        create(fleet, path, f"{name}-once", "in 2 seconds")
    ended = checker.now()
    walls = {event.wall // 1800 for event in fleet.events("start")}
    assert walls <= {(ended + off) // 1800 + near for off in (3600, -3600) for near in (-1, 0)}
    time.sleep(3.2)
    answers = checker.check([*names, "ahead", "behind"])
    assert len(answers["ahead"]) >= 3 and len(answers["behind"]) >= 3
    runs = checker.runs()
    for name in ("ahead-once", "behind-once"):
        [run] = runs[name]
        assert run.nominal is not None and began + 2 <= run.nominal <= ended + 3
        assert run.nominal <= run.made_at and (run.started_at or run.nominal) >= run.nominal


def create(fleet: Fleet, path: Path, name: str, expression: str) -> None:
    """By the command line, in a process whose clock is wrong."""
    command = [sys.executable, "-m", "foliot", "schedules", "create", name, "quick", expression]
    subprocess.run(command, env=fleet.environment(path=path), check=True, capture_output=True)
