"""`foliot breakers`: how they are, and opening and closing them with a note and a name."""

from __future__ import annotations

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
        assert answer.code == 2
        assert "hint: did you mean" in answer.err and "stripe" in answer.err.split("hint:")[1]


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
