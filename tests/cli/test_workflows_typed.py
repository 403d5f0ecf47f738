"""What is typed after `foliot workflows`, and what is said to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.conftest import Shell
from cli.test_workflows import Lab
from client.conftest import run_in_thread
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
