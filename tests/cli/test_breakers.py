"""`foliot breakers`: how they are, and opening and closing them with a note and a name."""

from __future__ import annotations

import pytest

from cli.conftest import Shell
from foliot.model.breaker import Report, Tally
from foliot.model.job import Extras, More
from foliot.store.port import Store

STRIPE = More(extras=Extras(breaker="stripe"))


def test_breakers_are_opened_listed_and_closed(shell: Shell) -> None:
    opened = shell(
        *("breakers", "open", "stripe", "--new"),
        *("--for", "10m", "--note", "they move", "--by", "ada"),
    )
    assert opened.code == 0
    assert opened.out.startswith("stripe is open until ")
    header, row = shell("breakers", "list").out.splitlines()
    assert header.split() == ["breaker", "state", "since", "until", "waiting", "why", "by"]
    assert row.split()[:2] == ["stripe", "open"]
    assert row.split()[-4:] == ["0", "they", "move", "ada"]
    assert shell("breakers", "close", "stripe", "--by", "bob").out == "stripe is closed\n"
    assert shell("breakers", "close", "stripe").out == "stripe is as it was, closed\n"
    [told] = shell("breakers", "list", "--json").json["breakers"]
    assert (told["reason"], told["note"], told["by"]) == ("by hand", None, "bob")
    words = shell("breakers", "list").out.splitlines()[1].split()
    assert (words[:2], words[-1]) == (["stripe", "closed"], "0"), "no more why, and by whom"


def test_a_breaker_is_told_as_json(shell: Shell) -> None:
    shell.ask(
        lambda store: store.breakers.report(
            "stripe", Report(tallies=(Tally(0.0, 3, 0),), error="boom")
        )
    )
    [told] = shell("breakers", "list", "--json").json["breakers"]
    assert (told["name"], told["state"], told["failures"]) == ("stripe", "closed", 3)
    assert (told["since"], told["until"], told["waiting"]) == (None, None, 0)
    changed = shell("breakers", "open", "stripe", "--json").json
    assert (changed["changed"], changed["state"], changed["until"]) == (True, "open", None)


def test_one_that_is_not_known_is_named_with_what_is_meant(shell: Shell) -> None:
    shell("breakers", "open", "stripe", "--new")
    for act in ("close", "open"):
        answer = shell("breakers", act, "strpe")
        assert (answer.code, answer.out) == (1, "")
        said, hint = answer.err.splitlines()
        assert said == "error: no breaker is called 'strpe'"
        assert hint.startswith("hint: did you mean stripe?")
    assert "--new" in hint


def test_of_one_that_is_not_known_those_there_are_are_named(shell: Shell) -> None:
    for act in ("close", "open"):
        answer = shell("breakers", act, "stripe")
        assert answer.err.startswith(
            "error: no breaker is called 'stripe'\nhint: there are none so far"
        )
    for name in ("bank", "mail"):
        shell("breakers", "open", name, "--new")
    for act in ("close", "open"):
        answer = shell("breakers", act, "stripe")
        assert answer.err.splitlines()[1].startswith("hint: there are bank, mail")


@pytest.mark.parametrize("what", ["limits", "hooks", "calendars", "schedules", "breakers"])
def test_a_name_that_nothing_has_is_refused_alike(shell: Shell, what: str) -> None:
    act = {"hooks": "remove", "breakers": "close"}.get(what, "delete")
    name = "queue:nope" if what == "limits" else "nope"
    answer = shell(what, act, name)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"error: no {what[:-1]} is called '{name}'\nhint: ")


def test_times_are_written_as_everywhere(shell: Shell) -> None:
    opened = shell("breakers", "open", "stripe", "--new", "--for", "10m", "--json").json
    [listed] = shell("breakers", "list", "--json").json["breakers"]
    for told in (opened, listed):
        for time in (told["since"], told["until"]):
            assert time.endswith("Z") and "+" not in time


def test_a_wrong_time_is_a_mistake_of_the_caller(shell: Shell) -> None:
    for wrong, said in (
        ("soon", "'soon' is not a duration"),
        ("0", "'0' is not between 100ms and 31d"),
        ("32d", "'32d' is not between 100ms and 31d"),
    ):
        answer = shell("breakers", "open", "stripe", "--new", "--for", wrong)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"error: --for: {said}")
        assert answer.err.endswith("for example --for 10m\n")
    assert shell("breakers", "list").out.splitlines()[1:] == []


def test_doctor_names_those_that_are_not_closed(shell: Shell) -> None:
    shell("breakers", "open", "stripe", "--new", "--note", "they move")
    [line] = [line for line in shell("doctor").out.splitlines() if "stripe" in line]
    assert "stripe is open, 0 wait: they move" in line
    assert "it stays so until somebody closes it: foliot breakers close stripe" in line
    shell("breakers", "open", "stripe", "--for", "10m")
    [line] = [line for line in shell("doctor").out.splitlines() if "stripe" in line]
    assert "it stays so until calls succeed; or: foliot breakers close stripe" in line


def test_doctor_says_of_one_that_recovers_what_it_does(shell: Shell) -> None:

    async def recover(store: Store) -> None:
        await store.breakers.open("stripe", seconds=0.0, note=None, by=None)
        await store.breakers.tick()
        await store.breakers.report("stripe", Report(succeeded=(0.0,)))

    shell.ask(recover)
    [line] = [line for line in shell("doctor").out.splitlines() if "stripe is recovering" in line]
    assert "those who waited start at a rate; it closes when all have" in line
    assert "foliot breakers close" not in line
