"""The duty that lets those go on who wait for limits: for partitions of its own, from the moment it has them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from foliot.clock import SystemClock
from foliot.ids import SessionId
from foliot.model.breaker import Options, Report, Tally
from foliot.model.job import ClaimedJob, Extras, JobState, More
from foliot.model.limit import Limit
from foliot.scheduler.duty import Office
from foliot.scheduler.limits import Limits
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Wake
from support.limits import limit, submit
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

    async def spied(*asked: Any, among: Any = None, **given: Any) -> Any:
        counted.append(among is None)
        return await tend(*asked, among=among, **given)

    monkeypatch.setattr(limits, "tend", spied)
    duty.see(await world.store.jobs.peek())
    for seconds in (0.02, 0.02, 0.02, 1.0, 0.02):
        await duty.tick()
        world.clock.advance(seconds)
        started += len(await world.claim(session))
    assert started == 3
    assert counted == [True, False, False, False, True]


async def test_what_runs_is_counted_once_for_all_partitions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting is for all of them; for each of thirty-two it took longer than the second until the next look."""
    await limit(world, "queue:default", concurrency=1)
    session, first = await world.open_session(lease=1000), world.partition
    every = range(world.store.partitions)
    for partition in every:
        world.partition = partition
        await world.submit_many(2)
        await world.claim(session)
    world.partition = first
    mine = Held()
    mine.held = frozenset(every)
    partitions = cast("Partitions", mine)
    duty = Limits(Office(world.store, partitions, world.clock, world.ids, announce=lambda _: None))
    limits: Any = world.store.limits
    tend, counted = limits.tend, list[bool]()

    async def spied(*asked: Any, anew: bool, **given: Any) -> Any:
        counted.append(anew)
        return await tend(*asked, anew=anew, **given)

    monkeypatch.setattr(limits, "tend", spied)
    for _ in range(2):
        counted.clear()
        duty.see(await world.store.jobs.peek())
        await duty.tick()
        assert sorted(counted) == [False] * (len(every) - 1) + [True]
        world.clock.advance(1.0)


async def test_who_has_to_wait_after_nobody_did_is_seen_at_the_next_peek(world: World) -> None:
    """Also if those before were there at the last one: else a rate with one token waits for the next look, a second."""
    session = await world.open_session()
    await world.store.limits.set(Limit(name="queue:default", concurrency=0), by=None)
    await world.submit()
    assert await world.claim(session) == []
    peek = await world.store.jobs.peek()
    mine = Held()
    mine.held = frozenset({world.partition})
    duty = Limits(Office(world.store, cast("Partitions", mine), world.clock, world.ids))
    duty.see(peek)
    await world.store.limits.delete("queue:default")
    await duty.tick()
    world.clock.advance(1)
    await duty.tick()
    woken: list[str] = []
    duty.wake = lambda: woken.append("again")  # type: ignore[method-assign]
    duty.see(peek)
    assert woken == ["again"]


async def test_pairs_of_jobs_under_a_rate_are_not_kept_waiting_by_a_duty_that_rests_in_between(
    world: World,
) -> None:
    """It is told of the first only. Of the others, which come when it has seen nobody wait, it knows by itself."""
    await limit(world, "queue:default", rate="4/second", burst=1)
    session = await world.open_session(lease=1000)
    duty = _duty(world)
    look, started = 0.0, list[int]()
    for hundredth in range(480):
        if hundredth % 80 == 0:
            await world.submit_many(2)
        started += [hundredth] * len(await world.claim(session))
        if hundredth == 0:
            duty.see(await world.store.jobs.peek())
        if (now := world.clock.monotonic()) >= look:
            look = now + await duty.tick()
        world.clock.advance(0.01)
    pairs = zip(started[::2], started[1::2], strict=True)
    late = [second - first - 25 for first, second in pairs]
    assert len(late) == 6
    assert max(late) <= 4, late


async def test_for_tokens_of_one_rate_those_who_wait_for_others_are_not_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands of them, and fifty tokens a second."""
    await limit(world, "kind:echo", rate="50/second", burst=1)
    await limit(world, "key:*", concurrency=0)
    session = await world.open_session(lease=1000)
    await world.submit_many(60)
    for number in range(3):
        await submit(world, f"{number}", kind="other")
    await world.claim(session)
    asked = list[Any]()
    limits: Any = world.store.limits
    tend = limits.tend

    async def spied(*asking: Any, **given: Any) -> Any:
        asked.append(given.get("among"))
        return await tend(*asking, **given)

    monkeypatch.setattr(limits, "tend", spied)
    duty, began = _duty(world), world.clock.monotonic()
    duty.see(await world.store.jobs.peek())
    started = 0
    while (now := world.clock.monotonic()) < began + 0.9:
        pause, started = await duty.tick(), started + len(await world.claim(session))
        world.clock.advance(min(pause, began + 0.9 - now) + 0.0001)
    assert started > 30
    assert asked[0] is None
    assert asked[1:] == [["kind:echo"]] * len(asked[1:])


async def test_a_rate_in_use_that_nobody_waits_for_is_looked_at_where_others_wait(
    world: World,
) -> None:
    """Who leaves a slot lets in one who has to wait for the rate then, of which no peek would tell the duty."""
    await limit(world, "kind:echo", rate="4/second", burst=1)
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session(lease=1000)
    await submit(world, "a", kind="other")
    await submit(world, "a", kind="other")
    await world.submit()
    assert len(await world.claim(session)) == 2
    duty = _duty(world)
    duty.see(await world.store.jobs.peek())
    await duty.tick()
    id = await world.submit()
    assert await world.claim(session) == []
    for _ in range(30):
        world.clock.advance(0.01)
        await duty.tick()
    assert (await world.get(id)).state is JobState.READY


async def test_a_rate_that_nobody_has_waited_for_a_while_is_not_looked_at_any_more(
    world: World,
) -> None:
    await limit(world, "queue:default", rate="4/second", burst=1)
    session = await world.open_session(lease=1000)
    await world.submit_many(2)
    await world.claim(session)
    duty = _duty(world)
    duty.see(await world.store.jobs.peek())
    pauses = [await duty.tick()]
    world.clock.advance(0.3)
    await duty.tick()
    assert len(await world.claim(session)) == 1
    duty.see(await world.store.jobs.peek())
    for _ in range(100):
        pauses.append(await duty.tick())
        world.clock.advance(0.1)
    assert pauses[10] == pytest.approx(0.1, abs=0.02)
    assert pauses[-1] >= 1.0


async def test_those_whom_nobody_runs_keep_a_free_slot_from_nobody_behind_them(
    world: World,
) -> None:
    """Also where there is no other limit: at one in each second all behind them would wait for minutes."""
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session(lease=1000)
    await submit(world, "a")
    [job] = await world.claim(session)
    for _ in range(130):
        await submit(world, "a", queue="unserved")
    behind = await submit(world, "a")
    assert await world.claim(session, 200, queues=["unserved", "default"]) == []
    await world.end(session, job)
    assert [job.id for job in await _claimed_soon(world, session)] == [behind]


async def test_those_whom_nobody_runs_keep_nobody_from_trying_at_a_breaker(world: World) -> None:
    session, stripe = await world.open_session(lease=1000), More(extras=Extras(breaker="stripe"))
    await world.store.breakers.declare("stripe", Options(failures=1, open_for=1))
    await world.store.breakers.report("stripe", Report(tallies=(Tally(0.0, 1, 0),)))
    for _ in range(30):
        await world.submit(queue="unserved", more=stripe)
    behind = await world.submit(more=stripe)
    assert await world.claim(session, queues=["unserved", "default"]) == []
    world.clock.advance(1)
    await world.store.breakers.tick()
    [job] = await _claimed_soon(world, session)
    assert (job.id, job.gates) == (behind, ("breaker:stripe",))


async def test_where_who_is_let_in_starts_no_others_are_and_a_full_limit_lets_the_duty_rest(
    world: World,
) -> None:
    await limit(world, "key:a", concurrency=1)
    session, lost = await world.open_session(lease=1000), await world.open_session()
    for _ in range(40):
        await submit(world, "a")
    assert len(await world.claim(lost)) == 1
    assert await world.claim(session) == []
    duty = _duty(world)
    duty.see(await world.store.jobs.peek())
    assert await duty.tick() > 0.9
    world.expire()
    await world.reap(lost)
    await duty.tick()
    assert (await world.count())[JobState.READY] == 2, "what was lost, and one more"
    assert len(await world.claim(session)) == 1
    looks, began = 0, world.clock.monotonic()
    while world.clock.monotonic() < began + 20:
        world.clock.advance(await duty.tick() + 0.001)
        looks += 1
    assert looks < 90, "soon for six seconds, then once in each"
    assert (await world.count())[JobState.HELD] == 39


async def _claimed_soon(world: World, session: SessionId) -> list[ClaimedJob]:
    duty, began = _duty(world), world.clock.monotonic()
    duty.see(await world.store.jobs.peek())
    while not (claimed := await world.claim(session)):
        world.clock.advance(await duty.tick() + 0.001)
        assert world.clock.monotonic() < began + 2
    return claimed


def _duty(world: World) -> Limits:
    mine = Held()
    mine.held = frozenset({world.partition})
    return Limits(Office(world.store, cast("Partitions", mine), world.clock, world.ids))
