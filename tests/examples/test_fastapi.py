"""The example for FastAPI: its own tests, and the service with its worker on a real store."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from support.installed import environment

Example = Callable[[str], Path]


def test_its_tests_pass(example: Example, site: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-config"],
        cwd=example("fastapi_app"),
        env=environment(site),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.fixture
def api(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    monkeypatch.setenv("FOLIOT_URL", f"sqlite:///{tmp_path}/foliot.db")
    monkeypatch.syspath_prepend(example("fastapi_app"))
    yield importlib.import_module("shop.api").api
    for name in ("shop", "shop.api", "shop.jobs"):
        sys.modules.pop(name)


def test_its_own_worker_runs_what_its_endpoints_submit(api: FastAPI) -> None:
    with TestClient(api) as client:
        placed = client.post("/orders", json={"customer": "ada", "amount": 42})
        receipt = placed.json()["receipt"]
        result = client.get(f"/jobs/{receipt}/result", params={"timeout": 30}).json()
        assert result == {"result": "receipt of 42 sent to ada@example.org"}
        assert client.get(f"/jobs/{receipt}").json() == {
            "kind": "send_receipt",
            "state": "succeeded",
            "attempt": 1,
        }
    with TestClient(api) as client:  # the service starts again, on what it has stored
        assert client.get(f"/jobs/{receipt}").json()["state"] == "succeeded"
