"""`foliot demo` shows what it says it shows, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def test_the_demo_ends_its_jobs_and_its_workflow_and_its_schedules_fire() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "foliot", "demo", "--json"],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["cycles"] == 1
    assert told["ended"] == {"cancelled": 1, "dead": 1, "succeeded": 11}
    assert told["workflows"] == {"succeeded": 1}
    assert told["fired"].keys() == {"count-stock", "newsletter"}
    assert all(count >= 1 for count in told["fired"].values())


@pytest.mark.parametrize("told", ["SIGHUP", "SIGTERM"])
def test_a_demo_whose_terminal_is_closed_takes_its_workers_along(tmp_path: Path, told: str) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "foliot", "demo"],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        _wait_for(lambda: len(_processes(tmp_path)) == 3)  # a supervisor and two workers
        demo.send_signal(signal.Signals[told])
        assert demo.wait(15) == 128 + signal.Signals[told]
        _wait_for(lambda: not _processes(tmp_path))
        assert list(tmp_path.iterdir()) == []
    finally:
        demo.kill()
        for process in _processes(tmp_path):
            os.kill(process, signal.SIGKILL)


def _processes(folder: Path) -> list[int]:
    """Those that have it on their command line."""
    found = subprocess.run(
        ["ps", "-eo", "pid,args", "-ww"], capture_output=True, text=True, check=True
    )
    lines = [line for line in found.stdout.splitlines() if f"sqlite:///{folder}/" in line]
    return [int(line.split()[0]) for line in lines]


def _wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)
