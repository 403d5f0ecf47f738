"""What is typed after `foliot workflows`, and what is said to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from cli.conftest import Shell
from cli.test_workflows import Lab
from client.conftest import run_in_thread
from foliot import JobState
from support.fleet import eventually


@pytest.fixture
def lab(shell: Shell) -> Iterator[Lab]:
    lab = Lab(shell)
    with lab.app:
        stop = run_in_thread(lab.app)
        eventually(lambda: shell.ask(lambda store: store.definitions.all()))
        yield lab
        lab.gate.set()
        stop()


@pytest.mark.parametrize("typed", [["--step"], ["--step", ""], ["--step="], ["--step", "a", ""]])
def test_a_step_without_a_name_is_not_all_that_failed(
    shell: Shell, lab: Lab, typed: list[str]
) -> None:
    id = lab.ended(lab.failing())
    answer = shell("workflows", "retry", id, *typed)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: --step needs the name of a step, for example foliot workflows retry 01a1ecf4 --step load\n"
    )
    assert lab.app.get_workflow(id).status() == "failed"


def test_a_pause_is_a_line_where_a_watch_is_no_picture(
    shell: Shell, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = lab.app.get_workflow(lab.approval())
    seen: list[str] = []
    told: list[bool] = []

    def shown(line: str) -> bool:
        for _ in range(100):
            seen.extend(capsys.readouterr().out.splitlines())
            if any(one.endswith(line) for one in seen):
                return True
            time.sleep(0.1)
        return False

    def by_hand() -> None:
        flow.pause("lunch", by="ada")
        told.append(shown(" the workflow is paused by ada: lunch"))
        flow.resume()
        told.append(shown(" the workflow is resumed"))
        flow.signal("approval", 1)

    thread = threading.Thread(target=by_hand)
    thread.start()
    assert shell("workflows", "show", flow.id, "--watch").code == 0
    thread.join()
    assert told == [True, True]
    assert sum("the workflow is" in line for line in seen) == 2


def test_a_retry_that_is_refused_has_the_id_once(shell: Shell, lab: Lab) -> None:
    failed = lab.ended(lab.failing())
    with lab.app.workflow("slow") as slow:
        slow.add(lab.wait.prepare())
    eventually(lambda: slow["wait"].status() is JobState.RUNNING)
    slow.cancel()
    answer = shell("workflows", "retry", slow.id, failed)
    assert answer.code == 1
    assert answer.err == (
        f"refused: {slow.id}: it is being cancelled: retry it when it has ended\n"
    )
