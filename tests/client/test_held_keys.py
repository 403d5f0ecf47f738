"""A key that a caller's open transaction has used holds up those who submit under it, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from client.conftest import run_in_thread
from foliot import Foliot, JobState, commands, current_job
from foliot.client import sender
from foliot.errors import KeyHeld, StoreUnavailable
from foliot.model.job import KeyMode
from support.stores import Databases

LONG = 20  # seconds: whoever waits for the transaction waits longer
both = pytest.mark.parametrize("name", ["key", "idempotency_key"])


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with asyncio.Runner() as runner:
        borrowed = databases.borrow(1)
        yield databases.server.url(runner.run(borrowed.__aenter__()))
        runner.run(borrowed.__aexit__(None, None, None))


@pytest.fixture
def job(url: str) -> Iterator[Any]:
    with Foliot(url) as app:

        @app.job
        def double(number: int) -> int:
            return 2 * number

        yield double


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


@both
def test_submissions_under_other_keys_and_without_do_not_wait(
    url: str, job: Any, threads: ThreadPoolExecutor, name: str
) -> None:
    with psycopg.connect(url) as connection:
        first = job.options(connection=connection, **{name: "k"}).submit(1)
        held = [threads.submit(job.options(**{name: "k"}).submit, 1) for _ in range(5)]
        _until_locked(url)
        free: list[Future[Any]] = [threads.submit(job.submit, 2) for _ in range(5)]
        free += [threads.submit(job.options(**{name: f"k{n}"}).submit, 3) for n in range(5)]
        handles = [one.result(LONG) for one in free]
        assert len({handle.id for handle in handles}) == 10
        assert all(handle.status() is JobState.READY for handle in handles)
        assert not any(one.done() for one in held)
        connection.commit()
        assert {one.result(LONG).id for one in held} == {first.id}


@both
def test_when_it_is_rolled_back_the_next_one_has_the_key(
    url: str, job: Any, threads: ThreadPoolExecutor, name: str
) -> None:
    with psycopg.connect(url) as connection:
        first = job.options(connection=connection, **{name: "k"}).submit(1)
        held = [threads.submit(job.options(**{name: "k"}).submit, 1) for _ in range(3)]
        _until_locked(url)
        connection.rollback()
        [id] = {one.result(LONG).id for one in held}
    assert id != first.id


def test_a_batch_waits_for_all_its_keys(url: str, job: Any, threads: ThreadPoolExecutor) -> None:
    with psycopg.connect(url) as connection:
        first = job.options(connection=connection, key="k").submit(1)
        calls = [job.prepare(1), job.options(key="k").prepare(2), job.options(key="l").prepare(3)]
        held = threads.submit(job._owner.submit_many, calls)
        _until_locked(url)
        connection.commit()
        handles = held.result(LONG)
    assert handles[1].id == first.id
    assert len({handle.id for handle in handles}) == 3


@both
def test_who_has_waited_long_enough_is_told(
    url: str, job: Any, threads: ThreadPoolExecutor, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_PATIENCE", 0.3)
    with psycopg.connect(url) as connection:
        job.options(connection=connection, **{name: "k"}).submit(1)
        held = threads.submit(job.options(**{name: "k"}).submit, 1)
        with pytest.raises(KeyHeld, match="has not ended") as caught:
            held.result(LONG)
        assert not caught.value.unknown
        connection.rollback()
    assert job.options(**{name: "k"}).submit(2).status() is JobState.READY


@pytest.mark.parametrize("mode", ["replace", "debounce"])
@pytest.mark.parametrize("waits", [False, True], ids=["blocking", "async"])
def test_a_job_that_is_replaced_in_a_transaction_can_finish_before_its_end(
    url: str, mode: KeyMode, waits: bool
) -> None:
    started, go_on = threading.Event(), threading.Event()
    with Foliot(url) as app:

        @app.job
        def work(number: int) -> int:
            started.set()
            assert go_on.wait(LONG)
            return number

        async def replace(first: Any) -> Any:
            async with await psycopg.AsyncConnection.connect(url) as connection:
                own = work.options(connection=connection, key="k", key_mode=mode)
                second = await own.asubmit(2)
                go_on.set()
                assert await first.aresult(timeout=LONG) == 1
            return second

        def replace_blocking(first: Any) -> Any:
            with psycopg.connect(url) as connection:
                own = work.options(connection=connection, key="k", key_mode=mode)
                second = own.submit(2)
                go_on.set()
                assert first.result(timeout=LONG) == 1
            return second

        stop = run_in_thread(app)
        try:
            first = work.options(key="k").submit(1)
            assert started.wait(LONG)
            second = asyncio.run(replace(first)) if waits else replace_blocking(first)
            assert second.id != first.id
            assert second.result(timeout=LONG) == 2
        finally:
            go_on.set()
            stop()


def test_a_job_that_is_locked_by_the_same_transaction_gives_up_its_key_in_it(url: str) -> None:
    with Foliot(url) as app:

        @app.job
        def work(number: int) -> None:
            if number == 1:
                with current_job().transaction() as tx:
                    tx.execute("SELECT 1 FROM foliot.jobs FOR UPDATE")
                    again = work.options(connection=tx.connection, key="k", key_mode="replace")
                    again.submit(2)

        stop = run_in_thread(app)
        try:
            first = work.options(key="k").submit(1)
            first.result(timeout=LONG)
        finally:
            stop()
        [second] = [job for job in app.jobs() if job.id != first.id]
        assert second.payload == b'{"number":2}'


def test_closing_the_app_tells_those_who_wait_for_a_key(
    url: str, job: Any, threads: ThreadPoolExecutor
) -> None:
    with psycopg.connect(url) as connection:
        job.options(connection=connection, key="k").submit(1)
        held = threads.submit(job.options(key="k").submit, 1)
        _until_locked(url)
        job._owner.close()
        with pytest.raises(Exception, match="closed"):
            held.result(LONG)
        connection.rollback()
    assert job.options(key="k").submit(2).status() is JobState.READY


def test_closing_the_app_tells_even_those_who_begin_to_wait_at_that_moment(
    job: Any, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing: list[asyncio.Task[None]] = []

    async def submit(*_: object, **__: object) -> None:
        """The app is closed before those who send go on."""
        closing.append(asyncio.create_task(job._owner._portal._close_all()))
        raise KeyHeld("somebody has it")

    monkeypatch.setattr(commands, "submit", submit)
    held = threads.submit(job.options(key="k").submit, 1)
    with pytest.raises(StoreUnavailable, match="closed"):
        held.result(LONG)


def _until_locked(url: str) -> None:
    """Until somebody waits for the open transaction."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(2000):
            row = connection.execute(waiting).fetchone()
            if row is not None and row[0]:
                return
            connection.execute("SELECT pg_sleep(0.005)")
    raise AssertionError("nobody waits")
