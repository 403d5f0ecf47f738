"""Limits where something else changes at the same time: chains, order, pauses, and claims that are cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psycopg
import pytest

from foliot.explain_commands import explain_job
from foliot.limit_commands import delete_limit
from foliot.model.job import End, JobState
from foliot.model.workflow import NewStep, NewWorkflow
from foliot.queue_commands import pause_queue
from foliot.store.postgres.order import order_steps
from support.flows import draw
from support.limits import ids, limit, submit, submit_many, tend, trip, use, waits_for
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_a_job_that_has_become_a_step_gives_its_slot_back_when_it_ends_and_once(
    world: World,
) -> None:
    """Its end is refused at first: whoever claimed it did not know of its chain."""
    await limit(world, "key:a", concurrency=2)
    session = await world.open_session()
    await submit_many(world, 6, "a")
    first, _ = await world.claim(session)
    child = world.new_job()
    chain = NewWorkflow(
        id=world.new_job().id, name="chain", steps=(), policy="continue", chain=True
    )
    step = NewStep(name=child.id, job=child, parents=(first.id,))
    home, _ = await world.store.workflows.follow(world.partition, step, chain)
    cycle = await trip(world, session, first)
    if cycle.refused:
        assert cycle.claimed == [], "it still runs"
        assert (await use(world, "key:a"))[0] == 2
        again = msgspec.structs.replace(world.outcome(first, End.SUCCEED), flow=home)
        assert await world.finish(session, again) == []
    started = [*cycle.claimed, *await world.claim(session)]
    assert len([job for job in started if job.gates]) == 1
    assert (await use(world, "key:a"))[0] == 2


async def test_claims_under_a_limit_of_keys_keep_the_order_of_priorities(world: World) -> None:
    await limit(world, "key:*", concurrency=5)
    session = await world.open_session()
    late, soon, first = [await submit(world, "a", priority=number) for number in (3, 2, 1)]
    assert ids(await world.claim(session)) == [first, soon, late]


@pytest.mark.parametrize("hold", ["before", "after"])
async def test_a_step_that_waits_for_a_limit_does_not_start_while_its_workflow_is_paused(
    world: World, hold: str
) -> None:
    await limit(world, "kind:echo", concurrency=1)
    session = await world.open_session()
    flow = await draw(world)
    await submit(world)
    [busy] = await world.claim(session)
    await flow.submit(flow.step("a"))
    if hold == "before":
        assert await flow.claim() == set()
        assert await waits_for(world, flow.ids["a"]) == "kind:echo"
    assert await flow.store.pause(world.partition, flow.id, note=None, by="me")
    assert (await trip(world, session, busy)).claimed == []
    await tend(world)
    assert await flow.claim() == set()
    await flow.store.resume(world.partition, flow.id)
    assert await flow.claim() == {"a"}


@contextmanager
def _ordering(world: World, order: tuple[str, str]) -> Iterator[None]:
    """Somebody is about to admit the next one of an ordering key."""
    [lock, _] = order_steps(world.partition, [order], None)
    with psycopg.connect(world.place.direct, cursor_factory=psycopg.RawCursor) as holding:
        holding.execute(lock.statement.numbered, lock.statement.bind(lock.values))
        yield
        holding.rollback()


@pytest.mark.parametrize("place", ["postgres-1"], indirect=True)
async def test_nobody_waits_for_an_ordering_key_in_the_door(world: World) -> None:
    """Who ends steps of workflows comes to the door with ordering keys locked: both would wait for each other."""
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session()
    await submit(world, "a", more={"ordering_key": "o"})
    await world.look()
    [ordered] = await world.claim(session)
    other = await submit(world, "b")
    with _ordering(world, ("default", "o")):
        ending = asyncio.create_task(trip(world, session, ordered))
        await asyncio.sleep(0.3)
        claimed = await asyncio.wait_for(world.claim(session), 5)
    assert ids(claimed) == [other]
    assert (await ending).refused == []
    assert await world.state(ordered.id) is JobState.SUCCEEDED


async def test_those_who_wait_for_two_limits_do_not_keep_back_who_waits_for_one(
    world: World,
) -> None:
    """The first of a line may all have to wait for another limit as well: then those behind them are looked at."""
    await limit(world, "queue:default", concurrency=4)
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session()
    busy = [await submit(world) for _ in range(4)]
    running = await world.claim(session)
    assert ids(running) == busy
    await submit_many(world, 60, "x")
    behind = await submit(world, "y")
    assert await world.claim(session) == []
    await trip(world, session, *running)
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert tended.wait is not None and tended.wait < 1, "and there is another look soon"
    assert behind in ids(await world.claim(session))
    assert (await use(world, "queue:default"))[0] == 2


@pytest.mark.parametrize("fields", [{"rate": "10/second"}, {"concurrency": 1}])
async def test_those_of_a_paused_queue_are_not_looked_at_again_and_again(
    world: World, fields: dict[str, object]
) -> None:
    """There is room for them, and time alone changes nothing."""
    await limit(world, "kind:echo", **fields)
    await limit(world, "kind:other", concurrency=1)
    session = await world.open_session()
    await submit_many(world, 2)
    [job] = await world.claim(session)
    await pause_queue(world.store, "default", by="ada", note=None)
    await world.end(session, job)
    world.clock.advance(5)
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert (tended.admitted, tended.wait) == ([], None)


async def test_what_has_room_and_is_kept_by_a_paused_queue_is_not_said_to_go_on(
    world: World,
) -> None:
    await limit(world, "kind:echo", concurrency=1)
    session = await world.open_session()
    _, second = await submit_many(world, 2)
    [job] = await world.claim(session)
    await pause_queue(world.store, "default", by="ada", note=None)
    await world.end(session, job)
    for _ in range(2):  # there is room; there is no limit any more
        told = await explain_job(world.store, second)
        assert told.why.startswith("the queue 'default' was paused by ada")
        assert not any("it is about to be asked" in reason.why for reason in told.reasons)
        await delete_limit(world.store, "kind:echo", by="ada")
