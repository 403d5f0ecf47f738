"""Claiming: the front of the lanes, each job for one session, and nothing from a paused queue."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from foliot.ids import JobId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, Outcome
from foliot.model.lane import lane_of
from foliot.store.port import Share
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_a_claimed_job_is_running_for_its_session(world: World) -> None:
    session = await world.open_session()
    id = await world.submit(kind="mail", payload=b"[1]", max_attempts=3)
    world.clock.advance(2)
    [job] = await world.claim(session)
    assert job == ClaimedJob(id, 1, "mail", b"[1]", 1, 3, 0, None, False, lane_of("default").number)
    seen = await world.get(id)
    assert (seen.state, seen.session, seen.fence, seen.attempt) == (JobState.RUNNING, session, 1, 1)
    assert seen.started_at == world.clock.now()
    assert seen.created_at == world.after(-2)


@pytest.mark.parametrize("room", [1, 3, 10])
async def test_a_claim_takes_no_more_than_there_is_room_for(world: World, room: int) -> None:
    session = await world.open_session()
    ids = await world.submit_many(5)
    claimed = [job.id for job in await world.claim(session, room)]
    assert claimed == ids[:room]
    counted = await world.count()
    assert counted.get(JobState.RUNNING, 0) == min(room, 5)
    assert counted.get(JobState.READY, 0) == max(0, 5 - room)


@pytest.mark.parametrize(("room", "shares"), [(0, 5), (5, 0)])
async def test_without_room_or_lanes_nothing_is_claimed(
    world: World, room: int, shares: int
) -> None:
    session = await world.open_session()
    await world.submit()
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, session, shares=[Share(lane_of("default"), shares)][:shares], room=room
    )
    assert (cycle.claimed, cycle.refused) == ([], [])


async def test_a_claim_takes_no_more_than_its_quota_from_a_lane(world: World) -> None:
    session = await world.open_session()
    for queue in ("a", "b", "c"):
        await world.submit_many(5, queue=queue, kind=queue)
    shares = [Share(lane_of("a"), 2), Share(lane_of("b"), 0), Share(lane_of("c"), 9)]
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, session, shares=shares, room=100
    )
    assert sorted(job.kind for job in cycle.claimed) == ["a"] * 2 + ["c"] * 5


async def test_the_room_is_filled_from_the_first_lanes_named(world: World) -> None:
    session = await world.open_session()
    for queue in ("a", "b"):
        await world.submit_many(5, queue=queue, kind=queue)
    shares = [Share(lane_of("b"), 5), Share(lane_of("a"), 5)]
    cycle = await world.store.jobs.finish_and_claim(world.partition, session, shares=shares, room=7)
    assert [job.kind for job in cycle.claimed] == ["b"] * 5 + ["a"] * 2


async def test_a_claim_takes_the_front_by_band_then_time_then_id(world: World) -> None:
    session = await world.open_session()
    late = world.after(-60)
    first = await world.submit(priority=1)
    urgent = await world.submit(priority=0)
    plain = await world.submit_many(2, priority=1)
    early = await world.submit(priority=1, run_at=late)
    await world.admit()
    order = [(await world.claim(session, 1))[0].id for _ in range(5)]
    assert order == [urgent, early, first, *plain]


async def test_only_the_lanes_named_are_claimed_from(world: World) -> None:
    session = await world.open_session()
    await world.submit(queue="mail")
    assert await world.claim(session, queues=["default"]) == []
    assert await world.claim(session, queues=["nobody", "mail"]) != []


async def test_only_one_partition_is_claimed_from(world: World) -> None:
    session = await world.open_session()
    for partition in range(world.store.partitions):
        await world.store.jobs.submit(partition, [world.new_job(partition)])
    shares = [Share(lane_of("default"), 10)]
    for partition in range(world.store.partitions):
        cycle = await world.store.jobs.finish_and_claim(partition, session, shares=shares, room=10)
        assert len(cycle.claimed) == 1
    assert await world.count() == {JobState.RUNNING: world.store.partitions}


async def test_scheduled_and_held_jobs_are_not_claimed(world: World) -> None:
    session = await world.open_session()
    await world.submit(run_at=world.after(1))
    held = await world.run(session)
    await world.end(session, held, End.HOLD, reason="unknown_kind")
    world.clock.advance(10)  # due, but nobody has admitted it
    assert await world.claim(session) == []
    ready = await world.submit()
    assert [job.id for job in await world.claim(session)] == [ready]


async def test_every_claim_raises_the_fence_and_the_attempt(world: World) -> None:
    session = await world.open_session()
    id = await world.submit()
    for number in (1, 2, 3):
        [job] = await world.claim(session)
        assert (job.id, job.fence, job.attempt) == (id, number, number)
        await world.end(session, job, End.RETRY, delay=0)
        await world.admit()


async def test_a_released_job_gets_its_attempt_back_and_never_its_fence(world: World) -> None:
    session = await world.open_session()
    await world.submit()
    for number in (1, 2, 3):
        [job] = await world.claim(session)
        assert (job.fence, job.attempt) == (number, 1)
        await world.end(session, job, End.RELEASE)


async def test_no_job_is_claimed_by_two_sessions(world: World) -> None:
    first, second = await world.open_session(), await world.open_session()
    await world.submit()
    assert len(await world.claim(first)) == 1
    assert await world.claim(second) == []


async def test_sessions_that_claim_at_once_share_no_job(world: World) -> None:
    """Each claims and finishes through two stores, several round trips at once."""
    ids = await world.submit_many(300)
    other = await world.another_store()
    started: list[JobId] = []

    async def work(number: int) -> None:
        store = (world.store, other)[number % 2]
        session = await world.open_session()
        shares = [Share(lane_of("default"), 7)]
        claimed: list[ClaimedJob] = []
        while True:
            cycle = await store.jobs.finish_and_claim(
                world.partition,
                session,
                outcomes=[Outcome(job.id, job.fence) for job in claimed],
                shares=shares,
                room=7,
            )
            assert cycle.refused == []
            if not (cycle.claimed or claimed):
                return
            claimed = cycle.claimed
            started.extend(job.id for job in claimed)

    await asyncio.gather(*(work(number) for number in range(6)))
    assert sorted(started) == sorted(ids)
    assert await world.count() == {JobState.SUCCEEDED: 300}


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(world: World) -> None:
    session = await world.open_session()
    await world.submit(queue="mail")
    await world.submit(queue="print")
    await world.store.queues.pause("mail", by="ann", note="provider is down")
    claimed = await world.claim(session, queues=["mail", "print"])
    assert len(claimed) == 1
    assert (await world.get(claimed[0].id)).queue == "print"
    assert await world.claim(session, queues=["mail"]) == []
    await world.store.queues.resume("mail")
    assert len(await world.claim(session, queues=["mail"])) == 1


async def test_a_running_job_of_a_paused_queue_finishes(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.store.queues.pause("default")
    await world.end(session, job)
    assert await world.state(job.id) is JobState.SUCCEEDED


async def test_pausing_twice_keeps_the_first_time_and_the_last_note(world: World) -> None:
    await world.store.queues.pause("mail", by="ann", note="one")
    world.clock.advance(5)
    await world.store.queues.pause("mail", by="bob", note="two")
    [queue] = await world.store.queues.all()
    assert (queue.name, queue.paused_by, queue.note) == ("mail", "bob", "two")
    assert queue.paused_at == world.after(-5)
    await world.store.queues.resume("mail")
    [queue] = await world.store.queues.all()
    assert (queue.paused_at, queue.paused_by, queue.note) == (None, None, None)
    await world.store.queues.resume("never heard of")
    assert len(await world.store.queues.all()) == 1


async def test_only_a_job_with_a_timeout_has_a_deadline(world: World) -> None:
    session = await world.open_session(lease=10_000)
    patient = await world.run(session)
    hasty = await world.run(session, timeout=30)
    assert (patient.timeout, hasty.timeout) == (None, 30)
    world.clock.advance(30)
    assert (await world.reap()).total == 0  # the worker itself has a moment to end it
    world.clock.advance(15)
    assert (await world.reap()).timed_out == 1
    assert await world.state(hasty.id) is JobState.READY
    assert await world.state(patient.id) is JobState.RUNNING


async def test_finishing_and_claiming_go_in_one_trip(world: World) -> None:
    session = await world.open_session()
    first = await world.run(session)
    second = await world.submit()
    cycle = await world.store.jobs.finish_and_claim(
        world.partition,
        session,
        outcomes=[Outcome(first.id, first.fence)],
        shares=[Share(lane_of("default"), 5)],
        room=5,
    )
    assert [job.id for job in cycle.claimed] == [second]
    assert cycle.refused == []
    assert await world.state(first.id) is JobState.SUCCEEDED


async def test_a_job_released_in_a_trip_may_come_back_with_it(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    cycle = await world.store.jobs.finish_and_claim(
        world.partition,
        session,
        outcomes=[world.outcome(job, End.RELEASE)],
        shares=[Share(lane_of("default"), 5)],
        room=5,
    )
    assert [(again.id, again.fence) for again in cycle.claimed] == [(job.id, 2)]


async def test_a_timeout_of_a_fraction_is_kept(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session, timeout=0.25)
    assert job.timeout == 0.25
    world.clock.advance(0.25 + timedelta(minutes=1).total_seconds())
    assert (await world.reap()).timed_out == 1


async def test_a_claimed_job_knows_its_lane(world: World) -> None:
    session = await world.open_session()
    for queue in ("mail", "default"):
        await world.submit(queue=queue)
    claimed = await world.claim(session, queues=["default", "mail"])
    assert [job.lane for job in claimed] == [lane_of("default").number, lane_of("mail").number]


async def test_a_claimed_job_knows_when_it_was_due(world: World) -> None:
    session = await world.open_session()
    plain = await world.run(session)
    assert plain.more is None, "it is due when it is submitted, and pays nothing to say so"
    await world.submit(delay=5)
    world.clock.advance(60)
    await world.admit()
    [delayed] = await world.claim(session)
    await world.finish(session, Outcome(delayed.id, delayed.fence, End.RETRY, delay=30))
    world.clock.advance(60)
    await world.admit()
    [again] = await world.claim(session)
    due = (await world.get(again.id)).run_at
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    known = [timedelta(microseconds=job.facts.run_at or 0) + epoch for job in (delayed, again)]
    assert known == [world.after(-115), due]
    assert due == world.after(-30)


@pytest.mark.parametrize("limit", [None, "kind:echo", "key:customer:*"])
async def test_a_run_that_is_made_up_for_was_due_when_it_was_made(
    world: World, limit: str | None
) -> None:
    """Its id has the time that the schedule named. However it is claimed: there may be limits."""
    session = await world.open_session()
    if limit is not None:
        await set_limit(world.store, limit_of(limit, concurrency=100))
    plain = Extras(limit_key="customer:1")
    run = msgspec.structs.replace(plain, schedule="nightly", nominal=3 * 86_400)
    ids = [
        await world.submit(more=More(extras=run)),
        await world.submit(more=More(extras=run), namespace="eu"),
        await world.submit(more=More(extras=plain)),
    ]
    found = {job.id: job.facts.run_at for job in await world.claim(session)}
    made = [round((await world.get(id)).created_at.timestamp() * 1e6) for id in ids]
    assert [found[id] for id in ids] == [made[0], made[1], None]
