"""A limit that is far from being reached is not counted, and comes to be counted before it could be overspent."""

from __future__ import annotations

import asyncio
import random

import pytest

from foliot.model.job import ClaimedJob, End, JobState
from foliot.model.lane import lane_of
from foliot.store.port import Share
from support.limits import is_counted, limit, standing, use
from support.stores import World

pytestmark = pytest.mark.anyio
QUEUE = "queue:default"


async def test_a_limit_that_is_far_from_being_reached_is_not_counted(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    assert not is_counted(world, QUEUE)
    session = await world.open_session()
    await world.submit_many(100)
    claimed = await world.claim(session)
    assert [job.gates for job in claimed] == [()] * 100
    assert await use(world, QUEUE) == (100, 0), "it is told nevertheless"
    [found] = await world.store.limits.all(most=10)
    assert (found.used, found.limit.concurrency) == (100, 1000)


@pytest.mark.parametrize("fields", [{"concurrency": 150}, {"rate": "1000000/second"}])
async def test_a_small_limit_or_a_rate_is_always_counted(
    world: World, fields: dict[str, object]
) -> None:
    await world.open_session()
    await limit(world, QUEUE, **fields)
    assert is_counted(world, QUEUE)


async def test_a_limit_of_keys_is_always_counted(world: World) -> None:
    await limit(world, "key:*", concurrency=1_000_000)
    assert is_counted(world, "key:*")


async def test_from_the_half_on_it_is_counted_and_never_exceeded(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session(lease=10_000)
    await world.submit_many(1200)
    running: list[ClaimedJob] = []
    while claimed := await world.claim(session, 90):
        running += claimed
        assert len(running) <= 1000
    assert len(running) == 1000
    assert is_counted(world, QUEUE)
    assert (await use(world, QUEUE))[0] == 1000
    await world.finish(session, *(world.outcome(job, End.SUCCEED) for job in running))
    await world.store.limits.tend(world.partition, "", limit=10)
    assert len(await world.claim(session, 1000)) == 200


async def test_it_is_not_counted_any_more_when_few_are_left(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session(lease=10_000)
    await world.submit_many(1000)
    running: list[ClaimedJob] = []
    while claimed := await world.claim(session, 90):
        running += claimed
    assert is_counted(world, QUEUE)
    assert not await world.store.limits.relax()
    await world.finish(session, *(world.outcome(job, End.SUCCEED) for job in running[:800]))
    assert await world.store.limits.relax()
    assert not is_counted(world, QUEUE)
    await world.finish(session, *(world.outcome(job, End.SUCCEED) for job in running[800:]))
    assert (await standing(world, QUEUE)).used == 0


async def test_one_that_is_lowered_is_counted_at_once(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session()
    await world.submit_many(50)
    await world.claim(session, 20)
    await limit(world, QUEUE, concurrency=25)
    assert len(await world.claim(session)) == 5
    assert await use(world, QUEUE) == (25, 25)


@pytest.mark.parametrize("seed", range(5))
async def test_many_sessions_that_come_and_claim_at_once_never_overspend(
    world: World, seed: int
) -> None:
    chance = random.Random(seed)
    most = 800
    await limit(world, QUEUE, concurrency=most)
    await world.submit_many(2000)
    stores = [world.store, *[await world.another_store() for _ in range(3)]]
    sessions = [await world.open_session(lease=10_000)]
    running: list[list[ClaimedJob]] = [[] for _ in stores]

    async def work(who: int) -> None:
        some = running[who]
        done = [some.pop() for _ in range(chance.randrange(len(some) // 2 + 1))]
        cycle = await stores[who].jobs.finish_and_claim(
            world.partition,
            sessions[who],
            outcomes=[world.outcome(job, End.SUCCEED) for job in done],
            shares=[Share(lane_of("default"), 250)],
            room=chance.choice([20, 120, 250]),
        )
        some += cycle.claimed

    highest = 0
    for step in range(40):
        if step % 3 == 0 and len(sessions) < len(stores):
            sessions.append(await world.open_session(lease=10_000))
        twice = [*range(len(sessions)), *range(len(sessions))]
        await asyncio.gather(*map(work, twice), world.store.limits.relax())
        await world.store.limits.tend(world.partition, "", limit=10)
        counts = await world.count()
        highest = max(highest, counts.get(JobState.RUNNING, 0))
        assert highest <= most
        if counts.get(JobState.SUCCEEDED) == 2000:
            break
    assert highest > most // 2, "or it has shown nothing"
    assert (await standing(world, QUEUE)).used == sum(map(len, running))
