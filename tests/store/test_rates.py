"""Rates: how many may start in a time, by the store's clock; a burst where there were none for a while."""

from __future__ import annotations

import pytest

from foliot.ids import SessionId
from foliot.limit_commands import delete_limit
from foliot.model.job import ClaimedJob
from support.limits import limit, submit, submit_many, tend, trip, use, waits_for
from support.stores import World

pytestmark = pytest.mark.anyio
LONG = 100_000.0


async def _starts(world: World, session: SessionId) -> int:
    """How many start now, after a look of the duty; and end at once."""
    await tend(world)
    claimed = await world.claim(session)
    for job in claimed:
        await world.end(session, job)
    return len(claimed)


async def test_a_burst_starts_at_once_and_the_rest_by_the_rate(world: World) -> None:
    await limit(world, "queue:default", rate="60/minute", burst=3)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 9)
    starts = []
    for _ in range(4):
        starts.append(await _starts(world, session))
        world.clock.advance(1)
    assert starts == [3, 1, 1, 1]


async def test_tokens_do_not_gather_beyond_the_burst(world: World) -> None:
    await limit(world, "queue:default", rate="1/second", burst=2)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 8)
    assert await _starts(world, session) == 2
    world.clock.advance(3600)
    assert await _starts(world, session) == 2
    assert await _starts(world, session) == 0


async def test_parts_of_tokens_are_kept(world: World) -> None:
    await limit(world, "queue:default", rate="1/second", burst=2)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 9)
    starts = []
    for _ in range(11):
        starts.append(await _starts(world, session))
        world.clock.advance(0.3)
    assert starts == [2, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1]


async def test_a_start_that_came_to_nothing_has_used_its_token(world: World) -> None:
    await limit(world, "kind:echo", rate="1/hour", burst=1)
    session, other = await world.open_session(), await world.open_session(lease=LONG)
    await submit_many(world, 2)
    assert len(await world.claim(session)) == 1
    world.expire()
    await world.reap(session)
    assert await _starts(world, other) == 0
    world.clock.advance(3600)
    assert await _starts(world, other) == 1


async def test_the_duty_is_told_when_the_next_token_comes(world: World) -> None:
    await limit(world, "queue:default", rate="6/minute")
    session = await world.open_session(lease=LONG)
    first, second, third = await submit_many(world, 3)
    [job] = await world.claim(session)
    assert job.id == first
    world.clock.advance(4)
    tended = await world.store.limits.tend(world.partition, "", limit=10)
    assert tended.admitted == []
    assert tended.wait == pytest.approx(6, abs=0.001)
    world.clock.advance(6)
    assert await tend(world) == 1
    assert [await world.state(id) for id in (second, third)] == ["ready", "held"]
    assert await waits_for(world, third) == "queue:default"


async def test_both_a_rate_and_slots(world: World) -> None:
    await limit(world, "key:a", rate="10/second", burst=10, concurrency=2)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 9, "a")
    jobs = await world.claim(session)
    assert len(jobs) == 2
    for _ in range(4):
        jobs = (await trip(world, session, *jobs)).claimed
        assert len(jobs) in (1, 2)
    assert await use(world, "key:a") == (1, 0)


async def test_who_looks_is_told_of_the_next_token_also_while_the_slot_is_taken(
    world: World,
) -> None:
    await limit(world, "queue:default", rate="5/second", concurrency=1)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 3)
    [job] = await world.claim(session)
    tended = await world.store.limits.tend(world.partition, "", limit=10)
    assert (tended.admitted, tended.wait) == ([], None), "time alone changes nothing"
    assert tended.again == pytest.approx({"queue:default": 0.2}, abs=0.001)
    world.clock.advance(0.3)
    tended = await world.store.limits.tend(world.partition, "", limit=10)
    until = pytest.approx({"queue:default": 0.2}, abs=0.001)
    assert tended.again == until, "until the token after the one there is"
    [second] = (await trip(world, session, job)).claimed
    assert (await trip(world, session, second)).claimed == []
    world.clock.advance(0.2)
    assert await tend(world) == 1


async def test_short_jobs_under_both_start_as_fast_as_the_rate_lets_them(world: World) -> None:
    await limit(world, "queue:default", rate="5/second", burst=1, concurrency=1)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 15)
    began = look = end = world.clock.monotonic()
    started, running = 0, list[ClaimedJob]()
    while started < 15:
        now = world.clock.monotonic()
        if running and now >= end:
            running = (await trip(world, session, *running)).claimed
            started, end = started + len(running), now + 0.02
        if now >= look:
            tended = await world.store.limits.tend(world.partition, "", limit=10)
            waits = (1.0, tended.wait, *tended.again.values())
            look = now + min(wait for wait in waits if wait is not None)
        if claimed := await world.claim(session):
            started, running, end = started + len(claimed), claimed, now + 0.02
        world.clock.advance(0.01)
    assert world.clock.monotonic() - began < 4.5, "three seconds, and what steps of this clock add"


async def test_keys_have_their_own_rates(world: World) -> None:
    await limit(world, "key:*", rate="1/minute")
    session = await world.open_session(lease=LONG)
    for key in "abc":
        await submit_many(world, 2, key)
    assert await _starts(world, session) == 3
    world.clock.advance(59)
    assert await _starts(world, session) == 0
    world.clock.advance(1)
    assert await _starts(world, session) == 3


async def test_a_rate_that_is_changed_counts_from_then(world: World) -> None:
    await limit(world, "queue:default", rate="1/hour")
    session = await world.open_session(lease=LONG)
    await submit_many(world, 20)
    assert await _starts(world, session) == 1
    await limit(world, "queue:default", rate="1/second", burst=5)
    world.clock.advance(2)
    assert await _starts(world, session) <= 3, "what was used up stays used up"
    world.clock.advance(100)
    assert await _starts(world, session) == 5
    await limit(world, "queue:default", concurrency=50)
    assert await _starts(world, session) > 5


async def test_those_who_wait_for_a_token_do_not_block_others(world: World) -> None:
    await limit(world, "key:a", rate="1/hour")
    session = await world.open_session(lease=LONG)
    await submit_many(world, 5, "a")
    await submit(world)
    assert await _starts(world, session) == 2


async def test_after_the_clock_was_set_back_the_rate_goes_on(world: World) -> None:
    await limit(world, "queue:default", rate="1/second")
    session = await world.open_session(lease=LONG)
    await submit_many(world, 4)
    assert await _starts(world, session) == 1
    world = await world.set_back(3600)
    starts = [await _starts(world, session)]
    for _ in range(3):
        world.clock.advance(1)
        starts.append(await _starts(world, session))
    assert starts == [0, 1, 1, 1]


async def test_the_duty_looks_when_a_rate_in_use_brings_a_token_also_if_others_are_waited_for(
    world: World,
) -> None:
    """Who leaves a slot may let in one that has to wait for the rate then, of which the duty knew nothing."""
    await limit(world, "queue:default", rate="5/second", burst=2)
    await limit(world, "kind:echo", concurrency=1)
    session = await world.open_session(lease=LONG)
    ids = await submit_many(world, 2)
    [job] = await world.claim(session)
    assert await waits_for(world, ids[1]) == "kind:echo"
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert not tended.idle
    assert list(tended.again) == ["queue:default"]
    assert 0.1 <= tended.again["queue:default"] <= 0.2
    world.clock.advance(10)  # all tokens are there again
    assert (await world.store.limits.tend(world.partition, "", limit=100)).again == {}
    await world.end(session, job)
    await tend(world)
    [job] = await world.claim(session)
    await world.end(session, job)
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert tended.idle
    assert tended.again == {}


@pytest.mark.parametrize("name", ["queue:default", "key:a", "key:*"])
async def test_a_rate_that_was_deleted_or_made_slots_for_a_moment_brings_no_new_burst(
    world: World, name: str
) -> None:
    async def start() -> None:
        jobs = await world.claim(session)
        counts.append(len(jobs))
        for job in jobs[1:]:  # one goes on running
            await world.end(session, job)

    await limit(world, name, rate="6/minute", burst=4)
    session = await world.open_session(lease=LONG)
    await submit_many(world, 40, "a")
    counts: list[int] = []
    await start()
    await delete_limit(world.store, name)
    await limit(world, name, rate="6/minute", burst=4)
    await start()
    await limit(world, name, concurrency=20)
    await limit(world, name, rate="6/minute", burst=4)
    await start()
    assert counts == [4, 0, 0]
    await delete_limit(world.store, name)
    world.clock.advance(21)
    await limit(world, name, rate="6/minute", burst=4)
    await start()
    assert counts == [4, 0, 0, 2]
    await delete_limit(world.store, name)
    world.clock.advance(3600)
    await limit(world, name, rate="6/minute", burst=4)
    await start()
    assert counts == [4, 0, 0, 2, 4]
