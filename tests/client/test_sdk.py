"""What users type."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foliot import (
    Exponential,
    Fixed,
    Foliot,
    FoliotError,
    JobState,
    Priority,
    Retry,
    commands,
    current_job,
    explain_commands,
)
from foliot.errors import Cancel, InvalidValue, JobCancelled, JobFailed, ResultTimeout, UnknownJob
from foliot.ids import JobId
from foliot.model.job import NewJob

StartWorker = Callable[[], None]


def test_a_decorated_function_is_still_a_function(app: Foliot) -> None:
    @app.job
    def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    assert add(1, b=2) == 3
    assert add.__doc__ == "Adds."
    assert add.__name__ == "add"


def test_a_job_runs_and_its_result_comes_back(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    async def add(a: int, b: int) -> int:
        return a + b

    @app.job(queue="other")
    def multiply(a: int, *, b: int = 10) -> int:
        return a * b

    start_worker()
    assert add.submit(1, b=2).result(timeout=20) == 3
    assert multiply.submit(4).result(timeout=20) == 40
    assert multiply.submit(4, b=5).result(timeout=20) == 20


def test_results_come_back_in_the_type_of_the_annotation(
    app: Foliot, start_worker: StartWorker
) -> None:
    @app.job
    async def tomorrow(day: datetime) -> datetime:
        return day + timedelta(days=1)

    start_worker()
    day = datetime(2026, 11, 18, tzinfo=UTC)
    assert tomorrow.submit(day).result(timeout=20) == day + timedelta(days=1)


def test_async_twins_do_the_same(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    async def add(a: int, b: int) -> int:
        return a + b

    start_worker()

    async def main() -> None:
        handle = await add.asubmit(1, 2)
        assert await handle.aresult(timeout=20) == 3
        assert await handle.astatus() is JobState.SUCCEEDED
        assert (await handle.ajob()).attempt == 1
        many = await app.asubmit_many([add.prepare(n, n) for n in range(10)])
        assert await many[9].aresult(timeout=20) == 18
        assert await (await add.options(delay=60).asubmit(1, 1)).acancel() is JobState.CANCELLED

    asyncio.run(main())


def test_submit_many_keeps_order_and_results(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    handles = app.submit_many(double.prepare(n) for n in range(500))
    ids = [handle.id for handle in handles]
    assert ids == sorted(ids)
    start_worker()
    assert [handle.result(timeout=20) for handle in handles] == [2 * n for n in range(500)]
    assert app.submit_many([]) == []


def test_a_delayed_job_waits_for_its_time(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    async def when() -> float:
        return datetime.now(UTC).timestamp()

    start_worker()
    run_at = datetime.now(UTC) + timedelta(seconds=0.5)
    handle = when.options(run_at=run_at).submit()
    assert handle.status() is JobState.SCHEDULED
    assert handle.result(timeout=20) >= run_at.timestamp()
    assert when.options(delay=timedelta(milliseconds=10)).submit().result(timeout=20)


def test_a_key_stands_for_one_live_job(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    async def ship(order: int) -> int:
        return order

    keyed = ship.options(key="order-42")
    first, second = keyed.submit(42), keyed.submit(43)
    assert first.id == second.id
    start_worker()
    assert second.result(timeout=20) == 42
    assert keyed.submit(44).id != first.id


def test_higher_priority_goes_first(app: Foliot, start_worker: StartWorker) -> None:
    order: list[int] = []

    @app.job
    def note(n: int) -> None:
        order.append(n)

    handles = [note.options(priority=p).submit(p) for p in (9, Priority.LOW, Priority.HIGH, 0)]
    start_worker()
    for handle in handles:
        handle.result(timeout=20)
    assert sorted(order) == [0, 1, 3, 9]


def test_a_failing_job_is_retried_and_succeeds(app: Foliot, start_worker: StartWorker) -> None:
    @app.job(retry=Fixed(0.01))
    async def third_time() -> int:
        if current_job().attempt < 3:
            raise ConnectionError("not yet")
        return current_job().attempt

    start_worker()
    assert third_time.submit().result(timeout=20) == 3


def test_a_job_that_never_works_ends_dead_with_its_error(
    app: Foliot, start_worker: StartWorker
) -> None:
    @app.job(max_attempts=2, retry=Exponential(first=0.01, cap=0.02))
    async def never() -> None:
        raise ValueError("no and no\0 again")

    start_worker()
    handle = never.submit()
    with pytest.raises(JobFailed, match="ValueError: no and no") as failed:
        handle.result(timeout=20)
    assert failed.value.state == "dead"
    job = handle.job()
    assert (job.state, job.attempt, job.reason) == (JobState.DEAD, 2, "failed")


def test_a_handler_may_ask_for_a_retry_or_for_its_end(
    app: Foliot, start_worker: StartWorker
) -> None:
    @app.job
    async def polite() -> int:
        if current_job().attempt == 1:
            raise Retry(after=0.01)
        raise Cancel("nothing to do")

    start_worker()
    handle = polite.submit()
    with pytest.raises(JobCancelled, match="nothing to do"):
        handle.result(timeout=20)
    assert handle.job().attempt == 2


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even my text fails")


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        RecursionError(),
        Broken(),
        ExceptionGroup("both", [ValueError("a")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_is_a_failed_attempt(
    app: Foliot, start_worker: StartWorker, error: BaseException
) -> None:
    @app.job(max_attempts=1)
    async def bad() -> None:
        raise error

    @app.job
    async def good() -> str:
        return "still here"

    start_worker()
    with pytest.raises(JobFailed):
        bad.submit().result(timeout=20)
    assert good.submit().result(timeout=20) == "still here"


@pytest.mark.parametrize("result", [object(), {1, 2, object()}, "x" * 300_000])
def test_a_result_that_cannot_be_kept_is_a_failure(
    app: Foliot, start_worker: StartWorker, result: Any
) -> None:
    @app.job(max_attempts=1)
    async def produce() -> Any:
        return result

    start_worker()
    with pytest.raises(JobFailed):
        produce.submit().result(timeout=20)


def test_a_job_past_its_timeout_fails(app: Foliot, start_worker: StartWorker) -> None:
    @app.job(max_attempts=1, timeout=0.1)
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.job(max_attempts=1, timeout=0.1)
    def stuck() -> None:
        release.wait(60)

    release = threading.Event()
    start_worker()
    for handle in (slow.submit(), stuck.submit()):
        with pytest.raises(JobFailed, match="timeout"):
            handle.result(timeout=20)
        assert handle.job().reason == "timed_out"
    release.set()


def test_cancel_ends_a_waiting_and_a_running_job(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    async def forever() -> None:
        await asyncio.sleep(3600)

    waiting = forever.options(delay=3600).submit()
    assert waiting.cancel() is JobState.CANCELLED
    assert waiting.cancel() is JobState.CANCELLED
    start_worker()
    running = forever.submit()
    while running.status() is not JobState.RUNNING:
        pass
    assert running.cancel() is JobState.RUNNING
    with pytest.raises(JobCancelled, match="requested"):
        running.result(timeout=20)


def test_waiting_for_a_result_may_take_long_enough(app: Foliot) -> None:
    @app.job
    async def nobody_runs_me() -> None: ...

    handle = nobody_runs_me.submit()
    with pytest.raises(ResultTimeout, match="still ready"):
        handle.result(timeout=0.05)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)


def test_a_wait_whose_time_is_over_says_what_the_job_waits_for(
    app: Foliot, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    async def nobody_runs_me() -> None: ...

    handle = nobody_runs_me.submit()
    why = "no worker is alive; it waits for one"
    with pytest.raises(ResultTimeout, match=f"{handle.id} is still ready after 0.05 s: {why}$"):
        handle.result(timeout=0.05)

    asked: list[str] = []

    async def fail(_: object, id: str) -> None:
        asked.append(id)
        raise RuntimeError("nobody can tell")

    monkeypatch.setattr(explain_commands, "explain_job", fail)
    with pytest.raises(ResultTimeout, match=r"is still ready after 0\.05 s$") as caught:
        handle.result(timeout=0.05)
    assert asked == [handle.id], "it is asked for once, when the time is over"
    assert caught.value.why == ""


def test_explaining_takes_no_longer_than_a_moment(
    app: Foliot, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    async def nobody_runs_me() -> None: ...

    async def hang(_: object, id: str) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(explain_commands, "explain_job", hang)
    started = time.monotonic()
    with pytest.raises(ResultTimeout, match=r"is still ready after 0 s$"):
        nobody_runs_me.submit().result(timeout=0)
    assert time.monotonic() - started < 10


def test_a_handle_can_be_made_again_from_its_id(app: Foliot) -> None:
    @app.job
    async def work() -> None: ...

    handle = work.submit()
    assert app.get(handle.id).status() is JobState.READY
    with pytest.raises(UnknownJob):
        app.get(app.ids.job()).status()
    with pytest.raises(InvalidValue, match="is not a job's id"):
        app.get("42")


def test_a_forked_child_submits_for_itself(app: Foliot) -> None:
    @app.job
    async def work(n: int) -> None: ...

    first = work.submit(1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, work.submit(2).id.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    second = os.read(reader, 100).decode()
    assert second != first.id
    assert app.get(second).status() is JobState.READY


def test_current_job_is_only_there_inside_a_job() -> None:
    with pytest.raises(FoliotError, match="outside a job"):
        current_job()


class TestBadInput:
    """Refused when it is given, with the field, the value and an example."""

    def test_arguments_that_do_not_fit(self, app: Foliot) -> None:
        @app.job
        def add(a: int, b: int) -> int:
            return a + b

        call: Any = add
        complaint = r"add\(\) cannot be called like this.*\(a: int, b: int\)"
        for args in ((1,), (1, 2, 3), ("1", 2), (1.5, 2), (None, 2), (object(), 2)):
            with pytest.raises(InvalidValue, match=complaint):
                call.submit(*args)
        with pytest.raises(InvalidValue, match=complaint):
            call.submit(1, c=3)

    def test_arguments_that_are_too_large(self, app: Foliot) -> None:
        @app.job
        def keep(text: str) -> None: ...

        with pytest.raises(InvalidValue, match=r"more than limits.payload"):
            keep.submit("x" * 300_000)

    def test_arguments_that_refer_to_themselves(self, app: Foliot) -> None:
        @app.job
        def keep(value: Any) -> None: ...

        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(InvalidValue, match="cannot be called"):
            keep.submit(loop)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"delay": -1}, "delay: -1 is not a number of seconds"),
            ({"delay": float("nan")}, "delay: nan"),
            ({"delay": "soon"}, "delay: 'soon'"),
            ({"delay": True}, "delay: True"),
            ({"run_at": datetime(2027, 1, 1)}, "has no time zone"),  # noqa: DTZ001
            ({"run_at": "2027-01-01"}, "run_at: '2027-01-01' is not a datetime"),
            ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "is not between 1970 and 2999"),
            ({"run_at": datetime(2027, 1, 1, tzinfo=UTC), "delay": 3}, "cannot be given together"),
            ({"priority": 10}, "priority: 10 is not a whole number from 0 to 9"),
            ({"priority": 1.5}, "priority: 1.5"),
            ({"priority": True}, "priority: True"),
            ({"key": ""}, "key: '' is not printable text"),
            ({"key": "a\0b"}, "key"),
            ({"key": "x" * 513}, "key"),
            ({"key": 42}, "key: 42"),
            ({"prioritty": 1}, "'prioritty' is not an option"),
        ],
    )
    def test_options(self, app: Foliot, options: Any, message: str) -> None:
        @app.job
        def work() -> None: ...

        with pytest.raises(InvalidValue) as refused:
            work.options(**options)
        assert message in str(refused.value)
        assert isinstance(refused.value, ValueError)

    @pytest.mark.parametrize(
        ("options", "field"),
        [
            ({"kind": "a b"}, "kind"),
            ({"queue": "../x"}, "queue"),
            ({"queue": ""}, "queue"),
            ({"priority": -1}, "priority"),
            ({"max_attempts": 0}, "max_attempts"),
            ({"max_attempts": 10**6}, "max_attempts"),
            ({"timeout": 0}, "timeout"),
            ({"timeout": float("inf")}, "timeout"),
            ({"retry": 3}, "retry"),
        ],
    )
    def test_definitions(self, app: Foliot, options: Any, field: str) -> None:
        def work() -> None: ...

        with pytest.raises(InvalidValue) as refused:
            app.job(**options)(work)
        assert refused.value.field == field

    def test_parameters_without_names(self, app: Foliot) -> None:
        def many(*items: str) -> None: ...

        with pytest.raises(InvalidValue, match="must be named"):
            app.job(many)

    def test_two_functions_of_one_kind(self, app: Foliot) -> None:
        @app.job(kind="work")
        def one() -> None: ...

        with pytest.raises(InvalidValue, match=r"is the name of .*one already"):

            @app.job(kind="work")
            def other() -> None: ...

    def test_something_else_than_prepared_calls(self, app: Foliot) -> None:
        @app.job
        def work() -> None: ...

        calls: Any = [work.prepare(), "work"]
        with pytest.raises(
            InvalidValue, match=r"submit_many\(\)\[1\]: 'work' is not a prepared call"
        ):
            app.submit_many(calls)

    @pytest.mark.parametrize("timeout", [-1, "3", True, float("nan")])
    def test_a_timeout_that_is_none(self, app: Foliot, timeout: Any) -> None:
        @app.job
        def work() -> None: ...

        with pytest.raises(InvalidValue, match="timeout"):
            work.submit().result(timeout=timeout)


class TestThePortal:
    """Submissions meet on one loop: nothing that one caller does may hurt another."""

    def test_a_caller_that_stops_waiting_hurts_nobody(self, app: Foliot) -> None:
        @app.job
        async def work(n: int) -> None: ...

        async def main() -> None:
            for n in range(20):
                task = asyncio.create_task(work.asubmit(n))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert await (await work.asubmit(99)).astatus() is JobState.READY

        asyncio.run(asyncio.wait_for(main(), 30))
        assert work.submit(100).status() is JobState.READY

    def test_close_tells_those_who_wait_and_the_app_opens_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app = Foliot("postgresql://nobody@127.0.0.1:1/nowhere")

        @app.job
        def work() -> None: ...

        errors: list[BaseException] = []

        def submit() -> None:
            try:
                work.submit()
            except FoliotError as error:
                errors.append(error)

        waiting = threading.Semaphore(0)
        hand_over = app._portal.submit

        def count(jobs: Sequence[NewJob]) -> Future[list[JobId]]:
            future = hand_over(jobs)
            waiting.release()
            return future

        monkeypatch.setattr(app._portal, "submit", count)
        threads = [threading.Thread(target=submit) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert waiting.acquire(timeout=20)
        app.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert len(errors) == 3
        again = threading.Thread(target=submit)
        again.start()
        assert waiting.acquire(timeout=20)
        app.close()
        again.join(20)
        assert not again.is_alive()

    def test_a_result_that_misses_the_annotation_is_told(
        self, app: Foliot, start_worker: StartWorker
    ) -> None:
        @app.job
        async def lie() -> int:
            return "seven"  # type: ignore[return-value]

        start_worker()
        with pytest.raises(FoliotError, match="does not fit the function's annotation"):
            lie.submit().result(timeout=20)

    def test_what_was_said_is_stored_even_if_it_is_the_default(self, app: Foliot) -> None:
        @app.job
        def mail(to: str, copies: int = 3) -> None: ...

        assert mail.submit("ada").job().payload == b'{"to":"ada","copies":3}'

    def test_a_sync_function_that_returns_a_coroutine_is_told(
        self, app: Foliot, start_worker: StartWorker
    ) -> None:
        async def real() -> int:
            return 1

        @app.job(max_attempts=1)
        def wrapper() -> Any:
            return real()

        start_worker()
        with pytest.raises(JobFailed, match="returned a coroutine"):
            wrapper.submit().result(timeout=20)


def test_a_worker_announces_its_kinds_and_they_can_be_submitted_by_name(
    app: Foliot, start_worker: StartWorker
) -> None:
    @app.job(queue="other")
    def add(a: int, b: int = 1) -> int:
        return a + b

    start_worker()
    assert add.submit(1).result(timeout=20) == 2

    async def by_kind() -> str:
        store = await app._portal.store()
        assert [one.kind for one in await commands.definitions(store)] == ["add"]
        return await commands.submit_kind(store, "add", '{"a": 5}', ids=app.ids)

    assert app.get(app._portal.call(by_kind())).result(timeout=20) == 6
