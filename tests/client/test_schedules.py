"""Schedules as code uses them, on both kinds of store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from foliot import Foliot, InvalidValue, Jobs, ScheduleState, UnknownSchedule

START = "2027-01-01T00:00:00Z"


@pytest.fixture
def add(app: Foliot) -> Any:
    @app.job(queue="sums", tags=["math"])
    def add(a: int, b: int = 1) -> int:
        return a + b

    return add


def test_a_schedule_is_made_read_changed_and_deleted(app: Foliot, add: Any) -> None:
    call = add.options(priority=0, max_attempts=2).prepare(1)
    handle = app.schedule(
        "sums", call, "every weekday at 9am", timezone="Europe/Berlin", tags=["shop"]
    )
    found = handle.get()
    assert (found.kind, found.queue, found.priority) == ("add", "sums", 0)
    assert found.payload == b'{"a":1,"b":1}'
    assert handle.status() is ScheduleState.ACTIVE
    assert app.get_schedule("sums").get() == found
    assert [one.name for one in app.schedules(tag="shop")] == ["sums"]
    fires = handle.next_fires(3)
    assert [fire.local.strftime("%H:%M") for fire in fires] == ["09:00"] * 3

    changed = handle.update("0 10 * * *", overlap="allow", job=add.prepare(2))
    assert (changed.version, changed.rules.text) == (2, "0 10 * * *")
    assert changed.payload == b'{"a":2,"b":1}'

    assert handle.pause("until monday", by="ada") and not handle.pause()
    assert handle.explain().why == "paused by ada: until monday"
    assert handle.resume() and not handle.resume()
    assert str(handle.explain()).startswith("active: next at ")

    assert handle.delete()
    with pytest.raises(UnknownSchedule):
        handle.get()
    with pytest.raises(UnknownSchedule):
        app.get_schedule("sums")


def test_many_are_made_of_drafts(app: Foliot, add: Any) -> None:
    drafts = [
        app.draft(f"s{n}", add.prepare(n), f"{n} * * * *", tags=("odd",) if n % 2 else ())
        for n in range(60)
    ]
    handles = app.schedule_many(drafts)
    assert [handle.name for handle in handles] == [f"s{n}" for n in range(60)]
    assert len(app.schedules(limit=100)) == 60
    assert app.pause_schedules(tag="odd", note="odd ones") == sorted(
        f"s{n}" for n in range(1, 60, 2)
    )
    assert len(app.schedules(state="paused")) == 30
    assert len(app.resume_schedules(tag="odd")) == 30
    assert app.schedule_many([]) == []


def test_a_run_by_hand_is_a_job_with_its_result(
    app: Foliot, add: Any, start_worker: Callable[[], None]
) -> None:
    handle = app.schedule("sums", add.prepare(2, 3), START)
    start_worker()
    job = handle.trigger()
    assert job is not None and job.result(timeout=10) == 5
    assert job.job().extras.schedule == "sums"


def test_a_span_is_made_up_for_once(app: Foliot, add: Any) -> None:
    handle = app.schedule("sums", add.prepare(1), "0 * * * *", overlap="allow")
    to = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - timedelta(hours=1)
    start = to - timedelta(hours=5)
    made = handle.backfill(start, to, overlap="allow")
    assert len(made) == 5
    assert handle.backfill(start, to) == []
    with pytest.raises(InvalidValue, match="force"):
        handle.backfill(start - timedelta(days=3000), start)
    with pytest.raises(InvalidValue, match="10,000"):
        handle.backfill(start - timedelta(days=3000), start, force=True)
    with pytest.raises(InvalidValue, match="ahead"):
        handle.backfill(start, to + timedelta(days=1))
    with pytest.raises(InvalidValue, match="before start"):
        handle.backfill(to, start)


def test_what_is_scheduled_fires_and_answers(
    app: Foliot, add: Any, start_worker: Callable[[], None]
) -> None:
    handle = app.schedule("often", add.prepare(1), "* * * * * *", overlap="allow")
    start_worker()
    while len([one for one in handle.fires() if one.state == "succeeded"]) < 3:
        time.sleep(0.1)
    answers = handle.fires()
    times = [answer.nominal for answer in answers]
    assert all(after - before == timedelta(seconds=1) for before, after in pairwise(times))
    assert all(one.job and one.fired_at and one.fired_at >= one.nominal for one in answers[:-1])


def test_the_preview_says_how_a_text_is_understood(app: Foliot) -> None:
    shown = app.preview(
        "30 2 * * *",
        timezone="Europe/Berlin",
        after=datetime(2026, 3, 28, 12, tzinfo=UTC),
        count=2,
    )
    assert "02:30" in shown.english
    assert shown.fires[0].at == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert shown.fires[0].note is not None and "clocks go forward" in shown.fires[0].note
    assert len(shown.fires) == 2 and len(shown.changes) == 1
    with pytest.raises(InvalidValue, match="count"):
        app.preview("@daily", count=0)
    with pytest.raises(InvalidValue, match="Mars"):
        app.preview("@daily", timezone="Mars/Olympus")


def test_days_of_a_calendar_are_left_out(app: Foliot, add: Any) -> None:
    app.set_calendar("weekends", ["0 0 * * SAT,SUN", "12-25"])
    assert app.calendars() == {"weekends": ["0 0 * * SAT,SUN", "12-25"]}
    handle = app.schedule("n", add.prepare(1), "0 9 * * *", calendars=["weekends"])
    assert all(fire.local.weekday() < 5 for fire in handle.next_fires(20))
    assert app.delete_calendar("weekends") and not app.delete_calendar("weekends")
    assert any(fire.local.weekday() >= 5 for fire in handle.next_fires(20))
    with pytest.raises(InvalidValue, match="calendar"):
        app.set_calendar("bad", ["2026-02-30"])


def test_the_forecast_counts_what_is_ahead(app: Foliot, add: Any) -> None:
    drafts = [app.draft(f"s{n}", add.prepare(1), "0 * * * *", overlap="allow") for n in range(7)]
    app.schedule_many([*drafts, app.draft("own", add.prepare(1), "30 * * * *")])
    found = app.forecast(hours=24)
    assert found.exact and len(found.minutes) == 24 * 60
    assert found.total in range(8 * 23, 8 * 24 + 1)
    second, count = found.herds[0]
    assert (second % 3600, count) == (0, 7)


def test_declared_schedules_are_synchronised_when_a_worker_starts(
    app: Foliot, start_worker: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(schedule="0 3 * * *")
    def tidy() -> None: ...

    @app.job(
        schedule=[
            {"name": "greet-ada", "expression": "0 9 * * *", "arguments": {"who": "ada"}},
            {
                "name": "greet-bob",
                "expression": "every weekday at 9am",
                "timezone": "Europe/Berlin",
                "arguments": {"who": "bob"},
                "overlap": "allow",
            },
        ]
    )
    def greet(who: str) -> None: ...

    with caplog.at_level(logging.INFO, logger="foliot.process"):
        start_worker()
        tidy.submit().result(timeout=10)
        assert app.sync_schedules().changes == []
    assert "+ greet-bob: greet, every weekday at 9am Europe/Berlin" in caplog.text
    assert [one.name for one in app.schedules()] == ["greet-ada", "greet-bob", "tidy"]
    assert app.get_schedule("greet-ada").get().payload == b'{"who":"ada"}'
    assert app.get_schedule("tidy").get().origin == __name__


def test_what_is_no_longer_declared_is_parked_and_comes_back(app: Foliot) -> None:
    @app.job(schedule=["0 3 * * *", {"name": "again", "expression": "0 4 * * *"}])
    def tidy() -> None: ...

    app.schedule("by-hand", tidy.prepare(), "0 5 * * *")
    before = str(app.sync_schedules())
    assert before.splitlines() == ["+ tidy: tidy, 0 3 * * *", "+ again: tidy, 0 4 * * *"]

    other = Foliot(settings=app.settings)

    @other.job(kind="tidy", schedule={"expression": "0 6 * * *", "misfire_window": "2h"})
    def changed() -> None: ...

    with other:
        diff = other.sync_schedules()
    assert str(diff).splitlines() == [
        "~ tidy: expression 0 3 * * * → 0 6 * * *, misfire_window none → 7200",
        f"- again: parked: {__name__} declares it no longer",
    ]
    assert app.get_schedule("again").status() is ScheduleState.PARKED
    assert app.get_schedule("by-hand").status() is ScheduleState.ACTIVE
    assert "declares it no longer" in app.get_schedule("again").explain().why

    assert "> again: declared again" in str(app.sync_schedules())
    assert app.get_schedule("again").status() is ScheduleState.ACTIVE


def test_one_that_people_paused_stays_paused_when_it_is_declared(app: Foliot) -> None:
    @app.job(schedule="0 3 * * *")
    def tidy() -> None: ...

    app.sync_schedules()
    app.get_schedule("tidy").pause("no")
    assert not app.sync_schedules()
    assert app.get_schedule("tidy").status() is ScheduleState.PAUSED


def test_jobs_of_a_collection_declare_too(app: Foliot) -> None:
    jobs = Jobs(queue="mail", prefix="mail.")

    @jobs.job(schedule="0 3 * * *")
    def tidy() -> None: ...

    app.include(jobs)
    app.sync_schedules()
    assert app.get_schedule("mail.tidy").get().queue == "mail"


def test_two_functions_cannot_declare_one_name(app: Foliot) -> None:
    @app.job(schedule={"name": "n", "expression": "0 3 * * *"})
    def one() -> None: ...

    @app.job(schedule={"name": "n", "expression": "0 4 * * *"})
    def other() -> None: ...

    with pytest.raises(InvalidValue, match="is the name of a schedule of"):
        app.sync_schedules()


@pytest.mark.parametrize(
    ("field", "schedule"),
    [
        ("expression", "61 * * * *"),
        ("expression", "in 10 minutes"),
        ("expression", {"timezone": "UTC"}),
        ("schedule", 5),
        ("schedule", {"expression": "0 3 * * *", "colour": "red"}),
        ("schedule", ["0 3 * * *", "0 4 * * *"]),
        ("schedule", [None]),
        ("name", {"expression": "0 3 * * *", "name": ""}),
        ("overlap", {"expression": "0 3 * * *", "overlap": "maybe"}),
        ("tags", {"expression": "0 3 * * *", "tags": "vip"}),
        ("arguments", {"expression": "0 3 * * *", "arguments": [1]}),
        ("tidy()", {"expression": "0 3 * * *", "arguments": {"n": 1}}),
    ],
)
def test_a_bad_declaration_is_refused_where_it_is_written(
    app: Foliot, field: str, schedule: Any
) -> None:
    with pytest.raises(InvalidValue) as caught:

        @app.job(schedule=schedule)
        def tidy() -> None: ...

    assert caught.value.field == field


def test_what_is_not_prepared_is_refused(app: Foliot, add: Any) -> None:
    with pytest.raises(InvalidValue, match="is not a prepared call"):
        app.schedule("n", add, "0 3 * * *")
    with pytest.raises(InvalidValue, match="is not a draft"):
        app.schedule_many([add.prepare(1)])
    with pytest.raises(InvalidValue, match="connection"):
        app.schedule("n", add.options(connection=object()).prepare(1), "0 3 * * *")
    with pytest.raises(InvalidValue, match="delay"):
        app.schedule("n", add.options(delay=5).prepare(1), "0 3 * * *")
    with pytest.raises(InvalidValue, match="expression"):
        app.schedule("n", add.prepare(1), "0 3 * *")
    assert app.schedules() == []


@pytest.mark.anyio
async def test_async_code_has_twins_of_all(app: Foliot, add: Any) -> None:
    handle = await app.aschedule("n", add.prepare(1), "0 3 * * *", tags=["t"])
    await app.aschedule_many([app.draft("m", add.prepare(2), "0 4 * * *")])
    assert (await app.aget_schedule("n")).name == "n"
    assert len(await app.aschedules()) == 2
    assert await handle.apause("note") and await handle.aresume()
    assert (await handle.aupdate("0 5 * * *")).version == 2
    assert await handle.astatus() is ScheduleState.ACTIVE
    assert len(await handle.anext_fires(2)) == 2
    assert await handle.afires() == []
    assert (await handle.aexplain()).why.startswith("next at ")
    assert await handle.atrigger() is not None
    day = datetime.now(UTC) - timedelta(days=1)
    assert await handle.abackfill(day, day + timedelta(minutes=1)) == []
    assert await app.apause_schedules(tag="t") == ["n"]
    assert await app.aresume_schedules(tag="t") == ["n"]
    await app.aset_calendar("c", ["12-25"])
    assert await app.acalendars() == {"c": ["12-25"]}
    assert await app.adelete_calendar("c")
    assert (await app.aforecast()).exact
    assert (await app.async_schedules()).changes == []
    assert await handle.adelete()
