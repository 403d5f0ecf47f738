"""Reading: where there is something to do, what runs, what has ended and how."""

from __future__ import annotations

import pytest

from foliot.model.job import End, JobState, Outcome
from foliot.model.lane import lane_of
from foliot.store.port import Peek, RunningJob, Share
from foliot.testing.clock import ManualClock
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_peek_sees_each_lane_with_ready_jobs_once(world: World) -> None:
    session = await world.open_session()
    last = world.store.partitions - 1
    for partition in {0, last}:
        jobs = [world.new_job(partition, queue=queue) for queue in ("a", "b", "c", "a")]
        await world.store.jobs.submit(partition, jobs)
    world.partition = last
    await world.claim(session, queues=["c"])
    peek = await world.store.jobs.peek()
    expected = {(p, lane_of(queue)) for p in {0, last} for queue in ("a", "b", "c")}
    expected.discard((last, lane_of("c")))
    assert set(peek.ready) == expected
    assert len(peek.ready) == len(expected)
    assert peek.due_in == {}


async def test_peek_sees_when_the_next_job_is_due(world: World) -> None:
    session = await world.open_session()
    for seconds in (30, 10, 20):
        await world.submit(run_at=world.after(seconds))
    retried = await world.run(session)
    await world.end(session, retried, End.RETRY, delay=15)
    assert (await world.store.jobs.peek()).due_in == {world.partition: 10}
    world.clock.advance(12)
    assert (await world.store.jobs.peek()).due_in == {world.partition: -2}
    await world.admit()
    assert (await world.store.jobs.peek()).due_in == {world.partition: 3}


async def test_peek_of_an_idle_store_sees_nothing(world: World) -> None:
    session = await world.open_session()
    await world.run(session)
    held = await world.run(session)
    await world.end(session, held, End.HOLD, reason="unknown_kind")
    assert await world.store.jobs.peek() == Peek([], {})


async def test_running_lists_what_a_session_holds_in_all_partitions(world: World) -> None:
    session, other = await world.open_session(), await world.open_session()
    expected = []
    for partition in range(world.store.partitions):
        world.partition = partition
        job = await world.run(session)
        expected.append(RunningJob(job.id, partition, 1, False))
    await world.run(other)
    done = await world.run(session)
    await world.end(session, done)
    found = await world.store.jobs.running(session)
    assert sorted(found, key=lambda job: job.partition) == expected
    assert await world.store.jobs.running(world.ids.session()) == []


@pytest.mark.parametrize("end", [End.SUCCEED, End.CANCEL, End.RETRY, End.BURY])
@pytest.mark.parametrize("flagged", [False, True])
async def test_an_outcome_that_took_effect_is_settled(
    world: World, end: End, flagged: bool
) -> None:
    session = await world.open_session()
    job = await world.run(session)
    if flagged:
        await world.cancel(job.id)
    outcome = Outcome(job.id, job.fence, end)
    assert await world.store.jobs.settled(world.partition, [outcome]) == set()
    await world.finish(session, outcome)
    assert await world.store.jobs.settled(world.partition, [outcome]) == {job.id}
    other = Outcome(job.id, job.fence + 1, end)
    assert await world.store.jobs.settled(world.partition, [other]) == set()


async def test_of_many_outcomes_only_those_that_took_effect_are_settled(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(4)
    jobs = await world.claim(session)
    outcomes = [Outcome(job.id, job.fence) for job in jobs]
    await world.finish(session, *outcomes[:2])
    settled = await world.store.jobs.settled(world.partition, outcomes)
    assert settled == {job.id for job in jobs[:2]}
    assert await world.store.jobs.settled(world.partition, []) == set()


async def test_an_outcome_that_the_reaper_forestalled_is_not_settled(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    world.expire()
    await world.reap(session)
    outcome = Outcome(job.id, job.fence)
    assert await world.finish(session, outcome) == [job.id]
    assert await world.store.jobs.settled(world.partition, [outcome]) == set()


async def test_a_job_that_never_was_is_none(world: World) -> None:
    ghost = world.new_job().id
    assert await world.store.jobs.get(ghost) is None
    assert await world.store.jobs.attempts(ghost) == []
    assert await world.store.jobs.ended([ghost]) == []


async def test_a_job_that_finished_long_after_it_was_made_is_found(world: World) -> None:
    session = await world.open_session(lease=1e9)
    job = await world.run(session)
    world.clock.advance(400 * 86400)
    await world.end(session, job)
    assert (await world.get(job.id)).finished_at == world.clock.now()
    assert [ended.id for ended in await world.store.jobs.ended([job.id])] == [job.id]


async def test_a_job_whose_id_was_made_by_a_clock_far_ahead_is_found(world: World) -> None:
    session = await world.open_session(lease=1e9)
    world.clock.advance(5 * 86400)
    new = world.new_job()
    behind = await world.another_store(ManualClock(world.after(-5 * 86400)))
    await behind.jobs.submit(world.partition, [new])
    shares = [Share(lane_of("default"), 1)]
    cycle = await behind.jobs.finish_and_claim(world.partition, session, shares=shares, room=1)
    outcomes = [Outcome(job.id, job.fence, result=b"1") for job in cycle.claimed]
    await behind.jobs.finish_and_claim(world.partition, session, outcomes=outcomes)
    found = await behind.jobs.get(new.id)
    assert found is not None and found.result == b"1"
    assert await behind.jobs.ended([new.id]) == [found]


async def test_ended_gives_the_ended_ones_of_all_partitions(world: World) -> None:
    session = await world.open_session()
    expected = {}
    ids = []
    for partition in range(world.store.partitions):
        world.partition = partition
        for end in (End.SUCCEED, End.BURY, End.CANCEL, End.RETRY):
            job = await world.run(session)
            await world.end(
                session, job, end, delay=60, result=b"1" if end is End.SUCCEED else None
            )
            ids.append(job.id)
            if end is not End.RETRY:
                expected[job.id] = await world.get(job.id)
        ids.append(await world.submit(queue="idle"))
    found = {job.id: job for job in await world.store.jobs.ended(ids)}
    assert found == expected
    assert {job.state for job in found.values()} == {"succeeded", "dead", "cancelled"}
    assert await world.store.jobs.ended([]) == []


async def test_live_gives_the_states_of_those_that_have_not_ended(world: World) -> None:
    session = await world.open_session()
    expected = {}
    ids = [world.new_job().id]
    for partition in range(world.store.partitions):
        world.partition = partition
        job = await world.run(session)
        await world.end(session, job)
        expected[(await world.run(session)).id] = JobState.RUNNING
        expected[await world.submit(queue="idle")] = JobState.READY
        expected[await world.submit(delay=60.0)] = JobState.SCHEDULED
        ids.append(job.id)
    assert await world.store.jobs.live([*ids, *expected]) == expected
    assert await world.store.jobs.live([]) == {}


async def test_attempts_come_first_first(world: World) -> None:
    session = await world.open_session()
    id = await world.submit()
    for number in range(12):
        [job] = await world.claim(session)
        await world.end(session, job, End.RETRY, delay=0, error=str(number))
        await world.admit()
    assert [a.error for a in await world.attempts(id)] == [str(n) for n in range(12)]


async def test_count_knows_every_state(world: World) -> None:
    session = await world.open_session()
    for end in (End.SUCCEED, End.SUCCEED, End.CANCEL, End.BURY, End.HOLD):
        job = await world.run(session)
        await world.finish(session, world.outcome(job, end))
    await world.submit(run_at=world.after(1))
    await world.run(session)
    await world.submit_many(3)
    assert await world.count() == {
        JobState.SUCCEEDED: 2,
        JobState.CANCELLED: 1,
        JobState.DEAD: 1,
        JobState.HELD: 1,
        JobState.SCHEDULED: 1,
        JobState.RUNNING: 1,
        JobState.READY: 3,
    }
