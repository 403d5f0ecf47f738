"""`foliot top`: frames that fit, rates that are right, keys that end it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime

import pytest

from cli.conftest import Shell
from foliot.cli.frame import frame
from foliot.glance import Glance, rates
from foliot.ids import Ids
from foliot.model.job import JobState, Progress
from foliot.model.overview import ActiveJob, Failure, Loads, QueueLoad, Tally
from foliot.model.session import Session
from foliot.store.queueing import Queue

NOW = datetime(2026, 11, 18, tzinfo=UTC)
IDS = Ids(seed=1)


def glance(*, tally: Tally | None = None, running: int = 1, queues: int = 3) -> Glance:
    loads = [QueueLoad(queue=f"queue-{n}", ready=n) for n in range(queues)]
    loads[0].running = running
    return Glance(
        loads=Loads(loads, frozenset({JobState.READY})),
        queues=[Queue("queue-1", NOW, "ada", "the relay is down")],
        sessions=[
            Session(
                id=IDS.session(),
                host="a-host-with-a-long-name",
                pid=12345,
                version="0",
                queues=("mail", "reports"),
                kinds=(),
                duties=True,
                started_at=NOW,
                beat_at=NOW,
                expires_at=NOW,
                live=True,
                executing=3,
            )
        ],
        tally=tally or Tally(0, 0, 0, 0),
        dead=2,
        running=[
            ActiveJob(IDS.job(), "send", "mail", 1, None, 90.0, Progress(0.4, "rows"))
            for _ in range(running)
        ],
        failures=[
            Failure(IDS.job(), "charge", 2, "failed", "Traceback\nValueError: " + "x" * 200, 5.0)
            for _ in range(30)
        ],
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50), (50, 15), (40, 10)])
def test_a_frame_fits_and_its_columns_stand(width: int, height: int) -> None:
    lines = [line.plain for line in frame(glance(), None, url="x", width=width, height=height)]
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    heads = [line for line in lines if line.startswith("queue ")]
    assert [line.split()[:5] for line in heads] == [
        ["queue", "ready", "running", "scheduled", "held"]
    ]


def test_at_80_by_24_there_is_something_of_everything() -> None:
    lines = [line.plain for line in frame(glance(), None, url="x", width=80, height=24)]
    text = "\n".join(lines)
    for shown in ("queue-2", "2+", "paused by ada", "a-host-with-a-long-name:12345", "40% rows"):
        assert shown in text
    assert "failed: ValueError: xxx" in text


def test_what_does_not_fit_is_counted() -> None:
    lines = [
        line.plain
        for line in frame(glance(running=20, queues=30), None, url="x", width=80, height=24)
    ]
    more = [line for line in lines if line.endswith(" more")]
    assert len(more) == 2
    shown = sum(line.startswith("queue-") for line in lines)
    assert f"… {30 - shown} more" in more


def test_without_a_terminal_nothing_is_cut() -> None:
    seen = glance(running=20)
    text = "\n".join(line.plain for line in frame(seen, None, url="x", width=None, height=None))
    assert "x" * 200 in text
    assert all(job.id in text for job in seen.running)


def test_a_control_character_in_a_message_does_not_reach_the_terminal() -> None:
    seen = glance()
    seen.failures.insert(0, Failure(IDS.job(), "k", 1, "failed", "\x1b[2J", 1.0))
    text = "\n".join(line.plain for line in frame(seen, None, url="x", width=80, height=24))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_rates_are_differences() -> None:
    before = glance(tally=Tally(100, 50, 5, 10), running=4)
    after = glance(tally=Tally(120, 56, 7, 16), running=6)
    pace = rates(before, after, 2.0)
    assert (pace.submitted, pace.finished, pace.failed) == (10.0, 4.0, 3.0)
    assert pace.started == (2 + 6 + 6) / 2
    assert rates(after, before, 2.0).submitted == 0


def test_one_frame_is_printed_where_there_is_no_terminal(shell: Shell) -> None:
    shell.submit(3, queue="mail")
    answer = shell("top")
    assert answer.code == 0
    assert "ready 3" in answer.out
    assert "submitted 0.0/s" in answer.out
    told = shell("top", "--json").json
    assert told["states"]["ready"] == 3
    assert told["queues"][0]["queue"] == "mail"
    assert set(told) == {
        *("states", "at_least", "rates", "queues", "workers", "running", "failures")
    }


def test_q_ends_it_and_leaves_the_terminal_as_it_was(shell: Shell) -> None:
    shell.submit(3, queue="mail")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "foliot", "top", "--url", shell.url]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    ) as process:
        shown = b""
        while b"mail" not in shown:
            shown += os.read(ours, 65536)
        os.write(ours, b"xq")
        assert process.wait(20) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)
