"""Inline mode: submitting runs the job, here and now, by the same code as a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from foliot import Cancel, Fixed, Foliot, FoliotError, InvalidValue, JobFailed, Retry, current_job
from foliot.errors import JobCancelled, NeverIdle


@pytest.fixture
def app(foliot_app: Foliot) -> Iterator[Foliot]:
    with foliot_app.inline():
        yield foliot_app


def test_a_job_has_run_when_submit_returns(app: Foliot) -> None:
    threads = []

    @app.job
    def add(a: int, b: int) -> int:
        threads.append(threading.get_ident())
        return a + b

    @app.job
    async def double(n: int) -> int:
        threads.append(threading.get_ident())
        return 2 * n

    handle = add.submit(1, b=2)
    assert (handle.status(), handle.result()) == ("succeeded", 3)
    assert double.submit(4).result(timeout=1) == 8
    assert [
        handle.result() for handle in app.submit_many([add.prepare(n, n) for n in range(3)])
    ] == [
        0,
        2,
        4,
    ]
    assert set(threads) == {threading.get_ident()}


@pytest.mark.anyio
async def test_in_async_code_it_runs_on_the_loop(app: Foliot) -> None:
    loop = asyncio.get_running_loop()

    @app.job
    async def here() -> bool:
        return asyncio.get_running_loop() is loop

    @app.job
    def elsewhere() -> bool:
        return threading.current_thread() is not threading.main_thread()

    assert await (await here.asubmit()).aresult()
    assert await (await elsewhere.asubmit()).aresult()
    assert all([await h.aresult() for h in await app.asubmit_many([here.prepare()] * 2)])
    # Not what async code should call; it works all the same, in a thread.
    assert not here.submit().result()


def test_arguments_and_results_are_json_all_the_same(app: Foliot) -> None:
    given: list[object] = []

    @app.job
    def keep(day: datetime, numbers: list[int]) -> dict[int, str]:
        given.append(numbers)
        numbers.append(day.year)
        return {1: "one"}

    numbers = [1]
    assert keep.submit(datetime(2026, 1, 1, tzinfo=UTC), numbers).result() == {1: "one"}
    assert (numbers, given) == ([1], [[1, 2026]])
    with pytest.raises(InvalidValue):
        keep.submit("today", [])  # type: ignore[arg-type] # refused when it is given

    @app.job(max_attempts=1)
    def unfit() -> object:
        return object()

    with pytest.raises(JobFailed, match="object"):
        unfit.submit().result()


def test_delays_and_waits_between_attempts_pass_at_once(app: Foliot) -> None:
    @app.job(retry=Fixed(3600), max_attempts=3)
    def third_time() -> int:
        if current_job().attempt < 3:
            raise Retry(after=86400)
        return current_job().attempt

    handle = third_time.options(delay=86400).submit()
    assert handle.result() == 3
    assert [attempt.outcome for attempt in handle.attempts()] == ["failed", "failed"]


def test_what_fails_is_in_the_handle(app: Foliot) -> None:
    @app.job(max_attempts=2)
    def fail() -> None:
        raise LookupError("gone")

    handle = fail.submit()
    with pytest.raises(JobFailed, match="LookupError: gone"):
        handle.result()
    assert len(handle.attempts()) == 2


def test_what_fails_can_be_raised_by_submit(foliot_app: Foliot) -> None:
    seen = []

    @foliot_app.job
    def fail() -> None:
        seen.append(1)
        raise LookupError("gone")

    with foliot_app.inline(reraise=True):
        with pytest.raises(LookupError, match="gone"):
            fail.submit()
        with pytest.raises(LookupError, match="gone"):
            asyncio.run(fail.asubmit())
    assert len(seen) == 2


def test_a_job_that_submits_another_can_have_its_result(app: Foliot) -> None:
    @app.job
    def factorial(n: int) -> int:
        return n * factorial.submit(n - 1).result() if n > 1 else 1

    @app.job(max_attempts=3)
    async def shaky() -> int:
        if current_job().attempt == 1:
            raise ValueError
        return factorial.submit(3).result() + await (await afactorial.asubmit(4)).aresult()

    @app.job
    async def afactorial(n: int) -> int:
        return n * await (await afactorial.asubmit(n - 1)).aresult() if n > 1 else 1

    assert factorial.submit(5).result() == 120
    assert shaky.submit().result() == 30


def test_a_long_chain_of_jobs_ends(app: Foliot) -> None:
    seen = []

    @app.job
    def page(n: int) -> None:
        seen.append(n)
        if n < 100:
            page.submit(n + 1)

    page.submit(1)
    assert seen == list(range(1, 101))


def test_an_endless_chain_is_named(foliot_app: Foliot) -> None:
    @foliot_app.job
    def again() -> None:
        again.options(delay=3600).submit()

    with (
        foliot_app.inline(limit=100),
        pytest.raises(NeverIdle, match="again keeps coming back"),
    ):
        again.submit()


def test_many_jobs_are_not_endless(foliot_app: Foliot) -> None:
    @foliot_app.job
    async def nothing() -> None: ...

    with foliot_app.inline(limit=10):
        handles = foliot_app.submit_many([nothing.prepare() for _ in range(50)])
        assert handles[49].status() == "succeeded"


def test_other_ways_to_end_are_as_always(app: Foliot) -> None:
    @app.job
    def once(n: int) -> int:
        return n

    assert once.options(key="a").submit(1).result() == 1
    assert once.options(key="a").submit(2).result() == 2, "the first has ended"
    handle = once.submit(1)
    assert handle.cancel() == "succeeded"

    @app.job
    def stop() -> None:
        raise Cancel("enough")

    with pytest.raises(JobCancelled, match="enough"):
        stop.submit().result()


def test_a_whole_app_can_be_inline() -> None:
    with Foliot("postgresql://nobody@there.invalid/none", inline=True) as app:

        @app.job
        def add(a: int, b: int) -> int:
            return a + b

        assert add.submit(1, 2).result() == 3


def test_there_is_nothing_for_a_worker(app: Foliot) -> None:
    with pytest.raises(FoliotError, match="by hand"):
        app.run_worker()


def test_after_the_block_the_app_has_its_own_store_again(foliot_app: Foliot) -> None:
    before = foliot_app.settings
    with foliot_app.inline():
        assert foliot_app.settings.store.url == "sqlite:///:memory:"
    assert foliot_app.settings is before
