"""`foliot up`: everything in one process, which follows the code when told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell
from foliot.cli.reload import file_times, project_of
from foliot.ids import JobId
from foliot.model.job import Job, JobState
from support.fleet import all_gone, children_of, eventually

CODE = """
from foliot import Foliot
app = Foliot()
@app.job
def greet() -> str:
    return "one"
"""


class Up:
    """A running `foliot up` in a folder with a project."""

    def __init__(self, folder: Path, shell: Shell, *arguments: str) -> None:
        self._log = folder / "up.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FOLIOT_")}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "foliot", "up", *arguments, "--grace", "2s"],
                cwd=folder,
                env=environment | {"FOLIOT_URL": shell.url, "FOLIOT_WORKER_POLL": "50ms"},
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.log.count(text) >= times, what=lambda: self.log)

    def stop(self, number: signal.Signals) -> int:
        children = children_of(self.process.pid)
        self.process.send_signal(number)
        code = self.process.wait(20)
        assert all_gone(children)
        return code


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tasks.py").write_text(CODE)
    return folder


def result_of(shell: Shell, id: str) -> bytes | None:
    def read() -> Job | None:
        job = shell.ask(lambda store: store.jobs.get(JobId(id)))
        return job if job is not None and job.state.final else None

    job = eventually(read)
    assert job is not None
    return job.result


def test_a_change_of_the_code_is_what_runs_next(shell: Shell, project: Path) -> None:
    up = Up(project, shell, "tasks:app", "--reload")
    try:
        up.wait_for("ready: ")
        assert result_of(shell, shell.submit(kind="greet")[0]) == b'"one"'

        (project / "tasks.py").write_text(CODE.replace("one", "two"))
        up.wait_for("tasks.py has changed: starting anew")
        up.wait_for("ready: ", 2)
        assert result_of(shell, shell.submit(kind="greet")[0]) == b'"two"'

        (project / "tasks.py").write_text(CODE + "def (\n")
        up.wait_for("SyntaxError")
        up.wait_for("it has ended with exit code 1: waiting for a change")
        (project / "tasks.py").write_text(CODE.replace("one", "three"))
        up.wait_for("ready: ", 3)
        assert result_of(shell, shell.submit(kind="greet")[0]) == b'"three"'
    finally:
        code = up.stop(signal.SIGINT)
    assert code == 0


def test_without_an_app_the_duties_are_done(shell: Shell, project: Path) -> None:
    [id] = shell.submit(kind="greet", delay=0.3)
    up = Up(project, shell)
    try:
        up.wait_for("ready: ")

        def is_ready() -> bool:
            job = shell.ask(lambda store: store.jobs.get(JobId(id)))
            return job is not None and job.state is not JobState.SCHEDULED

        eventually(is_ready)
    finally:
        code = up.stop(signal.SIGTERM)
    assert code == 0


def test_a_wrong_app_is_told_at_once(shell: Shell, project: Path) -> None:
    up = Up(project, shell, "nothing:app")
    assert up.process.wait(30) == 2
    assert "cannot be imported: there is no module nothing" in up.log


def test_only_the_projects_own_files_are_watched(tmp_path: Path) -> None:
    for name in (
        "app.py",
        "foliot.toml",
        "package/deep/module.py",
        "notes.txt",
        ".hidden/x.py",
        "node_modules/x.py",
        "venv/pyvenv.cfg",
        "venv/lib/x.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = {str(Path(path).relative_to(tmp_path)) for path in file_times([tmp_path])}
    assert found == {"app.py", "foliot.toml", "package/deep/module.py"}


def test_an_app_elsewhere_is_watched_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = project_of("foliot.demo.jobs:app")
    assert elsewhere[0] == tmp_path
    assert elsewhere[1].name == "foliot"
    assert project_of(None) == [tmp_path]
    assert project_of("nowhere:app") == [tmp_path]
