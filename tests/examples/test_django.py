"""The example for Django: its own tests, and orders whose invoices a real worker writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.installed import environment

Example = Callable[[str], Path]
ORDER = """
import time
from django.test import Client

order = Client().post("/orders/", {"customer": "ada", "amount": 42}).json()["order"]
until = time.monotonic() + 60
while time.monotonic() < until:
    invoice = Client().get(f"/orders/{order}/").json()["invoice"]
    if invoice:
        print("invoice:", invoice)
        break
    time.sleep(0.05)
"""


class Project:
    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = folder
        self.environment = environment(site, PYTHONWARNINGS="error")

    def manage(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def foliot(self, *args: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "foliot", *args]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment)


@pytest.fixture
def project(example: Example, site: Path) -> Project:
    return Project(example("django_app"), site)


def test_its_tests_pass(project: Project) -> None:
    said = project.manage("test")
    assert "Ran 2 tests" in said
    assert "OK" in said
    assert "No changes" in project.manage("makemigrations", "--check", "--dry-run")


def test_a_worker_writes_the_invoice_of_an_order(project: Project) -> None:
    project.manage("migrate")
    assert project.foliot("db", "init", "--url", "sqlite:///db.sqlite3").wait(30) == 0
    worker = project.foliot("worker", "mysite.worker:app")
    try:
        said = project.manage("shell", "-c", ORDER)
    finally:
        worker.terminate()
        assert worker.wait(30) == 0
    assert "invoice: 42 from ada" in said
