"""Runs of schedules that look at their own: what may follow what, how often, and when to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from foliot.errors import UnknownSchedule
from foliot.ids import JobId, ScheduleId, fire_id
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, NewJob
from foliot.model.schedule import Misfire, Overlap, ScheduleState
from foliot.store.scheduling import CatchUp, Fired
from support.schedules import TZDATA, Table, move_of
from support.stores import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def table(world: World) -> Table:
    return Table(world)


async def _claim(world: World, table: Table) -> ClaimedJob:
    """By a session of its own, so that a job can outlive the others."""
    await world.look()
    [job] = await world.claim(await world.open_session(lease=1e6), 1)
    return job


async def _end(world: World, job: ClaimedJob, end: End = End.SUCCEED) -> None:
    session = (await world.get(job.id)).session
    assert session is not None
    await world.end(session, job, end)


async def _run(world: World, table: Table, end: End = End.SUCCEED) -> None:
    await _end(world, await _claim(world, table), end)


def _by_hand(world: World, table: Table, id: ScheduleId, **fields: Any) -> NewJob:
    return world.new_job(more=More(schedule=id, extras=Extras(schedule="s")), **fields)


def _of_times(world: World, table: Table, id: ScheduleId, *minutes: int) -> list[NewJob]:
    """One after the other."""
    jobs: list[NewJob] = []
    for minute in minutes:
        extras = Extras(schedule="s", nominal=table.at(minute))
        more = More(schedule=id, ordering_key=f"schedule:{id}", extras=extras)
        new = world.new_job(more=more)
        jobs.append(msgspec.structs.replace(new, id=fire_id(id, table.at(minute))))
    return jobs


async def test_skip_makes_no_run_while_one_has_not_ended(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.SKIP)
    for minute in (1, 2, 3):
        await table.fire_at(minute)
    assert await table.states(id, 1, 2, 3) == ["ready", None, None]
    assert await table.ledger(id) == [(2, 3, "overlap")]
    job = await _claim(world, table)
    await table.fire_at(4)
    await _end(world, job)
    await table.fire_at(5)
    await table.fire_at(6)
    assert await table.states(id, 4, 5, 6) == [None, "ready", None]
    assert await table.ledger(id) == [(2, 4, "overlap"), (6, 6, "overlap")]
    found = await world.store.schedules.ledger(id, start=0, to=table.at(99))
    assert [entry.count for entry in found] == [3, 1]


@pytest.mark.parametrize("end", [End.SUCCEED, End.CANCEL, End.BURY])
async def test_however_a_run_ends_the_next_may_follow(world: World, table: Table, end: End) -> None:
    id = await table.create(overlap=Overlap.SKIP)
    await table.fire_at(1)
    await _run(world, table, end)
    await table.fire_at(2)
    assert await table.states(id, 2) == ["ready"]


async def test_a_run_that_was_cancelled_or_expired_before_it_began_is_in_nobodys_way(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.SKIP, start_deadline=30)
    await table.fire_at(1)
    await world.cancel(fire_id(id, table.at(1)))
    await table.fire_at(2)
    world.clock.advance(60)
    assert await world.store.admission.expire(table.partition, limit=10) == 1
    await table.fire()
    assert await table.states(id, 1, 2, 3) == ["cancelled", "cancelled", "ready"]


async def test_a_run_that_is_retried_is_still_that_run(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.SKIP)
    await table.fire_at(1)
    await _end(world, await _claim(world, table), End.RETRY)
    await table.fire_at(2)
    assert await table.states(id, 2) == [None]


async def test_a_dead_run_that_is_retried_by_hand_is_a_live_run_again(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.SKIP)
    await table.fire_at(1)
    await _run(world, table, End.BURY)
    await world.store.dead.retry(
        table.partition, [fire_id(id, table.at(1))], record=lambda _ids: []
    )
    await table.fire_at(2)
    assert await table.states(id, 1, 2) == ["ready", None]


async def test_buffer_one_lets_one_wait(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.BUFFER_ONE)
    for minute in (1, 2, 3):
        await table.fire_at(minute)
    assert await table.ledger(id) == [(3, 3, "overlap")]
    job = await _claim(world, table)
    assert job.id == fire_id(id, table.at(1))
    assert await table.states(id, 1, 2, 3) == ["running", "held", None]
    await _end(world, job)
    assert await table.states(id, 1, 2) == ["succeeded", "ready"]


async def test_buffer_all_lets_so_many_wait_and_they_run_in_their_order(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.BUFFER_ALL, buffer=3)
    for minute in range(1, 7):
        await table.fire_at(minute)
    assert await table.ledger(id) == [(5, 6, "overlap")]
    for minute in range(1, 5):
        job = await _claim(world, table)
        assert job.id == fire_id(id, table.at(minute))
        await _end(world, job)


async def test_cancel_other_asks_the_run_to_end_and_waits_for_it(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.CANCEL_OTHER)
    await table.fire_at(1)
    job = await _claim(world, table)
    fired = await table.fire_at(2)
    assert fired.cancelled == {job.id: JobState.RUNNING}
    await world.look()
    assert await table.states(id, 1, 2) == ["running", "held"]
    assert (await world.get(job.id)).cancel_requested
    fired = await table.fire_at(3)  # the one that waits ends at once
    waiting = fire_id(id, table.at(2))
    assert fired.cancelled == {job.id: JobState.RUNNING, waiting: JobState.HELD}
    assert await table.states(id, 1, 2) == ["running", "cancelled"]
    await _end(world, job, End.CANCEL)
    await world.look()
    assert await table.states(id, 1, 3) == ["cancelled", "ready"]


async def test_terminate_other_does_not_wait_for_it(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.TERMINATE_OTHER)
    await table.fire_at(1)
    job = await _claim(world, table)
    fired = await table.fire_at(2)
    assert fired.cancelled == {job.id: JobState.RUNNING}
    assert await table.states(id, 1, 2) == ["running", "ready"]
    assert await table.ledger(id) == []


async def test_allow_looks_at_nothing(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.ALLOW)
    for minute in (1, 2, 3):
        await table.fire_at(minute)
    assert await table.states(id, 1, 2, 3) == ["ready"] * 3


async def test_after_so_many_runs_it_has_ended(world: World, table: Table) -> None:
    id = await table.create(max_runs=2)
    other = await table.create(max_runs=9)
    for minute in (1, 2, 3):
        await table.fire_at(minute)
    assert await table.states(id, 1, 2, 3) == ["ready", "ready", None]
    found = await table.get(id)
    assert (found.state, found.runs, found.trigger) == (ScheduleState.ENDED, 2, None)
    assert (await table.get(other)).runs == 3


async def test_a_time_without_a_run_does_not_count_as_one(world: World, table: Table) -> None:
    id = await table.create(max_runs=2, overlap=Overlap.SKIP)
    for minute in (1, 2, 3):
        await table.fire_at(minute)
    assert (await table.get(id)).runs == 1
    await _run(world, table)
    await table.fire_at(4)
    assert await table.state(id) is ScheduleState.ENDED


async def test_failures_in_a_row_pause_it_and_count_anew_when_it_is_resumed(
    world: World, table: Table
) -> None:
    new = table.new(pause_after=2)
    id = new.id
    await world.store.schedules.create(table.partition, [new])
    for minute, end in enumerate((End.BURY, End.SUCCEED, End.BURY, End.BURY), 1):
        await table.fire_at(minute)
        world.clock.advance(1)
        await _run(world, table, end)
    await table.fire_at(5)
    found = await table.get(id)
    assert (found.state, found.paused_by) == (ScheduleState.PAUSED, "foliot")
    assert found.note == "2 failures in a row"
    assert await table.states(id, 5) == [None]
    assert await table.ledger(id) == [(5, None, "paused")]
    world.clock.advance(30)
    await world.store.schedules.resume(table.partition, [(id, new.trigger, 1)])
    for minute in (6, 7):
        await table.fire_at(minute)
        world.clock.advance(1)
        await _run(world, table, End.BURY)
        assert await table.states(id, minute) == ["dead"]
    await table.fire_at(8)
    assert await table.state(id) is ScheduleState.PAUSED
    assert [entry for entry in await table.ledger(id) if entry[0] == 5] == [(5, 5.5, "paused")]


async def test_a_cancelled_run_is_no_failure_and_no_success(world: World, table: Table) -> None:
    id = await table.create(pause_after=2)
    for minute, end in enumerate((End.BURY, End.CANCEL, End.BURY), 1):
        await table.fire_at(minute)
        world.clock.advance(1)
        await _run(world, table, end)
    await table.fire_at(4)
    assert await table.state(id) is ScheduleState.PAUSED


async def test_a_run_whose_unique_key_is_taken_is_written_down(world: World, table: Table) -> None:
    id = await table.create(key="k")
    holder = await world.submit(key="k")
    await table.fire_at(1)
    assert await table.states(id, 1) == [None]
    assert await table.ledger(id) == [(1, 1, "key")]
    await world.cancel(holder)
    await table.fire_at(2)
    assert await table.states(id, 2) == ["ready"]


async def test_a_run_that_may_not_follow_is_written_down_once(world: World, table: Table) -> None:
    """Its unique key is taken too, by the run that it may not follow."""
    id = await table.create(key="k", overlap=Overlap.SKIP)
    await table.fire_at(1)
    await table.fire_at(2)
    assert await table.ledger(id) == [(2, 2, "overlap")]


async def test_catching_up_does_not_touch_what_was_written_down_later(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.SKIP, misfire=Misfire.ALL)
    await table.create(overlap=Overlap.SKIP, misfire=Misfire.SKIP)
    world.clock.advance(2 * 60 + 30)
    await table.jump(2, next=3)
    await table.fire_at(3)
    await table.fire_at(4)
    for minute in (1, 2):
        gap = (await table.gap()).gap
        step = CatchUp(
            gap,
            stateful=True,
            nominal=table.at(minute),
            policy=Misfire.ALL,
            then=table.at(minute + 1),
        )
        assert (await table.catch_up(step) or Fired()).jobs == 0
    await table.fire_at(5)
    assert sorted(await table.ledger(id)) == [
        (1, 1, "overlap"),
        (2, 2, "overlap"),
        (4, 5, "overlap"),
    ]


async def test_two_schedulers_count_a_run_once(world: World, table: Table) -> None:
    other = await world.another_store()
    ids = [await table.create(max_runs=3, overlap=Overlap.SKIP) for _ in range(5)]
    for _ in range(3):
        world.clock.advance(60)
        moves = [move_of(one) for one in await table.due()]
        await asyncio.gather(
            *(
                store.schedules.fire(table.partition, moves, tzdata=TZDATA)
                for store in (world.store, other) * 2
            )
        )
        for _ in ids:
            await _run(world, table)
    assert [(await table.get(id)).runs for id in ids] == [3] * 5
    assert [await table.state(id) for id in ids] == [ScheduleState.ENDED] * 5


# After completion


async def _delayed(table: Table, delay: float = 100) -> tuple[ScheduleId, int]:
    trigger = table.trigger(stateful=True, words="after", delay=delay, next=table.now)
    id = await table.create(after_completion=delay, trigger=trigger)
    return id, trigger.id


async def test_a_run_follows_the_end_of_the_last_by_the_delay_and_never_sooner(
    world: World, table: Table
) -> None:
    id, trigger = await _delayed(table)
    schedules = world.store.schedules
    assert [due.delay for due in await table.due()] == [100]
    assert (await schedules.fire_delayed(table.partition, trigger)).jobs == 1
    job = await _claim(world, table)
    ends = table.now + 250
    made: list[int] = []
    while table.now < ends + 400 and not made:
        if table.now >= ends and (await world.get(job.id)).state is JobState.RUNNING:
            await _end(world, job)
        if await table.due():
            fired = await schedules.fire_delayed(table.partition, trigger)
            assert fired.moved == 1
            if fired.jobs:
                made.append(table.now)
        world.clock.advance(1)
    assert made == [ends + 100]
    [newest, first] = await schedules.recent_runs(id, limit=10)
    assert (first.id, newest.nominal) == (job.id, ends + 100)
    assert newest.id == fire_id(id, ends + 100)


async def test_a_delayed_trigger_that_is_not_due_does_nothing(world: World, table: Table) -> None:
    _, trigger = await _delayed(table)
    schedules = world.store.schedules
    await schedules.fire_delayed(table.partition, trigger)
    assert await schedules.fire_delayed(table.partition, trigger) == Fired()
    assert await schedules.fire_delayed(table.partition, trigger + 1) == Fired()
    assert await world.count() == {JobState.READY: 1}


async def test_a_paused_schedule_does_not_follow_its_last_run(world: World, table: Table) -> None:
    id, trigger = await _delayed(table)
    await world.store.schedules.pause(table.partition, [id])
    fired = await world.store.schedules.fire_delayed(table.partition, trigger)
    assert (fired.moved, fired.jobs) == (1, 0)
    assert await table.due() == []
    assert await world.count() == {}


async def test_two_who_fire_a_delayed_trigger_do_it_once(world: World, table: Table) -> None:
    other = await world.another_store()
    _, trigger = await _delayed(table)
    done = await asyncio.gather(
        *(
            store.schedules.fire_delayed(table.partition, trigger)
            for store in (world.store, other) * 3
        )
    )
    assert sum(fired.jobs for fired in done) == 1


# By hand


async def test_a_run_by_hand_keeps_to_the_rule_of_overlap_or_to_the_one_given(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.SKIP)
    run_now = world.store.schedules.run_now
    first = _by_hand(world, table, id)
    assert await run_now(table.partition, id, first) is not None
    assert await world.state(first.id) is JobState.READY
    refused = _by_hand(world, table, id)
    assert await run_now(table.partition, id, refused) is None
    assert await world.store.jobs.get(refused.id) is None
    beside = _by_hand(world, table, id)
    assert await run_now(table.partition, id, beside, overlap=Overlap.ALLOW) is not None
    last = _by_hand(world, table, id)
    done = await run_now(table.partition, id, last, overlap=Overlap.TERMINATE_OTHER)
    assert done is not None
    assert done.cancelled == {first.id: JobState.READY, beside.id: JobState.READY}
    await table.fire_at(1)  # a run by hand is a run
    assert await table.states(id, 1) == [None]


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
async def test_a_run_by_hand_whose_unique_key_is_taken_ends_no_other(
    world: World, table: Table, overlap: Overlap
) -> None:
    id = await table.create(key="k", overlap=overlap)
    await table.fire_at(1)
    before = await table.states(id, 1)
    job = _by_hand(world, table, id, key="k")
    assert await world.store.schedules.run_now(table.partition, id, job) is None
    assert await world.store.jobs.get(job.id) is None
    live = await world.get(fire_id(id, table.at(1)))
    assert [live.state] == before
    assert not live.cancel_requested


async def test_nobody_runs_a_schedule_that_there_is_not(world: World, table: Table) -> None:
    nobody = table.new().id
    with pytest.raises(UnknownSchedule):
        await world.store.schedules.run_now(table.partition, nobody, _by_hand(world, table, nobody))
    with pytest.raises(UnknownSchedule):
        await world.store.schedules.backfill(table.partition, nobody, [])


async def test_of_many_runs_by_hand_one_may_be(world: World, table: Table) -> None:
    other = await world.another_store()
    id = await table.create(overlap=Overlap.SKIP)
    jobs = [_by_hand(world, table, id) for _ in range(8)]
    done = await asyncio.gather(
        *(
            store.schedules.run_now(table.partition, id, job)
            for store, job in zip((world.store, other) * 4, jobs, strict=True)
        )
    )
    assert sum(one is not None for one in done) == 1
    assert await world.count() == {JobState.READY: 1}


async def test_a_backfill_submits_what_is_missing_and_again_nothing(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.BUFFER_ALL)
    await table.fire_at(2)  # the time before, of which that is the run
    await _run(world, table)
    jobs = _of_times(world, table, id, -2, -1, 0, 1)
    wanted = [job.id for job in jobs]
    backfill = world.store.schedules.backfill
    assert await backfill(table.partition, id, jobs) == wanted[:3]
    assert await backfill(table.partition, id, jobs) == []
    order: list[JobId] = []
    for _ in range(3):
        job = await _claim(world, table)
        order.append(job.id)
        await _end(world, job)
    assert order == wanted[:3]
    assert await backfill(table.partition, id, jobs) == []
    assert {
        run.state for run in (await world.store.schedules.runs(table.partition, wanted)).values()
    } == {JobState.SUCCEEDED}


async def test_a_backfill_leaves_to_the_trigger_what_that_has_yet_to_fire(
    world: World, table: Table
) -> None:
    first, last = await table.create_many(2)
    await table.fire_at(3, chunk=1)  # of minute 1, for the first of them
    backfill = world.store.schedules.backfill
    for id in (first, last):
        jobs = _of_times(world, table, id, 0, 1, 2, 3)
        assert await backfill(table.partition, id, jobs) == [jobs[0].id]
    for _ in range(4):
        await table.fire()
    for id in (first, last):
        assert await table.states(id, 1, 2, 3) == ["ready"] * 3


async def test_a_backfill_makes_a_run_that_the_trigger_has_passed_over_for_it(
    world: World, table: Table
) -> None:
    ids = await table.create_many(2, overlap=Overlap.SKIP)
    await table.fire_at(1)
    await table.fire_at(2, chunk=1)
    assert await table.ledger(ids[0]) == [(2, 2, "overlap")]
    jobs = [_of_times(world, table, id, 2)[0] for id in ids]
    backfill = world.store.schedules.backfill
    assert await backfill(table.partition, ids[0], jobs[:1]) == [jobs[0].id]
    assert await backfill(table.partition, ids[1], jobs[1:]) == []


async def test_runs_are_told_wherever_they_are(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.ALLOW, max_runs=9)
    for minute, end in ((1, End.SUCCEED), (2, End.BURY)):
        await table.fire_at(minute)
        await _run(world, table, end)
    await table.fire_at(3)
    ids = [fire_id(id, table.at(minute)) for minute in (1, 2, 3, 4)]
    found = await world.store.schedules.runs(table.partition, ids)
    assert [found[one].state for one in ids[:3]] == ["succeeded", "dead", "ready"]
    assert ids[3] not in found
    assert found[ids[0]].made_at == found[ids[0]].started_at == table.time(1)
    assert found[ids[2]].started_at is None
    recent = await world.store.schedules.recent_runs(id, limit=2)
    assert [(run.id, run.nominal) for run in recent] == [
        (ids[2], table.at(3)),
        (ids[1], table.at(2)),
    ]


async def test_a_run_that_is_tried_again_started_with_its_first_attempt(
    world: World, table: Table
) -> None:
    """How late it was says nothing of its retries."""
    id = await table.create(overlap=Overlap.ALLOW, max_runs=9)
    await table.fire_at(1)
    [job] = ids = [fire_id(id, table.at(1))]
    for end in (End.RETRY, End.SUCCEED):
        await _run(world, table, end)
        world.clock.advance(60)
        await world.admit()
    found = (await world.store.schedules.runs(table.partition, ids))[job]
    assert (found.state, found.started_at) == ("succeeded", table.time(1))
    [recent] = await world.store.schedules.recent_runs(id, limit=2)
    assert (recent.id, recent.started_at) == (job, table.time(1))


async def test_the_next_run_sees_the_result_of_the_last_that_succeeded(
    world: World, table: Table
) -> None:
    await table.create(carry_result=True)
    session = await world.open_session(lease=1e6)
    for minute, last in ((1, None), (2, "1"), (3, "1")):
        await table.fire_at(minute)
        [job] = await world.claim(session)
        assert job.facts.last_result == last
        if minute == 2:
            await world.end(session, job, End.BURY)
        else:
            await world.end(session, job, result=str(minute).encode())


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
async def test_what_becomes_no_job_takes_nobodys_place(
    world: World, table: Table, overlap: Overlap
) -> None:
    id = await table.create(key="k", overlap=overlap)
    await table.fire_at(1)
    fired = await table.fire_at(2)
    assert fired.cancelled == {}
    assert (await world.get(fire_id(id, table.at(1)))).state in (JobState.READY, JobState.HELD)
    assert await table.ledger(id) == [(2, 2, "key")]


async def test_a_schedule_whose_limit_was_lowered_below_its_runs_ends(
    world: World, table: Table
) -> None:
    new = table.new(max_runs=5)
    await world.store.schedules.create(table.partition, [new])
    for minute in (1, 2, 3):
        await table.fire_at(minute)
    less = msgspec.structs.replace(new, rules=msgspec.structs.replace(new.rules, max_runs=2))
    assert await world.store.schedules.change(table.partition, less, version=1)
    await table.fire_at(4)
    assert await table.state(new.id) is ScheduleState.ENDED
    await table.fire_at(5)
    assert await table.ledger(new.id) == [(4, 4, "ended")]
