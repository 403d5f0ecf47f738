"""`foliot demo` shows what it says it shows, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys


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
