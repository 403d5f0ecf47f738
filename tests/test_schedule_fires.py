"""The ledger: for every nominal time one answer, on every store, with the duties that fire."""

from __future__ import annotations

from datetime import timedelta
from itertools import count, islice
from typing import Any, cast

import msgspec
import pytest

from foliot import schedule_commands as commands
from foliot.errors import InvalidValue
from foliot.ids import JobId, fire_id, partition_of, schedule_id
from foliot.model.job import NewJob, Outcome
from foliot.model.lane import lane_of
from foliot.model.schedule import Reason
from foliot.schedule_commands import Draft
from foliot.scheduler.catch_up import MOST
from foliot.scheduler.timetables import Timetables
from foliot.search import list_jobs
from foliot.store.port import Share
from foliot.when import Timetable, parse
from support.stores import World
from support.times import MINUTE, Times

pytestmark = pytest.mark.anyio


@pytest.fixture
def times(world: World) -> Times:
    world.clock.advance(1)  # past the minute
    return Times(world)


async def test_what_was_fired_is_answered_by_its_job(times: Times) -> None:
    await times.make()
    await times.pass_minutes(3)
    answers = await times.fires()
    noon = times.world.clock.now().replace(minute=0, second=0, microsecond=0)
    assert [one.nominal for one in answers] == [
        noon + timedelta(minutes=minute) for minute in (1, 2, 3)
    ]
    id = schedule_id("default", "n")
    expected = [fire_id(id, int(one.nominal.timestamp())) for one in answers]
    assert [one.job for one in answers] == expected
    assert all(one.state == "ready" and one.fired_at is not None for one in answers)


async def test_what_has_only_just_come_is_not_yet_answered_and_later_is_missed(
    times: Times,
) -> None:
    await times.make()
    await times.pass_minutes(1)
    times.world.clock.advance(MINUTE)
    assert await times.reasons() == ["J"]
    times.world.clock.advance(20)
    missed = (await times.fires())[-1]
    assert missed.reason is Reason.MISSED
    assert missed.note == "no scheduler has fired it yet"


async def test_after_an_outage_one_warning_tells_of_all_late_triggers(
    times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    for minute in range(1, 13):
        await times.make(f"n{minute}", f"{minute} * * * *")
    times.world.clock.advance(2 * 60 * MINUTE)
    await times.fire()
    told = [record for record in caplog.records if "missed" in record.getMessage()]
    assert 1 <= len(told) <= times.store.partitions
    late = [record.getMessage() for record in told]
    assert sum(_more(one) + 1 for one in late) == 12
    assert sum(int(one.split("missed ")[1].split(maxsplit=1)[0]) for one in late) == 24


def _more(told: str) -> int:
    """How many schedules a warning does not name."""
    return int(told.split(" and ")[1].split(maxsplit=1)[0]) if " more " in told else 0


async def test_a_late_schedule_is_named_as_people_called_it(
    times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    await times.make("heartbeat", "every 2 seconds")
    times.world.clock.advance(40)
    await times.fire()
    [told] = [record.getMessage() for record in caplog.records if "missed" in record.getMessage()]
    assert told == "'heartbeat' is late by 39 s and has missed 20 times"


async def test_schedules_that_are_late_together_are_told_of_together(
    times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    partitions = times.store.partitions
    names = (f"n{number}" for number in count())
    first = (n for n in names if not partition_of(schedule_id("default", n), partitions))
    made = list(islice(first, 4))
    for name in made[:3]:
        await times.make(name)
    await times.make(made[3], "1 * * * *")
    times.world.clock.advance(5 * MINUTE)
    await times.fire()
    [told] = [record.getMessage() for record in caplog.records if "missed" in record.getMessage()]
    named = told.split("'")[1]
    assert named in made
    assert told.replace(named, "n") == (
        "'n' and 3 more are late, the first by 241 s, and have missed 6 times of 2 triggers"
    )


async def test_a_pause_answers_for_its_times(times: Times) -> None:
    await times.make()
    await times.pass_minutes(1)
    await commands.pause(times.store, "n")
    await times.pass_minutes(2)
    assert await times.reasons() == ["J", "paused", "paused"]
    await commands.resume(times.store, "n")
    await times.pass_minutes(1)
    assert await times.reasons() == ["J", "paused", "paused", "J"]


async def test_a_change_leaves_the_past_as_it_was(times: Times) -> None:
    await times.make()
    await times.pass_minutes(2)
    before = await times.fires()
    await commands.update(times.store, "n", expression="*/2 * * * *")
    await times.pass_minutes(4)
    after = await times.fires()
    assert after[:2] == before
    assert [one.nominal.minute for one in after] == [1, 2, 4, 6]
    assert all(one.job for one in after)


async def test_missed_times_are_answered_by_the_rule_for_misfires(times: Times) -> None:
    for rule in ("skip", "latest", "all"):
        await times.make(rule, misfire=rule)
    await times.make("window", misfire="all", misfire_window="90s")
    times.world.clock.advance(4 * MINUTE)
    await times.fire()
    assert await times.reasons("skip") == ["misfire"] * 4
    assert await times.reasons("latest") == ["missed"] * 4
    await times.catch_up()
    assert await times.reasons("skip") == ["misfire"] * 4
    assert await times.reasons("latest") == ["coalesced"] * 3 + ["J"]
    latest = await times.fires("latest")
    assert {one.into for one in latest[:3]} == {latest[3].job}
    assert await times.reasons("all") == ["J"] * 4
    assert await times.reasons("window") == ["misfire"] * 2 + ["J"] * 2


async def test_a_missed_time_follows_the_rule_of_its_version(times: Times) -> None:
    await times.make(misfire="skip")
    times.world.clock.advance(2 * MINUTE)
    await times.fire()
    await commands.update(times.store, "n", misfire="all")
    await times.pass_minutes(1)
    await times.catch_up()
    assert await times.reasons() == ["misfire", "misfire", "J"]


async def test_days_of_a_calendar_are_excluded(times: Times) -> None:
    today = times.world.clock.now().date().isoformat()
    await commands.set_calendar(times.store, "today", [today])
    await times.make("n", calendars=["today"])
    await times.make("other")
    await times.pass_minutes(2)
    assert await times.reasons("n") == ["excluded"] * 2
    assert await times.reasons("other") == ["J"] * 2


async def test_a_run_that_has_not_ended_is_the_reason(times: Times) -> None:
    await times.make(overlap="skip")
    await times.pass_minutes(3)
    assert await times.reasons() == ["J", "overlap", "overlap"]


async def test_after_its_last_run_nothing_is_to_be_answered(times: Times) -> None:
    await times.make(max_runs=2)
    await times.pass_minutes(4)
    assert await times.reasons() == ["J", "J"]


async def test_a_span_and_a_limit_choose_among_the_answers(times: Times) -> None:
    await times.make()
    start = times.world.clock.now()
    await times.pass_minutes(6)

    async def minutes(**wanted: Any) -> list[int]:
        return [one.nominal.minute for one in await times.fires(**wanted)]

    assert await minutes(limit=2) == [5, 6]
    assert await minutes(to=start + timedelta(minutes=3)) == [1, 2, 3]
    assert await minutes(start=start + timedelta(minutes=3)) == [4, 5, 6]
    two = start.replace(minute=2, second=0)
    assert await minutes(start=two, to=two) == [2]
    with pytest.raises(InvalidValue, match="before start"):
        await times.fires(start=start, to=start - timedelta(hours=1))
    with pytest.raises(InvalidValue, match="limit"):
        await times.fires(limit=0)


async def test_a_backfill_answers_for_what_was_missed_by_the_version_of_then(times: Times) -> None:
    await times.make(misfire="skip")
    start = times.world.clock.now().replace(second=0, microsecond=0)
    times.world.clock.advance(2 * MINUTE)
    await times.fire()
    await commands.update(times.store, "n", expression="*/2 * * * *")
    times.world.clock.advance(4 * MINUTE)
    await times.fire()
    assert await times.reasons() == ["misfire"] * 4
    made = await commands.backfill(
        times.store, "n", start, times.world.clock.now(), overlap="allow", retention=86_400
    )
    answers = await times.fires()
    assert [one.job for one in answers][-len(made) :] == made[-len(answers) :]
    # Before it was made, it is taken for what it was first.
    assert [one.nominal.minute for one in answers] == [1, 2, 4, 6]
    job = await times.world.get(made[-1])
    assert (job.extras.schedule, job.extras.nominal) == (
        "n",
        int(answers[-1].nominal.timestamp()),
    )


async def test_a_backfill_runs_one_after_the_other_unless_told_otherwise(times: Times) -> None:
    await times.make(misfire="skip")
    start = times.world.clock.now()
    times.world.clock.advance(3 * MINUTE)
    await times.fire()
    made = await commands.backfill(times.store, "n", start, times.world.clock.now())
    keys = {(await times.world.get(id)).ordering_key for id in made}
    assert len(made) == 3 and keys == {f"schedule:{schedule_id('default', 'n')}"}


async def test_history_that_is_gone_needs_force(times: Times) -> None:
    await times.make()
    now = times.world.clock.now()
    old = now - timedelta(days=40)
    common: dict[str, Any] = {"retention": 30 * 86_400.0}
    with pytest.raises(InvalidValue, match="further back than history goes, 30d"):
        await commands.backfill(times.store, "n", old, old + timedelta(hours=1), **common)
    made = await commands.backfill(
        times.store, "n", old, old + timedelta(hours=1), force=True, **common
    )
    assert len(made) == 60


async def test_a_trigger_that_cannot_be_read_here_keeps_no_other_from_firing(
    world: World, times: Times
) -> None:
    await times.make("good")
    job = NewJob(JobId(""), "report", b"{}", lane_of("default", ()).number)
    draft = Draft("strange", job, "*/2 * * * *", cast(Any, {"overlap": "allow"}))
    [strange] = [commands.check_draft(draft, now=world.clock.now().timestamp())]
    assert strange.trigger is not None
    trigger = msgspec.structs.replace(strange.trigger, timezone="Mars/Olympus_Mons")
    strange = msgspec.structs.replace(strange, trigger=trigger)
    partition = partition_of(strange.id, world.store.partitions)
    await world.store.schedules.create(partition, [strange])
    await times.pass_minutes(4)
    answers = await commands.fires(world.store, "good")
    assert len(answers) == 4 and all(answer.job is not None for answer in answers)
    overdue = await world.store.schedules.overdue(seconds=30)
    assert [late.timezone for late in overdue] == ["Mars/Olympus_Mons"]


async def test_times_that_are_about_to_fire_take_no_place_of_those_that_have_an_answer(
    times: Times,
) -> None:
    await times.make(expression="* * * * * *")
    times.world.clock.advance(1)
    await times.fire()
    *_, fired = await times.fires()
    times.world.clock.advance(5)
    assert await times.fires(limit=1) == [fired]


async def test_what_was_backfilled_and_has_run_is_not_caught_up_with(
    world: World, times: Times
) -> None:
    await times.make("late", misfire="all")
    begin = world.clock.now()
    world.clock.advance(5 * MINUTE)
    await times.fire()  # nobody had: five times are missed, and to be caught up with
    await commands.backfill(
        world.store, "late", begin, begin + timedelta(minutes=2), overlap="allow"
    )
    session = await world.open_session()
    partition = partition_of(schedule_id("default", "late"), world.store.partitions)
    lane = Share(lane_of("default", ()), 10)
    cycle = await world.store.jobs.finish_and_claim(partition, session, shares=[lane], room=10)
    ran = {job.id for job in cycle.claimed}
    outcomes = [Outcome(job.id, job.fence, order=job.order) for job in cycle.claimed]
    await world.store.jobs.finish_and_claim(partition, session, outcomes=outcomes)
    assert ran
    await times.catch_up()
    live = await world.store.jobs.live(sorted(ran))
    assert live == {}
    answers = await commands.fires(world.store, "late")
    assert len(answers) == 5 and all(answer.job is not None for answer in answers)


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_time_that_is_about_to_fire_is_not_backfilled_and_runs_once(times: Times) -> None:
    await times.make()
    begin = times.world.clock.now() - timedelta(minutes=1)
    times.world.clock.advance(MINUTE)
    now = times.world.clock.now()
    due = fire_id(schedule_id("default", "n"), int(now.replace(second=0).timestamp()))
    made = await commands.backfill(times.store, "n", begin, now, overlap="allow")
    assert len(made) == 1 and due not in made
    session = await times.world.open_session()
    for job in await times.world.claim(session):
        await times.world.end(session, job)
    await times.fire()
    await times.world.look()
    assert [job.id for job in await times.world.claim(session)] == [due]


async def test_what_is_due_while_a_schedule_is_paused_can_be_backfilled(times: Times) -> None:
    await times.make()
    begin = times.world.clock.now()
    await commands.pause(times.store, "n")
    times.world.clock.advance(2 * MINUTE)
    assert len(await commands.backfill(times.store, "n", begin, times.world.clock.now())) == 2


async def test_many_triggers_are_caught_up_with_together(world: World, times: Times) -> None:
    for number in range(30):
        await times.make(f"n{number}", f"{number} * * * *")
    world.clock.advance(3600 + 30)
    await times.fire()
    times.steps = 0
    await times.catch_up()
    assert times.steps <= 2 * world.store.partitions
    for number in range(30):
        assert [one.job is not None for one in await commands.fires(world.store, f"n{number}")]
    assert (await world.store.jobs.peek()).missed == frozenset()


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_time_whose_unique_key_a_live_job_has_is_answered(times: Times) -> None:
    job = NewJob(JobId(""), "report", b"{}", lane_of("default", ()).number, key="one")
    await commands.create(times.store, [Draft("n", job, "* * * * *", {"overlap": "allow"})])
    await times.pass_minutes(3)
    assert await times.reasons() == ["J", "key", "key"]


async def test_a_schedule_past_its_end_has_ended(world: World, times: Times) -> None:
    end = world.clock.now() + timedelta(minutes=2)
    await times.make("short", end=end)
    assert (await commands.get(world.store, "short")).state == "active"
    await times.pass_minutes(3)
    found = await commands.get(world.store, "short")
    assert (found.state, found.next_at) == ("ended", None)
    assert [one.state for one in await commands.search(world.store, name="short")] == ["ended"]
    assert len(await commands.fires(world.store, "short")) == 2


async def test_one_whose_last_time_is_excluded_has_ended(world: World, times: Times) -> None:
    at = world.clock.now() + timedelta(minutes=2)
    await commands.set_calendar(world.store, "closed", [f"{at:%Y-%m-%d}"])
    await times.make("once", f"{at:%Y-%m-%dT%H:%M:%SZ}", calendars=["closed"])
    await times.pass_minutes(3)
    assert (await commands.get(world.store, "once")).state == "ended"
    assert await times.reasons("once") == ["excluded"]


async def test_a_calendar_that_cannot_be_read_stops_only_those_who_name_it(
    world: World, times: Times
) -> None:
    await commands.set_calendar(world.store, "good", ["2001-01-01"])
    await times.make("free")
    await times.make("tied", calendars=["good"])
    await world.store.calendars.put("bad", '["the day after tomorrow, perhaps"]')
    await times.pass_minutes(2)
    assert await times.reasons("free") == ["J", "J"]
    assert await times.reasons("tied") == ["J", "J"]
    await world.store.calendars.put("good", '["the day after tomorrow, perhaps"]')
    await times.pass_minutes(1)
    assert await times.reasons("free") == ["J", "J", "J"]
    assert len(await world.store.schedules.overdue(seconds=0.5)) == 1


class Counted:
    """A timetable that counts how often it is asked."""

    asked = 0

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable

    def next_after(self, moment: int) -> int | None:
        self.asked += 1
        return self._timetable.next_after(moment)


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_long_gap_is_looked_through_once_and_from_its_end(
    times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    await times.make("n", "@every 1s", misfire="all", catchup_rate=2)
    times.world.clock.advance(24 * 60 * MINUTE)
    now = times.world.clock.now()
    await times.fire()
    counted = Counted(parse("@every 1s").timetable())
    monkeypatch.setattr(Timetables, "of", lambda self, due: counted)
    for _ in range(5):
        await times.catch_up_once()
    assert counted.asked < 2 * MOST
    jobs = (await list_jobs(times.store, "schedule:n", limit=100)).jobs
    found = {job.extras.nominal: round((job.run_at - now).total_seconds(), 1) for job in jobs}
    first = int(now.timestamp()) - MOST + 1
    assert found == {first + n: n / 2 for n in range(5)}
