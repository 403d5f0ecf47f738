"""Reaping: what lost sessions held goes back, and only what was executing counts as a loss."""

from __future__ import annotations

import asyncio

import msgspec
import psycopg
import pytest

from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, End, JobState
from foliot.store.port import Reaped
from support.flows import draw
from support.stores import LEASE, World

pytestmark = pytest.mark.anyio


async def _lost(world: World) -> dict[int, list[SessionId]]:
    return await world.store.jobs.find_lost()


async def _lose(world: World, job: ClaimedJob, session: SessionId) -> None:
    assert world.beat(session, job.id)
    world.expire()
    await world.reap(session)


async def test_a_job_that_the_last_beat_named_is_lost_and_a_suspect(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session, max_attempts=1)
    world.clock.advance(1)
    world.beat(session, job.id)
    world.expire()
    assert await world.reap(session) == Reaped(lost=1)
    seen = await world.get(job.id)
    assert (seen.state, seen.session, seen.losses) == (JobState.READY, None, 1)
    assert (seen.attempt, seen.fence, seen.started_at) == (1, 1, None)
    [attempt] = await world.attempts(job.id)
    assert (attempt.outcome, attempt.attempt, attempt.fence) == ("worker_lost", 1, 1)
    assert (attempt.session, attempt.finished_at) == (session, world.clock.now())
    assert attempt.error
    [again] = await world.claim(await world.open_session())
    assert again.suspect and not job.suspect
    assert (again.attempt, again.fence) == (2, 2)
    # It was its only attempt, and the loss did not use it up.
    assert again.last_attempt and job.last_attempt


async def test_a_job_claimed_after_the_last_beat_is_lost(world: World) -> None:
    session = await world.open_session()
    world.clock.advance(1)
    world.beat(session)
    world.clock.advance(1)
    job = await world.run(session)
    world.expire()
    assert await world.reap(session) == Reaped(lost=1)
    assert (await world.get(job.id)).losses == 1


async def test_a_job_claimed_at_the_moment_of_the_last_beat_is_lost(world: World) -> None:
    session = await world.open_session()
    await world.run(session)  # the session's opening counts as its first beat
    world.expire()
    assert await world.reap(session) == Reaped(lost=1)


async def test_a_job_that_the_last_beat_did_not_name_goes_back_uncounted_and_recorded(
    world: World,
) -> None:
    session = await world.open_session()
    before = await world.get(await world.submit())
    [job] = await world.claim(session)
    world.clock.advance(1)
    world.beat(session)
    world.expire()
    assert await world.reap(session) == Reaped(returned=1)
    after = await world.get(job.id)
    assert (after.state, after.attempt, after.losses, after.session) == (JobState.READY, 0, 0, None)
    assert (after.fence, after.run_at) == (1, before.run_at)
    [attempt] = await world.attempts(job.id)
    assert (attempt.outcome, attempt.fence) == ("worker_lost", 1)
    assert "perhaps before it started" in str(attempt.error)


async def test_a_job_of_a_session_that_nobody_knows_is_lost(world: World) -> None:
    ghost = world.ids.session()
    job = await world.run(ghost)
    assert await _lost(world) == {world.partition: [ghost]}
    assert await world.reap(ghost) == Reaped(lost=1)
    assert (await world.get(job.id)).losses == 1


async def test_a_job_is_dead_when_too_many_sessions_were_lost_with_it(world: World) -> None:
    id = await world.submit(max_attempts=100, payload=b"[1]", key="k")
    for number in (1, 2, 3):
        session = await world.open_session()
        [job] = await world.claim(session)
        assert (job.losses, job.attempt) == (number - 1, number)
        world.beat(session, job.id)
        world.expire()
        reaped = await world.reap(session, loss_limit=3)
        assert reaped == (Reaped(dead=1) if number == 3 else Reaped(lost=1))
    seen = await world.get(id)
    assert (seen.state, seen.reason, seen.losses, seen.attempt, seen.fence) == (
        JobState.DEAD,
        "worker_lost",
        3,
        3,
        3,
    )
    assert (seen.payload, seen.key, seen.finished_at) == (b"[1]", "k", world.clock.now())
    assert [a.outcome for a in await world.attempts(id)] == ["worker_lost"] * 3
    assert await world.count() == {JobState.DEAD: 1}


async def test_every_third_session_that_is_lost_with_a_job_that_had_not_started_counts(
    world: World,
) -> None:
    """It may have started after the last beat, each time, and be what kills them: then it must come to an end."""
    id = await world.submit(max_attempts=1)
    for number in range(1, 10):
        session = await world.open_session()
        await world.claim(session)
        world.clock.advance(1)
        world.beat(session)
        world.expire()
        counted = number % 3 == 0
        expected = Reaped(lost=1) if counted else Reaped(returned=1)
        assert await world.reap(session, loss_limit=3) == (
            Reaped(dead=1) if number == 9 else expected
        )
        assert (await world.get(id)).losses == number // 3
    seen = await world.get(id)
    assert (seen.state, seen.reason, seen.fence) == (JobState.DEAD, "worker_lost", 9)


async def test_past_its_deadline_a_job_is_taken_from_a_session_that_lives(world: World) -> None:
    session = await world.open_session(lease=1000)
    job = await world.run(session, timeout=5, max_attempts=2)
    world.clock.advance(60)
    assert await _lost(world) == {world.partition: []}
    assert await world.reap() == Reaped(timed_out=1)
    assert await _lost(world) == {}
    seen = await world.get(job.id)
    assert (seen.state, seen.attempt, seen.losses, seen.session) == (JobState.READY, 1, 0, None)
    [attempt] = await world.attempts(job.id)
    assert (attempt.outcome, attempt.session) == ("timed_out", session)
    assert await world.finish(session, world.outcome(job, End.SUCCEED)) == [job.id]


async def test_a_deadline_that_is_extended_counts_from_then(world: World) -> None:
    session, other = await world.open_session(lease=1000), await world.open_session(lease=1000)
    job = await world.run(session, timeout=5, max_attempts=1)
    world.clock.advance(14)
    await world.store.jobs.extend(world.partition, session, [job])
    world.clock.advance(14)
    assert await _lost(world) == {}
    await world.store.jobs.extend(world.partition, other, [job])
    stale = msgspec.structs.replace(job, fence=job.fence - 1)
    await world.store.jobs.extend(world.partition, session, [stale])
    world.clock.advance(2)
    assert await world.reap() == Reaped(dead=1), "only who holds it can extend it"
    await world.store.jobs.extend(world.partition, session, [job])
    assert (await world.get(job.id)).reason == "timed_out"


async def test_past_its_last_deadline_a_job_is_dead(world: World) -> None:
    session = await world.open_session(lease=1000)
    await world.submit(timeout=5, max_attempts=2)
    for expected in (Reaped(timed_out=1), Reaped(dead=1)):
        [job] = await world.claim(session)
        world.clock.advance(60)
        assert await world.reap() == expected
    seen = await world.get(job.id)
    assert (seen.state, seen.reason, seen.attempt) == (JobState.DEAD, "timed_out", 2)
    assert [a.outcome for a in await world.attempts(job.id)] == ["timed_out"] * 2


async def test_losses_do_not_use_up_the_attempts_of_a_deadline(world: World) -> None:
    first = await world.open_session()
    job = await world.run(first, timeout=5, max_attempts=1)
    await _lose(world, job, first)
    session = await world.open_session(lease=1000)
    [again] = await world.claim(session)
    assert again.last_attempt
    world.clock.advance(60)
    assert await world.reap() == Reaped(dead=1)


async def test_a_deadline_is_forgotten_when_the_job_is_let_go(world: World) -> None:
    session = await world.open_session(lease=1000)
    for end in (End.RELEASE, End.RETRY, End.HOLD):
        job = await world.run(session, timeout=5)
        await world.end(session, job, end, delay=0, reason="unknown_kind")
        await world.cancel(job.id)
    world.clock.advance(100)
    assert await _lost(world) == {}
    assert await world.reap() == Reaped()


async def test_sessions_that_live_keep_their_jobs(world: World) -> None:
    gone, alive = await world.open_session(), await world.open_session(lease=1000)
    await world.run(gone)
    kept = await world.run(alive)
    before = await world.get(kept.id)
    world.expire()
    assert await _lost(world) == {world.partition: [gone]}
    assert (await world.reap(gone)).total == 1
    assert await world.get(kept.id) == before
    assert await _lost(world) == {}
    await world.end(alive, kept)


async def test_what_a_lost_session_finished_in_time_stays_finished(world: World) -> None:
    session = await world.open_session()
    done = await world.run(session)
    await world.run(session)
    await world.end(session, done, result=b"1")
    world.expire()
    assert (await world.reap(session)).total == 1
    assert (await world.get(done.id)).result == b"1"


async def test_reaping_nothing_is_nothing(world: World) -> None:
    assert await world.reap() == Reaped()
    assert await world.reap(world.ids.session()) == Reaped()
    await world.submit()
    assert await world.reap(world.ids.session()) == Reaped()
    assert await _lost(world) == {}


async def test_reaping_takes_no_more_than_its_limit(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(5)
    await world.claim(session)
    world.expire()
    totals = [(await world.reap(session, limit=2)).total for _ in range(4)]
    assert totals == [2, 2, 1, 0]
    assert await world.count() == {JobState.READY: 5}


async def test_steps_past_their_deadlines_are_taken_back_however_many_there_are(
    world: World,
) -> None:
    """More than are taken at once, and those that have been late for longest were submitted last."""
    flow = await draw(world)
    patient = [flow.step(f"s{n}", timeout=100, priority=3) for n in range(3)]
    world.clock.advance(1)  # ids go by the time
    urgent = [flow.step(f"s{n}", timeout=10, priority=0) for n in range(3, 6)]
    await flow.submit(*patient, *urgent)
    for names in ({"s3", "s4", "s5"}, {"s0", "s1", "s2"}):
        assert await flow.claim(room=3) == names
    await world.submit_many(1000, delay=1e6)
    if (
        world.place.engine == "postgres"
    ):  # has seen that few of these run, and looks for them by their deadlines
        with psycopg.connect(world.place.direct, autocommit=True) as connection:
            connection.execute("ANALYZE foliot.jobs")
    world.clock.advance(200)
    totals = [(await world.reap(limit=2)).total for _ in range(4)]
    assert totals == [2, 2, 2, 0]
    assert {*(await flow.states()).values()} == {"ready"}


async def test_each_fate_is_counted(world: World) -> None:
    """One call meets them all."""
    dying = await world.submit(priority=0)
    for _ in range(2):
        session = await world.open_session()
        [job] = await world.claim(session)
        await _lose(world, job, session)
    session, alive = await world.open_session(), await world.open_session(lease=1000)
    [suspect] = await world.claim(session)
    assert suspect.id == dying
    lost, cancelled, unstarted = [await world.run(session) for _ in range(3)]
    late = await world.run(alive, timeout=1)
    await world.cancel(cancelled.id)
    world.clock.advance(1)
    world.beat(session, dying, lost.id, cancelled.id)
    world.expire()
    reaped = await world.reap(session)
    assert reaped == Reaped(returned=1, lost=1, timed_out=1, dead=1, cancelled=1)
    states = [await world.state(job.id) for job in (lost, unstarted, late, cancelled)]
    assert states == ["ready", "ready", "ready", "cancelled"]
    assert await world.state(dying) is JobState.DEAD


async def test_lost_sessions_are_found_in_every_partition(world: World) -> None:
    first, second = await world.open_session(), await world.open_session()
    expected: dict[int, list[SessionId]] = {}
    for partition in range(world.store.partitions):
        world.partition = partition
        for session in (first, second):
            for _ in range(2):
                await world.run(session)
            expected.setdefault(partition, []).append(session)
    assert await _lost(world) == {}
    world.clock.advance(LEASE - 1)
    world.beat(second)
    world.clock.advance(2)
    assert await _lost(world) == {p: [first] for p in range(world.store.partitions)}
    world.expire()
    found = await _lost(world)
    assert {p: sorted(s) for p, s in found.items()} == {p: sorted(s) for p, s in expected.items()}
    for partition in range(world.store.partitions):
        world.partition = partition
        assert (await world.reap(*found[partition])).total == 4
    assert await _lost(world) == {}


async def test_reaping_at_once_takes_each_job_once(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(60)
    await world.claim(session)
    world.expire()
    other = await world.another_store()
    reaped = await asyncio.gather(
        *(
            store.jobs.reap(world.partition, [session], limit=100, loss_limit=3)
            for store in (world.store, other, world.store, other)
        )
    )
    assert sum(each.lost for each in reaped) == sum(each.total for each in reaped) == 60
    assert await world.count() == {JobState.READY: 60}


async def test_a_finish_racing_the_reaper_counts_once(world: World) -> None:
    other = await world.another_store()
    for _ in range(10):
        session = await world.open_session()
        jobs = [await world.run(session) for _ in range(3)]
        world.expire()
        refused, reaped = await asyncio.gather(
            world.finish(session, *(world.outcome(job, End.SUCCEED) for job in jobs)),
            other.jobs.reap(world.partition, [session], limit=100, loss_limit=100),
        )
        assert len(refused) == reaped.lost == reaped.total
        cleaner = await world.open_session()
        for job in await world.claim(cleaner):
            await world.end(cleaner, job)
    assert await world.count() == {JobState.SUCCEEDED: 30}
