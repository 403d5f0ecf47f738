"""Upkeep: retention of what has ended, and the grade that a doctor reads."""

from __future__ import annotations

import pytest

import foliot
from foliot.model.job import End, JobState
from support.stores import NEWEST, World

pytestmark = pytest.mark.anyio

DAY = 86400.0


async def _prune(world: World, keep: float | None = 7 * DAY, limit: int = 1000) -> int:
    return await world.store.upkeep.prune(keep=keep, limit=limit)


async def test_history_is_gone_after_its_time_and_not_before(world: World) -> None:
    session = await world.open_session(lease=1e9)
    job = await world.run(session)
    await world.end(session, job)
    world.clock.advance(7 * DAY - 1)
    await _prune(world)
    assert await world.state(job.id) is JobState.SUCCEEDED
    world.clock.advance(DAY + 2)  # whole days may stay until they are over
    assert await _prune(world) > 0
    assert await world.store.jobs.get(job.id) is None
    assert await _prune(world) == 0


async def test_history_is_kept_for_ever_if_so_told(world: World) -> None:
    session = await world.open_session(lease=1e9)
    job = await world.run(session)
    await world.end(session, job)
    world.clock.advance(1000 * DAY)
    assert await _prune(world, keep=None) == 0
    assert await world.state(job.id) is JobState.SUCCEEDED


async def test_history_that_no_day_was_made_for_is_kept_and_pruned_like_any(world: World) -> None:
    """Nobody pruned for a month, so nobody made days ahead; afterwards all is as it should be."""
    session = await world.open_session(lease=1e9)
    world.clock.advance(30 * DAY)
    old = []
    for partition in range(world.store.partitions):
        world.partition = partition
        job = await world.run(session)
        await world.end(session, job)
        old.append(job.id)
    for _ in range(2):
        await _prune(world)
    for id in old:
        assert await world.state(id) is JobState.SUCCEEDED
    world.clock.advance(2 * DAY)
    young = await world.run(session)
    await world.end(session, young)
    world.clock.advance(6.5 * DAY)
    pruned = 0
    for _ in range(3):
        pruned += await _prune(world)
    assert pruned > 0
    for id in old:
        assert await world.store.jobs.get(id) is None
    assert await world.state(young.id) is JobState.SUCCEEDED
    grade = await world.store.upkeep.grade()
    assert grade.history_days_ahead in (None, 7)


async def test_the_dead_and_their_attempts_stay(world: World) -> None:
    session = await world.open_session(lease=1e9)
    job = await world.run(session)
    await world.end(session, job, End.BURY, error="E")
    world.clock.advance(1000 * DAY)
    await _prune(world)
    assert await world.state(job.id) is JobState.DEAD
    assert [a.error for a in await world.attempts(job.id)] == ["E"]


async def test_the_attempts_of_a_live_job_stay(world: World) -> None:
    session = await world.open_session(lease=1e9)
    job = await world.run(session)
    await world.end(session, job, End.RETRY, delay=5000 * DAY, error="E")
    world.clock.advance(1000 * DAY)
    await _prune(world)
    assert [a.error for a in await world.attempts(job.id)] == ["E"]


async def test_the_attempts_of_a_finished_job_go_after_their_time(world: World) -> None:
    session = await world.open_session(lease=1e9)
    job = await world.run(session)
    await world.end(session, job, End.RETRY, delay=0, error="E")
    await world.admit()
    [again] = await world.claim(session)
    await world.end(session, again)
    await _prune(world)
    assert len(await world.attempts(job.id)) == 1
    world.clock.advance(9 * DAY)
    await _prune(world)
    assert await world.attempts(job.id) == []


async def test_pruning_never_touches_live_jobs(world: World) -> None:
    session = await world.open_session(lease=1e9)
    await world.submit()
    await world.submit(run_at=world.after(5000 * DAY))
    await world.run(session, queue="other")
    world.clock.advance(1000 * DAY)
    await _prune(world, keep=0)
    assert sum((await world.count()).values()) == 3


async def test_a_day_of_many_partitions_is_pruned(world: World) -> None:
    session = await world.open_session(lease=1e9)
    for partition in range(world.store.partitions):
        world.partition = partition
        for end in (End.SUCCEED, End.RETRY):
            job = await world.run(session)
            await world.end(session, job, end, delay=0)
        await world.admit()
        [again] = await world.claim(session)
        await world.end(session, again)
    world.clock.advance(9 * DAY)
    await _prune(world)
    assert await world.count() == {}


async def test_the_grade_counts_and_names(world: World) -> None:
    session = await world.open_session()
    first = await world.submit(queue="idle")
    world.clock.advance(10)
    await world.submit(queue="idle")
    dead = await world.run(session)
    await world.end(session, dead, End.BURY)
    await world.run(session)
    await world.submit(run_at=world.after(60))
    grade = await world.store.upkeep.grade()
    assert grade.engine.lower().startswith(world.place.engine)
    assert grade.version[0].isdigit()
    assert (grade.live_jobs, grade.ready_jobs, grade.dead_jobs) == (4, 2, 1)
    assert grade.queue_age == 10
    assert (grade.partitions, grade.schema) == (world.store.partitions, NEWEST)
    assert first and grade.durability and foliot.__version__
    pooled = world.place.settings.url != world.place.direct
    assert ("pooler" in grade.pooler) == pooled


async def test_an_empty_store_has_no_age(world: World) -> None:
    grade = await world.store.upkeep.grade()
    assert (grade.queue_age, grade.live_jobs, grade.ready_jobs, grade.dead_jobs) == (None, 0, 0, 0)


async def test_everything_old_is_pruned_in_one_round_whatever_the_batch(world: World) -> None:
    """The dead in between stay, with their attempts."""
    session = await world.open_session(lease=1e9)
    ids = await world.submit_many(11)
    for job in await world.claim(session):
        await world.end(session, job, End.RETRY, error="E")
    await world.admit()
    jobs = sorted(await world.claim(session), key=lambda job: job.id)
    for number, job in enumerate(jobs):
        await world.end(session, job, End.BURY if number % 3 == 0 else End.SUCCEED)
    dead = {job.id for job in jobs[::3]}
    world.clock.advance(9 * DAY)
    await world.store.upkeep.prune(keep=7 * DAY, limit=2)
    for id in ids:
        assert len(await world.attempts(id)) == (2 if id in dead else 0)
    assert await world.count() == {JobState.DEAD: len(dead)}


async def test_a_sweep_leaves_all_jobs_where_they_are(world: World) -> None:
    id = await world.submit()
    assert await world.store.upkeep.sweep() is False  # there is nothing worth it
    assert await world.state(id) is JobState.READY
