"""`foliot workers` and `foliot doctor`: who is there, how they are, and what is wrong."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from cli.conftest import Answer, Shell
from foliot import Event, Foliot, commands, hook_sync
from foliot.ids import Ids, SessionId
from foliot.model.job import End, Outcome
from foliot.model.lane import lane_of
from foliot.model.session import NewSession
from foliot.store.living import Load
from foliot.store.port import Share, Store


def open_session(shell: Shell, *, lease: float = 60, note: str | None = None, **fields: Any) -> str:
    session = NewSession(
        id=Ids().session(),
        **{
            "host": "web-1",
            "pid": 4711,
            "version": "0",
            "queues": (),
            "kinds": ("echo",),
            "duties": True,
            "concurrency": 8,
            **fields,
        },
    )

    async def run(store: Store) -> None:
        await store.sessions.open(session, lease=lease)
        heart = store.sessions.heart(session.id, lease=lease)
        heart.extend([], Load(room=8, note=note))
        heart.close()

    shell.ask(run)
    return session.id


def hold(shell: Shell, session: str, reason: str) -> None:
    """A job that a worker has put aside."""
    shell.submit(kind="odd")

    async def run(store: Store) -> None:
        mine = SessionId(session)
        shares = [Share(lane_of("default"), 1)]
        cycle = await store.jobs.finish_and_claim(0, mine, shares=shares, room=1)
        [job] = cycle.claimed
        outcome = Outcome(job.id, job.fence, End.HOLD, reason=reason)
        await store.jobs.finish_and_claim(0, mine, outcomes=[outcome])

    shell.ask(run)


def found(answer: Answer) -> dict[str, tuple[str, str]]:
    return {each["what"]: (each["verdict"], each["value"]) for each in answer.json["findings"]}


def test_workers_are_listed_with_what_they_serve_and_how_they_are(shell: Shell) -> None:
    id = open_session(shell, queues=("mail",), capabilities=("gpu",))
    open_session(shell, pid=4712, note="the event loop has been blocked for 4 s")
    header, first, second = shell("workers", "list").out.splitlines()
    assert header.split()[:3] == ["id", "process", "version"]
    assert first.split()[:7] == [id, "web-1:4711", "0", "mail", "gpu", "1", "0/8"]
    assert first.split()[-1] == "well"
    assert second.endswith("sick: the event loop has been blocked for 4 s")
    told = shell("workers", "list", "--json").json["workers"]
    assert [worker["state"] for worker in told] == ["well", "sick"]
    assert "echo" in shell("workers", "list", "--kinds").out


@pytest.mark.parametrize("name", ["web-1:4711", "web-1", "{id}"])
def test_a_worker_is_drained_by_any_of_its_names(shell: Shell, name: str) -> None:
    id = open_session(shell)
    answer = shell("workers", "drain", name.format(id=id[:8]))
    assert (answer.code, answer.out) == (0, "draining web-1:4711, 0 running jobs\n")
    assert shell("workers", "list", "--json").json["workers"][0]["state"] == "draining"


def test_all_are_drained_only_when_that_is_said(shell: Shell) -> None:
    ids = [open_session(shell), open_session(shell, pid=2)]
    assert shell("workers", "drain").code == 2
    assert shell("workers", "drain", "web-1", "--all").code == 2
    assert shell("workers", "drain", "web-9").code == 2
    assert sorted(shell("workers", "drain", "--all", "--json").json["draining"]) == sorted(ids)


def test_a_store_in_order_has_nothing_bad(shell: Shell) -> None:
    open_session(shell)
    shell.submit(2)
    answer = shell("doctor")
    assert answer.code == 0, answer.out
    assert "bad" not in answer.out


def test_the_doctor_names_jobs_that_are_held_for_good(shell: Shell) -> None:
    session = open_session(shell)
    hold(shell, session, "unknown_kind")
    answer = shell("doctor", "--json")
    assert answer.code == 1
    assert answer.json["healthy"] is False
    assert found(answer)["held, unknown_kind"] == ("bad", "1 odd")


def test_the_doctor_names_a_sick_worker(shell: Shell) -> None:
    open_session(shell, note="the event loop has been blocked for 4 s")
    answer = shell("doctor", "--json")
    assert answer.code == 1
    assert found(answer)["worker web-1:4711"] == ("bad", "the event loop has been blocked for 4 s")


def test_a_full_worker_where_nothing_moves_is_named(shell: Shell) -> None:
    id = open_session(shell)
    open_session(shell, pid=4712)
    busy = [Ids().job() for _ in range(8)]

    async def run(store: Store) -> None:
        heart = store.sessions.heart(SessionId(id), lease=60)
        heart.extend(busy, Load(room=0, waiting=120))
        heart.close()

    shell.ask(run)
    assert "nothing moved" not in shell("workers", "list").out
    make_older(shell, 425)
    still = "nothing moved for 7m05s, 8 running, 120 waiting"
    assert shell("workers", "list").out.splitlines()[1].endswith(f"well: {still}")
    told = shell("workers", "list", "--json").json["workers"]
    assert [(worker["state"], worker["remark"]) for worker in told] == [
        ("well", still),
        ("well", None),
    ]
    answer = shell("doctor", "--json")
    assert (answer.code, found(answer)["worker web-1:4711"]) == (0, ("look", still))


def make_older(shell: Shell, seconds: int) -> None:
    """As if the workers had started that much earlier."""
    with sqlite3.connect(shell.url.removeprefix("sqlite:///")) as file:
        file.execute("UPDATE foliot_sessions SET started_at = started_at - ?", [seconds * 10**6])
    file.close()


def test_the_doctor_names_what_no_live_worker_can_take(shell: Shell) -> None:
    open_session(shell, queues=("mail",))
    shell.submit(queue="reports")
    answer = shell("doctor", "--json")
    assert answer.code == 1
    assert found(answer)["nobody takes"] == ("bad", "no live worker serves queue reports")


def test_the_doctor_names_what_is_overdue(shell: Shell) -> None:
    shell.submit(2)
    make_late(shell)
    answer = shell("doctor", "--json")
    assert answer.code == 1
    verdict, value = found(answer)["overdue"]
    assert verdict == "bad"
    assert value.startswith("2 jobs due and not made ready, the first for ")


def make_late(shell: Shell) -> None:
    """As if nobody had looked for a minute."""
    with sqlite3.connect(shell.url.removeprefix("sqlite:///")) as file:
        file.execute("UPDATE foliot_jobs SET state = 'scheduled', run_at = run_at - 60000000")
    file.close()


def test_the_doctor_names_paused_queues_and_kinds_without_a_worker(shell: Shell) -> None:
    app = Foliot(shell.url)

    @app.job
    def send() -> None: ...

    shell.ask(lambda store: commands.announce(store, app.registry))
    app.close()
    open_session(shell)
    shell("queues", "pause", "mail", "--note", "why", "--by", "ada")
    answer = shell("doctor", "--json")
    assert answer.code == 0
    told = found(answer)
    assert told["kinds without worker"] == ("look", "send")
    assert told["paused"][0] == "look"
    assert told["paused"][1].endswith("Z by ada: why")


def test_the_doctor_says_where_nobody_does_the_schedulers_duties(shell: Shell) -> None:
    open_session(shell, duties=False)
    open_session(shell, pid=4712, lease=0)  # it could, and is gone
    answer = shell("doctor", "--json")
    assert answer.code == 1
    [finding] = [one for one in answer.json["findings"] if one["what"] == "duties"]
    assert finding["verdict"] == "bad"
    assert finding["value"] == "no live process does the scheduler's duties"
    assert "foliot scheduler" in finding["advice"]
    open_session(shell, pid=4713, kinds=())
    answer = shell("doctor", "--json")
    assert (answer.code, "duties" in found(answer)) == (0, False)


def test_an_idle_store_has_nobody_who_should_do_duties(shell: Shell) -> None:
    answer = shell("doctor", "--json")
    assert (answer.code, "duties" in found(answer)) == (0, False)


def test_the_doctor_names_workflows_and_events_that_nobody_sees_to(shell: Shell) -> None:
    app = Foliot(shell.url)

    @app.on("job.cancelled")
    def tell(event: Event) -> None: ...

    @app.job
    def send() -> None: ...

    with app, app.workflow("order", deadline=0.001) as flow:
        flow.wait_for("payment")
    shell.ask(lambda store: hook_sync.sync_hooks(store, app.registry))
    with app:
        send.submit().cancel()
    with sqlite3.connect(shell.url.removeprefix("sqlite:///")) as file:
        file.execute("UPDATE foliot_outbox SET at = at - 60000000")
        file.execute("UPDATE foliot_workflows SET deadline_at = deadline_at - 60000000")
    file.close()
    answer = shell("doctor", "--json")
    told = [(one["what"], one["value"]) for one in answer.json["findings"]]
    assert ("overdue", "1 event not told to those who listen") in told
    assert ("overdue", "1 workflow past the deadline") in told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["tick"], "'tick' has not fired for 1m"),
        (["tick", "tock"], "'tick' and 1 more have not fired, the first for 1m"),
        (["tick", "tock", "tack"], "'tick' and 2 more have not fired, the first for 1m"),
    ],
)
def test_the_doctor_names_schedules_that_are_late_as_people_called_them(
    shell: Shell, names: list[str], told: str
) -> None:
    app = Foliot(shell.url)

    @app.job
    def send() -> None: ...

    with app:
        for name in names:
            app.schedule(name, send.prepare(), "every 2 seconds")
    with sqlite3.connect(shell.url.removeprefix("sqlite:///")) as file:
        file.execute("UPDATE foliot_triggers SET next_fire_at = next_fire_at - 62000000")
    file.close()
    answer = shell("doctor", "--json")
    verdict, value = found(answer)["schedules overdue"]
    assert verdict == "bad"
    first = value.split("'")[1]
    assert first in names
    assert value.replace(first, "tick").startswith(told)


def test_the_doctor_names_kinds_that_several_apps_have(shell: Shell) -> None:
    open_session(shell, modules=("shop",))
    open_session(shell, pid=4712, modules=("shop",))
    assert "kinds of several apps" not in found(shell("doctor", "--json"))
    open_session(shell, pid=4713, modules=("till",))
    answer = shell("doctor", "--json")
    verdict, told = found(answer)["kinds of several apps"]
    assert (answer.code, verdict) == (0, "look")
    where = "shop (web-1:4711, web-1:4712) and by till (web-1:4713)"
    assert told == f"echo is defined by {where}: its jobs go to any of them"
