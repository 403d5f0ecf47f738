"""Lists, counts, explanations and dead letters from Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from foliot import Foliot, InvalidValue, JobState, NotDead
from foliot.clock import SystemClock
from support.stores import Databases


def test_jobs_are_listed_and_counted_by_a_filter(app: Foliot) -> None:
    @app.job
    def send(to: str) -> None: ...

    @app.job
    def other() -> None: ...

    ids = [send.submit(to=to).id for to in ("ada", "bob")]
    other.submit()
    assert [job.id for job in app.jobs("kind:send")] == ids[::-1]
    assert [job.id for job in app.jobs("payload.to:ada")] == ids[:1]
    assert [job.id for job in app.jobs("kind:send", limit=1)] == ids[1:]
    assert app.count("kind:send") == 2
    assert app.count().exact
    with pytest.raises(InvalidValue, match="did you mean kind"):
        app.jobs("knd:send")


@pytest.mark.anyio
async def test_async_twins_of_looking(app: Foliot) -> None:
    @app.job
    def send() -> None: ...

    handle = await send.asubmit()
    assert [job.id for job in await app.ajobs("kind:send")] == [handle.id]
    assert await app.acount("kind:send") == 1
    assert (await handle.aexplain()).why == "no worker is alive; it waits for one"
    with pytest.raises(NotDead, match="is ready"):
        await handle.aretry()


def test_a_dead_job_is_mended_and_succeeds(app: Foliot, start_worker: Callable[[], None]) -> None:
    @app.job(max_attempts=1)
    def half(number: int) -> float:
        return 1 / number

    start_worker()
    handle = half.submit(0)
    with pytest.raises(Exception, match="division by zero"):
        handle.result(timeout=20)
    [dead] = app.jobs("state:dead kind:half")
    assert dead.id == handle.id
    assert "foliot dead retry" in str(handle.explain())
    for payload in ([2], {"number": object()}):
        with pytest.raises(InvalidValue, match="payload"):
            handle.retry(payload)  # type: ignore[arg-type] # that is the test
    assert handle.retry({"number": 2}, by="ada") is not JobState.DEAD
    assert handle.result(timeout=20) == 0.5
    assert handle.job().generation == 1
    assert [attempt.attempt for attempt in handle.attempts()] == [1]


class _Ahead(SystemClock):
    """An hour before all others."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


@pytest.mark.anyio
async def test_a_caller_whose_clock_is_wrong_is_told_by_that_of_the_store(
    databases: Databases,
) -> None:
    async with databases.borrow(1) as name:
        with Foliot(databases.server.url(name), clock=_Ahead()) as app:

            @app.job
            def send() -> None: ...

            later = await send.options(delay=200).asubmit()
            assert (await later.aexplain()).why.startswith("due in 3m")
            brief = await send.options(expires=1800).asubmit()
            assert (await brief.aexplain()).why == "no worker is alive; it waits for one"
