"""A store of each kind for the bench, and the bench as people run it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foliot.config import Settings, load
from support.stores import Databases

Bench = Callable[..., dict[str, Any]]
_names = itertools.count()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty store without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/bench.db"
        return
    databases: Databases = request.getfixturevalue("databases")
    name = f"bench_{next(_names)}"
    yield databases.server.create_database(name)
    databases.server.drop_database(name)


@pytest.fixture
def settings(url: str) -> Settings:
    return load(env={}, flags={"store.url": url, "worker.processes": 1}).settings


@pytest.fixture
def run(url: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`foliot bench …` on the store, in a directory of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "foliot", "bench", *arguments, "--json"],
            env={**os.environ, "FOLIOT_URL": url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    return run


@pytest.fixture
def bench(run: Callable[..., subprocess.CompletedProcess[str]]) -> Bench:
    """The same, for what it reports."""

    def bench(*arguments: str) -> dict[str, Any]:
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    return bench
