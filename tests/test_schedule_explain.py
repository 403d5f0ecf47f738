"""Why a schedule fires or does not: the true reason, on every store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from foliot import schedule_commands as commands
from foliot.ids import JobId, partition_of, schedule_id
from foliot.model.job import End, NewJob
from foliot.model.lane import lane_of
from foliot.model.schedule import ScheduleState
from foliot.schedule_calendars import set_calendar
from support.stores import World
from support.times import Times

pytestmark = pytest.mark.anyio


@pytest.fixture
def times(world: World) -> Times:
    world.clock.advance(1)  # past the minute
    return Times(world)


async def _why(times: Times) -> list[tuple[str, str | None]]:
    """All but what it is."""
    found = await commands.explain(times.store, "n")
    return [(reason.why, reason.change) for reason in found.reasons[:-1]]


async def _state(times: Times) -> ScheduleState:
    return (await commands.get(times.store, "n")).state


def _in(times: Times, **ahead: float) -> Any:
    return times.world.clock.now().replace(microsecond=0) + timedelta(**ahead)


def _shown(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


async def test_one_that_has_run_as_often_as_it_may_says_so(times: Times) -> None:
    await times.make(max_runs=2)
    await times.pass_minutes(3)
    assert await _state(times) is ScheduleState.ENDED
    assert await _why(times) == [
        ("it has run 2 times, as often as it may", "foliot schedules update n --max-runs 3")
    ]
    found = await commands.explain(times.store, "n")
    assert found.reasons[0].since == times.world.after(-60)
    await commands.update(times.store, "n", max_runs=3)
    assert await _state(times) is ScheduleState.ACTIVE


async def test_one_whose_end_has_passed_says_when_that_was(times: Times) -> None:
    end = _in(times, minutes=2)
    await times.make(end=end)
    await times.pass_minutes(4)
    assert await _state(times) is ScheduleState.ENDED
    assert await _why(times) == [
        (f"its end has passed: {_shown(end)}", "foliot schedules update n --clear end")
    ]
    found = await commands.explain(times.store, "n")
    assert found.reasons[0].since == end
    await commands.update(times.store, "n", end=None)
    assert await _state(times) is ScheduleState.ACTIVE


async def test_one_whose_expression_has_no_further_time_says_so(times: Times) -> None:
    await times.make(expression=_in(times, minutes=1).isoformat())
    await times.pass_minutes(2)
    assert await _state(times) is ScheduleState.ENDED
    [(why, change)] = await _why(times)
    assert why == "its expression names no further time"
    assert change is not None and "foliot schedules update n --expression" in change
    found = await commands.explain(times.store, "n")
    assert found.reasons[0].since == found.last[0].nominal


async def test_all_that_ended_it_is_said(times: Times) -> None:
    await times.make(max_runs=1, end=_in(times, minutes=2))
    await times.pass_minutes(4)
    whys = [why for why, _ in await _why(times)]
    assert [why.partition(":")[0] for why in whys] == [
        "it has run once, as often as it may",
        "its end has passed",
    ]


async def test_one_that_begins_later_does_not_fire_with_others_of_its_times(times: Times) -> None:
    start = _in(times, hours=1)
    await times.make("other")
    await times.make(start=start)
    [(why, _)] = await _why(times)
    assert why == f"next at {_shown(start.replace(second=0) + timedelta(minutes=1))}, in 1h59s"


async def test_a_day_on_which_it_does_not_fire_is_not_its_next(times: Times) -> None:
    day = _in(times, days=1).date()
    await set_calendar(times.store, "holidays", [day.isoformat()], by="ada")
    await times.make(expression="0 9 * * *", calendars=["holidays"])
    times.world.clock.advance(3600 * 10)
    await times.fire()
    [(why, _)] = await _why(times)
    assert why.startswith(f"next at {day + timedelta(days=1)} 09:00:00Z, in ")


async def test_one_that_will_not_fire_before_its_end_says_so(times: Times) -> None:
    end = _in(times, minutes=2, seconds=30)
    await times.make(end=end)
    await times.pass_minutes(2)
    assert await _state(times) is ScheduleState.ACTIVE
    assert await _why(times) == [
        (
            f"none of its times is left before its end: {_shown(end)}",
            "foliot schedules update n --clear end",
        )
    ]


async def test_one_that_fires_says_when_next_and_what_became_of_its_last_times(
    times: Times,
) -> None:
    await times.make()
    await times.pass_minutes(2)
    session = await times.world.open_session(lease=10_000)
    times.world.partition = partition_of(schedule_id("default", "n"), times.store.partitions)
    first, second = await times.world.claim(session)
    await times.world.end(session, first, End.BURY)
    await commands.pause(times.store, ["n"])
    times.world.clock.advance(60)
    await commands.resume(times.store, ["n"])
    lines = str(found := await commands.explain(times.store, "n")).splitlines()
    assert lines[0].startswith("active: next at ") and lines[0].endswith(("in 59s", "in 1m"))
    assert lines[1] == "  until its time comes; one more, now: foliot schedules trigger n"
    assert lines[2] == "every minute, UTC"
    assert all(line.startswith("last: ") for line in lines[3:])
    assert [line.rpartition(": ")[2] for line in lines[3:]] == [
        "paused",
        f"job {second.id} running",
        f"job {first.id} dead",
    ]
    assert [answer.job for answer in found.last] == [None, second.id, first.id]


async def test_one_that_the_code_declares_no_longer_says_since_when(times: Times) -> None:
    job = NewJob(JobId(""), "report", b"{}", lane_of("default", ()).number)
    await commands.create(times.store, [commands.Draft("n", job, "* * * * *", {}, "shop")])
    times.world.clock.advance(5)
    since = times.world.clock.now()
    id = schedule_id("default", "n")
    partition = partition_of(id, times.store.partitions)
    await times.store.schedules.pause(partition, [id], state=ScheduleState.PARKED)
    times.world.clock.advance(5)
    reason = (await commands.explain(times.store, "n")).reasons[0]
    assert reason.why == "the code of shop declares it no longer"
    assert reason.since == since
    assert reason.change == "it does again, or: foliot schedules resume n"


async def test_one_that_nobody_fires_is_overdue(times: Times) -> None:
    await times.make()
    times.world.clock.advance(600)
    [(why, change)] = await _why(times)
    assert "is overdue: no live process" in why
    assert change == "a worker starts, or: foliot scheduler"


async def test_one_that_is_overdue_while_the_scheduler_lives_says_so(times: Times) -> None:
    """It may have many others to fire first."""
    await times.make()
    times.world.clock.advance(600)
    await times.world.open_session(lease=1000, duties=True)
    [(why, change)] = await _why(times)
    assert why.endswith(" is overdue: the scheduler is behind")
    assert change == "it catches up"


async def test_one_that_follows_its_own_runs_tells_of_the_last(world: World, times: Times) -> None:
    await times.make(expression=None, overlap="skip", after_completion="10m")
    await times.fire()
    session = await world.open_session(lease=10_000)
    world.partition = partition_of(schedule_id("default", "n"), world.store.partitions)
    [job] = await world.claim(session)
    world.clock.advance(180)
    [(why, change)] = await _why(times)
    assert why == f"the next run begins 10m after the end of job {job.id}, which is running"
    assert change == f"it has ended; see: foliot jobs explain {job.id}"
    await world.end(session, job)
    world.clock.advance(60)
    [(why, _)] = await _why(times)
    assert why.startswith("next at ") and why.endswith((", in 9m", ", in 9m1s"))
    world.clock.advance(9 * 60 - 5)
    await times.fire()
    assert await world.claim(session) == []
    world.clock.advance(7)
    await times.fire()
    assert len(await world.claim(session)) == 1
