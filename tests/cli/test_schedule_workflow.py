"""`foliot schedules create --workflow`: what a file draws is what a schedule fires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Shell
from cli.test_workflows import Lab
from client.conftest import run_in_thread
from foliot import Handle
from support.fleet import eventually
from support.stores import Place

pytestmark = pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True)
ETL = """
name = "etl"
[[steps]]
name = "numbers"
kind = "count"
payload = { to = 4 }
[[steps]]
name = "sum"
kind = "total"
after = ["numbers"]
payload = { numbers = { "$result" = "numbers" } }
"""


@pytest.fixture
def shell(place: Place, anyio_backend: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(place.settings.url, capsys)


@pytest.fixture
def lab(shell: Shell) -> Iterator[Lab]:
    lab = Lab(shell)
    with lab.app:
        stop = run_in_thread(lab.app)
        eventually(lambda: shell.ask(lambda store: store.definitions.all()))
        yield lab
        stop()


@pytest.fixture
def etl(tmp_path: Path) -> str:
    path = tmp_path / "etl.toml"
    path.write_text(ETL)
    return str(path)


def create(shell: Shell, file: str, *more: str) -> Any:
    return shell("schedules", "create", "nightly", *more, "--workflow", file)


def test_a_workflow_in_a_file_is_what_a_schedule_fires(shell: Shell, lab: Lab, etl: str) -> None:
    answer = create(shell, etl, "every second", "--max-runs", "1", "--tags", "team")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("nightly created: every second (UTC), next ")
    shown = shell("schedules", "show", "nightly").out
    assert "foliot.workflow" in shown and "team" in shown
    assert 'numbers: count {"to":4}' in shown

    def fired() -> list[Any]:
        told = shell("schedules", "fires", "nightly", "--json").json
        return [one["job"] for one in told["fires"] if one["job"] is not None]

    eventually(fired)
    triggered = shell("schedules", "trigger", "nightly", "--overlap", "allow").out.strip()
    for id in (fired()[0], triggered):
        handle: Handle[Any] = lab.app.get(id)
        assert handle.result(timeout=30) == {"sum": 6}
    assert {one.name for one in lab.app.workflows()} == {"etl"}


def test_a_schedule_of_a_file_that_is_made_again_is_as_it_was(
    shell: Shell, lab: Lab, etl: str, feed: Any
) -> None:
    assert create(shell, etl, "@yearly").code == 0
    feed(ETL)
    assert create(shell, "-", "@yearly").out.startswith("nightly is as it was")
    Path(etl).write_text(ETL.replace("to = 4", "to = 5"))
    assert create(shell, etl, "@yearly").out.startswith("nightly changed")
    after = create(shell, etl, "--after-completion", "10m", "--json")
    assert after.json["outcome"] == "changed"
    elsewhere = create(shell, etl, "@yearly", "--namespace", "shop")
    assert elsewhere.code == 0, elsewhere.err
    assert shell("schedules", "show", "nightly", "--namespace", "shop").code == 0


def test_a_file_that_is_wrong_is_refused_as_it_is_when_it_is_submitted(
    shell: Shell, lab: Lab, etl: str
) -> None:
    for wrong in (
        ETL.replace("to = 4", 'to = "x"'),
        ETL.replace('kind = "count"', 'kind = "coutn"'),
        ETL.replace('after = ["numbers"]', ""),
        "name = ",
        "",
    ):
        Path(etl).write_text(wrong)
        submitted = shell("workflows", "submit", etl)
        scheduled = create(shell, etl, "@daily")
        assert (scheduled.code, scheduled.out) == (2, "")
        assert scheduled.err == submitted.err
    Path(etl).write_text('key = "one"\n' + ETL)
    assert "key: 'one' is not for a workflow that is a step, or that a schedule fires" in (
        create(shell, etl, "@daily").err
    )
    assert create(shell, "nowhere.toml", "@daily").code == 2
    assert shell("schedules", "list", "--json").json == {"schedules": []}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "expression is missing"),
        (["etl", "@daily"], "words: '@daily' is one word too many: a workflow has neither kind"),
        (["@daily", "--after-completion", "10m"], "words: '@daily' is one word too many"),
        (["@daily", "--payload", "{}"], "--payload cannot be given together with --workflow"),
        (["@daily", "--queue", "x"], "--queue cannot be given together with --workflow"),
        (["@daily", "--max-attempts", "3"], "--max-attempts cannot be given together"),
    ],
)
def test_what_belongs_to_a_kind_is_not_for_a_workflow(
    shell: Shell, etl: str, typed: list[str], said: str
) -> None:
    answer = create(shell, etl, *typed)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert 'for example foliot schedules create nightly "every day at 3am" --workflow' in answer.err


def test_a_schedule_is_of_a_kind_or_of_a_workflow(shell: Shell) -> None:
    answer = shell("schedules", "create", "nightly")
    assert answer.code == 2
    assert answer.err.startswith("error: kind is missing, for example foliot schedules create ")
