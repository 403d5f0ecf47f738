"""`foliot submit`: arguments checked without the job's code, options as in Python, and waiting for the end."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Shell
from foliot import Foliot, commands
from foliot.ids import JobId
from foliot.model.job import Job, JobState
from support.fleet import eventually

CODE = """
import asyncio, logging
from foliot import Cancel, Foliot, current_job
app = Foliot()
@app.job(queue="mail", max_attempts=1)
async def send(to: str, copies: int = 1) -> dict:
    logging.getLogger("shop").warning("to %s", to)
    return {"to": to, "copies": copies}
@app.job(max_attempts=2)
async def broken() -> None:
    raise RuntimeError("out of paper")
@app.job
async def withdrawn() -> None:
    raise Cancel("not needed")
@app.job
async def endless() -> None:
    await asyncio.sleep(3600)
"""


@pytest.fixture
def known(shell: Shell) -> Shell:
    """A store to which an app has announced its kind `send`, and no worker."""
    app = Foliot(shell.url)

    @app.job(queue="mail")
    def send(to: str, copies: int = 1, urgent: bool | None = None) -> None: ...

    shell.ask(lambda store: commands.announce(store, app.registry))
    app.close()
    return shell


@pytest.fixture
def running(shell: Shell, tmp_path: Path) -> Iterator[Shell]:
    """A store with a worker that runs CODE."""
    (tmp_path / "tasks.py").write_text(CODE)
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "foliot", "up", "tasks:app", "--grace", "0s"],
            cwd=tmp_path,
            env=os.environ | {"FOLIOT_URL": shell.url, "FOLIOT_WORKER_POLL": "50ms"},
            stderr=output,
        )
    try:
        eventually(lambda: shell.ask(lambda store: store.definitions.all()), what=log.read_text)
        yield shell
    finally:
        process.terminate()
        process.wait(20)


def job(shell: Shell, id: str) -> Job:
    found = shell.ask(lambda store: store.jobs.get(JobId(id.strip())))
    assert found is not None
    return found


def test_where_nobody_has_announced_a_kind_it_says_to_start_a_worker(
    shell: Shell, tmp_path: Path
) -> None:
    flow = tmp_path / "flow.toml"
    flow.write_text('name = "flow"\n[[steps]]\nname = "a"\nkind = "double"\n')
    hint = "hint: no worker has announced any kind yet; start one: foliot worker module:app"
    for typed in (("submit", "double", "number=1"), ("workflows", "submit", str(flow))):
        answer = shell(*typed)
        assert answer.code == 2
        assert "no job of kind 'double' is registered" in answer.err
        assert hint in answer.err


def test_the_arguments_may_be_fields_json_a_file_or_stdin(
    known: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = '{"to":"ada","copies":3}'
    (tmp_path / "payload.json").write_text(payload)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(payload.encode())))
    for arguments in (
        ["to=ada", "copies=3"],
        ["--payload", payload],
        ["--payload", f"@{tmp_path / 'payload.json'}"],
        ["--payload", "-"],
    ):
        answer = known("submit", "send", *arguments)
        assert answer.code == 0, answer.err
        assert job(known, answer.out).payload == payload.encode()


def test_a_field_of_type_text_stays_text_and_others_are_json(known: Shell) -> None:
    answer = known("submit", "send", "to=42", "urgent=true")
    assert job(known, answer.out).payload == b'{"to":"42","urgent":true}'
    answer = known("submit", "send", "to=a=b")
    assert job(known, answer.out).payload == b'{"to":"a=b"}'


def test_every_option_arrives_at_the_job(known: Shell) -> None:
    answer = known(
        *("submit", "send", "to=ada", "--in", "10m", "--priority", "high", "--queue", "other"),
        *("--key", "order-42", "--tags", "vip, new", "--timeout", "30s", "--max-attempts", "7"),
        *("--expires", "1h", "--namespace", "shop", "--fair-key", "c7", "--json"),
    )
    found = job(known, answer.json["id"])
    assert found.state is JobState.SCHEDULED
    assert round((found.run_at - found.created_at).total_seconds()) == 600
    assert (found.priority, found.queue, found.key) == (1, "other", "order-42")
    assert (found.tags, found.timeout, found.max_attempts) == (("vip", "new"), 30.0, 7)
    assert (found.namespace, found.fair_key) == ("shop", "c7")
    assert found.expires_at is not None


def test_a_moment_has_its_time_zone(known: Shell) -> None:
    answer = known("submit", "send", "to=ada", "--at", "2990-01-31T09:00+01:00")
    assert job(known, answer.out).run_at.isoformat() == "2990-01-31T08:00:00+00:00"


def test_the_kinds_own_queue_and_defaults_hold_unless_said_otherwise(known: Shell) -> None:
    assert job(known, known("submit", "send", "to=ada").out).queue == "mail"


def test_a_job_comes_after_others_and_shares_a_limit(known: Shell) -> None:
    first, second = (known("submit", "send", "to=ada").out.strip() for _ in range(2))
    after = ("--after", first, "--after", second[-12:])
    id = known("submit", "send", "to=bob", *after, "--rule", "all_done", "--limit-key", "bob").out
    made = job(known, id)
    assert (made.state, made.extras.limit_key) == (JobState.WAITING, "bob")
    explained = known("jobs", "explain", id.strip()).out
    assert explained.startswith("waiting: 0 of its 2 parents have ended"), explained
    nobody = "01a1ecf4-0000-7000-8000-000000000000"
    for wrong, said in ((nobody, nobody), ("x", "'x' is not")):
        answer = known("submit", "send", "to=bob", "--after", wrong)
        assert answer.code != 0 and said in answer.err
    refused = known("submit", "send", "to=bob", "--rule", "all_done")
    assert (refused.code, refused.out) == (2, "") and "rule" in refused.err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["copies=3"], "payload lacks to"),
        (["too=ada"], "payload lacks to and has too, which is not known"),
        (["too=ada"], "did you mean to?"),
        (["to=ada", "copies=many"], "payload.copies: 'many' is not of type integer"),
        (["to=ada", "colour=red"], "colour"),
        (["to=ada", "to=bob"], "'to' is given twice"),
        (["ada"], "'ada' is not name=value"),
        (["to=ada", "--payload", "{}"], "cannot be given together with fields"),
        (["--payload", "[1]"], "is not an object"),
        (["--payload", "{"], "is not JSON"),
        (["--payload", "@nowhere.json"], "cannot be read"),
        (["to=ada", "--in", "soon"], "'soon' is not a duration"),
        (["to=ada", "--at", "tomorrow"], "'tomorrow' is not a moment"),
        (["to=ada", "--at", "2990-01-31T09:00"], "has no time zone"),
        (["to=ada", "--in", "1m", "--at", "2990-01-31T09:00Z"], "together with run_at"),
        (["to=ada", "--priority", "urgent"], "is not high, medium, low or a number"),
        (["to=ada", "--priority", "10"], "is not high, medium, low or a number"),
        (["to=ada", "--key-mode", "replace"], "needs a key"),
        (["to=ada", "--max-attempts", "0"], "is not a whole number from 1 to 1000"),
        (["to=ada", "--expires", "never"], "is not a duration"),
        (["to=ada", "--limit-key", "c:*"], "limit_key: 'c:*' ends with a *"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_submitted(
    known: Shell, arguments: list[str], error: str
) -> None:
    answer = known("submit", "send", *arguments)
    assert answer.code == 2
    assert error in answer.err
    assert not any(known.ask(lambda store: store.jobs.count()).values())


def test_a_kind_that_nobody_announced_is_told_with_the_nearest(known: Shell) -> None:
    answer = known("submit", "sent")
    assert answer.code == 2
    assert "did you mean send?" in answer.err


def test_waiting_prints_the_result_or_says_why_there_is_none(running: Shell) -> None:
    answer = running("submit", "send", "to=ada", "--wait")
    assert (answer.code, answer.out) == (0, '{"to":"ada","copies":1}\n')
    assert answer.err.startswith("submitted ")
    assert "warning: to ada\n" in answer.err

    failed = running("submit", "broken", "--wait")
    assert (failed.code, failed.out) == (1, "")
    assert "attempt 1 failed: RuntimeError: out of paper" in failed.err
    assert "is dead: RuntimeError: out of paper" in failed.err.splitlines()[-1]

    cancelled = running("submit", "withdrawn", "--wait", "--json")
    assert cancelled.code == 1
    assert cancelled.err == ""
    assert cancelled.json["state"] == "cancelled"
    told = running("submit", "send", "to=ada", "--wait", "--json").json
    assert (told["state"], told["result"]) == ("succeeded", {"to": "ada", "copies": 1})


def test_waiting_says_what_keeps_a_job_from_running(known: Shell) -> None:
    """Once: it is the same all the time."""
    command = [sys.executable, "-m", "foliot", "submit", "send", "to=ada", "--wait"]
    with subprocess.Popen(
        [*command, "--url", known.url], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        patience = threading.Timer(30, process.kill)  # for what is never said
        patience.start()
        id = process.stderr.readline().removeprefix("submitted ").strip()
        assert process.stderr.readline() == "ready: no worker is alive; it waits for one\n"
        assert process.stderr.readline() == "  until a worker starts: foliot worker module:app\n"
        time.sleep(4)
        patience.cancel()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == f"no longer waiting: the job goes on, {id}\n"


def test_a_wait_that_is_broken_off_leaves_the_job_alone(running: Shell) -> None:
    command = [sys.executable, "-m", "foliot", "submit", "endless", "--wait", "--url", running.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        id = process.stderr.readline().removeprefix("submitted ").strip()
        eventually(lambda: job(running, id).state is JobState.RUNNING)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == f"no longer waiting: the job goes on, {id}\n"
    assert job(running, id).state is JobState.RUNNING
    running.ask(lambda store: commands.cancel(store, id))
