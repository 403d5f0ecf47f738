"""What the SDK has in common with every other way to submit: options, names, batches, cancelling."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corpus.conftest import Echo
from corpus.rows import row
from foliot import Foliot, JobState
from foliot.errors import InvalidValue


@pytest.fixture
def work(app: Foliot) -> Any:
    @app.job
    def work(n: int = 0) -> None: ...

    return work


@row("A25", "A39", "A55", "A57", "A61")
@pytest.mark.parametrize(
    ("options", "field", "complaint"),
    [
        ({"delay": -1}, "delay", "is not a number of seconds from 0 to"),
        ({"prioritty": 1}, "options", "is not an option"),
        ({"run_at": datetime(2026, 1, 1)}, "run_at", "has no time zone"),  # noqa: DTZ001
        ({"run_at": datetime.max.replace(tzinfo=UTC)}, "run_at", "is not between 1970 and 2999"),
        ({"run_at": datetime.min.replace(tzinfo=UTC)}, "run_at", "is not between 1970 and 2999"),
        (
            {"run_at": datetime(2027, 1, 1, tzinfo=UTC), "delay": 1},
            "delay",
            "cannot be given together with run_at",
        ),
    ],
    ids=str,
)
def test_options_that_are_refused(work: Any, options: Any, field: str, complaint: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        work.options(**options)
    assert refused.value.field == field
    assert complaint in refused.value.problem


@row("A22", "A23")
@pytest.mark.parametrize("value", [True, "5", 5.5, None])
def test_an_argument_is_not_made_fit(work: Any, value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"work\(\) cannot be called like this"):
        work.submit(value)


@row("A65", "A66")
def test_cancelling_says_what_the_job_is(echo: Echo) -> None:
    done = echo.echo.submit(1)
    assert done.result(timeout=30) == 1
    assert done.cancel() is JobState.SUCCEEDED
    later = echo.echo.options(delay=3600).submit(1)
    assert later.cancel() is JobState.CANCELLED
    assert later.cancel() is JobState.CANCELLED


@row("A70")
def test_a_batch_has_a_limit(app: Foliot, work: Any) -> None:
    call = work.prepare()
    with pytest.raises(InvalidValue, match=r"has 100001 jobs, more than limits.batch, 100000"):
        app.submit_many([call] * 100_001)


@row("A71")
def test_one_bad_call_in_a_batch_is_named_and_nothing_is_stored(app: Foliot, work: Any) -> None:
    calls: list[Any] = [work.prepare() for _ in range(500)]
    calls[437] = "work"
    with pytest.raises(InvalidValue, match=r"submit_many\(\)\[437\]: 'work' is not a prepared"):
        app.submit_many(calls)
    last = work.submit()
    assert last.status() is JobState.READY
    assert sum(_count(app).values()) == 1


def _count(app: Foliot) -> dict[JobState, int]:
    async def count() -> dict[JobState, int]:
        return await (await app._portal.store()).jobs.count()

    return app._portal.call(count())
