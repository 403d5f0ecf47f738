"""`foliot db copy` as an operator meets it; that every row arrives is tests/store/test_transfer.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Shell
from foliot.ids import Ids, JobId, partition_of
from foliot.model.session import NewSession
from foliot.store.port import Store
from support.stores import Databases


def test_a_store_moves_from_sqlite_to_postgres_and_back(
    shell: Shell, databases: Databases, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [first, *_] = shell.submit(1200, queue="mail")
    shell("queues", "pause", "mail", "--note", "moving")
    there = databases.server.create_database("copied")
    answer = shell("db", "copy", shell.url, there, "--partitions", "4", url=False)
    assert answer.code == 0, answer.err
    counts = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines()}
    assert counts["jobs"] == ["1200", "1200"]
    assert counts["queues"] == ["1", "1"]
    moved = Shell(there, capsys)
    [queue] = moved("queues", "list", "--json").json["queues"]
    assert (queue["ready"], queue["note"]) == (1200, "moving")
    assert partition_of(first, 4) < 4
    assert moved("top", "--json").json["states"]["ready"] == 1200
    assert moved("doctor").code == 1  # a server for tests is not durable
    job = moved.ask(lambda store: store.jobs.get(JobId(first)))
    assert job == shell.ask(lambda store: store.jobs.get(JobId(first)))

    back = f"sqlite:///{tmp_path}/back.db"
    told = shell("db", "copy", there, back, "--json", url=False).json
    assert told["complete"]
    assert {"table": "jobs", "rows": 1200, "arrived": 1200, "complete": True} in told["tables"]
    databases.server.drop_database("copied")


def test_a_target_that_is_not_empty_is_refused(shell: Shell, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path}/other.db"
    shell.submit()
    assert shell("db", "copy", shell.url, target, url=False).code == 0
    again = shell("db", "copy", shell.url, target, url=False)
    assert again.code == 1
    assert "is not empty: it has rows in jobs" in again.err


def test_nobody_may_work_on_the_store_unless_forced(shell: Shell, tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        session = NewSession(
            id=Ids().session(), host="here", pid=7, version="0", queues=(), kinds=(), duties=False
        )
        await store.sessions.open(session, lease=60)

    shell.ask(work)
    target = f"sqlite:///{tmp_path}/other.db"
    refused = shell("db", "copy", shell.url, target, url=False)
    assert refused.code == 1
    assert "1 processes work on" in refused.err
    assert "pid 7 on here" in refused.err
    assert shell("db", "copy", shell.url, target, "--force", url=False).code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["{url}", "{url}"], "is the source"),
        (["{url}", "mysql://x"], "mysql"),
        (["{url}", "{url}2", "--partitions", "0"], "is not a whole number from 1 to 1024"),
        (["{url}", "{url}2", "--url", "{url}"], "both stores are named"),
        (["{url}"], "foliot db copy needs TARGET"),
    ],
    ids=["itself", "engine", "partitions", "url", "missing"],
)
def test_a_mistake_is_told_before_anything_is_made(
    shell: Shell, arguments: list[str], error: str
) -> None:
    answer = shell("db", "copy", *(each.format(url=shell.url) for each in arguments), url=False)
    assert answer.code == 2
    assert error in answer.err
