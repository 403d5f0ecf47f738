"""`foliot jobs`, `foliot dead` and `foliot check`, as people and pipelines type them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from foliot.cli.main import main
from foliot.ids import JobId, partition_of
from foliot.model.job import End, Extras, JobState, More
from foliot.model.note import LogLine, NewLine
from foliot.store.port import Store
from foliot.testing.clock import ManualClock
from support.stores import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True),
]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def clock() -> ManualClock:
    """At what time it is: commands look at the real clock, for which noon may be still to come."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def run(world: World, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> Run:
    """A command against the world's store: exit code, stdout, stderr."""
    monkeypatch.setenv("FOLIOT_URL", world.place.settings.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        codes: list[int] = []
        thread = Thread(target=lambda: codes.append(main(arguments)))  # it has a loop of its own
        thread.start()
        thread.join(60)
        out, err = capfd.readouterr()
        return codes[0], out, err

    return run


async def bury(world: World, **fields: Any) -> JobId:
    session = await world.open_session()
    job = await world.run(session, **fields)
    await world.end(session, job, End.BURY, reason="failed", error="no", traceback="Trace:\n  x")
    return job.id


async def test_jobs_are_listed_by_a_filter(world: World, run: Run) -> None:
    dead, ready = await bury(world, kind="send_mail"), await world.submit(kind="send_mail")
    world.clock.advance(1)
    test = await world.submit(kind="send_mail", more=More(tags=("test",)))
    code, out, _ = run("jobs", "list", "kind:send_*", "-tag:test")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == sorted([dead, ready], reverse=True)
    code, out, _ = run("jobs", "list", "kind:send_* tag:test", "--json")
    answer = json.loads(out)
    assert [job["id"] for job in answer["jobs"]] == [test]
    assert answer["next"] is None and "payload" not in answer["jobs"][0]
    code, out, _ = run("dead", "list", "--json", "--payloads")
    assert [(job["id"], job["payload"]) for job in json.loads(out)["jobs"]] == [(dead, {})]
    assert run("jobs", "list", "kind:nothing")[1] == "none\n"
    assert run("dead", "list", "kind:nothing", "--json")[1] == '{"jobs":[],"next":null}\n'


async def test_a_run_of_a_schedule_says_so(world: World, run: Run) -> None:
    at = int(datetime(2027, 1, 31, 9, tzinfo=UTC).timestamp())
    extras = Extras(schedule="nightly", nominal=at, ignore_result=True)
    id = await world.submit(more=More(extras=extras))
    by_hand = await world.submit(more=More(extras=Extras(schedule="other")))
    await world.submit()
    _, out, _ = run("jobs", "list", "schedule:night*")
    [line] = out.splitlines()[1:]
    assert line.startswith(id) and line.endswith("run of nightly")
    _, out, _ = run("jobs", "show", id)
    assert "schedule:       nightly\nnominal_at:     2027-01-31 09:00:00Z\n" in out
    assert 'extras:         {"ignore_result":true}\n' in out
    _, out, _ = run("jobs", "show", by_hand)
    assert "schedule:       other\nnominal_at:     none: it was run by hand\n" in out
    assert "extras:" not in out
    [told] = json.loads(run("jobs", "list", "schedule:nightly", "--json")[1])["jobs"]
    assert (told["schedule"], told["nominal_at"]) == ("nightly", "2027-01-31T09:00:00Z")


async def test_pages_say_how_to_go_on(world: World, run: Run) -> None:
    ids = sorted(await world.submit_many(3), reverse=True)
    _, out, _ = run("jobs", "list", "--limit", "2")
    assert out.splitlines()[-1] == f"more with: --after {ids[1]}"
    _, out, _ = run("jobs", "list", "--limit", "2", "--after", ids[1], "--json")
    assert [job["id"] for job in json.loads(out)["jobs"]] == [ids[2]]


async def test_jobs_are_counted(world: World, run: Run) -> None:
    await world.submit_many(3)
    await bury(world, queue="other")
    assert run("jobs", "count")[1] == "4\n"
    assert run("dead", "count")[1] == "1\n"
    assert json.loads(run("jobs", "count", "state:ready", "--json")[1]) == {
        "count": 3,
        "exact": True,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs", "list", "state:daed"], "did you mean dead?"),
        (["jobs", "list", "--limt", "5"], "'--limt' is an option that this command does not have"),
        (["jobs", "list", "--limit", "0"], "limit: 0"),
        (["jobs", "list", "--after", "x"], "after: 'x'"),
        (["jobs", "show", "x"], "is not a job's id"),
        (["jobs", "cancel"], "name jobs, or a filter"),
        (["jobs", "cancel", "--filter", "", "--yes"], "filter is empty"),
        (["jobs", "cancel", "x", "--filter", "kind:a"], "cannot be given together with ids"),
        (["jobs", "cancel", "x", "--rate", "5"], "belong to --filter"),
        (["dead", "purge", "--filter", "kind:a"], "--yes is missing"),
        (["dead", "retry", "--filter", "kind:a", "--payload", "{}"], "is for one job"),
        (["dead", "retry", "--filter", "kind:a", "--rate", "-1", "--yes"], "rate: -1"),
    ],
)
async def test_a_mistake_is_told_and_changes_nothing(
    world: World, run: Run, arguments: list[str], said: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err


async def test_a_job_is_shown_whole_and_cannot_drive_the_terminal(world: World, run: Run) -> None:
    id = await bury(world, payload=json.dumps({"a": "x" * 500, "b": "\x9b31m"}).encode(), key="k")
    code, out, _ = run("jobs", "show", id)
    assert code == 0
    assert "x" * 500 in out and "\x9b" not in out
    for words in ("state:          dead", "key:            k", "attempt 1 failed", "Trace:"):
        assert words in out
    answer = json.loads(run("dead", "show", id, "--json")[1])
    assert answer["job"]["payload"]["a"] == "x" * 500
    assert [attempt["error"] for attempt in answer["attempts"]] == ["no"]
    assert answer["audit"] == []


async def test_the_beginning_of_an_id_is_enough_if_there_is_one_such(
    world: World, run: Run
) -> None:
    id = await world.submit()
    world.clock.advance(3600)
    others = await world.submit_many(2)
    assert json.loads(run("jobs", "show", id[:9], "--json")[1])["job"]["id"] == id
    code, _, err = run("jobs", "show", others[0][:9])
    assert code == 2 and "several ids" in err and others[1] in err
    code, _, err = run("jobs", "show", "00000000")
    assert code == 1 and "no job has the id" in err


async def test_the_end_of_an_id_is_enough_if_there_is_one_such(world: World, run: Run) -> None:
    """That is what top and demo show."""
    id = await world.submit()
    await world.submit_many(2)
    for end in (id[-8:], id[-12:].upper(), id[-17:], id[-20:]):
        assert json.loads(run("jobs", "show", end, "--json")[1])["job"]["id"] == id
    twin = msgspec.structs.replace(world.new_job(), id=JobId(world.ids.job()[:-8] + id[-8:]))
    await world.store.jobs.submit(partition_of(twin.id, world.store.partitions), [twin])
    code, out, err = run("jobs", "cancel", id[-8:], "--yes")
    assert (code, out) == (2, "")
    assert "is the end of several ids" in err and twin.id in err and id in err
    assert await world.state(id) is JobState.READY
    assert run("jobs", "show", id[-7:])[0] == 2


async def test_a_job_is_explained(world: World, run: Run) -> None:
    id = await world.submit(queue="mail")
    nobody = run("jobs", "explain", id)[1].splitlines()
    assert nobody[0] == "ready: no worker is alive; it waits for one"
    assert nobody[1].startswith("  since 20")
    assert nobody[2:] == ["  until a worker starts: foliot worker module:app"]
    [alone] = json.loads(run("jobs", "explain", id, "--json")[1])["reasons"]
    assert alone["since"].startswith(nobody[1][8:18])
    nobody[0] = nobody[0].removeprefix("ready: ")
    run("queues", "pause", "mail")
    said = run("jobs", "explain", id)[1].splitlines()
    assert said[0].startswith("ready: the queue 'mail' was paused by ")
    assert said[1].startswith("  since 20")
    assert said[2] == "  until foliot queues resume mail"
    assert said[3:] == nobody
    reason, _ = json.loads(run("jobs", "explain", id, "--json")[1])["reasons"]
    assert (reason["why"], reason["change"]) == (said[0][7:], said[2][8:])
    assert reason["since"].startswith(said[1][8:18])


async def test_the_log_of_a_job_is_shown_and_cannot_drive_the_terminal(
    world: World, run: Run
) -> None:
    id = await bury(world)
    at = world.clock.now()
    said = ["one\nand more", "\x1b[2Jtwo"]
    lines = [NewLine(id, 1, n, 1, at, "INFO", "shop", text) for n, text in enumerate(said, 1)]
    await world.store.logs.write(world.partition, lines)
    when = at.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    expected = [f"{when} INFO     shop: one", "    and more", f"{when} INFO     shop: \\x1b[2Jtwo"]
    assert run("jobs", "logs", id)[1].splitlines() == expected
    assert run("jobs", "logs", id, "--follow")[1].splitlines() == expected
    answer = json.loads(run("jobs", "logs", id, "--json")[1])
    assert [line["message"] for line in answer["lines"]] == said
    followed = run("jobs", "logs", id, "--json", "--follow")[1].splitlines()
    assert [json.loads(line)["message"] for line in followed] == said


async def test_a_log_is_followed_until_the_job_has_ended(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.cli.jobs._LOOK", 0.01)
    id = await world.submit()
    looks: list[int] = []

    async def end(store: Store, job: str) -> list[LogLine]:
        looks.append(len(looks))
        if len(looks) == 2:
            await store.jobs.cancel(world.partition, [id])
        return [LogLine(1, n, world.clock.now(), "INFO", "shop", f"line {n}") for n in looks]

    monkeypatch.setattr("foliot.commands.logs", end)
    _, out, _ = run("jobs", "logs", id, "--follow")
    assert [line.rpartition(": ")[2] for line in out.splitlines()] == ["line 0", "line 1", "line 2"]


async def test_a_job_is_changed_before_it_starts(world: World, run: Run) -> None:
    # Far ahead: the command looks at the clock on the wall, which is not the world's.
    id = await world.submit(run_at=datetime(2100, 1, 1, tzinfo=UTC))
    code, out, err = run("jobs", "change", id, "--priority", "high", "--tags", "a,b", "--by", "ada")
    assert (code, out) == (0, f"changed: {id} is scheduled\n"), err
    job = await world.get(id)
    assert (job.priority, job.tags) == (1, ("a", "b"))
    [told] = [one for one in run("jobs", "show", id)[1].splitlines() if "change by ada at" in one]
    assert told.endswith('Z, priority: 1, tags: ["a","b"]')
    answer = json.loads(run("jobs", "change", id, "--in", "0s", "--queue", "mail", "--json")[1])
    assert answer["id"] == id
    assert (await world.get(id)).queue == "mail"
    newest, oldest = await world.store.audit.list(target=id)
    assert (oldest.action, oldest.detail) == ("change", {"priority": 1, "tags": ["a", "b"]})
    assert newest.detail == {"delay": 0.0, "queue": "mail"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "says nothing to change"),
        (["--priority", "urgent"], "is not high, medium, low"),
        (["--priority", "10"], "priority: 10"),
        (["--in", "soon"], "--in: 'soon'"),
        (["--at", "2027-01-01"], "is not a time with its zone"),
        (["--at", "2027-01-01T09:00Z", "--in", "5m"], "together"),
        (["--payload", "[]"], "payload"),
    ],
)
async def test_a_mistake_in_a_change_is_told(
    world: World, run: Run, arguments: list[str], said: str
) -> None:
    id = await world.submit()
    before = await world.get(id)
    code, _, err = run("jobs", "change", id, *arguments)
    assert code == 2 and said in err
    assert await world.get(id) == before


async def test_what_has_ended_is_not_changed(world: World, run: Run) -> None:
    id = await bury(world)
    code, _, err = run("jobs", "change", id, "--priority", "high")
    assert code == 1 and "dead" in err
    assert await world.store.audit.list() == []


async def test_jobs_are_cancelled_by_id(world: World, run: Run) -> None:
    first, second = await world.submit(), await world.submit()
    assert run("jobs", "cancel", first, "--dry-run")[1] == "would be cancelled: 1\n"
    assert await world.state(first) == "ready"
    assert run("jobs", "cancel", first, second, "--by", "ada")[:2] == (0, "cancelled: 2\n")
    assert await world.state(first) == await world.state(second) == "cancelled"
    assert "cancel by ada at" in run("jobs", "show", first)[1]


async def test_a_running_job_is_said_to_be_asked_not_cancelled(world: World, run: Run) -> None:
    session = await world.open_session()
    running = (await world.run(session)).id
    assert run("jobs", "cancel", running)[:2] == (0, "asked to end: 1, still running\n")
    code, out, _ = run("jobs", "cancel", running, await world.submit())
    assert (code, out) == (0, "cancelled: 1\nasked to end: 1, still running\n")
    answer = json.loads(run("jobs", "cancel", running, "--json")[1])
    assert (answer["changed"], answer["still_running"]) == (1, 1)


async def test_running_jobs_of_a_filter_are_said_to_be_asked(world: World, run: Run) -> None:
    session = await world.open_session()
    await world.run(session)
    await world.submit_many(2)
    code, out, _ = run("jobs", "cancel", "--filter", "kind:echo", "--yes")
    assert (code, out) == (0, "cancelled: 2\nasked to end: 1, still running\n")


async def test_what_has_ended_is_not_said_to_be_cancelled(world: World, run: Run) -> None:
    id = await bury(world)
    code, out, err = run("jobs", "cancel", id)
    assert (code, out) == (1, "cancelled: 0\n")
    assert err == f"refused: {id}: job {id} is dead already\n"


async def test_dead_jobs_are_retried_and_purged_by_id(world: World, run: Run) -> None:
    first, second = await bury(world), await bury(world)
    ready = await world.submit()
    code, out, err = run("dead", "retry", first, ready)
    assert (code, out) == (1, "retried: 1\n"), "one that cannot does not keep the others from it"
    assert f"refused: {ready}: job {ready} is ready" in err
    code, out, _ = run("dead", "purge", second, "--json")
    assert code == 0
    assert json.loads(out) == {"changed": 1, "ids": [second], "refused": {}, "refused_count": 0}
    assert await world.store.jobs.get(second) is None


async def test_a_payload_is_mended(world: World, run: Run) -> None:
    id = await bury(world, payload=b'{"a": "x"}')
    for wrong in ("[1]", "{", "a"):
        code, _, err = run("dead", "retry", id, "--payload", wrong)
        assert code == 2 and "payload" in err
    assert run("jobs", "retry", id, "--payload", '{"a": 1}')[0] == 0
    assert (await world.get(id)).payload == b'{"a":1}'


async def test_a_filter_changes_what_it_means_once_that_is_confirmed(
    world: World, run: Run
) -> None:
    ids = [await bury(world, kind="a") for _ in range(3)]
    other = await bury(world, kind="b")
    code, out, err = run("dead", "retry", "--filter", "kind:a", "--dry-run")
    assert (code, out) == (0, "would be retried: at most 3\n")
    assert "steps of workflows are refused" in err
    answer = json.loads(run("dead", "retry", "--filter", "kind:a", "--dry-run", "--json")[1])
    assert answer == {"changed": 0, "meant": 3, "exact": True}
    assert run("dead", "retry", "--filter", "kind:a")[0] == 2
    assert await world.state(ids[0]) == "dead"
    code, out, _ = run("dead", "retry", "--filter", "kind:a", "--limit", "2", "--yes")
    assert (code, out) == (0, "retried: 2\n")
    code, out, _ = run("dead", "purge", "--filter", "kind:*", "--yes", "--rate", "1000", "--json")
    assert json.loads(out)["changed"] == 2
    assert await world.store.jobs.get(other) is None


def on_a_terminal(world: World, answer: str) -> tuple[int, bytes]:
    primary, secondary = pty.openpty()
    foliot = subprocess.Popen(
        [sys.executable, "-m", "foliot", "jobs", "cancel", "--filter", "kind:echo"],
        stdin=secondary,
        stdout=subprocess.PIPE,
        stderr=secondary,
        env={**os.environ, "FOLIOT_URL": world.place.settings.url},
    )
    asked = b""
    while b"[y/N]" not in asked:
        asked += os.read(primary, 1000)
    assert b"cancel 1 jobs in" in asked
    os.write(primary, answer.encode() + b"\n")
    out, _ = foliot.communicate(timeout=30)
    os.close(primary)
    os.close(secondary)
    return foliot.returncode, out


@pytest.mark.parametrize(("answer", "code", "state"), [("y", 0, "cancelled"), ("", 1, "ready")])
async def test_on_a_terminal_it_is_asked(
    world: World, run: Run, answer: str, code: int, state: str
) -> None:
    id = await world.submit()
    found, out = on_a_terminal(world, answer)
    assert found == code
    assert await world.state(id) == state
    assert out == (b"cancelled: 1\n" if code == 0 else b"")


APP = """
from foliot import Foliot
app = Foliot()

@app.job
def echo(number: int = 0) -> int:
    return number

@app.job(version=2)
def grow(to: str) -> None: ...

@grow.upgrade(1)
def from_one(payload):
    return {"to": payload["recipient"]}
"""


@pytest.fixture
def checked_app(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checked_app.py").write_text(APP)


async def test_a_pipeline_learns_what_an_app_could_not_run(
    world: World, run: Run, checked_app: None, monkeypatch: Any
) -> None:
    await world.submit(payload=b'{"number": 1}')
    assert run("check", "checked_app.py:app")[:2] == (0, "everything fits\nchecked: 1 jobs\n")
    wrong = [await world.submit(payload=b'{"number": "x"}', delay=60) for _ in range(2)]
    unknown = await world.submit(kind="gone")
    await bury(world, kind="gone", queue="other")
    code, out, _ = run("check", "checked_app.py:app")
    assert code == 1
    assert "Expected `int`, got `str`" in out and "unknown kind" in out
    code, out, _ = run("check", "checked_app.py:app", "--dead", "--json")
    answer = json.loads(out)
    assert (code, answer["ok"], answer["checked"], answer["complete"]) == (1, False, 5, True)
    found = {m["problem"].split(":")[0]: m for m in answer["unfit"]}
    assert found["unfitting payload"]["examples"] == wrong[::-1]
    assert found["unknown kind"]["count"] == 2
    assert unknown in found["unknown kind"]["examples"]


async def test_a_check_brings_older_payloads_up_to_date(
    world: World, run: Run, checked_app: None
) -> None:
    more = More(extras=Extras(version=2))
    await world.submit(kind="grow", payload=b'{"recipient": "ada"}')
    await world.submit(kind="grow", payload=b'{"to": "ada"}', more=more)
    assert run("check", "checked_app.py:app")[0] == 0
    await world.submit(kind="grow", payload=b'{"reader": "ada"}')
    await world.submit(kind="grow", payload=b'{"recipient": "ada"}', more=more)
    await world.submit(kind="grow", payload=b"{}", more=More(extras=Extras(version=3)))
    code, out, _ = run("check", "checked_app.py:app", "--json")
    assert code == 1
    found = [(one["version"], one["count"]) for one in json.loads(out)["unfit"]]
    assert found == [(1, 1), (2, 1), (3, 1)]


async def test_a_check_that_is_not_complete_says_so(
    world: World, run: Run, checked_app: None, monkeypatch: Any
) -> None:
    monkeypatch.setattr("foliot.fitting.CHECK_CAP", 2)
    await world.submit_many(3)
    code, out, _ = run("check", "checked_app.py:app")
    assert code == 0
    assert "checked: 2 jobs\nthere are more" in out
