"""A store of each kind for the bench, and the bench as people run it."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foliot.cli.main import main
from foliot.config import Settings, load
from support.stores import Databases

Run = Callable[..., tuple[int, str, str]]
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
def run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """`foliot bench …` on the store, in a directory of its own: its exit code and what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOLIOT_URL", url)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["bench", *arguments, "--json"])
        return code, *capsys.readouterr()

    handler = signal.getsignal(signal.SIGTERM)  # a bench has its own
    yield run
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def bench(run: Run) -> Bench:
    """The same, for what it reports."""

    def bench(*arguments: str) -> dict[str, Any]:
        code, out, err = run(*arguments)
        assert code == 0, err
        report: dict[str, Any] = json.loads(out)
        return report

    return bench
