"""`foliot queues`: what waits where, and pausing with a note and a name."""

from __future__ import annotations

import pytest

from cli.conftest import Shell
from foliot import Foliot, commands
from foliot.ids import Ids
from foliot.model.session import NewSession
from foliot.store.port import Store


def test_queues_are_listed_with_what_waits_in_them(shell: Shell) -> None:
    shell.submit(3, queue="mail")
    shell.submit(2, queue="reports", delay=60.0)
    answer = shell("queues", "list")
    assert answer.code == 0
    header, mail, reports = answer.out.splitlines()
    assert header.split()[:6] == ["queue", "order", "ready", "running", "scheduled", "held"]
    assert mail.split()[:6] == ["mail", "priority", "3", "0", "0", "0"]
    assert reports.split()[:6] == ["reports", "priority", "0", "0", "2", "0"]
    told = {queue["name"]: queue for queue in shell("queues", "list", "--json").json["queues"]}
    assert told["mail"]["ready"] == 3
    assert 0 <= told["mail"]["oldest_ready"] < 60
    assert told["reports"]["scheduled"] == 2


def test_queues_are_listed_before_they_have_jobs(shell: Shell) -> None:
    """Of kinds that an app has announced, and of workers that serve them by name."""
    app = Foliot(shell.url)

    @app.job(queue="mail")
    def send() -> None: ...

    async def prepare(store: Store) -> None:
        await commands.announce(store, app.registry)
        for name, lease in (("reports", 60.0), ("gone", -1.0)):
            session = NewSession(
                id=Ids().session(),
                host="h",
                pid=1,
                version="0",
                queues=(name,),
                kinds=(),
                duties=False,
            )
            await store.sessions.open(session, lease=lease)

    shell.ask(prepare)
    lines = shell("queues", "list").out.splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        ["mail", "priority", "0"],
        ["reports", "priority", "0"],
    ]
    told = shell("queues", "list", "--json").json["queues"]
    assert [(queue["name"], queue["ready"]) for queue in told] == [("mail", 0), ("reports", 0)]


def test_the_order_of_a_queue_is_listed_with_what_belongs_to_it(shell: Shell) -> None:
    aged = ("queues", "configure", "old", "--strategy", "aged", "--aging", "90s")
    assert shell(*aged).out == "configured old\n"
    assert shell(*aged).out == "old is as it was\n"
    fair = shell("queues", "configure", "fair", "--strategy", "round_robin", "--weights", "vip=3")
    assert fair.code == 0
    first, second = shell("queues", "list").out.splitlines()[1:]
    assert first.startswith("fair   round_robin, vip=3  0")
    assert second.startswith("old    aged, 1m30s a step  0")
    told = shell("queues", "list", "--json").json["queues"]
    assert [(queue["strategy"], queue["aging"]) for queue in told] == [
        ("round_robin", 60.0),
        ("aged", 90.0),
    ]


def test_a_paused_queue_says_since_when_by_whom_and_why(shell: Shell) -> None:
    assert shell("queues", "pause", "mail", "--note", "the relay is down", "--by", "ada").code == 0
    answer = shell("queues", "list")
    assert "by ada: the relay is down" in answer.out
    [mail] = shell("queues", "list", "--json").json["queues"]
    assert (mail["paused_by"], mail["note"]) == ("ada", "the relay is down")
    assert mail["paused_at"].endswith("Z")
    assert shell("queues", "resume", "mail").out == "resumed mail\n"
    assert "ada" not in shell("queues", "list").out
    deeds = shell.ask(lambda store: store.audit.list(target="mail"))
    assert [deed.action for deed in deeds] == ["resume", "pause"]
    assert deeds[1].actor == "ada"


def test_who_pauses_is_user_and_host_unless_said_otherwise(shell: Shell) -> None:
    paused = shell("queues", "pause", "mail", "--json").json
    user, _, host = paused["paused_by"].partition("@")
    assert user
    assert host


def test_resuming_what_was_not_paused_is_told_and_no_error(shell: Shell) -> None:
    answer = shell("queues", "resume", "mail")
    assert (answer.code, answer.out, answer.err) == (0, "", "mail was not paused\n")


@pytest.mark.parametrize(
    "arguments",
    [["--strategy", "random"], ["--aging", "soon"], ["--weights", "vip"], ["--weights", "vip=-1"]],
)
def test_an_order_that_there_is_not_is_refused(shell: Shell, arguments: list[str]) -> None:
    assert shell("queues", "configure", "mail", *arguments).code == 2
    assert shell("queues", "list", "--json").json["queues"] == []


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_name_that_no_queue_can_have_is_refused(shell: Shell, verb: str) -> None:
    answer = shell("queues", verb, "no spaces")
    assert answer.code == 2
    assert "queue: 'no spaces' is not 1 to 200" in answer.err
    assert shell("queues", "list", "--json").json["queues"] == []


def test_a_store_that_is_not_there_is_told_and_not_made(shell: Shell) -> None:
    shell.url += ".mistyped"
    answer = shell("queues", "list")
    assert answer.code == 1
    assert "there is no file" in answer.err
    assert shell("queues", "list").code == 1


def test_a_queue_that_nobody_knows_is_paused_and_doubted(shell: Shell) -> None:
    """It may be named before the first deployment; or be mistyped."""
    shell.submit(1, queue="mail")
    answer = shell("queues", "pause", "mial")
    assert (answer.code, answer.out) == (0, "paused mial\n")
    assert answer.err == (
        "warning: no kind goes to queue 'mial' so far, and no live worker serves it by name: did you mean mail?\n"
    )
    again = shell("queues", "pause", "mial", "--json")
    assert again.json["paused_at"] is not None
    assert "no kind goes to queue 'mial'" in again.err
    assert "'mial'" in shell("queues", "configure", "mial", "--strategy", "fifo").err
    assert shell("queues", "pause", "mail").err == ""


@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_a_queue_that_has_jobs_is_not_doubted(shell: Shell, delay: float) -> None:
    """Whatever state they are in: those that are scheduled are in it too."""
    shell.submit(3, queue="vip", delay=delay)
    shell.submit(3, queue="mail")
    assert shell("queues", "pause", "vip").err == ""
    assert shell("limits", "set", "queue:vip", "--concurrency", "2").err == ""


def test_a_queue_of_which_nothing_is_said_any_more_is_not_listed(shell: Shell) -> None:
    """Its name was mistyped when it was paused, which was taken back."""
    shell("queues", "pause", "reprots", "--note", "by mistake")
    assert "reprots" in shell("queues", "list").out
    shell("queues", "resume", "reprots")
    assert "reprots" not in shell("queues", "list").out
    assert shell("queues", "list", "--json").json["queues"] == []
    shell("queues", "configure", "reports", "--strategy", "fifo")
    shell("queues", "pause", "reports")
    shell("queues", "resume", "reports")
    assert "reports" in shell("queues", "list").out
