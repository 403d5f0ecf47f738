"""`foliot limits`: what is set, how much of it is used, and who waits."""

from __future__ import annotations

import re

import pytest

from cli.conftest import Shell
from foliot.ids import Ids
from foliot.model.job import Extras, More
from foliot.model.lane import lane_of
from foliot.model.session import NewSession
from foliot.store.port import Share, Store


async def _claim(store: Store) -> None:
    """As a worker that takes what it can."""
    session = Ids().session()
    new = NewSession(
        id=session, host="h", pid=1, version="0", queues=(), kinds=("echo",), duties=False
    )
    await store.sessions.open(new, lease=60)
    shares = [Share(lane_of(queue), 100) for queue in ("default", "mail")]
    await store.jobs.finish_and_claim(0, session, shares=shares, room=100)


def _submit(shell: Shell, count: int, key: str, namespace: str = "default") -> None:
    shell.submit(count, more=More(extras=Extras(limit_key=key)), namespace=namespace)


def test_a_limit_is_set_shown_and_deleted(shell: Shell) -> None:
    first = shell(
        "limits", "set", "queue:mail", "--concurrency", "2", "--note", "the contract", "--by", "ann"
    )
    assert (first.code, first.out) == (0, "set queue:mail\n")
    again = shell("limits", "set", "queue:mail", "--concurrency", "2", "--note", "the contract")
    assert again.out == "queue:mail is as it was\n"
    shell.submit(5, queue="mail")
    shell.ask(_claim)
    header, mail = shell("limits", "list").out.splitlines()
    assert header.split() == ["limit", "running", "rate", "tokens", "waiting", "set", "by", "note"]
    assert mail.split() == ["queue:mail", "2/2", "3", "ann", "the", "contract"]
    [told] = shell("limits", "list", "--json").json["limits"]
    assert (told["name"], told["concurrency"], told["used"], told["waiting"]) == (
        "queue:mail",
        2,
        2,
        3,
    )
    assert "counted" not in told, "that is between the store and its workers"
    gone = shell("limits", "delete", "queue:mail")
    assert (gone.code, gone.out) == (0, "deleted queue:mail\n")
    late = shell("limits", "delete", "queue:mail", "--json")
    assert (late.code, late.json) == (1, {"name": "queue:mail", "deleted": False})
    assert shell("limits", "list", "--json").json == {"limits": []}


def test_a_limit_that_is_not_there_is_named_with_what_is_meant(shell: Shell) -> None:
    shell("limits", "set", "queue:mail", "--concurrency", "2")
    near, far = shell("limits", "delete", "queue:mial"), shell("limits", "delete", "key:x")
    assert (near.code, far.code) == (1, 1)
    assert near.err == "error: no limit is called 'queue:mial'\nhint: did you mean queue:mail?\n"
    assert (
        far.err
        == "error: no limit is called 'key:x'\nhint: foliot limits list shows those there are\n"
    )


def test_a_rate_is_shown_as_it_was_given(shell: Shell) -> None:
    for rate, shown, burst in (
        ("100/minute", "100/minute", "1"),
        ("50 per second", "50/second", "5"),
    ):
        assert shell("limits", "set", "kind:send", "--rate", rate).code == 0
        line = shell("limits", "list").out.splitlines()[1]
        assert line.split() == ["kind:send", "0", shown, f"{burst}/{burst}", "0", line.split()[-1]]
    told = shell("limits", "set", "kind:send", "--rate", "7/h", "--burst", "3", "--json").json
    assert (told["changed"], told["rate"], told["burst"]) == (True, "7/hour", 3)


def test_what_is_left_of_a_rate_is_shown_and_when_the_next_may_start(shell: Shell) -> None:
    shell("limits", "set", "key:a", "--rate", "1/hour", "--burst", "5")
    _submit(shell, 4, "a")
    shell.ask(_claim)
    assert shell("limits", "list").out.splitlines()[1].split()[:5] == [
        *("key:a", "4", "1/hour", "1/5", "0"),
    ]
    _submit(shell, 3, "a")
    shell.ask(_claim)
    line = shell("limits", "list").out.splitlines()[1]
    assert re.search(r"  1/hour  0/5, next in (59m\d\ds|1h00m)  2  ", line)
    [told] = shell("limits", "list", "--json").json["limits"]
    assert (told["tokens"], told["wait"]) == (
        pytest.approx(0, abs=0.1),
        pytest.approx(3600, abs=60),
    )


def test_what_is_left_of_the_rate_of_many_keys_is_shown_of_each(shell: Shell) -> None:
    shell("limits", "set", "key:*", "--rate", "1/hour", "--burst", "2")
    _submit(shell, 1, "a")
    _submit(shell, 3, "b")
    shell.ask(_claim)
    all_, b, a = shell("limits", "list").out.splitlines()[1:]
    assert all_.split()[:6] == ["key:*", "3", "1/hour", "2", "each", "1"]
    assert b.split()[:3] == ["key:b", "2", "0/2,"]
    assert a.split() == ["key:a", "1", "1/2"]


def test_the_busiest_keys_of_a_pattern_follow_it(shell: Shell) -> None:
    shell("limits", "set", "key:customer:*", "--concurrency", "2")
    _submit(shell, 3, "customer:1")
    _submit(shell, 1, "customer:2")
    _submit(shell, 3, "customer:1", "shop")
    shell.ask(_claim)
    first, *keys = shell("limits", "list").out.splitlines()[1:]
    assert first.split()[:5] == ["key:customer:*", "5", "(2", "each)", "2"]
    assert [" ".join(line.split()) for line in keys] == [
        "key:customer:1 2/2",
        "key:customer:1 in namespace shop 2/2",
        "key:customer:2 1/2",
    ]


def test_those_who_wait_for_a_limit_of_nothing_are_counted(shell: Shell) -> None:
    shell("limits", "set", "key:*", "--concurrency", "0")
    _submit(shell, 3, "a")
    shell.ask(_claim)
    [told] = shell("limits", "list", "--json").json["limits"]
    assert (told["used"], told["waiting"]) == (0, 3)


def test_a_raised_limit_lets_those_who_wait_go_on_at_once(shell: Shell) -> None:
    shell("limits", "set", "queue:default", "--concurrency", "1")
    shell.submit(3)
    shell.ask(_claim)
    told = shell("limits", "set", "queue:default", "--concurrency", "3", "--json").json
    assert (told["used"], told["waiting"]) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mail", "--concurrency", "1"], "'mail' is no scope and name"),
        (["queu:mail", "--concurrency", "1"], "queue"),
        (["queue:", "--concurrency", "1"], "limit: 'queue:' is not 1 to 200 letters"),
        (["queue:a b", "--concurrency", "1"], "limit: 'queue:a b' is not 1 to 200 letters"),
        (["key:a*b", "--concurrency", "1"], "has a * that is not its end"),
        (["key:", "--concurrency", "1"], "limit: 'key:' is not printable text"),
        (["queue:mail"], "limits nothing"),
        (["queue:mail", "--concurrency", "-1"], "concurrency"),
        (["queue:mail", "--concurrency", "1.5"], "concurrency"),
        (
            ["queue:mail", "--concurrency", "9" * 20],
            "is not a whole number from 0 to 1000000000, for example --concurrency 5",
        ),
        (["queue:mail", "--concurrency", "9" * 500], "is not a whole number from 0 to 1000000000"),
        (["queue:mail", "--concurrency", "9" * 5000], "is not a whole number"),
        (
            ["queue:mail", "--rate", "0/minute"],
            "is not a number of starts per second, minute or hour",
        ),
        (["queue:mail", "--rate", "5/fortnight"], "is not a number of starts"),
        (["queue:mail", "--rate", "5"], "is not a number of starts"),
        (["queue:mail", "--rate", "1e99/second"], "is not a number of starts"),
        (["queue:mail", "--rate", f"{'9' * 400}/second"], "is not a number of starts"),
        (["queue:mail", "--concurrency", "1", "--burst", "3"], "needs a rate"),
        (["queue:mail", "--rate", "5/second", "--burst", "0"], "burst"),
        (["queue:mail", "--concurrency", "1", "--note", "\x00"], "note"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_would_be(
    shell: Shell, arguments: list[str], said: str
) -> None:
    answer = shell("limits", "set", *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert shell("limits", "list", "--json").json == {"limits": []}


def test_a_scope_without_a_name_is_not_told_what_it_has_said(shell: Shell) -> None:
    answer = shell("limits", "set", "queue", "--concurrency", "1")
    assert answer.code == 2
    assert "'queue' is no scope and name" in answer.err
    assert "did you mean" not in answer.err


def test_a_limit_of_what_nobody_knows_is_set_and_doubted(shell: Shell) -> None:
    shell.submit(1, queue="mail")
    told = "no kind goes to queue 'mial' so far, and no live worker serves it by name: did you mean mail?"
    answer = shell("limits", "set", "queue:mial", "--concurrency", "2")
    assert (answer.code, answer.out, answer.err) == (0, "set queue:mial\n", f"warning: {told}\n")
    answer = shell("limits", "set", "kind:send", "--concurrency", "2", "--json")
    assert answer.json["name"] == "kind:send"
    assert answer.err == "warning: no app has announced a kind 'send' so far\n"
    for name in ("queue:mail", "namespace:new", "key:new:*"):
        assert shell("limits", "set", name, "--concurrency", "2").err == ""
