"""`foliot db status`: whether the tables are the ones that this version needs; `foliot db repartition` as an operator
meets it (what becomes of the rows is tests/store/test_repartition.py)."""

from __future__ import annotations

import sqlite3

import pytest

from cli.conftest import Shell
from foliot.ids import Ids
from foliot.model.session import NewSession
from foliot.store.port import Store


def test_tables_that_are_current_are_told_with_exit_code_0(shell: Shell) -> None:
    answer = shell("db", "status")
    assert answer.code == 0
    assert answer.out.splitlines()[1].split()[-1] == "-"
    assert shell("db", "status", "--json").json["current"] is True


def test_a_migration_that_was_altered_is_named_with_exit_code_1(shell: Shell) -> None:
    with sqlite3.connect(shell.url.removeprefix("sqlite:///")) as file:
        file.execute("UPDATE foliot_migrations SET checksum = 'x' WHERE number = 1")
    file.close()
    answer = shell("db", "status")
    assert answer.code == 1
    assert answer.out.splitlines()[1].split()[-1] == "1"
    told = shell("db", "status", "--json").json
    assert (told["current"], told["altered"]) == (False, [1])


def test_a_store_without_tables_is_told_with_exit_code_1(shell: Shell) -> None:
    shell.url += ".new"
    assert shell("db", "status").code == 1


def test_the_number_of_partitions_is_changed_in_place(shell: Shell) -> None:
    ids = shell.submit(20)
    answer = shell("db", "repartition", "8")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[0].split() == ["table", "moved"]
    assert answer.out.splitlines()[-1] == "partitions: 8, before: 1"
    assert shell("db", "status", "--json").json["partitions"] == 8
    assert {shell("jobs", "show", id, "--json").json["job"]["id"] for id in ids} == set(ids)
    told = shell("db", "repartition", "1", "--json")
    assert "jobs: " in told.err
    assert (told.json["before"], told.json["partitions"]) == (8, 1)
    assert shell("jobs", "count", "--json").json["count"] == 20


@pytest.mark.parametrize("number", ["0", "1025", "-1", "x", "1.5", ""])
def test_a_number_of_partitions_that_cannot_be_is_told(shell: Shell, number: str) -> None:
    answer = shell("db", "repartition", number)
    assert answer.code == 2
    assert "whole number" in answer.err
    assert shell("db", "status", "--json").json["partitions"] == 1


def test_a_number_that_is_out_of_bounds_is_told_with_an_example(shell: Shell) -> None:
    answer = shell("db", "repartition", "2000")
    assert (
        "is not a whole number from 1 to 1024, for example foliot db repartition 32" in answer.err
    )


def test_partitions_are_not_changed_under_those_who_work(shell: Shell) -> None:
    async def work(store: Store) -> None:
        session = NewSession(
            id=Ids().session(), host="here", pid=7, version="0", queues=(), kinds=(), duties=False
        )
        await store.sessions.open(session, lease=60)

    shell.ask(work)
    refused = shell("db", "repartition", "8")
    assert refused.code == 1
    assert "1 process works on the store: pid 7 on here" in refused.err
    assert "foliot workers drain --all" in refused.err
    assert shell("db", "status", "--json").json["partitions"] == 1


def test_a_store_that_is_not_there_is_not_made(shell: Shell) -> None:
    shell.url += ".new"
    assert shell("db", "repartition", "8").code == 1
    assert shell("db", "status").code == 1
