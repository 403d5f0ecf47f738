"""Jobs of several lanes at one limit: none of them keeps the others waiting, and no slot stays empty for the sake of a
job that does not start."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, End
from foliot.model.lane import Lane, Strategy, lane_of
from foliot.store.port import Cycle, Share
from foliot.testing.clock import ManualClock
from support.limits import ids, limit, submit, submit_many, tend
from support.stores import Databases, World, open_world, postgres_place

pytestmark = pytest.mark.anyio


async def _lanes(world: World) -> list[Lane]:
    found = sorted((await world.store.jobs.peek()).ready, key=lambda ready: ready[1].queue)
    return [lane for _, lane in found]


async def _turn(
    world: World, session: SessionId, lanes: list[Lane], done: list[ClaimedJob], room: int = 10
) -> Cycle:
    return await world.store.jobs.finish_and_claim(
        world.partition,
        session,
        outcomes=[world.outcome(job, End.SUCCEED) for job in done],
        shares=[Share(lane, room) for lane in lanes],
        room=room,
    )


@pytest.mark.parametrize("name", ["concurrency", "rate"])
@pytest.mark.parametrize("other", [None, "queue:elsewhere"])
async def test_a_lane_that_is_never_empty_does_not_keep_those_of_others_from_a_limit(
    world: World, name: str, other: str | None
) -> None:
    """Places of different strategies cannot be compared: by them all of a fifo queue would be first, for ever."""
    await world.store.queues.configure("bulk", strategy=Strategy.FIFO)
    await limit(world, "key:stripe", **{name: 1 if name == "concurrency" else "1/second"})
    if other is not None:
        await limit(world, other, concurrency=1)
    session = await world.open_session()
    await submit_many(world, 20, "stripe", queue="bulk")
    urgent = await submit_many(world, 3, "stripe", priority=1)
    lanes = await _lanes(world)
    assert [lane.queue for lane in lanes] == ["bulk", "default"]
    ran: list[str] = []
    done: list[ClaimedJob] = []
    for _ in range(12):
        done = (await _turn(world, session, lanes, done)).claimed
        ran += ids(done)
        world.clock.advance(2)
        if name == "rate":
            await tend(world)
            lanes.reverse()  # who waits for a token is let in, and then asked as others are
        await submit(world, "stripe", queue="bulk")
    assert set(urgent) <= set(ran[:8])
    assert len(set(ran[:8]) - set(urgent)) >= 3, "nor do those keep it from theirs"


async def test_who_is_before_others_in_its_lane_starts_before_them_also_if_it_came_to_wait_last(
    world: World,
) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    lanes = [lane_of("default")]
    await submit_many(world, 6, "a")
    [job] = (await _turn(world, session, lanes, [])).claimed
    [job] = (await _turn(world, session, lanes, [job])).claimed
    high = await submit(world, "a", priority=1)
    assert not (await world.claim(session)), "it waits as well"
    [job] = (await _turn(world, session, lanes, [job])).claimed
    assert job.id == high


async def test_whom_another_process_holds_is_passed_for_a_moment_at_most(world: World) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    lanes = [lane_of("default")]
    await submit_many(world, 6, "a")
    [job] = (await _turn(world, session, lanes, [])).claimed
    [job] = (await _turn(world, session, lanes, [job])).claimed
    high = await submit(world, "a", priority=1)
    async with open_world(world.place, world.clock) as elsewhere:
        elsewhere.partition = world.partition
        assert not (await _turn(elsewhere, session, lanes, [])).claimed
    world.clock.advance(5)
    [job] = (await _turn(world, session, lanes, [job])).claimed
    assert job.id == high


@pytest.mark.parametrize("place", ["sqlite-8", "postgres-8", "pooled-8"], indirect=True)
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("name", ["kind:echo", "queue:default"])
async def test_a_partition_that_is_never_empty_does_not_keep_others_from_a_limit(
    world: World, name: str, slots: int
) -> None:
    """Who ends lets those go on that wait in the same partition: the others found no slot until these were through."""
    await limit(world, name, concurrency=slots)
    session = await world.open_session()
    places = (0, 3, 5)
    ran: dict[int, list[str]] = {place: [] for place in places}
    busy: dict[int, list[ClaimedJob]] = {place: [] for place in places}
    for place, number in zip(places, (60, 4, 4), strict=True):
        world.partition = place
        await submit_many(world, number)
    for _ in range(25):
        for world.partition in places:
            await tend(world)
            done = busy[world.partition]
            cycle = await _turn(world, session, [lane_of("default")], done)
            busy[world.partition] = cycle.claimed
            ran[world.partition] += ids(cycle.claimed)
            assert sum(map(len, busy.values())) <= slots
        world.clock.advance(1)
    assert [len(ran[place]) for place in places[1:]] == [4, 4]
    assert len(ran[0]) >= 10


@pytest.fixture
async def pair(databases: Databases, clock: ManualClock) -> AsyncIterator[World]:
    """Where keys are decided by the database, if nothing else is limited."""
    async with postgres_place(databases, partitions=1) as place, open_world(place, clock) as world:
        yield world


async def test_no_slot_stays_free_for_a_job_that_the_quota_of_its_lane_leaves_out(
    world: World,
) -> None:
    await limit(world, "key:a", concurrency=2)
    session = await world.open_session()
    first = await submit_many(world, 3, "a")
    second = await submit(world, "a", queue="other")
    shares = [Share(lane_of("default"), 1, past=5), Share(lane_of("other"), 1)]
    cycle = await world.store.jobs.finish_and_claim(world.partition, session, shares=shares, room=2)
    assert set(ids(cycle.claimed)) == {first[0], second}


@pytest.mark.parametrize("seed", range(25))
async def test_the_database_decides_of_keys_as_the_door_does(pair: World, seed: int) -> None:
    """A limit of something else has all of them decided there."""
    rng = random.Random(seed)
    for key in "abc":
        slots = rng.randint(0, 4)
        for name in (f"key:here-{key}", f"key:there-{key}"):
            await limit(pair, name, concurrency=slots)
    session = await pair.open_session()
    queues = ["default", "other", "third"][: rng.randint(1, 3)]
    wanted = [
        (rng.choice(["a", "b", "c", None]), rng.choice(queues), rng.randint(0, 3))
        for _ in range(20)
    ]
    quotas = [(rng.randint(0, 5), rng.choice([0, 0, 3, 20])) for _ in queues]
    shares = [
        Share(lane_of(queue), quota, past=past)
        for queue, (quota, past) in zip(queues, quotas, strict=True)
    ]
    room = rng.randint(1, 8)

    async def act(where: str) -> list[tuple[list[int], list[int]]]:
        keys = {key: f"{where}-{key}" for key in "abc"}
        jobs = [
            await submit(pair, keys.get(key or ""), queue=queue, priority=priority)
            for key, queue, priority in wanted
        ]
        done: list[ClaimedJob] = []
        acts = []
        for given in (shares, shares[::-1], shares[:1]):
            cycle = await pair.store.jobs.finish_and_claim(
                0,
                session,
                outcomes=[pair.outcome(job, End.SUCCEED) for job in done],
                shares=given,
                room=room,
            )
            held = [n for n, id in enumerate(jobs) if await pair.state(id) == "held"]
            done = cycle.claimed
            acts.append(([jobs.index(job.id) for job in done], held))
            pair.clock.advance(3)
        for job in done:
            await pair.end(session, job)
        await pair.store.jobs.cancel(0, jobs)
        return acts

    by_database = await act("here")
    await limit(pair, "queue:elsewhere", concurrency=1)
    assert await act("there") == by_database
