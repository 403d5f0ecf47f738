"""`foliot db status`: whether the tables are the ones that this version needs."""

from __future__ import annotations

import sqlite3

from cli.conftest import Shell


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
