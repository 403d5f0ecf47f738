"""The duty that lets those go on who wait for limits: for partitions of its own, from the moment it has them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from foliot.clock import SystemClock
from foliot.model.job import JobState
from foliot.model.limit import Limit
from foliot.scheduler.duty import Office
from foliot.scheduler.limits import Limits
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Wake
from support.limits import limit
from support.stores import World

pytestmark = pytest.mark.anyio


class Held:
    """The partitions that this process looks after."""

    def __init__(self) -> None:
        self.held: frozenset[int] = frozenset()


async def test_those_who_wait_in_a_partition_that_is_taken_over_go_on_at_once(world: World) -> None:
    session = await world.open_session()
    await world.store.limits.set(Limit(name="queue:default", concurrency=0), by=None)
    id = await world.submit()
    assert await world.claim(session) == []
    await world.store.limits.delete("queue:default")
    told: asyncio.Queue[Wake] = asyncio.Queue()
    mine = Held()
    partitions, clock = cast("Partitions", mine), SystemClock()
    duty = Limits(Office(world.store, partitions, clock, world.ids, announce=told.put_nowait))
    running = asyncio.create_task(duty.run())
    try:
        duty.see(await world.store.jobs.peek())
        await asyncio.sleep(0.1)
        assert (await world.get(id)).state is JobState.HELD  # another process has that partition
        mine.held = frozenset({world.partition})
        duty.see(await world.store.jobs.peek())
        async with asyncio.timeout(20):
            wake = await told.get()
    finally:
        running.cancel()
    assert [partition for partition, _ in wake.ready] == [world.partition]
    assert (await world.get(id)).state is JobState.READY


async def test_for_a_token_alone_what_runs_is_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate may have a hundred tokens a second, and many thousands may run."""
    await limit(world, "queue:default", rate="50/second", burst=1)
    session = await world.open_session(lease=1000)
    await world.submit_many(9)
    started = len(await world.claim(session))
    mine = Held()
    mine.held = frozenset({world.partition})
    partitions = cast("Partitions", mine)
    duty = Limits(Office(world.store, partitions, world.clock, world.ids, announce=lambda _: None))
    limits: Any = world.store.limits
    tend, counted = limits.tend, list[bool]()

    async def spied(*asked: Any, anew: bool = True, **given: Any) -> Any:
        counted.append(anew)
        return await tend(*asked, anew=anew, **given)

    monkeypatch.setattr(limits, "tend", spied)
    duty.see(await world.store.jobs.peek())
    for seconds in (0.02, 0.02, 0.02, 1.0, 0.02):
        await duty.tick()
        world.clock.advance(seconds)
        started += len(await world.claim(session))
    assert started == 3
    assert counted == [True, False, False, False, True]


async def test_who_has_to_wait_after_nobody_did_is_seen_at_the_next_peek(world: World) -> None:
    """Also if those before were there at the last one: else a rate with one token waits for the next look, a second."""
    session = await world.open_session()
    await world.store.limits.set(Limit(name="queue:default", concurrency=0), by=None)
    await world.submit()
    assert await world.claim(session) == []
    peek = await world.store.jobs.peek()
    mine = Held()
    mine.held = frozenset({world.partition})
    duty = Limits(Office(world.store, cast("Partitions", mine), SystemClock(), world.ids))
    duty.see(peek)
    await world.store.limits.delete("queue:default")
    await duty.tick()
    await duty.tick()
    woken: list[str] = []
    duty.wake = lambda: woken.append("again")  # type: ignore[method-assign]
    duty.see(peek)
    assert woken == ["again"]
