"""Crowds: very many who wait for a limit are in nobody's way for long, however little room a worker has."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from foliot.ids import JobId, SessionId
from foliot.model.job import Extras, More
from foliot.model.lane import lane_of
from foliot.store.limiting import MOST_ADMITTED
from foliot.store.port import Cycle, Share
from foliot.store.sqlite.batches import execute, to_json
from foliot.store.sqlite.limits import SQL
from foliot.worker.lanes import Lanes
from support.limits import ids, limit
from support.sqlite import a_store, new_job
from support.stores import World, sqlite_place

pytestmark = pytest.mark.anyio
CROWD = 3000
LIMITED = More(extras=Extras(limit_key="a", breaker="stripe"))


@pytest.fixture(params=["key:a", "kind:echo", "breaker:stripe"])
async def shut(request: pytest.FixtureRequest, world: World) -> World:
    """Nobody passes who is under it: decided in SQL, or in Python."""
    if request.param == "breaker:stripe":
        await world.store.breakers.open("stripe", seconds=None, note=None, by=None)
    else:
        await limit(world, request.param, concurrency=0)
    return world


async def _look(world: World, session: SessionId, share: Share, room: int) -> Cycle:
    return await world.store.jobs.finish_and_claim(
        world.partition, session, shares=[share], room=room
    )


async def test_a_claim_looks_past_those_that_have_to_wait_as_far_as_it_is_told(shut: World) -> None:
    world, lane = shut, lane_of("default")
    session = await world.open_session()
    crowd = await world.submit_many(30, more=LIMITED)
    free = await world.submit_many(4, kind="free")
    cycle = await _look(world, session, Share(lane, 2, past=10), 2)
    assert (cycle.claimed, len(cycle.held)) == ([], 12)
    assert [await world.state(id) for id in crowd[11:13]] == ["held", "ready"]
    cycle = await _look(world, session, Share(lane, 2, past=100), 2)
    assert ids(cycle.claimed) == free[:2], "no more start than there is room for"
    assert len(cycle.held) == 18
    assert [await world.state(id) for id in free[2:]] == ["ready"] * 2
    assert ids(await world.claim(session)) == free[2:]


async def test_behind_a_crowd_at_a_limit_a_worker_with_little_room_soon_finds_what_may_start(
    shut: World,
) -> None:
    world, lane = shut, lane_of("default")
    session = await world.open_session()
    await world.submit_many(CROWD, more=LIMITED)
    free = await world.submit(kind="free")
    lanes, trips = Lanes({}), 0
    lanes.see(0, lane)
    claimed = list[JobId]()
    while not claimed:
        trips += 1
        assert trips < 20
        [share] = lanes.shares(0, 1)
        cycle = await _look(world, session, share, 1)
        claimed = ids(cycle.claimed)
        lanes.settle(0, [share], 1, [job.lane for job in cycle.claimed], cycle.held, began=0)
    assert claimed == [free]
    await world.submit_many(3, kind="free")
    assert len((await _look(world, session, lanes.shares(0, 1)[0], 1)).claimed) == 1


async def test_of_many_limits_that_are_gone_at_once_a_look_moves_no_more_than_of_one(
    world: World,
) -> None:
    """They are moved where no claim goes on meanwhile."""
    await limit(world, "key:*", concurrency=0)
    session, each = await world.open_session(), MOST_ADMITTED // 2
    for key in "abcd":
        await world.submit_many(each, more=More(extras=Extras(limit_key=key)))
    assert await world.claim(session, 5 * each) == []
    await world.store.limits.delete("key:*")
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert (len(tended.admitted), tended.wait) == (MOST_ADMITTED, 0.0), "and there are more"
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert (len(tended.admitted), tended.wait) == (MOST_ADMITTED, 0.0)
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert (tended.admitted, tended.wait) == ([], None)


@pytest.mark.parametrize("statement", ["hold_gated", "leave_limits"])
async def test_sqlite_looks_at_each_of_a_crowd_once(tmp_path: Path, statement: str) -> None:
    """By the steps of its machine: with a look at all for each of them a claim of 500 took 70 ms, most of it here."""
    took = []
    for number in (100, 1000):
        directory = tmp_path / str(number)
        directory.mkdir()
        async with sqlite_place(directory, partitions=1) as place, a_store(place.direct) as store:
            jobs = [new_job() for _ in range(number)]
            await store.jobs.submit(0, jobs)
            values = {
                "partition": 0,
                "waiting": to_json([(job.id, f"key:{job.id}") for job in jobs]),
                "left": to_json([(f"key:{job.id}", 1) for job in jobs]),
            }
            with closing(sqlite3.connect(directory / "foliot.db")) as connection:
                used = "INSERT INTO foliot_uses (name, used, at) SELECT 'key:' || id, 1, 0 FROM foliot_jobs"
                connection.execute(used)
                steps = 0

                def count() -> None:
                    nonlocal steps
                    steps += 1

                connection.set_progress_handler(count, 100)
                execute(connection, SQL[statement], values)
                connection.set_progress_handler(None, 0)
            took.append(steps)
    assert took[1] < 20 * took[0], "ten times as many"
