"""What the engine can do, it does in a test: nothing of it is imitated."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from foliot import Fixed, Foliot, FoliotError, current_job
from foliot.model.job import JobState
from foliot.queue_commands import pause_queue
from foliot.testing import Harness


def test_options_are_found_by_the_names_they_were_given_by(
    foliot: Harness, foliot_app: Foliot
) -> None:
    @foliot_app.job(tags=["shop"])
    def pack(order: int) -> None: ...

    pack.options(
        tags=["vip", "gift"],
        expires=timedelta(hours=1),
        idempotency_key="order-1",
        queue="parcels",
        ordering_key="ada",
        max_attempts=2,
        timeout=9,
    ).submit(1)
    foliot.assert_submitted(pack, order=1, tags=["vip"], queue="parcels", ordering_key="ada")
    foliot.assert_submitted(
        pack, expires=3600, idempotency_key="order-1", max_attempts=2, timeout=9
    )
    foliot.assert_submitted(pack, expires=foliot.clock.now() + timedelta(hours=1))
    foliot.assert_not_submitted(pack, tags=["vip", "other"])
    foliot.assert_not_submitted(pack, expires=3601)
    foliot.assert_not_submitted(pack, idempotency_key="order-2")
    foliot.run_until_idle()
    foliot.assert_submitted(pack, tags=["vip"], idempotency_key="order-1", state="succeeded")


def test_a_debounced_job_runs_once_when_it_is_quiet(foliot: Harness, foliot_app: Foliot) -> None:
    seen = []

    @foliot_app.job
    def index(page: int) -> None:
        seen.append(page)

    for page in range(3):
        index.options(key="site", key_mode="debounce", delay=60).submit(page)
        foliot.advance(40)
    assert seen == []
    foliot.advance(20)
    assert seen == [2]
    foliot.assert_submitted(index, count=1)


def test_an_idempotency_key_counts_by_the_clock_of_the_test(
    foliot: Harness, foliot_app: Foliot
) -> None:
    @foliot_app.job
    def pay(order: int) -> int:
        return order

    handles = [pay.options(idempotency_key="order-1").submit(1) for _ in range(2)]
    foliot.run_until_idle()
    handles.append(pay.options(idempotency_key="order-1").submit(1))
    assert len({handle.id for handle in handles}) == 1
    foliot.assert_submitted(pay, count=1)


def test_every_capability_is_there(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(requires={"gpu", "region:eu"})
    def train() -> str:
        return "trained"

    handle = train.submit()
    foliot.run_until_idle()
    assert handle.result() == "trained"


def test_jobs_of_one_ordering_key_wait_for_each_other(foliot: Harness, foliot_app: Foliot) -> None:
    seen = []

    @foliot_app.job(retry=Fixed(60))
    def step(n: int) -> None:
        seen.append((n, current_job().attempt))
        if n == 1 and current_job().attempt == 1:
            raise ValueError

    for n in (1, 2, 3):
        step.options(ordering_key="ada").submit(n)
    foliot.run_until_idle()
    assert seen == [(1, 1)]
    foliot.advance("1 minute")
    assert seen == [(1, 1), (1, 2), (2, 1), (3, 1)]


def test_a_fair_key_gets_its_turn(foliot: Harness, foliot_app: Foliot) -> None:
    seen = []

    @foliot_app.job
    def serve(customer: str) -> None:
        seen.append(customer)

    for customer in ["big"] * 5 + ["small"] * 2:
        serve.options(fair_key=customer).submit(customer)
    foliot.run_until_idle()
    assert sorted(seen) == ["big"] * 5 + ["small"] * 2


def test_what_has_expired_does_not_run(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def offer() -> None:
        pytest.fail("too late")

    handle = offer.options(expires=60).submit()
    foliot.clock.advance(61)  # only the clock: nothing runs meanwhile
    foliot.run_until_idle()
    assert (handle.status(), handle.job().reason) == ("cancelled", "expired")


def test_a_cancelled_job_does_not_run(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def never() -> None:
        pytest.fail("it was cancelled")

    handle = never.options(delay=60).submit()
    assert handle.cancel() == "cancelled"
    foliot.advance("1 hour")
    assert foliot.jobs(never, state="cancelled")


def test_start_up_and_shutdown_functions_surround_what_runs(
    foliot: Harness, foliot_app: Foliot
) -> None:
    seen = []

    @foliot_app.on_startup
    async def open_pool(state: Any) -> None:
        state.pool = "pool"
        seen.append("opened")

    @foliot_app.on_shutdown
    def close_pool(state: Any) -> None:
        seen.append(f"{state.pool} closed")

    @foliot_app.job
    def use(n: int) -> None:
        seen.append(f"{current_job().state.pool} used {n}")

    use.submit(1)
    use.options(delay=60).submit(2)
    foliot.advance("1 hour")
    assert seen == ["opened", "pool used 1", "pool used 2", "pool closed"]


def test_a_start_up_function_that_fails_is_told_to_the_test(
    foliot: Harness, foliot_app: Foliot
) -> None:
    @foliot_app.on_startup
    def fail() -> None:
        raise ValueError("no database")

    with pytest.raises(FoliotError, match="no database"):
        foliot.run_until_idle()


def test_middleware_is_called_around_jobs(foliot: Harness, foliot_app: Foliot) -> None:
    seen = []

    @foliot_app.middleware
    def trace(job: Any, call_next: Any) -> Any:
        seen.append(f"before {job.kind}")
        try:
            return call_next()
        finally:
            seen.append(f"after {job.kind}")

    @foliot_app.job
    def work() -> None:
        seen.append("work")

    work.submit()
    foliot.run_until_idle(reraise=True)
    assert seen == ["before work", "work", "after work"]


def test_log_lines_and_progress_are_there_afterwards(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(max_attempts=2, retry=Fixed(60))
    def talk() -> None:
        logging.getLogger("shop").warning("by logging")
        current_job().log("by log")
        current_job().progress(0.4, "rows")
        raise ValueError

    handle = talk.submit()
    foliot.run_until_idle()
    assert [line.message for line in handle.logs()] == ["by logging", "by log"]
    foliot.advance("1 minute")
    assert len(handle.logs()) == 4


def test_a_job_for_a_child_process_runs_where_the_test_can_see_it(
    foliot: Harness, foliot_app: Foliot
) -> None:
    seen = []

    @foliot_app.job(executor="process", memory="256MiB")
    def heavy() -> None:
        seen.append(os.getpid())

    heavy.submit()
    foliot.run_until_idle(reraise=True)
    assert seen == [os.getpid()]


def test_a_job_and_its_statements_commit_together(foliot_app: Foliot, tmp_path: Path) -> None:
    @foliot_app.job
    def keep() -> str:
        with current_job().transaction() as tx:
            tx.execute("CREATE TABLE kept (n integer)")
            tx.result = "kept"
        return "does not count"

    for url in (None, f"sqlite:///{tmp_path}/test.db"):
        with Harness(foliot_app, url=url) as foliot:
            handle = keep.submit()
            foliot.run_until_idle(reraise=True)
            assert handle.result() == "kept"


def test_what_ran_is_counted_on_the_clock_of_the_test(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(queue="parcels")
    def pack(order: int) -> None:
        foliot.clock.advance(2)

    for order in range(3):
        pack.options(delay=60).submit(order)
    foliot.advance("5 minutes")
    [row] = foliot_app.stats(minutes=10).rows
    assert (row.queue, row.ended, sum(row.series)) == ("parcels", 3, 3)
    assert row.run_p50 == pytest.approx(2, rel=0.25)
    assert row.wait_p95 == pytest.approx(4, rel=0.25), "the last waited for the others"
    foliot.advance("1 day")
    assert foliot_app.stats(minutes=10).rows == []


def test_jobs_under_a_rate_start_as_the_clock_brings_their_tokens(
    foliot: Harness, foliot_app: Foliot
) -> None:
    foliot_app.limit("kind:call", rate="1/second", burst=1)

    @foliot_app.job
    def call(number: int) -> int:
        return number

    handles = [call.submit(number) for number in range(10)]
    foliot.run_until_idle()
    assert [one.status() for one in handles].count(JobState.SUCCEEDED) == 1
    foliot.advance(4)
    assert [one.status() for one in handles].count(JobState.SUCCEEDED) == 5
    foliot.advance(3600)
    assert {one.status() for one in handles} == {"succeeded"}


def test_inline_the_clock_leaps_to_the_next_token_of_a_rate() -> None:
    app = Foliot()
    app.limit("kind:call", rate="1/minute", burst=1)

    @app.job
    def call(number: int) -> int:
        return number

    with app.inline():
        handles = [call.submit(number) for number in range(3)]
        assert [one.result(timeout=5) for one in handles] == [0, 1, 2]


def test_the_clock_does_not_leap_for_those_who_wait_for_something_else(
    foliot: Harness, foliot_app: Foliot
) -> None:
    """A paused queue behind a half-open breaker: time brings nothing, and the run comes to its end."""
    foliot_app.breaker("bank", failures=1, open_for=1)
    foliot_app.limit("kind:charge", rate="1/hour", burst=1)

    @foliot_app.job(breaker="bank", queue="bank", max_attempts=1)
    def charge() -> None:
        raise ConnectionError

    handles = [charge.submit() for _ in range(3)]
    foliot.run_until_idle()
    foliot_app.portal.call(_pause(foliot_app, "bank"))
    foliot.advance(7 * 86_400)
    assert [one.status() for one in handles] == ["dead", "held", "held"]


async def _pause(app: Foliot, queue: str) -> None:
    store = await app.portal.store()
    await pause_queue(store, queue)
