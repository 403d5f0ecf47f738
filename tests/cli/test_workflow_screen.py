"""`foliot workflows` on a terminal: what is drawn anew, what is folded, and how it is broken off."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Shell
from client.conftest import run_in_thread
from foliot import Foliot, WorkflowHandle
from support.fleet import eventually

ESCAPE = re.compile(r"\x1b[\[(][?\d;]*[a-zA-Z]|\x1b[=>]|\r")
SCREEN = "\x1b[?1049h"  # the screen that is left again


class Terminal:
    """A command that runs on a terminal of its own."""

    def __init__(self, url: str, *arguments: str, columns: int = 80, rows: int = 24) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        size = {"COLUMNS": str(columns), "LINES": str(rows)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "foliot", *arguments, "--url", url],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | size | {"TERM": "xterm-256color"},
        )
        os.close(theirs)
        self.raw = ""

    def read_until(self, text: str) -> None:
        while text not in ESCAPE.sub("", self.raw):
            self.raw += self._read()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        try:
            while piece := self._read():
                self.raw += piece
        except OSError:  # nobody is at the other end any more
            pass
        os.close(self._ours)
        return self._process.wait(30)

    @property
    def shown(self) -> str:
        return ESCAPE.sub("", self.raw)

    def _read(self) -> str:
        return os.read(self._ours, 65536).decode("utf-8", "replace")


class Lab:
    def __init__(self, app: Foliot) -> None:
        @app.job(max_attempts=1)
        def halve(number: int) -> int:
            if number == 13:
                raise ValueError("bad luck")
            return number // 2

        self.app, self.halve = app, halve

    def fan(self, count: int) -> WorkflowHandle:
        """Of which the thirteenth fails, and nothing else."""
        with self.app.workflow("fan", policy="continue") as flow:
            flow.map(self.halve, over=range(count), name="read")
        return flow

    def waiting(self) -> WorkflowHandle:
        with self.app.workflow("approval") as flow:
            number = flow.wait_for("approval")
            flow.add(self.halve.prepare(number.result))
        return flow


@pytest.fixture
def lab(shell: Shell) -> Iterator[Lab]:
    with Foliot(shell.url) as app:
        lab = Lab(app)
        stop = run_in_thread(app)
        eventually(lambda: shell.ask(lambda store: store.definitions.all()))
        yield lab
        stop()


def test_of_many_that_are_alike_only_those_that_matter_are_listed(shell: Shell, lab: Lab) -> None:
    flow = lab.fan(200)
    eventually(lambda: flow.status().final)
    folded = Terminal(shell.url, "workflows", "show", flow.id)
    assert folded.end() == 0
    assert "╒═" in folded.shown and "│ ✗ read × 200" in folded.shown
    lines = [line.split() for line in folded.shown.splitlines()]
    [failed] = [line for line in lines if line[:1] == ["read[13]"]]
    assert failed[1] == "dead" and flow["read[13]"].id[-8:] in failed
    assert not [line for line in lines if line[:1] == ["read[12]"]]
    assert "199 more that are alike are listed with --all" in folded.shown
    assert "\x1b[1;31m" in folded.raw, "a failure is red"
    whole = Terminal(shell.url, "workflows", "show", flow.id, "--all")
    assert whole.end() == 0
    assert sum(line.startswith(" read[") for line in whole.shown.splitlines()) == 200
    assert "--all" not in whole.shown


@pytest.mark.parametrize("columns", [80, 160])
def test_a_list_has_a_line_for_each_workflow_however_small_the_terminal(
    shell: Shell, lab: Lab, columns: int
) -> None:
    failed, paused = lab.fan(14), lab.waiting()
    eventually(lambda: failed.status().final)
    paused.pause("closed", by="ada")
    terminal = Terminal(shell.url, "workflows", "list", columns=columns)
    assert terminal.end() == 0
    lines = [line for line in terminal.shown.splitlines() if "paused" in line or "/15" in line]
    for line, flow in zip(lines, (paused, failed), strict=True):
        assert line.split()[0] == (flow.id if columns == 160 else flow.id[-8:])
        assert len(line) <= columns
    assert "1 failed" in lines[1] or columns == 160


@pytest.mark.parametrize(("columns", "times"), [(80, False), (160, True)])
def test_reasons_have_the_room_of_times_on_a_small_terminal(
    shell: Shell, lab: Lab, columns: int, times: bool
) -> None:
    flow = lab.fan(14)
    eventually(lambda: flow.status().final)
    terminal = Terminal(shell.url, "workflows", "show", flow.id, columns=columns)
    assert terminal.end() == 0
    assert ("started" in terminal.shown) is times
    [failed] = [line for line in terminal.shown.splitlines() if "read[13] " in line[:10]]
    assert f" {flow['read[13]'].id[-8:]}   ValueError: bad luck " in failed


def test_long_names_are_folded_behind_separators(shell: Shell, lab: Lab) -> None:
    with lab.app.workflow("fan") as flow:
        for name in ("read_all_of_the_customers.europe", "x" * 40):
            flow.add(lab.halve.prepare(26), name=name)
    eventually(lambda: flow.status().final)
    terminal = Terminal(shell.url, "workflows", "show", flow.id, columns=60)
    assert terminal.end() == 0
    table = terminal.shown.rpartition("────")[2].splitlines()[1:]
    parts = [line[:30].split()[0] for line in table if line[1:2].strip()]
    assert "".join(parts) == "read_all_of_the_customers.europe" + "x" * 40
    assert all(part.endswith(("_", ".", "europe", "x")) for part in parts), parts
    assert len(parts) > 3, "or nothing was folded"


def test_below_the_picture_it_says_why_nothing_happens(shell: Shell, lab: Lab) -> None:
    flow = lab.waiting()
    terminal = Terminal(shell.url, "workflows", "show", flow.id, "--watch", columns=120)
    terminal.read_until("step approval waits for the signal 'approval'")
    terminal.read_until("until it comes: foliot workflows signal")
    flow.signal("approval", 2)
    assert terminal.end() == 0
    assert "until it comes" not in terminal.shown.rpartition("id: ")[2], "no longer, in the end"


def test_a_watched_workflow_is_drawn_until_its_end_and_then_printed(shell: Shell, lab: Lab) -> None:
    flow = lab.waiting()
    terminal = Terminal(shell.url, "workflows", "show", flow.id, "--watch")
    terminal.read_until("waits for approval")
    flow.signal("approval", 84)
    assert terminal.end() == 0
    drawn, printed = terminal.raw.split("\x1b[?1049l")
    assert SCREEN in drawn and "approval   running · 0 of 2 steps done" in ESCAPE.sub("", drawn)
    text = ESCAPE.sub("", printed)
    assert f"id:             {flow.id}" in text and "succeeded · 2 steps" in text


def test_the_last_picture_of_a_wait_is_left(shell: Shell, lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "halves.toml"
    path.write_text(
        'name = "halves"\n[[steps]]\nname = "half"\nkind = "halve"\n[steps.payload]\nnumber = 13\n'
    )
    terminal = Terminal(shell.url, "workflows", "submit", str(path), "--wait")
    assert terminal.end() == 1
    left = ESCAPE.sub("", terminal.raw.rpartition("\x1b[?1049l")[2])
    assert "halves   failed · 1 step · 1 failed" in left and "│ ✗ half" in left
    assert "✗ half dead: ValueError: bad luck" in left


def test_a_watch_that_is_broken_off_leaves_the_workflow_alone(shell: Shell, lab: Lab) -> None:
    flow = lab.waiting()
    terminal = Terminal(shell.url, "workflows", "show", flow.id, "--watch")
    terminal.read_until("waits for approval")
    terminal.interrupt()
    assert terminal.end() == 130
    assert terminal.raw.index("\x1b[?25h") and terminal.raw.index("\x1b[?1049l"), "as it was before"
    assert "Traceback" not in terminal.shown
    assert flow.status() == "running"


def test_a_picture_that_is_too_high_says_how_much_is_hidden(shell: Shell, lab: Lab) -> None:
    with lab.app.workflow("deep") as flow:
        last = flow.wait_for("approval")
        for number in range(30):
            last = flow.add(lab.halve.prepare(number), after=[last], name=f"step-{number}")
    terminal = Terminal(shell.url, "workflows", "show", flow.id, "--watch", rows=12)
    terminal.read_until("more lines")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "… 22 more lines" in terminal.shown and "step-29" not in terminal.shown


def test_a_wait_that_is_broken_off_says_that_the_workflow_goes_on(
    shell: Shell, lab: Lab, tmp_path: Path
) -> None:
    path = tmp_path / "approval.toml"
    path.write_text('name = "approval"\n[[steps]]\nname = "asked"\nwait_for = "approval"\n')
    terminal = Terminal(shell.url, "workflows", "submit", str(path), "--wait")
    terminal.read_until("waits for approval")
    terminal.interrupt()
    assert terminal.end() == 130
    [known] = lab.app.workflows()
    assert f"no longer waiting: the workflow goes on, {known.id}" in terminal.shown
    assert known.state == "running"


def test_where_there_is_only_ascii_the_picture_is_in_it(shell: Shell, lab: Lab) -> None:
    flow = lab.waiting()
    done = subprocess.run(
        [sys.executable, "-m", "foliot", "workflows", "show", flow.id, "--url", shell.url],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    text = done.stdout.decode("ascii")
    assert "| = approval           +-->| . halve   |" in text and "\\u" not in text
