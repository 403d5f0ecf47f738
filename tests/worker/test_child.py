"""The child process that runs suspects loads the app again, whatever that does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foliot.clock import SystemClock
from foliot.config import Settings
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.target import importing, load_app
from foliot.worker.executors.process import ChildProcess, describe_exit
from foliot.worker.run import Elsewhere

pytestmark = pytest.mark.anyio
MakeBench = Callable[..., Any]

SCRIPT = """
from foliot import Foliot
app = Foliot("sqlite:///{folder}/foliot.db")

@app.job
def work() -> int:
    return 7

{last}
"""


def script(folder: Path, last: str) -> str:
    path = folder / "jobs.py"
    path.write_text(SCRIPT.format(folder=folder, last=last))
    return str(path)


def make_child(target: str) -> ChildProcess:
    clock = SystemClock()
    session = Ids(clock=clock).session()
    return ChildProcess(target, Settings(), session, clock=clock, hear=lambda _: None)


def test_a_script_that_starts_a_worker_when_it_is_loaded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="__main__"):
        load_app(script(tmp_path, "app.run_worker()"))
    assert not importing()


@pytest.mark.parametrize(
    ("last", "words"),
    [("app.run_worker()", "run_worker"), ("raise SystemExit(3)", "SystemExit"), ("1 / 0", "Zero")],
)
async def test_an_app_that_cannot_be_loaded_fails_the_job_and_says_why(
    tmp_path: Path, last: str, words: str
) -> None:
    child = make_child(script(tmp_path, last))
    try:
        for _ in range(2):
            with pytest.raises(Elsewhere, match=words) as caught:
                await child.start()
            assert "could not be loaded" in caught.value.error
    finally:
        await child.close()


async def test_an_app_that_is_never_done_loading_fails_the_job_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.worker.executors.process._LONGEST_START", 0.5)
    child = make_child(script(tmp_path, "import time; time.sleep(600)"))
    with pytest.raises(Elsewhere, match="it took more than"):
        await child.start()
    assert child.pid is None


async def test_an_app_that_can_be_loaded_runs(tmp_path: Path, make_bench: MakeBench) -> None:
    child = make_child(script(tmp_path, ""))
    try:
        await child.start()
        outcome = await child.run(make_bench().job("work"), "default")
        assert outcome.result == b"7"
    finally:
        await child.close()


@pytest.mark.parametrize(
    ("code", "text"), [(3, "exit code 3"), (-9, "signal SIGKILL"), (-40, "signal 40")]
)
def test_every_exit_has_words(code: int, text: str) -> None:
    assert describe_exit(code) == text
