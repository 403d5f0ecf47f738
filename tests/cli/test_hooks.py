"""`foliot hooks`, as people and pipelines type it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cli.conftest import Shell
from foliot.ids import Ids
from foliot.model.job import NewJob
from foliot.model.lane import lane_of
from support.hooks import listener


def test_hooks_are_listed_with_what_they_listen_to(shell: Shell) -> None:
    hooks = [
        listener("job.dead", "page_ops", kinds=("charge", "refund"), queues=("mail",)),
        listener("worker.lost", "note", origin="shop.alarms"),
    ]
    assert shell("hooks", "list").out.split() == [
        "hook",
        "event",
        "kinds",
        "queues",
        "module",
        "since",
        "absent",
        "since",
    ]
    shell.ask(lambda store: store.events.listen(hooks))
    _, *lines = shell("hooks", "list").out.splitlines()
    assert [line.split(maxsplit=2)[:2] for line in lines] == [
        ["on.job.dead.page_ops", "job.dead"],
        ["on.worker.lost.note", "worker.lost"],
    ]
    assert "charge, refund" in lines[0]
    assert lines[1].split()[2:5] == ["all", "all", "shop.alarms"]
    [dead, lost] = shell("hooks", "list", "--json").json["hooks"]
    assert dead["since"].endswith("Z")
    since = datetime.fromisoformat(dead.pop("since"))
    assert timedelta() <= datetime.now(UTC) - since < timedelta(minutes=1)
    assert f"{since:%Y-%m-%d %H:%M:%SZ}" in lines[0]
    assert dead == {
        "hook": "on.job.dead.page_ops",
        "event": "job.dead",
        "kinds": ["charge", "refund"],
        "queues": ["mail"],
        "module": "shop",
        "absent_since": None,
    }
    assert (lost["kinds"], lost["queues"]) == ([], [])
    shell.ask(lambda store: store.events.settle(grace=600))  # nobody runs them
    [dead, _] = shell("hooks", "list", "--json").json["hooks"]
    since = datetime.fromisoformat(dead["absent_since"])
    assert dead["absent_since"].endswith("Z")
    assert shell("hooks", "list").out.splitlines()[1].endswith(f"{since:%Y-%m-%d %H:%M:%SZ}")


def test_a_hook_whose_code_is_gone_is_removed_and_who_did_it_is_written_down(shell: Shell) -> None:
    shell.ask(
        lambda store: store.events.listen([listener("job.dead", "a"), listener("job.dead", "b")])
    )
    orphan, other = [
        NewJob(Ids().job(), f"on.job.dead.{name}", b"{}", lane_of("hooks").number, queue="hooks")
        for name in "ab"
    ]
    shell.ask(lambda store: store.jobs.submit(0, [orphan, other]))
    answer = shell("hooks", "remove", "on.job.dead.a", "--by", "ada")
    assert (answer.code, answer.out) == (0, "removed on.job.dead.a\n")
    assert [one.hook for one in shell.ask(lambda store: store.events.listeners())] == [
        "on.job.dead.b"
    ]
    left = shell.ask(lambda store: store.jobs.live([orphan.id, other.id]))
    assert set(left) == {other.id}  # what it was still to be told is cancelled
    [deed] = shell.ask(lambda store: store.transfer.dump("audit", after=None, limit=10))
    assert (deed["actor"], deed["action"], deed["target"]) == ("ada", "remove", "on.job.dead.a")
    again = shell("hooks", "remove", "on.job.dead.a")
    assert (again.code, again.out) == (1, "")
    assert again.err.splitlines() == [
        "error: no hook is called 'on.job.dead.a'",
        "hint: did you mean on.job.dead.b?",
    ]
    far = shell("hooks", "remove", "TYPO\x1b[2J")
    assert far.err.splitlines() == [
        "error: no hook is called 'TYPO\\x1b[2J'",
        "hint: foliot hooks list shows those there are",
    ]
    assert shell("hooks", "remove", "\x1b[2J", "--json").json == {
        "hook": "\x1b[2J",
        "removed": False,
    }
