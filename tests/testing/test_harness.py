"""What `foliot.testing` promises to the tests of other projects."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from foliot import Cancel, Exponential, Fixed, Foliot, Retry, current_job
from foliot.errors import (
    FoliotError,
    InvalidValue,
    JobFailed,
    NeverIdle,
    ResultTimeout,
    UnknownJob,
    UnknownKind,
)
from foliot.testing import Harness, ManualClock


def test_what_is_due_runs_and_its_result_is_there(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def add(a: int, b: int) -> int:
        return a + b

    @foliot_app.job
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    one, other = add.submit(1, 2), double.submit(4)
    assert one.status() == "ready"
    assert foliot.run_until_idle() == 2
    assert (one.result(), other.result()) == (3, 8)
    assert foliot.result(foliot.jobs(add)[0]) == 3
    assert [job.kind for job in foliot.jobs(state="succeeded")] == ["add", "double"]
    assert foliot.run_until_idle() == 0


def test_jobs_submitted_by_jobs_run_too(foliot: Harness, foliot_app: Foliot) -> None:
    seen: list[int] = []

    @foliot_app.job
    def countdown(n: int) -> None:
        seen.append(n)
        if n:
            countdown.submit(n - 1)

    countdown.submit(3)
    foliot.run_until_idle()
    assert seen == [3, 2, 1, 0]


def test_the_order_is_that_of_priority_then_submission(foliot: Harness, foliot_app: Foliot) -> None:
    seen: list[str] = []

    @foliot_app.job
    def note(name: str) -> None:
        seen.append(name)

    note.submit("a")
    foliot_app.submit_many([note.prepare("b"), note.options(priority=1).prepare("first")])
    note.submit("c")
    foliot.run_until_idle()
    assert seen == ["first", "a", "b", "c"]


def test_functions_run_in_the_thread_of_the_test(foliot: Harness, foliot_app: Foliot) -> None:
    """Where its database transactions and its context are. Sync ones see no running event loop."""
    seen: list[tuple[str, int]] = []

    @foliot_app.job
    def plain() -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        seen.append(("plain", threading.get_ident()))

    @foliot_app.job
    async def on_a_loop() -> None:
        asyncio.get_running_loop()
        seen.append(("on_a_loop", threading.get_ident()))

    plain.submit()
    on_a_loop.submit()
    plain.submit()
    foliot.run_until_idle(reraise=True)
    here = threading.get_ident()
    assert seen == [("plain", here), ("on_a_loop", here), ("plain", here)]


@pytest.mark.anyio
async def test_in_an_async_test_async_functions_run_on_its_loop(
    foliot: Harness, foliot_app: Foliot
) -> None:
    loop = asyncio.get_running_loop()
    seen: list[bool] = []

    @foliot_app.job
    async def on_the_loop() -> None:
        seen.append(asyncio.get_running_loop() is loop)

    @foliot_app.job
    def in_a_thread() -> str:
        seen.append(threading.current_thread() is not threading.main_thread())
        return current_job().kind

    await on_the_loop.asubmit()
    handle = await in_a_thread.asubmit()
    on_the_loop.options(delay=60).submit()
    assert await foliot.arun_until_idle() == 2
    assert await handle.aresult() == "in_a_thread"
    assert await foliot.aadvance("1 minute") == 1
    assert await foliot.aadvance_to(foliot.clock.now() + timedelta(days=1)) == 0
    assert seen == [True, True, True]


@pytest.mark.anyio
async def test_an_async_test_is_told_of_the_twin(foliot: Harness) -> None:
    with pytest.raises(FoliotError, match="arun_until_idle"):
        foliot.run_until_idle()


def test_a_delayed_job_waits_for_the_clock(foliot: Harness, foliot_app: Foliot) -> None:
    seen: list[tuple[str, float]] = []
    start = foliot.clock.now()

    @foliot_app.job
    def note(name: str) -> None:
        seen.append((name, (foliot.clock.now() - start).total_seconds()))

    note.options(delay=7200).submit("later")
    note.options(delay=timedelta(minutes=1)).submit("soon")
    note.options(run_at=start + timedelta(days=4)).submit("after all")
    assert foliot.run_until_idle() == 0
    assert foliot.advance("3 days") == 2
    assert seen == [("soon", 60), ("later", 7200)]
    assert foliot.clock.now() == start + timedelta(days=3)
    assert [job.state for job in foliot.jobs(note)] == ["succeeded", "succeeded", "scheduled"]
    foliot.advance_to(start + timedelta(days=4))
    assert seen[2:] == [("after all", 4 * 86400)]


def test_a_chain_of_delays_unfolds_within_one_advance(foliot: Harness, foliot_app: Foliot) -> None:
    seen: list[datetime] = []

    @foliot_app.job
    def every_hour() -> None:
        seen.append(foliot.clock.now())
        every_hour.options(delay=3600).submit()

    start = foliot.clock.now()
    every_hour.submit()
    foliot.advance("1 day")
    assert seen == [start + timedelta(hours=n) for n in range(25)]


def test_retries_come_as_the_clock_allows(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(max_attempts=3, retry=Fixed(60))
    def fail() -> None:
        raise ValueError(f"attempt {current_job().attempt}")

    handle = fail.submit()
    assert foliot.run_until_idle() == 1
    assert handle.status() == "scheduled"
    assert foliot.advance(59) == 0
    assert foliot.advance(1) == 1
    assert foliot.dead == []
    assert foliot.advance("1 hour") == 1
    assert [job.id for job in foliot.dead] == [handle.id]
    assert [str(failure.error) for failure in foliot.failures] == [
        "attempt 1",
        "attempt 2",
        "attempt 3",
    ]
    with pytest.raises(JobFailed, match="attempt 3"):
        handle.result()


def test_chance_is_the_same_every_time(foliot_app: Foliot) -> None:
    @foliot_app.job(retry=Exponential(first=100))
    def fail() -> None:
        raise ValueError

    def story() -> tuple[str, datetime]:
        with Harness(foliot_app) as foliot:
            handle = fail.submit()
            foliot.run_until_idle()
            return handle.id, handle.job().run_at

    assert story() == story()


def test_what_a_job_raises_can_be_seen_by_the_test(foliot: Harness, foliot_app: Foliot) -> None:
    seen = []

    @foliot_app.job
    def fail(n: int) -> None:
        seen.append(n)
        raise LookupError(n)

    fail.submit(1)
    fail.submit(2)
    with pytest.raises(LookupError, match="1"):
        foliot.run_until_idle(reraise=True)
    assert seen == [1]
    assert [job.state for job in foliot.jobs()] == ["scheduled", "ready"]
    foliot.run_until_idle()
    assert seen == [1, 2]


def test_a_verdict_of_the_test_is_no_failure_of_the_job(
    foliot: Harness, foliot_app: Foliot
) -> None:
    @foliot_app.job
    def check() -> None:
        pytest.fail("this should not have been called")

    check.submit()
    with pytest.raises(pytest.fail.Exception, match="should not"):
        foliot.run_until_idle()


@pytest.mark.parametrize("error", [Retry(after=5), Cancel("enough")])
def test_what_a_job_raises_on_purpose_is_not_raised_in_the_test(
    foliot: Harness, foliot_app: Foliot, error: FoliotError
) -> None:
    @foliot_app.job
    def stop() -> None:
        raise error

    handle = stop.submit()
    foliot.run_until_idle(reraise=True)
    assert handle.status() == ("scheduled" if isinstance(error, Retry) else "cancelled")


def test_a_job_that_keeps_coming_back_is_named(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def again() -> None:
        raise Retry(after=0)

    @foliot_app.job
    def once() -> None: ...

    once.submit()
    again.submit()
    with pytest.raises(NeverIdle, match="again keeps coming back"):
        foliot.run_until_idle(limit=3)
    assert foliot.jobs(again)[0].state != "running"


@pytest.mark.parametrize("is_async", [True, False])
def test_a_job_is_late_by_the_clock_of_the_test(
    foliot: Harness, foliot_app: Foliot, *, is_async: bool
) -> None:
    if is_async:

        @foliot_app.job(timeout=30, retry=Fixed(1), max_attempts=2)
        async def slow(seconds: float) -> str:
            foliot.advance(seconds)
            await asyncio.sleep(0.01)
            return "done"
    else:

        @foliot_app.job(timeout=30, retry=Fixed(1), max_attempts=2)
        def slow(seconds: float) -> str:
            foliot.advance(seconds)
            return "done"

    in_time, late = slow.submit(29), slow.submit(31)
    foliot.run_until_idle()
    assert in_time.result() == "done"
    assert late.status() == "scheduled"
    [attempt] = late.attempts()
    assert attempt.outcome == "timed_out"
    foliot.advance("1 minute")
    assert late.status() == "dead"


def test_sleeps_in_jobs_can_be_skipped(foliot: Harness, foliot_app: Foliot) -> None:
    foliot.skip_sleeps()
    began, start = time.monotonic(), foliot.clock.now()

    @foliot_app.job
    def nap(seconds: float) -> None:
        time.sleep(seconds)

    @foliot_app.job
    async def naps() -> list[str]:
        return list(await asyncio.gather(asyncio.sleep(3600, "a"), asyncio.sleep(7200, "b")))

    nap.submit(86400)
    handle = naps.submit()
    foliot.run_until_idle(reraise=True)
    assert handle.result() == ["a", "b"]
    assert foliot.clock.now() == start + timedelta(days=1, hours=2)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("is_async", [True, False])
def test_a_skipped_sleep_can_be_too_long(
    foliot: Harness, foliot_app: Foliot, *, is_async: bool
) -> None:
    foliot.skip_sleeps()
    if is_async:

        @foliot_app.job(timeout=30, max_attempts=1)
        async def slow() -> None:
            await asyncio.sleep(31)
    else:

        @foliot_app.job(timeout=30, max_attempts=1)
        def slow() -> None:
            time.sleep(31)

    began = foliot.clock.now()
    slow.submit()
    foliot.run_until_idle()
    [job] = foliot.dead
    assert job.reason == "timed_out"
    assert job.finished_at == began + timedelta(seconds=30 if is_async else 31)


def test_who_is_no_job_sleeps_as_always(foliot: Harness) -> None:
    foliot.skip_sleeps()
    before = foliot.clock.now()
    time.sleep(0.001)
    asyncio.run(asyncio.sleep(0.001))
    assert foliot.clock.now() == before
    foliot.close()
    assert time.sleep.__module__ == "time"
    assert asyncio.sleep.__module__ == "asyncio.tasks"


def test_nobody_waits_for_a_result_that_nobody_makes(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def add(a: int, b: int) -> int:
        return a + b

    before = foliot.clock.now()
    with pytest.raises(ResultTimeout):
        add.submit(1, 2).result(timeout=10)
    with pytest.raises(FoliotError, match="run_until_idle"):
        add.submit(1, 2).result()
    assert foliot.clock.now() == before


def test_jobs_are_not_run_inside_jobs(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def reach_out() -> None:
        foliot.run_until_idle()

    reach_out.submit()
    with pytest.raises(FoliotError, match="being run already"):
        foliot.run_until_idle(reraise=True)


def test_a_kind_that_nobody_knows_is_held(foliot: Harness, foliot_app: Foliot) -> None:
    stranger = Foliot()

    @stranger.job
    def unheard_of() -> None: ...

    handle = foliot_app.submit(unheard_of.prepare())
    foliot.run_until_idle()
    assert handle.status() == "held"
    foliot_app.registry.add(unheard_of.definition)
    foliot.run_until_idle()
    assert handle.status() == "succeeded"


class TestAssertions:
    @pytest.fixture(autouse=True)
    def shop(self, foliot: Harness, foliot_app: Foliot) -> None:
        @foliot_app.job(queue="mail")
        def send_email(to: str, subject: str = "Hello", at: datetime | None = None) -> None: ...

        @foliot_app.job
        def enqueue(queue: str, key: int) -> None: ...

        self.send_email, self.enqueue = send_email, enqueue

    def test_what_was_submitted_is_found_by_kind_arguments_and_options(
        self, foliot: Harness
    ) -> None:
        moment = datetime(2027, 1, 1, tzinfo=UTC)
        self.send_email.options(delay=60, key="a").submit("ada@example.org", at=moment)
        [job] = foliot.assert_submitted("send_email", to="ada@example.org", queue="mail", count=1)
        assert foliot.payload(job)["to"] == "ada@example.org"
        foliot.assert_submitted(self.send_email)
        foliot.assert_submitted("send_email", subject="Hello", at=moment, delay=60, key="a")
        foliot.assert_submitted("send_email", to=ANY, run_at=job.run_at, state="scheduled")
        foliot.assert_not_submitted("send_email", to="bob@example.org")
        foliot.assert_not_submitted("send_email", delay=61)
        foliot.assert_not_submitted(self.enqueue)

    def test_what_has_run_was_submitted_all_the_same(self, foliot: Harness) -> None:
        self.send_email.submit("ada@example.org")
        foliot.run_until_idle()
        foliot.assert_submitted("send_email", count=1)

    def test_a_submission_that_another_stands_for_is_not_counted(self, foliot: Harness) -> None:
        options = self.send_email.options(key="order-42")
        assert options.submit("a").id == options.submit("b").id
        foliot.assert_submitted("send_email", count=1)

    def test_the_message_lists_what_was_submitted(self, foliot: Harness) -> None:
        with pytest.raises(AssertionError, match="was not submitted; nothing was submitted"):
            foliot.assert_submitted("send_email", to="ada")
        self.send_email.options(delay=3600, key="k").submit("bob")
        with pytest.raises(AssertionError) as caught:
            foliot.assert_submitted("send_email", to="ada", queue="mail")
        due = foliot.clock.now() + timedelta(hours=1)
        assert str(caught.value) == (
            "send_email with to='ada', queue='mail' was not submitted; submitted were:\n"
            "  send_email(to='bob', subject='Hello', at=None) in mail, scheduled, "
            f"due {due:%Y-%m-%d %H:%M:%S}, key k"
        )
        with pytest.raises(AssertionError, match="was submitted once, not twice"):
            foliot.assert_submitted("send_email", count=2)
        with pytest.raises(AssertionError, match="was submitted once; submitted were:"):
            foliot.assert_not_submitted("send_email")

    def test_a_long_list_is_cut(self, foliot: Harness) -> None:
        for n in range(23):
            self.send_email.submit(str(n))
        with pytest.raises(AssertionError, match="… and 3 more"):
            foliot.assert_submitted(self.enqueue)

    def test_a_slip_in_a_name_is_an_error_and_no_answer(self, foliot: Harness) -> None:
        with pytest.raises(UnknownKind, match="did you mean send_email"):
            foliot.assert_not_submitted("send_emial")
        with pytest.raises(InvalidValue, match="neither an argument of send_email nor an option"):
            foliot.assert_not_submitted("send_email", too="ada")
        with pytest.raises(InvalidValue, match="state: 'ded' is none of"):
            foliot.jobs(state="ded")

    def test_a_name_that_could_be_either_is_the_argument(self, foliot: Harness) -> None:
        self.enqueue.submit("x", 1)
        foliot.assert_submitted(self.enqueue, queue="x", key=1)
        foliot.assert_submitted(self.enqueue, queue="x", options={"queue": "default"})
        foliot.assert_submitted(self.enqueue, payload={"queue": "x"})


def test_clear_forgets_all_jobs(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def fail() -> None:
        raise ValueError

    handle = fail.submit()
    foliot.run_until_idle()
    foliot.clear()
    assert (foliot.jobs(), foliot.failures) == ([], [])
    with pytest.raises(UnknownJob):
        handle.status()
    fail.submit()
    assert foliot.run_until_idle() == 1


def test_the_app_gets_its_own_store_and_clock_back(foliot_app: Foliot) -> None:
    before = (foliot_app.settings, foliot_app.clock, foliot_app.ids)
    with Harness(foliot_app, clock=ManualClock()) as foliot:
        assert foliot_app.clock is foliot.clock
        assert foliot_app.settings.store.url == "sqlite:///:memory:"
    assert (foliot_app.settings, foliot_app.clock, foliot_app.ids) == before


def test_no_test_sees_the_jobs_of_another(foliot_app: Foliot) -> None:
    @foliot_app.job
    def add(a: int, b: int) -> int:
        return a + b

    for _ in range(2):
        with Harness(foliot_app) as foliot:
            add.submit(1, 2)
            foliot.assert_submitted(add, count=1)
            assert foliot.run_until_idle() == 1


def test_an_app_can_be_named_by_the_test() -> None:
    with Harness() as foliot, Foliot("sqlite:///:memory:") as app:
        with pytest.raises(FoliotError, match=re.escape("foliot.use(app)")):
            foliot.run_until_idle()
        assert foliot.use(app).app is app
        foliot.use(app)
        with pytest.raises(FoliotError, match="one app"):
            foliot.use(Foliot())
        with pytest.raises(InvalidValue, match="is not a Foliot app"):
            foliot.use("shop:app")  # type: ignore[arg-type] # what people try


@pytest.mark.parametrize(
    ("span", "seconds"),
    [
        (90, 90),
        (1.5, 1.5),
        ("90", 90),
        ("1h30m", 5400),
        ("3 days", 3 * 86400),
        ("1 day", 86400),
        ("2 weeks and 1 hour", 14 * 86400 + 3600),
        ("1 hour, 30 minutes", 5400),
        ("250 milliseconds", 0.25),
        (timedelta(minutes=5), 300),
    ],
)
def test_spans_as_people_write_them(foliot: Harness, span: Any, seconds: float) -> None:
    before = foliot.clock.now()
    foliot.advance(span)
    assert (foliot.clock.now() - before).total_seconds() == seconds


@pytest.mark.parametrize("span", ["soon", "", "3 dayz", -1, "-3 days", True, None, "1 day 2"])
def test_a_span_that_is_none_is_refused(foliot: Harness, span: Any) -> None:
    with pytest.raises(InvalidValue, match="span"):
        foliot.advance(span)


def test_the_clock_never_goes_back(foliot: Harness) -> None:
    with pytest.raises(InvalidValue, match="is over"):
        foliot.advance_to(foliot.clock.now() - timedelta(seconds=1))
    with pytest.raises(InvalidValue, match="time zone"):
        foliot.advance_to(datetime(2040, 1, 1))  # noqa: DTZ001
