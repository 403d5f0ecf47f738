"""Allowances: in PostgreSQL sessions divide what a limit that is not counted leaves, and never overspend it. What holds
of both stores: test_limits_uncounted.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from foliot.errors import StoreUnavailable
from foliot.ids import SessionId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import End, JobState
from foliot.model.lane import lane_of
from foliot.store.port import Share, Store
from foliot.store.postgres.connection import Connections, Step, Values
from foliot.store.reply import Rows
from foliot.store.sql import Statement
from foliot.testing.clock import ManualClock
from support.limits import is_counted, limit, trip
from support.stores import Databases, World, open_world, postgres_place

pytestmark = pytest.mark.anyio
QUEUE = "queue:default"


@pytest.fixture
async def world(databases: Databases, clock: ManualClock) -> AsyncIterator[World]:
    async with postgres_place(databases, partitions=1) as place, open_world(place, clock) as world:
        yield world


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
    assert not is_counted(world, QUEUE)


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
