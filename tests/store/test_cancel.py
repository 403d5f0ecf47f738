"""Cancelling: at once where nobody runs the job, else when its worker lets go of it."""

from __future__ import annotations

import asyncio

import pytest

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, JobState, Outcome
from support.stores import World

pytestmark = pytest.mark.anyio


async def _make(world: World, session: SessionId, state: JobState) -> JobId:
    if state is JobState.SCHEDULED:
        return await world.submit(run_at=world.after(60), key="k")
    if state is JobState.HELD:
        job = await world.run(session, key="k")
        await world.end(session, job, End.HOLD, reason="unknown_kind")
        return job.id
    return await world.submit(key="k")


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.HELD, JobState.READY])
async def test_a_job_that_is_not_running_is_cancelled_at_once(
    world: World, state: JobState
) -> None:
    session = await world.open_session()
    id = await _make(world, session, state)
    world.clock.advance(1)
    assert await world.cancel(id) == {id: state}
    job = await world.get(id)
    assert (job.state, job.reason, job.key) == (JobState.CANCELLED, "requested", "k")
    assert job.finished_at == world.clock.now()
    world.clock.advance(100)
    assert await world.admit() == []
    assert await world.store.jobs.admit_kinds(world.partition, ["echo"]) == []
    assert await world.claim(session) == []
    assert await world.submit(key="k") != id


async def test_a_running_job_is_flagged_and_its_session_can_see_it(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    assert await world.cancel(job.id) == {job.id: JobState.RUNNING}
    seen = await world.get(job.id)
    assert (seen.state, seen.cancel_requested) == (JobState.RUNNING, True)
    [running] = await world.store.jobs.running(session)
    assert running.cancel_requested


@pytest.mark.parametrize("end", [End.CANCEL, End.RETRY, End.BURY, End.RELEASE, End.HOLD])
async def test_a_flagged_job_that_its_worker_lets_go_of_is_cancelled(
    world: World, end: End
) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.cancel(job.id)
    await world.end(session, job, end, reason="because", error="E")
    seen = await world.get(job.id)
    assert seen.state is JobState.CANCELLED
    failed = end in (End.RETRY, End.BURY)
    assert [a.error for a in await world.attempts(job.id)] == (["E"] if failed else [])
    assert await world.count() == {JobState.CANCELLED: 1}


async def test_a_flagged_job_that_succeeds_has_succeeded(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.cancel(job.id)
    await world.end(session, job, result=b"1")
    seen = await world.get(job.id)
    assert (seen.state, seen.result) == (JobState.SUCCEEDED, b"1")


@pytest.mark.parametrize("why", ["lost", "returned", "deadline", "last loss"])
async def test_a_flagged_job_that_is_reaped_is_cancelled(world: World, why: str) -> None:
    session = await world.open_session(lease=1000 if why == "deadline" else 30)
    job = await world.run(session, timeout=5 if why == "deadline" else None)
    world.clock.advance(1)
    world.beat(
        session, *([] if why == "returned" else [job.id]), lease=1000 if why == "deadline" else 30
    )
    await world.cancel(job.id)
    world.expire()
    reaped = await world.reap(
        *([] if why == "deadline" else [session]), loss_limit=1 if why == "last loss" else 3
    )
    assert (reaped.cancelled, reaped.total) == (1, 1)
    assert (await world.get(job.id)).state is JobState.CANCELLED


@pytest.mark.parametrize("running", [True, False])
async def test_cancelling_twice_is_harmless(world: World, running: bool) -> None:
    session = await world.open_session()
    id = await world.submit()
    if running:
        await world.claim(session)
    first = await world.cancel(id)
    before = await world.get(id)
    assert await world.cancel(id) == (first if running else {})
    assert await world.get(id) == before


@pytest.mark.parametrize("end", [End.SUCCEED, End.BURY])
async def test_a_job_that_has_ended_is_not_cancelled(world: World, end: End) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, end)
    before = await world.get(job.id)
    assert await world.cancel(job.id) == {}
    assert await world.get(job.id) == before


async def test_a_batch_says_what_it_found(world: World) -> None:
    session = await world.open_session()
    running = (await world.run(session)).id
    ready = await world.submit()
    ghost = world.new_job().id
    assert await world.cancel(running, ready, ghost, ready) == {
        running: JobState.RUNNING,
        ready: JobState.READY,
    }
    assert await world.cancel() == {}


async def test_only_the_jobs_named_are_cancelled(world: World) -> None:
    first, second = await world.submit_many(2)
    await world.cancel(first)
    assert await world.state(second) is JobState.READY


async def test_a_cancel_racing_a_claim_ends_the_job_either_way(world: World) -> None:
    """Cancelled before it was claimed, or flagged while running: never neither."""
    session = await world.open_session()
    other = await world.another_store()
    for _ in range(20):
        id = await world.submit()
        claimed, found = await asyncio.gather(
            world.claim(session), other.jobs.cancel(world.partition, [id])
        )
        if claimed:
            assert found == {id: JobState.RUNNING}
            assert (await world.get(id)).cancel_requested
            await world.end(session, claimed[0], End.RETRY)
        else:
            assert found == {id: JobState.READY}
        assert await world.state(id) is JobState.CANCELLED


@pytest.mark.parametrize("end", [End.RETRY, End.BURY, End.RELEASE])
async def test_a_cancel_racing_an_outcome_is_not_forgotten(world: World, end: End) -> None:
    session = await world.open_session()
    other = await world.another_store()
    for _ in range(20):
        job = await world.run(session)
        refused, found = await asyncio.gather(
            world.finish(session, Outcome(job.id, job.fence, end, delay=60)),
            other.jobs.cancel(world.partition, [job.id]),
        )
        assert refused == []
        state = await world.state(job.id)
        # Only a job that was buried first is beyond cancelling.
        assert state is (JobState.CANCELLED if found else JobState.DEAD)
        if end is not End.BURY:
            assert found


async def test_many_cancels_and_finishes_at_once_all_return(world: World) -> None:
    session = await world.open_session()
    other = await world.another_store()
    await world.submit_many(200)
    jobs: list[ClaimedJob] = await world.claim(session, 200)
    ids = [job.id for job in jobs]
    refused, *_ = await asyncio.gather(
        world.finish(session, *(world.outcome(job, End.RETRY) for job in reversed(jobs))),
        *(other.jobs.cancel(world.partition, ids[::step]) for step in (1, -1, 2, -2)),
    )
    assert refused == []
    assert await world.count() == {JobState.CANCELLED: 200}
