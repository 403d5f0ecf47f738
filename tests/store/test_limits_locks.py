"""Nobody in the door waits for anybody: in PostgreSQL it is the last lock that is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from foliot.model.job import End
from foliot.store.postgres.gates import RULES
from foliot.store.postgres.order import _ORDERS, _class
from foliot.testing.clock import ManualClock
from support.limits import limit, submit, trip
from support.stores import Databases, World, open_world, postgres_place

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(databases: Databases, clock: ManualClock) -> AsyncIterator[World]:
    async with postgres_place(databases, partitions=1) as place, open_world(place, clock) as world:
        yield world


@pytest.mark.parametrize("name", ["key:a", "queue:default"])
async def test_who_waits_for_an_ordering_key_does_not_stand_in_the_door(
    world: World, name: str
) -> None:
    await limit(world, name, concurrency=2)
    session = await world.open_session()
    await submit(world, "a", more={"ordering_key": "o"})
    await world.look()
    [job] = await world.claim(session)
    await submit(world, "a")
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        await other.execute(
            "SELECT pg_advisory_xact_lock(%s, %s)", (_ORDERS, _class(("default", "o")))
        )
        ending = asyncio.create_task(world.finish(session, world.outcome(job, End.SUCCEED)))
        await _until_somebody_waits(other)
        cycle = await asyncio.wait_for(trip(world, session), 10)
        assert len(cycle.claimed) == 1
        assert not ending.done()
        await other.rollback()
    assert await ending == []


async def test_who_forgets_keys_passes_over_those_that_are_asked_for(world: World) -> None:
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session()
    for key in "ab":
        await submit(world, key)
    await trip(world, session, *(await trip(world, session)).claimed)
    world.clock.advance(3 * 3600)
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        await other.execute("SELECT FROM foliot.uses WHERE name = 'key:a' FOR UPDATE")
        assert await asyncio.wait_for(world.store.limits.prune(limit=100), 10) == 1
        await other.rollback()
    assert await world.store.limits.prune(limit=100) == 1


@pytest.mark.parametrize("name", [None, "key:a", "kind:other"])
async def test_a_claim_that_waited_for_a_change_of_limits_goes_by_the_new_ones(
    world: World, name: str | None
) -> None:
    if name is not None:
        await limit(world, name, concurrency=1)
    session = await world.open_session()
    await trip(world, session)  # it knows the rules
    await world.submit_many(20)
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        await other.execute("SELECT pg_advisory_xact_lock(%s, 0)", (RULES,))
        await other.execute("UPDATE foliot.rules SET version = version + 1")
        claiming = asyncio.create_task(trip(world, session, room=10))
        await _until_somebody_waits(other)
        await other.commit()
    assert len((await claiming).claimed) == 10


@pytest.mark.parametrize("name", [None, "key:a", "kind:other"])
async def test_a_claim_that_waited_for_somebody_who_changed_nothing_keeps_what_it_has_claimed(
    world: World, name: str | None
) -> None:
    if name is not None:
        await limit(world, name, concurrency=1)
    session = await world.open_session()
    await trip(world, session)
    await world.submit_many(10)
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        await other.execute("SELECT pg_advisory_xact_lock(%s, 0)", (RULES,))
        claiming = asyncio.create_task(trip(world, session, room=10))
        await _until_somebody_waits(other)
        await other.commit()
    assert len((await claiming).claimed) == 10


@pytest.mark.parametrize("most", [5, 1_000_000])
async def test_to_look_whether_limits_need_be_counted_keeps_no_claim_waiting(
    world: World, most: int
) -> None:
    await limit(world, "queue:default", concurrency=most)
    session = await world.open_session()
    await world.submit()
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        await other.execute("SELECT pg_advisory_xact_lock_shared(%s, 0)", (RULES,))  # as a claim
        assert not await asyncio.wait_for(world.store.limits.relax(), 10)
        assert len(await asyncio.wait_for(world.claim(session), 10)) == 1


async def _until_somebody_waits(connection: psycopg.AsyncConnection) -> None:
    waiting = """
        SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()
    """
    for _ in range(500):
        found = await (await connection.execute(waiting)).fetchone()
        if found is not None and found[0]:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody waits")
