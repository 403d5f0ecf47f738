"""What `explain` says to type works as it is printed."""

from __future__ import annotations

import re
import shlex
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.conftest import Shell
from cli.test_limits import _claim
from foliot import Foliot, commands
from foliot.model.job import Extras, More
from foliot.store.port import Store

NAME = "the boss's report"


def _type(shell: Shell, told: str) -> Any:
    """The command in it."""
    found = re.search(r"foliot (\w+ .*)", told)
    assert found is not None, told
    answer = shell(*shlex.split(found[1]), "--json")
    assert answer.code == 0, answer.err
    return answer.json


@pytest.fixture
def app(shell: Shell) -> Foliot:
    app = Foliot(shell.url)

    @app.job
    def tidy() -> None: ...

    async def announce(store: Store) -> None:
        await commands.announce(store, app.registry)

    shell.ask(announce)
    return app


def _create(shell: Shell, expression: str, *options: str) -> None:
    answer = shell("schedules", "create", NAME, "tidy", expression, *options)
    assert answer.code == 0, answer.err


@pytest.mark.parametrize("whose", [(), ("--namespace", "shop")], ids=["ours", "shop"])
def test_a_paused_schedule_goes_on(shell: Shell, app: Foliot, whose: tuple[str, ...]) -> None:
    _create(shell, "every day at 9am", *whose)
    shell("schedules", "pause", NAME, *whose)
    told = shell("schedules", "explain", NAME, *whose, "--json").json
    _type(shell, told["reasons"][0]["change"])
    assert shell("schedules", "explain", NAME, *whose, "--json").json["state"] == "active"


def test_a_schedule_of_another_namespace_that_has_ended_goes_on(shell: Shell, app: Foliot) -> None:
    whose = ("--namespace", "shop")
    end = datetime.now(UTC) + timedelta(seconds=2)
    _create(shell, "@every 1s", "--end", end.isoformat(timespec="seconds"), *whose)
    while (now := datetime.now(UTC)) <= end:
        time.sleep((end - now).total_seconds() + 0.01)
    told = shell("schedules", "explain", NAME, *whose, "--json").json
    assert told["state"] == "ended"
    _type(shell, told["reasons"][0]["change"])
    assert shell("schedules", "explain", NAME, *whose, "--json").json["state"] == "active"


def test_a_limit_that_is_raised_keeps_its_rate_and_note(shell: Shell) -> None:
    note = "it's in the contract"
    given = ("--concurrency", "1", "--rate", "7200000/hour", "--burst", "30", "--note", note)
    assert shell("limits", "set", "key:customer 4*", *given).code == 0
    ids = shell.submit(2, more=More(extras=Extras(limit_key="customer 42")), namespace="shop")
    shell.ask(_claim)
    [reason] = shell("jobs", "explain", ids[1], "--json").json["reasons"][:1]
    assert reason["why"].startswith("limit key:customer 42 in namespace shop is at 1/1")
    own, _, everybody = reason["change"].partition("; for all of them: ")
    for told, raised in (
        (own, ["key:customer 42"]),
        (everybody, ["key:customer 4*", "key:customer 42"]),
    ):
        assert _type(shell, told)["changed"]
        found = shell("limits", "list", "--json").json["limits"]
        assert sorted(one["name"] for one in found if one["concurrency"] == 2) == raised
        kept = {(one["rate"], one["burst"], one["note"]) for one in found}
        assert kept == {("7200000/hour", 30, note)}


def test_a_job_is_made_due_at_once(shell: Shell) -> None:
    [id] = shell.submit(delay=3600)
    [reason, *_] = shell("jobs", "explain", id, "--json").json["reasons"]
    assert reason["why"].startswith("due in ")
    _type(shell, reason["change"])
    [reason, *_] = shell("jobs", "explain", id, "--json").json["reasons"]
    assert not reason["why"].startswith("due in ")


def test_a_paused_queue_goes_on(shell: Shell) -> None:
    [id] = shell.submit(queue="a.b:c")
    shell("queues", "pause", "a.b:c")
    [reason, *_] = shell("jobs", "explain", id, "--json").json["reasons"]
    assert reason["why"].startswith("the queue 'a.b:c' was paused")
    _type(shell, reason["change"])
    assert "paused" not in shell("jobs", "explain", id).out
