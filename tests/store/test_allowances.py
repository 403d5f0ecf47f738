"""Allowances: in PostgreSQL a limit that is far from being reached is not counted, and is never overspent for that."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import psycopg
import pytest

from foliot.errors import StoreUnavailable
from foliot.ids import SessionId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import ClaimedJob, End, JobState
from foliot.model.lane import lane_of
from foliot.store.port import Share, Store
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.reply import Rows
from foliot.store.sql import Statement
from foliot.testing.clock import ManualClock
from support.limits import limit, standing, trip, use
from support.stores import Databases, World, open_world, postgres_place

pytestmark = pytest.mark.anyio
QUEUE = "queue:default"


@pytest.fixture
async def world(databases: Databases, clock: ManualClock) -> AsyncIterator[World]:
    async with postgres_place(databases, partitions=1) as place, open_world(place, clock) as world:
        yield world


async def _counted(world: World) -> bool:
    async with await psycopg.AsyncConnection.connect(world.place.direct) as connection:
        [row] = await (await connection.execute("SELECT counted FROM foliot.limits")).fetchall()
        return bool(row[0])


async def test_a_limit_that_is_far_from_being_reached_is_not_counted(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    assert not await _counted(world)
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
    assert await _counted(world)


async def test_a_limit_of_keys_is_always_counted(world: World) -> None:
    await limit(world, "key:*", concurrency=1_000_000)
    assert await _counted(world)


async def test_from_the_half_on_it_is_counted_and_never_exceeded(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session(lease=10_000)
    await world.submit_many(1200)
    running: list[ClaimedJob] = []
    while claimed := await world.claim(session, 90):
        running += claimed
        assert len(running) <= 1000
    assert len(running) == 1000
    assert await _counted(world)
    assert (await use(world, QUEUE))[0] == 1000
    await world.finish(session, *(world.outcome(job, End.SUCCEED) for job in running))
    await world.store.limits.tend(world.partition, "", limit=10)
    assert len(await world.claim(session, 1000)) == 200


async def test_claims_at_once_do_not_look_again_and_again_while_others_have_all_there_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session(lease=10_000)
    for _ in range(3):
        await world.open_session()
    await world.submit_many(400)
    looks = 0
    transact = Connections.transact

    async def counted(self: Connections, steps: Sequence[Step]) -> list[Rows]:
        nonlocal looks
        looks += any(step.statement.name == "count_sessions" for step in steps)
        return await transact(self, steps)

    monkeypatch.setattr(Connections, "transact", counted)
    trips = [trip(world, session, room=110) for _ in range(3)]
    cycles = await asyncio.gather(*trips)
    assert all(cycle.claimed for cycle in cycles)
    assert looks <= 2 * len(trips)
    assert not await _counted(world)


async def test_it_is_not_counted_any_more_when_few_are_left(world: World) -> None:
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session(lease=10_000)
    await world.submit_many(1000)
    running: list[ClaimedJob] = []
    while claimed := await world.claim(session, 90):
        running += claimed
    assert await _counted(world)
    assert not await world.store.limits.relax()
    await world.finish(session, *(world.outcome(job, End.SUCCEED) for job in running[:800]))
    assert await world.store.limits.relax()
    assert not await _counted(world)
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


async def test_a_session_that_comes_makes_all_look_again(world: World) -> None:
    """What each may claim uncounted is less then: what they were given before must not add up with it."""
    await limit(world, QUEUE, concurrency=2000)
    await world.submit_many(2500)
    stores = [world.store, *[await world.another_store() for _ in range(4)]]
    sessions: list[SessionId] = []

    async def claim(who: int, room: int) -> int:
        shares = [Share(lane_of("default"), room)]
        found = await stores[who].jobs.finish_and_claim(0, sessions[who], shares=shares, room=room)
        return len(found.claimed)

    for who in range(len(stores)):
        sessions.append(await world.open_session(lease=10_000))
        assert await claim(who, 1) == 1
    shares = [2000 // (2 * number) for number in range(1, len(stores) + 1)]
    assert sum(shares) > 2000
    for who, share in enumerate(shares):
        await claim(who, share - 1)
    assert (await world.count())[JobState.RUNNING] <= 2000


@pytest.mark.parametrize("before", ["its claim is sent", "it looks"])
async def test_a_process_that_slept_until_its_session_was_forgotten_claims_nothing_uncounted(
    world: World, before: str
) -> None:
    """The others divide among them what would have been its share."""
    await limit(world, QUEUE, concurrency=800)
    other = await world.another_store()
    lost, session = await world.open_session(), await world.open_session(lease=10_000)
    await world.submit_many(1500)
    shares = [Share(lane_of("default"), 400)]

    async def claim(store: Store, session: SessionId) -> int:
        cycle = await store.jobs.finish_and_claim(0, session, shares=shares, room=400)
        return len(cycle.claimed)

    await world.claim(lost, 1)
    trips: Any = world.store.jobs._trips  # type: ignore[attr-defined]
    trips._connections = asleep = Asleep(trips._connections)
    if before == "it looks":
        trips._allowances._connections = asleep
        trips._allowances._left.clear()
    late = asyncio.create_task(claim(world.store, lost))
    await asyncio.wait_for(asleep.fell.wait(), 30)
    world.expire()
    await world.reap(lost)
    assert await other.sessions.prune() == 1
    claimed = [await claim(other, session)]
    asleep.wakes.set()
    claimed += [await late, await claim(other, session), await claim(other, session)]
    assert claimed[1] == 0
    assert sum(claimed) == (await world.count())[JobState.RUNNING] == 800


async def test_a_session_that_goes_makes_all_look_again(world: World) -> None:
    """Its last claim may still be under way when it is closed."""
    await limit(world, QUEUE, concurrency=800)
    other = await world.another_store()
    first, second = await world.open_session(), await world.open_session()
    await world.submit_many(1500)
    shares = [Share(lane_of("default"), 400)]
    [job] = await world.claim(first, 1)
    await world.end(first, job)
    trips: Any = world.store.jobs._trips  # type: ignore[attr-defined]
    trips._connections = asleep = Asleep(trips._connections)
    late = asyncio.create_task(world.store.jobs.finish_and_claim(0, first, shares=shares, room=400))
    await asyncio.wait_for(asleep.fell.wait(), 30)
    await other.sessions.close(first)
    for _ in range(2):
        await other.jobs.finish_and_claim(0, second, shares=shares, room=400)
    asleep.wakes.set()
    assert (await late).claimed == []
    assert (await world.count())[JobState.RUNNING] == 800


async def test_claims_of_one_process_that_overlap_share_its_allowance(world: World) -> None:
    await limit(world, QUEUE, concurrency=400)
    session = await world.open_session(lease=10_000)
    await world.submit_many(900)
    shares = [Share(lane_of("default"), 200)]
    claims = [
        world.store.jobs.finish_and_claim(0, session, shares=shares, room=200) for _ in range(4)
    ]
    claimed = [len(cycle.claimed) for cycle in await asyncio.gather(*claims)]
    assert 200 <= sum(claimed) <= 400


async def test_what_a_trip_that_failed_was_given_is_not_given_again(world: World) -> None:
    """It may have been committed, and nobody knows: here it was not, and the next look gives it anew."""
    await limit(world, QUEUE, concurrency=1000)
    session = await world.open_session(lease=10_000)
    await world.submit_many(3)
    [job, *_] = await world.claim(session, 1)
    bad = msgspec.structs.replace(world.outcome(job, End.BURY), error="nul \0 byte")
    shares = [Share(lane_of("default"), 400)]
    left = world.store.jobs._trips._allowances._left  # type: ignore[attr-defined]
    before = left[QUEUE]
    with pytest.raises(Exception, match="NUL"):
        await world.store.jobs.finish_and_claim(0, session, outcomes=[bad], shares=shares, room=400)
    assert left[QUEUE] == before - 400
    assert len(await world.claim(session)) == 2


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
            0,
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
        await world.store.limits.tend(0, "", limit=10)
        counts = await world.count()
        highest = max(highest, counts.get(JobState.RUNNING, 0))
        assert highest <= most
        if counts.get(JobState.SUCCEEDED) == 2000:
            break
    assert highest > most // 2, "or it has shown nothing"
    assert (await standing(world, QUEUE)).used == sum(map(len, running))


async def test_a_claim_that_was_given_less_than_it_asked_for_says_so(world: World) -> None:
    """Else its worker would take the lane for empty, and wait for the next look."""
    await limit(world, QUEUE, concurrency=400)
    first, _ = [await world.open_session(lease=10_000) for _ in range(2)]
    await world.submit_many(300)
    shares = [Share(lane_of("default"), 300)]
    await world.claim(first, 1)
    cycle = await world.store.jobs.finish_and_claim(0, first, shares=shares, room=300)
    assert len(cycle.claimed) == cycle.room == 99


async def test_a_claim_that_fails_after_its_trip_has_ended_jobs_leaves_them_in_doubt(
    world: World,
) -> None:
    """The rules had changed, and then the store is gone: what was not committed is not known to the worker."""
    session = await world.open_session(lease=10_000)
    await world.submit_many(2)
    [job] = await world.claim(session, 1)
    await set_limit(await world.another_store(), limit_of(QUEUE, concurrency=1))
    trips = world.store.jobs._trips  # type: ignore[attr-defined]
    trips._connections = Gone(trips._connections)
    with pytest.raises(StoreUnavailable) as failed:
        await trip(world, session, job)
    assert failed.value.unknown
    assert await world.state(job.id) is JobState.SUCCEEDED


class Asleep:
    """Connections of a process that is stopped before it says anything."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.read, self.converse = connections.read, connections.converse
        self.fell, self.wakes = asyncio.Event(), asyncio.Event()

    async def transact(self, steps: Sequence[Step]) -> list[Rows]:
        self.fell.set()
        await self.wakes.wait()
        return await self._connections.transact(steps)


class Gone:
    """Connections that fail where rules are read."""

    def __init__(self, connections: Connections) -> None:
        self.converse, self.transact = connections.converse, connections.transact

    async def read(self, statement: Statement, values: Values) -> Rows:
        raise StoreUnavailable("the connection was closed")
