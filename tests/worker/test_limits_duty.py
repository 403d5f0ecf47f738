"""The duty that lets those go on who wait for limits, where nobody else sees to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from foliot.scheduler.duty import Office
from foliot.scheduler.limits import Limits
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Wake
from foliot.testing.clock import ManualClock
from support.limits import limit, submit_many
from support.stores import World, open_world, sqlite_place

pytestmark = pytest.mark.anyio


async def test_partitions_that_come_later_are_seen_to_without_any_news(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Their holder has died: who takes them over has long known that there are some who wait."""
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        told: list[Wake] = []
        session, lost = (
            await world.open_session(lease=1000, duties=True),
            await world.open_session(),
        )
        partitions = Partitions(world.store, session, clock=clock, ids=world.ids, term=5)
        duty = Limits(Office(world.store, partitions, clock, world.ids, announce=told.append))
        await _fill(world)
        await world.claim(lost)
        duty.see(await world.store.jobs.peek())
        assert await duty.tick() <= 1, "they are not ours yet, and may be soon"
        world.expire()
        await world.reap(lost)
        assert told == []
        await partitions.tick()
        await duty.tick()
        [wake] = told
        assert len(wake.ready) == 1
        assert len(await world.claim(session)) == 1


async def test_it_looks_when_the_next_token_comes_although_the_slot_is_taken(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Whoever leaves it before lets nobody in."""
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        session = await world.open_session(duties=True)
        partitions = Partitions(world.store, session, clock=clock, ids=world.ids, term=5)
        duty = Limits(Office(world.store, partitions, clock, world.ids))
        await partitions.tick()
        await limit(world, "queue:default", rate="5/second", concurrency=1)
        await submit_many(world, 2)
        await world.claim(session)
        duty.see(await world.store.jobs.peek())
        assert await duty.tick() == pytest.approx(0.2, abs=0.001)
        assert duty.due_in is None, "time alone lets nobody go on"


async def _fill(world: World) -> None:
    await limit(world, "queue:default", concurrency=1)
    await submit_many(world, 3)
