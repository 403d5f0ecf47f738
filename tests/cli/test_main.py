"""The `foliot` command as people meet it: help, mistakes, interruptions."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from foliot import __version__
from foliot.cli.main import COMMANDS, GROUPS, main

FOLIOT = str(Path(sys.executable).parent / "foliot")
HELP_SECONDS = 0.25


def foliot(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FOLIOT, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_lists_every_command() -> None:
    answer = foliot("--help")
    assert answer.returncode == 0
    for name in {path.partition(" ")[0] for path in COMMANDS}:
        assert f" {name} " in answer.stdout


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_lists_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group, "--help"]) == 0
    shown = capsys.readouterr().out
    for path in COMMANDS:
        if path.startswith(f"{group} "):
            assert path.rpartition(" ")[2] in shown


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_and_takes_the_options_of_all(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--url", "--config", "--json"):
        assert option in shown


def test_help_answers_at_once() -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert foliot("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(3)) < HELP_SECONDS


@pytest.mark.parametrize("arguments", [(), *((group,) for group in GROUPS)])
def test_without_a_command_the_help_is_shown_as_a_mistake(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "Commands" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["wrker"], "there is no command wrker", "did you mean worker?"),
        (["db", "nit"], "there is no command db nit", "did you mean init?"),
        (["zzz"], "there is no command zzz", "commands: bench, breakers, calendars, check"),
        (["config", "show", "--ulr", "x"], "Unknown option: --ulr", "did you mean --url?"),
        (["config", "show", "more"], "foliot config show does not take 'more'", "--help"),
        (["worker"], "foliot worker needs APP", "for example: foliot worker shop.jobs:app"),
        (
            ["workflows", "signal", "0192"],
            "foliot workflows signal needs NAME",
            "for example: foliot workflows signal 0192f3a4 approval",
        ),
        (
            ["schedules", "create"],
            "foliot schedules create needs NAME",
            'for example: foliot schedules create nightly send_email "every day at 3am"',
        ),
        (
            ["limits", "set"],
            "foliot limits set needs LIMIT",
            "for example: foliot limits set queue:mail --concurrency 20",
        ),
        (["config", "show", "--url"], "--url requires an argument", "--help"),
        (["config", "show", "--url", "a", "--url", "b"], "specified multiple times", "--help"),
        (["--url", "x", "config", "show"], "--url stands before the command", "options follow it"),
        (["x" * 100_000], "there is no command xxx", "commands: bench"),
    ],
    ids=[
        *(
            "command",
            "subcommand",
            "far",
            "flag",
            "argument",
            "first",
            "second",
            "third",
            "more",
            "value",
        ),
        *("twice", "before", "huge"),
    ],
)
def test_a_mistake_is_one_line_and_a_hint(arguments: list[str], error: str, hint: str) -> None:
    answer = foliot(*arguments)
    assert answer.returncode == 2
    assert answer.stdout == ""
    first, second = answer.stderr.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("hint: ")
    assert hint in second


def test_every_command_that_lacks_its_arguments_says_which_and_shows_a_line_that_has_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command, (target, _) in COMMANDS.items():
        module, _, name = target.partition(":")
        parameters = signature(getattr(import_module(module), name)).parameters.values()
        needed = [
            one.name
            for one in parameters
            if one.default is one.empty
            and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        if needed:
            assert main(command.split()) == 2
            error, hint = capsys.readouterr().err.splitlines()
            assert error == f"error: foliot {command} needs {needed[0].upper()}"
            assert hint.startswith(f"hint: for example: foliot {command} ")
            assert len(hint.split(command)[1].split()) >= len(needed)


def test_version_is_told_in_words_and_in_json() -> None:
    assert foliot("--version").stdout.strip() == __version__
    assert foliot("version").stdout.startswith(f"foliot {__version__}\n")
    assert f'"foliot":"{__version__}"' in foliot("version", "--json").stdout


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "foliot", "--version"]
    assert subprocess.check_output(command, text=True).strip() == __version__


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [FOLIOT, "config", "show"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [FOLIOT, "config", "show"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == 1
    assert answer.stderr == "error: the output cannot be written: the disk is full\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def (\n", "SyntaxError: "),
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'"),
        ("def halve():\n    return 1 / 0\nhalve()\n", "line 2, in halve"),
    ],
)
def test_an_app_that_cannot_be_imported_shows_the_users_own_lines(
    code: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "broken_shop.py"
    script.write_text(code)
    assert main(["check", f"{script}:app", "--url", f"sqlite:///{tmp_path}/foliot.db"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {script} cannot be imported\n")
    assert said in shown
    assert "foliot/target.py" not in shown
    assert "importlib" not in shown
