"""The examples of workflows, run as their first lines say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.installed import environment

Example = Callable[[str], Path]


@pytest.mark.parametrize(
    ("script", "said"),
    [("etl.py", "oslo      -1.7 °C"), ("approval.py", "paid 900 for order-42, approved by ada")],
)
def test_an_example_runs_and_says_what_came_of_it(
    script: str, said: str, example: Example, site: Path
) -> None:
    done = subprocess.run(
        [sys.executable, script],
        cwd=example("workflows"),
        env=environment(site),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout
    assert done.stderr == ""
