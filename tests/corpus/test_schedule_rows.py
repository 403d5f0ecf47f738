"""Rows of the matrix that are about schedules, each by the SDK."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from corpus.conftest import Echo
from corpus.rows import row
from foliot import InvalidValue


def refused(echo: Echo, *, expression: str = "0 9 * * *", **options: Any) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        echo.app.schedule("bad", echo.echo.prepare(1), expression, **options)
    assert echo.app.schedules(name="bad") == []
    return caught.value


@row("C69")
def test_an_end_in_the_past_is_refused(echo: Echo) -> None:
    error = refused(echo, end=datetime.now(UTC) - timedelta(days=1))
    assert error.field == "end" and error.example is not None


@row("C70")
def test_a_start_that_no_clock_reaches_is_refused(echo: Echo) -> None:
    for start in (
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
        datetime(3000, 1, 1, tzinfo=UTC),
        "10000-01-01T00:00:00Z",
    ):
        assert refused(echo, start=start).field == "start"


@row("C71")
@pytest.mark.parametrize("jitter", [-1, "-5s", 300, "1h"])
def test_jitter_is_less_than_the_interval(echo: Echo, jitter: Any) -> None:
    assert refused(echo, expression="*/5 * * * *", jitter=jitter).field == "jitter"


@row("C75")
def test_a_name_has_one_schedule(echo: Echo) -> None:
    app, call = echo.app, echo.echo.prepare(1)
    first = app.schedule("twice", call, "0 9 * * *")
    second = app.schedule("twice", call, "0 10 * * *")
    assert len(app.schedules(name="twice")) == 1
    assert first.get() == second.get()
    assert second.get().version == 2
    assert second.delete()


@row("A22", "A23")
@pytest.mark.parametrize("value", [True, "5", 1.5, 0, -1, 2**31])
def test_counts_are_whole_numbers(echo: Echo, value: Any) -> None:
    assert refused(echo, max_runs=value).field == "max_runs"


@row("A39")
def test_an_unknown_option_is_named_with_the_nearest(echo: Echo) -> None:
    error = refused(echo, timezon="UTC")
    assert "timezon" in str(error) and "did you mean timezone?" in str(error)


@row("A41", "A42", "A37")
@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "a\u202eb", "a\u200bb", "a\0b", 7, None])
def test_a_name_is_printable_and_short(echo: Echo, name: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        echo.app.schedule(name, echo.echo.prepare(1), "0 9 * * *")
    assert caught.value.field == "name"


@row("A55")
@pytest.mark.parametrize("field", ["start", "end", "anchor"])
def test_a_time_without_zone_is_refused(echo: Echo, field: str) -> None:
    naive = datetime(2027, 1, 1)  # noqa: DTZ001 - that is what is wrong with it
    assert refused(echo, expression="every 5 minutes", **{field: naive}).field == field


@row("A61")
def test_times_of_the_job_are_the_schedules(echo: Echo) -> None:
    for options in ({"delay": 5}, {"run_at": datetime(2027, 1, 1, tzinfo=UTC)}):
        with pytest.raises(InvalidValue, match="the schedule says when"):
            echo.app.schedule("bad", echo.echo.options(**options).prepare(1), "0 9 * * *")
