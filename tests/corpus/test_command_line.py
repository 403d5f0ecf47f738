"""The command line: one line for what is wrong, one for what to do, the exit code, and never a traceback of ours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from corpus.conftest import Foliot_
from corpus.rows import row
from foliot.cli.main import COMMANDS
from foliot.cli.output import print_table

COMMAND = [sys.executable, "-m", "foliot"]


def _start(*arguments: str, directory: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(*arguments: str, directory: Path, **environment: str) -> tuple[int, str, str]:
    with _start(*arguments, directory=directory, **environment) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@row("L01")
def test_no_arguments_show_the_help(foliot: Foliot_) -> None:
    answer = foliot()
    assert (answer.code, "Usage: foliot" in answer.out) == (2, True)


@row("L02", "L03", "L10", "L79")
@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["wroker"], "there is no command wroker", "did you mean worker?"),
        (["config", "show", "--ulr", "x"], "--ulr", "did you mean --url?"),
        (["config", "show", "--url", ""], "store.url: '' is empty (--url)", ""),
        (["worker", "x:app", "--queues", ""], "worker.queues: '' holds an empty name", ""),
        (["x" * 1_000_000], "there is no command xxx", "commands: "),
        (["config", "show", "--url", "sqlite:///" + "x" * 1_000_000], "is too long", ""),
    ],
    ids=["command", "flag", "empty", "queue", "huge", "huge value"],
)
def test_a_mistake_is_told_in_a_line(
    foliot: Foliot_, arguments: list[str], error: str, hint: str
) -> None:
    answer = foliot(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert error in answer.err
    assert hint in answer.err
    assert len(answer.err) < 1000


@row("L14", "L15", "L77")
@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["preview", "* * * *"], "'* * * *' at character 8: has 4 fields", ""),
        (["create", "x", "tidy", "a.txt", "b.txt"], "'b.txt' is not name=value", "wants quotes"),
        (["preview", "0 0 30 2 *"], "'0 0 30 2 *' at character 5: never fires", ""),
    ],
)
def test_an_expression_that_is_none_is_told_with_its_place(
    foliot: Foliot_, arguments: list[str], error: str, hint: str
) -> None:
    answer = foliot("schedules", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert error in answer.err
    assert hint in answer.err


@row("L07", "L09")
@pytest.mark.parametrize("value", ["abc", "1.5", "1e3", "99999999999999999999", "-1", "٣"])
def test_a_number_is_a_number_within_bounds(foliot: Foliot_, value: str) -> None:
    answer = foliot("worker", "x:app", "--concurrency", value)
    assert answer.code == 2
    assert "is not a whole number between 1 and 100000" in answer.err or "between" in answer.err
    answer = foliot("bench", "drain", "--jobs", value)
    assert answer.code == 2
    assert "whole number" in answer.err
    assert "Traceback" not in answer.err


def test_every_number_of_every_command_is_read_so() -> None:
    """The library's own reading of `int` takes 1.5 for 1."""
    plain = []
    for path, (target, _) in COMMANDS.items():
        module, _, name = target.partition(":")
        given = _hints(getattr(import_module(module), name))
        for hint in list(given.values()):
            if is_dataclass(hint):
                given |= _hints(hint)
        plain += [f"{path} --{option}" for option, hint in given.items() if _is_plain(hint)]
    assert plain == []


def _hints(of: Any) -> dict[str, Any]:
    hints = get_type_hints(of, include_extras=True)
    return {option: hint for option, hint in hints.items() if option != "return"}


def _is_plain(hint: object) -> bool:
    return hint is int or (int in get_args(hint) and get_origin(hint) is not Annotated)


@row("L34")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://127.0.0.1:1/x", "Connection refused"),
        ("postgresql://nowhere.invalid/x", "nowhere.invalid"),
    ],
)
def test_a_server_that_is_not_there_is_named(foliot: Foliot_, url: str, said: str) -> None:
    for command in (["doctor"], ["db", "status"], ["db", "init"]):
        answer = foliot(*command, "--url", url)
        assert answer.code == 1
        assert said in answer.err
        assert "Traceback" not in answer.err


# Each in its own way: a table, a chart, the whole of a screen, bars.
_DRAWN = (
    ("jobs", "list"),
    ("stats",),
    ("top", "--once"),
    ("schedules", "forecast", "--hours", "2"),
)


@row("L46")
@pytest.mark.parametrize("command", [("config", "show"), *_DRAWN], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert _run("db", "init", directory=tmp_path)[0] == 0
    with _start(*command, directory=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@row("L47", "L69")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_end_does(tmp_path: Path, number: signal.Signals) -> None:
    """Two at once, with nothing to tell them apart but chance."""
    (tmp_path / "shop.py").write_text(_SHOP)
    workers = [_start("worker", "shop:app", directory=tmp_path) for _ in range(2)]
    for worker in workers:
        assert worker.stderr is not None
        while "ready: " not in (line := worker.stderr.readline()):
            assert line, "it ended before it was ready"
    for worker in workers:
        worker.send_signal(number)
    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert "Traceback" not in err
        assert worker.returncode == 0


@row("L53", "P29", "P17")
def test_data_does_not_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "value"), [("\x1b[2J\x1b]0;x\x07", "a\u202eb\u200bc\n日本")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\u200b" not in out
    assert r"\x1b[2J\x1b]0;x\x07" in out
    assert len(out.splitlines()) == 2


@row("L54", "L55", "L57", "L58", "L61")
@pytest.mark.parametrize(
    "environment",
    [
        {"NO_COLOR": "1"},
        {"TERM": "dumb"},
        {"COLUMNS": "0"},
        {"COLUMNS": "1"},
        {"LC_ALL": "de_DE.UTF-8"},
        {"TZ": "Mars/Phobos"},
        {"TZ": ""},
        {"HOME": "/nonexistent"},
    ],
    ids=str,
)
def test_surroundings_change_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    """Not a terminal: no colour, whatever the width; numbers and times are written one way."""
    plain = _run("config", "show", directory=tmp_path)
    assert plain[0] == 0
    assert "\x1b" not in plain[1]
    assert _run("config", "show", directory=tmp_path, **environment) == plain


@row("L55")
@pytest.mark.parametrize("command", _DRAWN, ids=" ".join)
def test_a_width_that_cannot_be_hides_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert _run("db", "init", directory=tmp_path)[0] == 0
    for columns in ("0", "1"):
        code, out, err = _run(*command, directory=tmp_path, COLUMNS=columns)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        if "forecast" in command:  # an hour more where it has just struck
            assert len([line for line in lines if re.match("[A-Z][a-z]{2} [0-9:]{5}", line)]) >= 2
        else:
            assert out == _run(*command, directory=tmp_path)[1] != ""


_SHOP = """
from foliot import Foliot

app = Foliot("sqlite:///shop.db")

@app.job
def sell() -> None: ...
"""


@row("L65", "L66", "L67")
@pytest.mark.parametrize(
    ("code", "target", "said"),
    [
        (None, "nowhere:app", "there is no module nowhere"),
        (None, "no where", "names no module"),
        ("import missing_thing", "shop:app", "No module named 'missing_thing'"),
        ("def broken(:", "shop:app", "shop.py"),
        ("app = 3", "shop:app", "names no Foliot app"),
        ("from foliot import Foliot\napp = Foliot()", "shop:app", "has no jobs"),
        (
            _SHOP + "\n@app.job(kind='sell')\ndef other() -> None: ...",
            "shop:app",
            "is the name of shop.sell already and cannot be that of shop.other",
        ),
    ],
    ids=["module", "name", "import", "syntax", "attribute", "empty", "twice"],
)
def test_a_worker_whose_app_is_wrong_says_what(
    tmp_path: Path, code: str | None, target: str, said: str
) -> None:
    if code is not None:
        (tmp_path / "shop.py").write_text(code)
    status, _, err = _run("worker", target, directory=tmp_path)
    assert status in (1, 2)
    assert said in err
    assert "supervisor.py" not in err


@row("L59")
def test_a_file_that_is_there_is_only_overwritten_by_force(foliot: Foliot_, tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text('{"name": "etl", "steps": [{"name": "a", "kind": "load"}]}')
    draw = ("workflows", "graph", "flow.json", "--output", "flow.svg")
    assert foliot(*draw).code == 0
    (tmp_path / "flow.svg").write_text("kept")
    answer = foliot(*draw)
    assert answer.code == 2
    assert answer.err == (
        "error: output: 'flow.svg' is there already\nhint: --force overwrites it\n"
    )
    assert (tmp_path / "flow.svg").read_text() == "kept"
    assert foliot(*draw, "--force").code == 0
    assert (tmp_path / "flow.svg").read_text().startswith("<svg")
    assert foliot(*draw[:-1], "/dev/null", "--format", "svg").code == 0, "a device loses nothing"


@row("L73")
def test_upgrading_twice_at_once_is_harmless(tmp_path: Path) -> None:
    running = [_start("db", "upgrade", directory=tmp_path) for _ in range(3)]
    for process in running:
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    assert _run("db", "status", directory=tmp_path)[0] == 0


@row("K58")
def test_a_rate_of_nothing_is_refused(foliot: Foliot_) -> None:
    answer = foliot("limits", "set", "queue:mail", "--rate", "0/second")
    assert answer.code == 2
    assert "rate: '0/second' is not a number of starts per second, minute or hour" in answer.err
    assert answer.err.endswith(", for example --rate 100/minute\n")


def test_examples_are_as_they_are_typed(foliot: Foliot_) -> None:
    for arguments, said in (
        (["limits", "set", "queue:mail"], "--concurrency 5, or --rate 100/minute"),
        (["limits", "set", "queue:mail", "--concurrency", "-1"], "--concurrency 5"),
        (
            ["limits", "set", "queue:mail", "--concurrency", "1", "--burst", "3"],
            "--rate 100/minute --burst 10",
        ),
        (["queues", "pause", "mail", "--note", ""], "--note 'until the outage is over'"),
        (["jobs", "list", "--limit", "0"], "--limit 100"),
        (["submit", "send", "to"], "to=ada@example.org"),
    ):
        answer = foliot(*arguments, "--url", "sqlite:///:memory:")
        assert answer.code == 2
        assert f"for example {said}\n" in answer.err


def test_a_value_that_looks_like_an_option_is_named(foliot: Foliot_) -> None:
    for option, value, command in (
        ("--rate", "-5/second", ["limits", "set", "queue:mail"]),
        ("--for", "-5m", ["breakers", "open", "stripe"]),
    ):
        answer = foliot(*command, option, value)
        assert answer.code == 2
        assert answer.err == (
            f"error: {option}: {value!r} looks like another option\n"
            f"hint: if it is meant: {option}={value}\n"
        )
        answer = foliot(*command, f"{option}={value}")
        assert (answer.code, f": {value!r} is " in answer.err) == (2, True)
