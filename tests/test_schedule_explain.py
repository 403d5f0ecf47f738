"""Why a schedule fires or does not: the true reason, on every store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from foliot import schedule_commands as commands
from foliot.breaker_commands import open_breaker
from foliot.ids import JobId, partition_of, schedule_id
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import End, Extras, More, NewJob
from foliot.model.lane import lane_of
from foliot.model.schedule import ScheduleState
from foliot.model.session import NewSession
from foliot.queue_commands import pause_queue
from foliot.schedule_calendars import set_calendar
from foliot.schedule_commands import Draft
from support.stores import World
from support.times import Times

pytestmark = pytest.mark.anyio


@pytest.fixture
def alone(world: World) -> Times:
    """While no process is alive."""
    world.clock.advance(1)  # past the minute
    return Times(world)


@pytest.fixture
async def times(alone: Times) -> Times:
    """While one is alive that does the duties and can run its jobs."""
    await _start(alone)
    return alone


async def _start(times: Times, **fields: Any) -> None:
    plain: dict[str, Any] = {"queues": (), "kinds": ("report",), "duties": True, **fields}
    session = NewSession(id=times.world.ids.session(), host="here", pid=1, version="0", **plain)
    await times.store.sessions.open(session, lease=10_000_000)


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
    await commands.create(times.store, [Draft("n", job, "* * * * *", {}, "shop")])
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


NOBODY = "no live process does the scheduler's duties"


@pytest.mark.parametrize("late", [1, 600])
async def test_one_that_nobody_fires_says_so_first_when_it_is_overdue(
    alone: Times, late: int
) -> None:
    await alone.make()
    due = _in(alone, minutes=1).replace(second=0)
    alone.world.clock.advance((due - alone.world.clock.now()).total_seconds() + late)
    nobody, overdue, *_ = (await commands.explain(alone.store, "n")).reasons
    assert (nobody.why, nobody.since) == (f"{NOBODY}; it waits for one", due)
    assert nobody.change == "a worker starts, or: foliot scheduler"
    assert (overdue.why, overdue.since) == (f"its time {_shown(due)} is overdue", due)
    await _start(alone, duties=False)
    nobody = (await commands.explain(alone.store, "n")).reasons[0]
    assert nobody.why == f"{NOBODY}: the live workers have worker.scheduler=false; it waits for one"
    assert nobody.change == "foliot scheduler runs, or a worker with worker.scheduler=true"


async def test_one_that_nobody_will_fire_says_so_second_before_its_time(alone: Times) -> None:
    await alone.make()
    await _start(alone, duties=False)
    next_, nobody, _ = (await commands.explain(alone.store, "n")).reasons
    assert next_.why.startswith("next at ")
    assert nobody.why == f"{NOBODY}: the live workers have worker.scheduler=false"
    assert nobody.since is None, "it has kept it from nothing yet"


async def test_one_that_follows_its_own_runs_says_that_nobody_will_fire_it(alone: Times) -> None:
    await alone.make(expression=None, overlap="skip", after_completion="10m")
    await alone.fire()
    await _start(alone, duties=False)
    run, nobody = await _why(alone)
    assert run[0].startswith("the next run begins 10m after the end of job ")
    assert nobody[0].startswith(NOBODY)


async def test_what_will_keep_its_jobs_from_running_is_said_before_they_are_made(
    alone: Times,
) -> None:
    more = More(requires=("gpu",), extras=Extras(breaker="stripe", limit_key="z:1"))
    job = NewJob(JobId(""), "report", b"{}", lane_of("default", ("gpu",)).number, more=more)
    await commands.create(alone.store, [Draft("n", job, "* * * * *", {"overlap": "allow"})])
    await _start(alone)
    await pause_queue(alone.store, "default", by="ada", note="the relay is down")
    await set_limit(alone.store, limit_of("key:z:1", concurrency=0))
    await set_limit(alone.store, limit_of("namespace:default", concurrency=1))
    await open_breaker(alone.store, "stripe", new=True)
    next_, paused, unable, limit, breaker, _ = (await commands.explain(alone.store, "n")).reasons
    assert next_.why.startswith("next at ")
    assert paused.why.startswith("the queue 'default' was paused by ada at ")
    assert "has what it requires: gpu; nobody has gpu" in unable.why and unable.since is None
    assert (limit.why, limit.since) == ("limit key:z:1 is at 0/0", None)
    assert breaker.why == "breaker 'stripe' was opened: by hand"
    await commands.pause(alone.store, ["n"])
    paused, _ = (await commands.explain(alone.store, "n")).reasons
    assert paused.why.startswith("paused"), "it makes none"


async def test_one_that_is_overdue_while_the_scheduler_lives_says_so(times: Times) -> None:
    """It may have many others to fire first."""
    await times.make()
    times.world.clock.advance(600)
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
