"""What surrounds a job's function: retries, upgrades, start-up, middleware, log lines, progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from foliot import (
    Cancel,
    Exponential,
    Fixed,
    Foliot,
    InvalidValue,
    JobFailed,
    Retry,
    SoftTimeout,
    current_job,
)
from foliot.clock import SystemClock
from foliot.config import LimitSettings, LogSettings, Settings, WorkerSettings
from foliot.errors import FoliotError
from foliot.ids import Ids
from foliot.model.job import ClaimedJob
from foliot.testing import Harness, ManualClock
from foliot.worker.notes import Notes
from foliot.worker.recycle import Recycling


class Wrong(Exception):
    pass


def define(app: Foliot, version: int, function: Callable[..., Any]) -> Any:
    """One version of a function after the other, as deployments bring them."""
    function.__name__ = function.__qualname__ = "send"
    return app.job(kind="send", version=version)(function)


class TestRetries:
    def test_a_function_says_how_long_to_wait(self, foliot: Harness, foliot_app: Foliot) -> None:
        asked: list[tuple[int, str]] = []

        def policy(failures: int, error: BaseException) -> float | None:
            asked.append((failures, str(error)))
            return 10.0 * failures

        @foliot_app.job(max_attempts=3, retry=policy)
        def work() -> None:
            raise Wrong(f"try {current_job().attempt}")

        handle = work.submit()
        began = foliot.clock.now()
        foliot.advance("1 hour")
        assert asked == [(1, "try 1"), (2, "try 2")]
        starts = [attempt.started_at for attempt in handle.attempts()]
        waits = [(at - began).total_seconds() for at in starts if at is not None]
        assert waits == pytest.approx([0, 10, 30], abs=0.1)

    def test_none_means_not_again(self, foliot: Harness, foliot_app: Foliot) -> None:
        @foliot_app.job(max_attempts=5, retry=lambda _failures, _error: None)
        def work() -> None:
            raise Wrong

        handle = work.submit()
        foliot.run_until_idle()
        assert (handle.job().state, handle.job().reason) == ("dead", "not_retried")
        assert len(handle.attempts()) == 1

    @pytest.mark.parametrize("answer", [-1, float("nan"), "soon", 1e12, True, Wrong()])
    def test_an_absurd_answer_is_passed_over(
        self, foliot: Harness, foliot_app: Foliot, answer: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        def policy(_: int, __: BaseException) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        @foliot_app.job(max_attempts=2, retry=policy)
        def work() -> None:
            raise Wrong

        handle = work.submit()
        foliot.advance("1 hour")
        assert len(handle.attempts()) == 2, "retried by the usual policy"
        assert "the retry function of work" in caplog.text

    def test_exceptions_that_are_not_worth_it_end_the_job(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        @foliot_app.job(no_retry=(ValueError,), retry=Fixed(1))
        def work(how: str) -> None:
            raise {"value": UnicodeError("no"), "retry": Retry(after=1), "key": KeyError()}[how]

        handles = {how: work.submit(how) for how in ("value", "retry", "key")}
        foliot.advance("1 hour")
        assert {how: len(handle.attempts()) for how, handle in handles.items()} == {
            "value": 1,  # a subclass too
            "retry": 5,
            "key": 5,
        }
        assert handles["value"].job().reason == "not_retried"
        assert handles["key"].job().reason == "failed"

    def test_tracebacks_show_no_values(self, foliot: Harness, foliot_app: Foliot) -> None:
        @foliot_app.job(max_attempts=1)
        def work() -> None:
            secret = "hunter" + "2"
            raise Wrong(len(secret))

        handle = work.submit()
        foliot.run_until_idle()
        [attempt] = handle.attempts()
        assert attempt.traceback is not None and "in work" in attempt.traceback
        assert "hunter2" not in attempt.traceback
        assert attempt.worker is not None and ":" in attempt.worker

    @pytest.mark.parametrize(
        "options",
        [
            {"retry": "fast"},
            {"no_retry": "ValueError"},
            {"no_retry": [ValueError()]},
            {"executor": "fork"},
            {"executor": None},
            {"memory": "256MiB"},
            {"executor": "process", "memory": "256MB"},
            {"executor": "process", "memory": 1},
            {"executor": "process", "memory": True},
            {"cancel_grace": -1},
            {"cancel_grace": "5s"},
            {"soft_timeout": 0},
            {"soft_timeout": "1s"},
            {"soft_timeout": 30, "timeout": 30},
            {"version": 0},
            {"version": "2"},
        ],
    )
    def test_wrong_options_are_refused_where_they_are_written(
        self, foliot_app: Foliot, options: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidValue, match="for example"):
            foliot_app.job(**options)(lambda: None)


class TestPayloads:
    def test_older_ones_are_upgraded_step_by_step(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        def first(to: str) -> str:
            return to

        def second(to: str, copies: int) -> str:
            return to * copies

        def third(people: list[str], copies: int) -> str:
            return f"{copies} to {people}"

        handles = [
            define(foliot_app, 1, first).submit("ada"),
            define(foliot_app, 2, second).submit("bob", 2),
            (send := define(foliot_app, 3, third)).submit(["eve"], 3),
        ]
        send.upgrade(1)(lambda payload: {**payload, "copies": 1})
        send.upgrade(2)(lambda p: {"people": [p["to"]], "copies": p["copies"]})
        foliot.run_until_idle()
        assert [handle.result() for handle in handles] == [
            "1 to ['ada']",
            "2 to ['bob']",
            "3 to ['eve']",
        ]

    def test_what_does_not_fit_is_held_and_never_an_attempt(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        def newer(to: str) -> None:
            raise AssertionError

        def older(to: str) -> None:
            raise AssertionError

        def other(people: int) -> None:
            raise AssertionError

        handles = [
            define(foliot_app, 9, newer).submit("ada"),
            define(foliot_app, 1, older).submit("bob"),
        ]
        define(foliot_app, 2, other)
        foliot.run_until_idle()
        foliot.advance("1 day")
        jobs = [handle.job() for handle in handles]
        assert {(job.state, job.reason, job.attempt) for job in jobs} == {
            ("held", "unfitting_payload", 0)
        }
        assert all(not handle.attempts() for handle in handles)
        assert [job.note for job in jobs] == [
            "ValueError: it has version 9, newer than this one, 2",
            "ValueError: nothing upgrades it from version 1 to 2",
        ]

    def test_what_a_step_is_given_of_a_result_is_upgraded_and_fails_if_it_does_not_fit(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        """An element of a map as well as a reference: no version makes the result another one."""

        @foliot_app.job
        def found() -> list[Any]:
            return ["ada", 7]

        def first(to: str) -> str:
            raise AssertionError

        def second(people: list[str]) -> str:
            return f"to {people}"

        older = define(foliot_app, 1, first)
        with foliot_app.workflow("mail", policy="continue") as flow:
            people = flow.add(found.prepare()).result
            flow.map(older, over=people, name="each")
            flow.add(older.prepare(people[0]), name="fits")
            flow.add(older.prepare(people[1]), name="unfit")
        define(foliot_app, 2, second).upgrade(1)(lambda payload: {"people": [payload["to"]]})
        foliot.run_until_idle()
        assert flow["each[0]"].result() == flow["fits"].result() == "to ['ada']"
        for name in ("each[1]", "unfit"):
            [attempt] = flow[name].attempts()
            assert flow[name].job().state == "dead"
            assert "Expected `str`, got `int` - at `$.people[0]`" in str(attempt.error)

    def test_a_version_that_the_code_cannot_take_is_not_the_fault_of_a_result(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        """A worker with newer code may be there already, or come."""

        @foliot_app.job
        def found() -> list[str]:
            return ["ada"]

        def newer(to: str) -> str:
            return to

        def older(to: str) -> str:
            raise AssertionError

        later = define(foliot_app, 9, newer)
        with foliot_app.workflow("mail") as flow:
            people = flow.add(found.prepare()).result
            flow.map(later, over=people, name="each")
            flow.add(later.prepare(people[0]), name="one")
        define(foliot_app, 2, older)
        foliot.run_until_idle()
        for name in ("each[0]", "one"):
            job = flow[name].job()
            assert (job.state, job.reason, job.attempt) == ("held", "unfitting_payload", 0)
            assert job.note == "ValueError: it has version 9, newer than this one, 2"

    def test_an_error_inside_the_function_is_a_failure_like_any_other(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        @foliot_app.job(max_attempts=1)
        def work() -> None:
            msgspec.json.decode(b"[1]", type=dict)

        handle = work.submit()
        foliot.run_until_idle()
        assert (handle.job().state, handle.job().reason) == ("dead", "failed")

    def test_an_upgrade_from_a_version_that_is_none_is_refused(self, foliot_app: Foliot) -> None:
        @foliot_app.job(version=2)
        def send() -> None: ...

        for version in (0, 2, 3, True):
            with pytest.raises(InvalidValue):
                send.upgrade(version)


class TestHooks:
    def test_start_up_comes_first_and_shutdown_last_in_reverse(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        trail: list[str] = []

        @foliot_app.on_startup
        async def open_pool(state: Any) -> None:
            await asyncio.sleep(0)
            state.pool = "pool"
            trail.append("open pool")

        @foliot_app.on_startup
        def greet() -> None:
            trail.append("greet")

        @foliot_app.on_shutdown
        async def close_pool(state: Any) -> None:
            trail.append(f"close {state.pool}")

        @foliot_app.on_shutdown
        def fail() -> None:
            trail.append("fail")
            raise Wrong

        @foliot_app.job
        def work() -> str:
            trail.append("work")
            pool: str = current_job().state.pool
            return pool

        handle = work.submit()
        foliot.run_until_idle()
        assert handle.result() == "pool"
        assert trail == ["open pool", "greet", "work", "fail", "close pool"]

    def test_what_nobody_has_set_is_named(self, foliot: Harness, foliot_app: Foliot) -> None:
        @foliot_app.job(max_attempts=1)
        def work() -> None:
            current_job().state.pool  # noqa: B018 - it raises

        handle = work.submit()
        foliot.run_until_idle()
        with pytest.raises(JobFailed, match=r"no start-up function has set state\.pool"):
            handle.result()

    def test_a_start_up_that_fails_says_which(self, foliot: Harness, foliot_app: Foliot) -> None:
        @foliot_app.on_startup
        def connect() -> None:
            raise ConnectionError("no route")

        @foliot_app.job
        def work() -> None: ...

        work.submit()
        with pytest.raises(FoliotError, match=r"connect failed: ConnectionError: no route"):
            foliot.run_until_idle()

    def test_middleware_sees_results_and_exceptions_the_first_given_outermost(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        trail: list[str] = []

        @foliot_app.middleware
        def outer(job: Any, call_next: Callable[[], Any]) -> Any:
            try:
                result = call_next()
            except Wrong:
                trail.append(f"{job.kind} failed")
                raise
            trail.append(f"{job.kind} returned {result}")
            return result

        @foliot_app.middleware
        def double(_: Any, call_next: Callable[[], Any]) -> Any:
            return 2 * call_next()

        @foliot_app.middleware
        async def around_async(job: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
            trail.append(f"{job.kind} begins")
            return await call_next()

        @foliot_app.job
        def sync(n: int) -> int:
            return n

        @foliot_app.job(max_attempts=1)
        def wrong() -> None:
            raise Wrong

        @foliot_app.job(kind="async")
        async def asynchronous(n: int) -> int:
            return n

        handles = [sync.submit(4), asynchronous.submit(5)]
        wrong.submit()
        foliot.run_until_idle()
        assert [handle.result() for handle in handles] == [8, 5]
        assert sorted(trail) == ["async begins", "sync returned 8", "wrong failed"]

    @pytest.mark.parametrize("hook", ["on_startup", "on_shutdown", "middleware"])
    def test_functions_with_other_arguments_are_refused(
        self, foliot_app: Foliot, hook: str
    ) -> None:
        for wrong in (3, lambda a, b, c: None, lambda *, x: None):
            with pytest.raises(InvalidValue, match="for example"):
                getattr(foliot_app, hook)(wrong)


class TestNotes:
    def test_logging_inside_a_job_is_kept_with_it(
        self, foliot: Harness, foliot_app: Foliot, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        log = logging.getLogger("shop.orders")

        @foliot_app.job(max_attempts=2, retry=Fixed(1))
        async def work() -> None:
            log.debug("not kept")
            log.info("attempt %d", current_job().attempt)
            current_job().log("by hand", "error")
            try:
                raise Wrong("inside")
            except Wrong:
                log.exception("caught")
            raise Wrong

        log.warning("of no job")
        handle = work.submit()
        foliot.advance("1 minute")
        lines = handle.logs()
        assert [(line.attempt, line.number, line.level, line.logger) for line in lines] == [
            (attempt, number, level, logger)
            for attempt in (1, 2)
            for number, level, logger in [
                (1, "info", "shop.orders"),
                (2, "error", "job"),
                (3, "error", "shop.orders"),
            ]
        ]
        assert lines[0].message == "attempt 1"
        assert "Wrong: inside" in lines[2].message

    def test_progress_is_seen_while_the_job_runs(self, foliot: Harness, foliot_app: Foliot) -> None:
        seen: list[Any] = []

        @foliot_app.job
        async def work() -> None:
            current_job().progress(0.25, "rows")
            current_job().progress(0.5)
            while not seen:
                job = await foliot_app.get(current_job().id).ajob()
                if job.progress is not None:
                    seen.append((job.progress.fraction, job.progress.message))
                await asyncio.sleep(0.01)

        work.submit()
        foliot.run_until_idle()
        assert seen == [(0.5, None)]

    @pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), "half", True])
    def test_progress_that_makes_no_sense_is_refused(
        self, foliot: Harness, foliot_app: Foliot, fraction: Any
    ) -> None:
        @foliot_app.job(max_attempts=1)
        def work() -> None:
            current_job().progress(fraction)

        handle = work.submit()
        foliot.run_until_idle()
        with pytest.raises(JobFailed, match="is not between 0 and 1"):
            handle.result()

    def test_a_flood_is_cut(self, clock: ManualClock) -> None:
        limits = LimitSettings(log_lines=3, log_line=16)
        notes = Notes(Settings(limits=limits), clock, wake=lambda: None)
        job = ClaimedJob(Ids().job(), 1, "work", b"{}", 1, 5, 0, None, linked=False)
        for number in range(1, 10):
            notes.add_line(job, number, logging.INFO, "shop", "x" * 20)
        lines = notes.take().lines
        assert [line.message for line in lines] == [
            *["x" * 16 + " [4 characters cut]"] * 3,
            "more lines are n [30 characters cut]",
        ]

    def test_while_the_store_is_away_the_oldest_lines_are_lost_and_counted(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        notes = Notes(Settings(), clock, wake=lambda: None)
        job = ClaimedJob(Ids().job(), 1, "work", b"{}", 1, 5, 0, None, linked=False)
        for _ in range(20_500):
            notes.add_line(job, 1, logging.INFO, "shop", "said")
        batch = notes.take()
        assert "500 log lines of jobs were lost" in caplog.text
        assert len(batch.lines) == 1000
        notes.put_back(batch)
        taken = 0
        while batch := notes.take():
            taken += len(batch.lines)
        assert taken == 20_000

    @pytest.mark.parametrize("level", ["warning", "none"])
    def test_the_level_is_a_setting(self, clock: ManualClock, level: str) -> None:
        notes = Notes(Settings(log=LogSettings(jobs=level)), clock, wake=lambda: None)
        assert notes.level == {"warning": logging.WARNING, "none": 51}[level]


class TestTimes:
    def test_a_soft_timeout_is_told_to_an_async_function(
        self, foliot: Harness, foliot_app: Foliot
    ) -> None:
        @foliot_app.job(soft_timeout=10, timeout=60)
        async def work() -> str:
            try:
                foliot.advance(15)
                await asyncio.sleep(30)
            except SoftTimeout:
                return f"{current_job().timed_out} {current_job().remaining()}"
            return "not told"

        handle = work.submit()
        foliot.run_until_idle()
        assert handle.result() == "True 45.0"

    def test_recycling_by_jobs_age_and_memory(self, clock: ManualClock) -> None:
        def recycling(**worker: Any) -> Recycling:
            settings = Settings(worker=WorkerSettings(**worker))
            return Recycling(settings, clock, Ids(clock=clock, seed=1))

        never = recycling()
        assert never.find(10**9) is None
        by_jobs = recycling(recycle_jobs=100)
        assert by_jobs.find(89) is None
        assert by_jobs.find(111) == "it has run 111 jobs"
        by_age = recycling(recycle_age=100.0)
        clock.advance(89)
        assert by_age.find(0) is None
        clock.advance(22)
        assert by_age.find(0) == "it is older than 1m40s"
        assert "MiB of memory, more than 1MiB" in str(recycling(recycle_memory=1 << 20).find(0))
        assert recycling(recycle_memory=1 << 40).find(0) is None


def test_an_exponential_wait_is_drawn_from_zero_to_its_bound() -> None:
    """Full jitter: failures that came together do not come back together."""
    ids = Ids(clock=SystemClock(), seed=7)
    waits = [Exponential(first=8).wait(1, ids.up_to) for _ in range(200)]
    assert min(waits) < 1
    assert 7 < max(waits) < 8


def test_a_cancel_raised_by_the_function_is_its_own(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def work() -> None:
        raise Cancel("nothing to do")

    handle = work.submit()
    foliot.run_until_idle()
    assert (handle.job().state, handle.job().reason) == ("cancelled", "nothing to do")
    assert handle.attempts() == []
