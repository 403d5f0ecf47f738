"""The overview: what is going on, counted up to a cap and never through history."""

from __future__ import annotations

import asyncio

import pytest

from foliot.model.job import End, JobState
from foliot.model.overview import HeldJobs, QueueLoad
from support.flows import draw
from support.hooks import listen
from support.stores import World

pytestmark = pytest.mark.anyio
CAP = 1000


async def test_each_queue_is_counted_by_state(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(3, queue="mail")
    await world.submit_many(2, queue="mail", delay=60)
    await world.run(session, queue="reports")
    held = await world.run(session, queue="odd", kind="odd")
    await world.end(session, held, End.HOLD, reason="unknown_kind")
    world.clock.advance(7)

    loads = await world.store.overview.queues(cap=CAP)
    assert loads.queues == [
        QueueLoad(queue="mail", ready=3, scheduled=2, oldest_ready=7.0),
        QueueLoad(queue="odd", held=1),
        QueueLoad(queue="reports", running=1),
    ]
    assert loads.at_least == frozenset()
    assert loads.total(JobState.READY) == 3
    assert await world.store.overview.held(cap=CAP) == [HeldJobs("unknown_kind", "odd", 1)]


async def test_counting_stops_at_the_cap_and_says_so(world: World) -> None:
    await world.submit_many(5)
    await world.submit_many(2, delay=60)
    loads = await world.store.overview.queues(cap=3)
    assert loads.queues[0].ready == 3
    assert loads.queues[0].scheduled == 2
    assert loads.at_least == {JobState.READY}


async def test_an_empty_store_has_nothing_to_tell(world: World) -> None:
    overview = world.store.overview
    assert (await overview.queues(cap=CAP)).queues == []
    assert await overview.held(cap=CAP) == []
    assert await overview.dead(cap=CAP) == 0
    assert await overview.running(limit=5) == []
    assert await overview.failures(limit=5) == []
    found = await overview.overdue(late=1, cap=CAP)
    assert (found.scheduled, found.oldest, found.past_deadline) == (0, None, 0)
    assert (found.workflows, found.events) == (0, 0)


async def test_what_is_behind_its_time_is_found(world: World) -> None:
    session = await world.open_session(lease=3600)
    await world.run(session, timeout=5)
    await world.submit_many(2, delay=10)
    assert (await world.store.overview.overdue(late=1, cap=CAP)).scheduled == 0
    world.clock.advance(30)
    found = await world.store.overview.overdue(late=5, cap=CAP)
    assert (found.scheduled, found.oldest, found.past_deadline) == (2, 20.0, 1)


async def test_workflows_and_events_that_nobody_sees_to_are_found(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), deadline=10)
    await listen(world, "job.cancelled")
    await world.cancel(await world.submit(), await world.submit())
    for seconds, workflows, events in ((5, 0, 0), (5, 0, 2), (6, 1, 2)):
        world.clock.advance(seconds)
        found = await world.store.overview.overdue(late=5, cap=CAP)
        assert (found.workflows, found.events) == (workflows, events), seconds
    assert (await world.store.overview.overdue(late=5, cap=1)).events == 1
    await flow.settle()
    await world.store.events.deliver(world.partition, limit=10)
    found = await world.store.overview.overdue(late=5, cap=CAP)
    assert (found.workflows, found.events) == (0, 0)


async def test_running_jobs_are_shown_longest_first(world: World) -> None:
    session = await world.open_session()
    first = await world.run(session)
    world.clock.advance(2)
    second = await world.run(session, kind="other")
    world.clock.advance(1)
    found = await world.store.overview.running(limit=5)
    assert [(job.id, job.kind, job.seconds) for job in found] == [
        (first.id, "echo", 3.0),
        (second.id, "other", 1.0),
    ]
    assert {job.session for job in found} == {session}
    assert len(await world.store.overview.running(limit=1)) == 1


async def test_the_latest_failures_name_their_kind_wherever_the_job_is(world: World) -> None:
    session = await world.open_session()
    again = await world.run(session)
    await world.end(session, again, End.RETRY, delay=60, error="once")
    world.clock.advance(1)
    last = await world.run(session, kind="other")
    await world.end(session, last, End.BURY, error="for good")
    world.clock.advance(1)
    found = await world.store.overview.failures(limit=5)
    assert [(each.id, each.kind, each.error, each.seconds) for each in found] == [
        (last.id, "other", "for good", 1.0),
        (again.id, "echo", "once", 2.0),
    ]
    assert await world.store.overview.dead(cap=CAP) == 1
    assert len(await world.store.overview.failures(limit=1)) == 1


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_the_tally_rises_with_what_happens(world: World) -> None:
    before = await world.store.overview.tally()
    session = await world.open_session()
    await world.submit_many(3)
    done, dead, again = await world.claim(session, 3)
    await world.end(session, done)
    await world.end(session, dead, End.BURY, error="for good")
    await world.end(session, again, End.RETRY, delay=60, error="once")

    async def told() -> tuple[int, ...]:
        now = await world.store.overview.tally()
        return tuple(
            last - first
            for first, last in zip(
                (before.submitted, before.ended, before.buried, before.failed),
                (now.submitted, now.ended, now.buried, now.failed),
                strict=True,
            )
        )

    # A server tells its counters when it has a moment.
    for _ in range(200):
        if await told() == (3, 1, 1, 2):
            break
        await asyncio.sleep(0.05)
    assert await told() == (3, 1, 1, 2)
