"""Waiting for results: together, cheaply, and told of the end instead of looking for it."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from client.conftest import run_in_thread
from foliot import Foliot, JobState
from foliot.bench.relay import Relay
from foliot.client import waiter
from foliot.client.waiter import Budget
from foliot.config import StoreSettings
from foliot.errors import (
    FoliotError,
    JobCancelled,
    JobFailed,
    ResultTimeout,
    StoreUnavailable,
    UnknownJob,
)
from foliot.store.open import upgrade_store
from support.pooler import RotatingPooler
from support.stores import Databases

_names = itertools.count()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/foliot.db"
        return
    yield from _database(request)


@pytest.fixture
def app(url: str) -> Iterator[Foliot]:
    with Foliot(url) as app:
        yield app


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not told waits for ever: nobody looks by themselves, but once at the start."""
    monkeypatch.setattr(waiter, "_POLL", 3600.0)
    monkeypatch.setattr(waiter, "_POLL_UNTOLD", 3600.0)
    monkeypatch.setattr(waiter, "_YOUNG", (0.0,))


def _database(request: pytest.FixtureRequest) -> Iterator[str]:
    databases: Databases = request.getfixturevalue("databases")
    name = f"waiting_{next(_names)}"
    url = databases.server.create_database(name)
    asyncio.run(upgrade_store(StoreSettings(url=url)))
    yield url
    databases.server.drop_database(name)


def _until(true: Callable[[], object]) -> None:
    for _ in range(2000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never became true")


def _waits(app: Foliot) -> dict[Any, Any]:
    return app._portal.waiter._waits


class TestTheEndIsTold:
    """With looking switched off."""

    pytestmark = pytest.mark.usefixtures("only_hints")

    def test_of_every_kind_of_end(self, app: Foliot) -> None:
        @app.job(max_attempts=1)
        async def work(how: str) -> str:
            await asyncio.wait_for(asyncio.to_thread(gate.wait), 60)
            if how == "fail":
                raise ValueError("no")
            return how

        gate = threading.Event()
        answers: dict[str, object] = {}
        handles = {how: work.submit(how) for how in ("succeed", "fail", "cancel")}
        stop = run_in_thread(app)
        try:
            _until(lambda: all(h.status() is JobState.RUNNING for h in handles.values()))
            threads = [
                threading.Thread(target=_ask, args=(how, handle.result, answers))
                for how, handle in handles.items()
            ]
            for thread in threads:
                thread.start()
            _until(lambda: app._portal.waiter._listens and not app._portal.waiter._unnamed)
            handles["cancel"].cancel()
            threads[2].join(30)
            gate.set()
            for thread in threads:
                thread.join(30)
        finally:
            gate.set()
            stop()
        assert answers["succeed"] == "succeed"
        assert isinstance(answers["fail"], JobFailed)
        assert isinstance(answers["cancel"], JobCancelled)
        assert not _waits(app)

    def test_of_a_job_that_was_cancelled_elsewhere_before_it_ran(self, app: Foliot) -> None:
        @app.job
        def work() -> None: ...

        handle = work.submit()
        answers: dict[str, object] = {}
        thread = threading.Thread(target=_ask, args=("it", handle.result, answers))
        thread.start()
        _until(lambda: app._portal.waiter._listens)
        with Foliot(app.settings.store.url) as other:
            other.get(handle.id).cancel()
        thread.join(30)
        assert isinstance(answers["it"], JobCancelled)


class TestLooking:
    """Where there are no hints."""

    @pytest.fixture
    def url(self, request: pytest.FixtureRequest, pooled: RotatingPooler) -> Iterator[str]:
        for url in _database(request):
            yield pooled.url(str(conninfo_to_dict(url)["dbname"]))

    def test_finds_the_end_through_a_pooler(self, app: Foliot) -> None:
        @app.job
        async def slow() -> int:
            await asyncio.sleep(0.3)
            return 7

        stop = run_in_thread(app)
        try:
            assert slow.submit().result(timeout=30) == 7
        finally:
            stop()
        assert not app._portal.waiter._listens


def test_a_thousand_handles_cost_a_few_statements_a_second(url: str, tmp_path: Path) -> None:
    """Counted on the wire where there is one. Their timeouts, all at once, cost a few more."""
    if url.startswith("sqlite"):
        with Foliot(url) as app:
            _wait_by_thousands(app, lambda: app.statements_waiting)
        return
    with Relay(url, tmp_path) as relay, Foliot(relay.url) as app:
        _wait_by_thousands(app, lambda: relay.statements)


def _wait_by_thousands(app: Foliot, statements: Callable[[], int]) -> None:
    @app.job
    def work(n: int) -> None: ...

    async def main() -> tuple[int, int, list[Any]]:
        handles = await app.asubmit_many([work.prepare(n) for n in range(1000)])
        tasks = [asyncio.create_task(handle.aresult(timeout=4)) for handle in handles]
        await asyncio.sleep(1)
        before = statements()
        await asyncio.sleep(2)
        waiting = statements() - before
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return waiting, statements() - before - waiting, answers

    waiting, ending, answers = asyncio.run(main())
    # While a burst is paid back it may be a little less, never more than the rate.
    assert waiting <= 2 * 5
    assert ending <= 200, "a thousand timeouts are looked after together"
    assert all(isinstance(answer, ResultTimeout) for answer in answers)
    assert {answer.state for answer in answers} == {"ready"}


def test_all_who_wait_for_one_job_return(app: Foliot) -> None:
    @app.job
    async def work() -> int:
        return 3

    handle = work.submit()
    answers: dict[str, object] = {}
    waits: list[Callable[[], object]] = [
        handle.result,
        app.get(handle.id).result,
        lambda: handle.result(timeout=60),
        lambda: asyncio.run(handle.aresult(timeout=60)),
        lambda: handle.result(timeout=0.01),
    ]
    threads = [
        threading.Thread(target=_ask, args=(str(n), ask, answers)) for n, ask in enumerate(waits)
    ]
    for thread in threads:
        thread.start()
    threads[4].join(30)
    assert isinstance(answers.pop("4"), ResultTimeout)
    stop = run_in_thread(app)
    try:
        for thread in threads:
            thread.join(30)
    finally:
        stop()
    assert answers == dict.fromkeys("0123", 3)
    assert not _waits(app)


def test_a_result_of_long_ago_is_there_at_once(app: Foliot) -> None:
    @app.job
    async def work() -> int:
        return 3

    handle = work.submit()
    stop = run_in_thread(app)
    try:
        assert handle.result(timeout=30) == 3
    finally:
        stop()
    assert handle.result(timeout=0) == 3
    assert app.get(handle.id).result() == 3


def test_a_job_that_is_not_there_is_no_reason_to_wait(app: Foliot) -> None:
    with pytest.raises(UnknownJob):
        app.get(app.ids.job()).result()
    with pytest.raises(UnknownJob):
        app.get(app.ids.job()).result(timeout=30)


def test_nobody_waits_for_ever_for_a_job_that_was_removed(
    app: Foliot, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    def work() -> None: ...

    monkeypatch.setattr(waiter, "_CHECK", 0.1)
    monkeypatch.setattr(waiter, "_POLL", 0.1)
    handle = work.submit()
    answers: dict[str, object] = {}
    thread = threading.Thread(target=_ask, args=("it", handle.result, answers))
    thread.start()
    _until(lambda: app._portal.waiter._listens)
    _remove_all(url)
    thread.join(30)
    assert isinstance(answers["it"], UnknownJob)


def test_a_caller_that_stops_waiting_leaves_nothing_behind(app: Foliot) -> None:
    @app.job
    def work() -> None: ...

    async def main() -> None:
        task = asyncio.create_task((await work.asubmit()).aresult())
        await asyncio.to_thread(_until, lambda: _waits(app))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    _until(lambda: not _waits(app) and not app._portal.waiter._running)


def test_closing_the_app_tells_those_who_wait(app: Foliot) -> None:
    @app.job
    async def work() -> int:
        return 5

    handle = work.submit()
    answers: dict[str, object] = {}
    thread = threading.Thread(target=_ask, args=("it", handle.result, answers))
    thread.start()
    _until(lambda: _waits(app))
    app.close()
    thread.join(30)
    assert isinstance(answers["it"], FoliotError)
    stop = run_in_thread(app)
    try:
        assert handle.result(timeout=30) == 5, "it opens again"
    finally:
        stop()


def test_without_a_timeout_an_outage_is_told_at_once() -> None:
    with Foliot("postgresql://nobody@127.0.0.1:1/nowhere") as app:
        handle = app.get(app.ids.job())
        with pytest.raises(StoreUnavailable):
            handle.result()
        with pytest.raises(ResultTimeout, match="has not ended"):
            handle.result(timeout=0.1)


class TestTheBudget:
    def test_waiting_alone_never_costs_more_than_its_rate(self) -> None:
        budget, sent = Budget(0.0), 0
        for step in range(10_000):
            budget.refill(step / 100)
            if not budget.pause:
                budget.spend(1)
                sent += 1
        assert sent <= 12 + 100 * 3.5 + 1

    def test_ends_pay_for_those_who_wait_next(self) -> None:
        budget = Budget(0.0)
        budget.spend(100)
        assert budget.pause > 3
        budget.earn(5)
        assert budget.pause == 0


def _ask(name: str, ask: Callable[[], object], answers: dict[str, object]) -> None:
    try:
        answers[name] = ask()
    except FoliotError as error:
        answers[name] = error


def _remove_all(url: str) -> None:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        with connection:
            connection.execute("DELETE FROM foliot_jobs")
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DELETE FROM foliot.jobs")
