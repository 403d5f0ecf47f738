"""Leases: each partition's duties have one holder, and live sessions share them evenly."""

from __future__ import annotations

import asyncio
from math import ceil

import pytest

from foliot.ids import SessionId
from support.stores import LEASE, World

pytestmark = pytest.mark.anyio

TERM = 5.0


async def _divide(world: World, session: SessionId) -> frozenset[int]:
    return await world.store.leases.divide(session, term=TERM)


async def _settle(world: World, sessions: list[SessionId]) -> list[frozenset[int]]:
    """Who is first has everything at first; after a few rounds each has its share."""
    for _ in range(4):
        held = [await _divide(world, session) for session in sessions]
    return held


async def test_one_session_holds_every_partition(world: World) -> None:
    session = await world.open_session(duties=True)
    everything = frozenset(range(world.store.partitions))
    assert await _divide(world, session) == everything
    assert await _divide(world, session) == everything


@pytest.mark.parametrize("count", [2, 3, 5, 10])
async def test_sessions_share_the_partitions_evenly(world: World, count: int) -> None:
    sessions = [await world.open_session(duties=True) for _ in range(count)]
    held = await _settle(world, sessions)
    assert sorted(p for each in held for p in each) == list(range(world.store.partitions))
    assert max(len(each) for each in held) == ceil(world.store.partitions / count)
    assert held == await _settle(world, sessions)  # and nothing moves any more


async def test_two_never_hold_one_partition(world: World) -> None:
    sessions = [await world.open_session(duties=True) for _ in range(4)]
    for _ in range(3):
        held = await asyncio.gather(*(_divide(world, session) for session in sessions))
        taken = [partition for each in held for partition in each]
        assert len(taken) == len(set(taken))
        world.clock.advance(TERM + 1)


async def test_an_expired_lease_is_taken_over(world: World) -> None:
    gone, heir = await world.open_session(duties=True), await world.open_session(duties=True)
    everything = await _divide(world, gone) | await _divide(world, heir)
    world.clock.advance(LEASE - 1)
    world.beat(heir)
    world.clock.advance(2)
    assert await _divide(world, heir) == frozenset(range(world.store.partitions))
    assert everything <= frozenset(range(world.store.partitions))


async def test_a_lease_is_held_until_its_term_is_over(world: World) -> None:
    holder = await world.open_session(duties=True)
    await _divide(world, holder)
    other = await world.open_session(duties=True)
    world.clock.advance(TERM - 0.001)
    assert await _divide(world, other) == frozenset()
    world.clock.advance(0.001)
    assert await _divide(world, other) == frozenset(range(world.store.partitions))


async def test_renewing_starts_the_term_again(world: World) -> None:
    holder, other = await world.open_session(duties=True), await world.open_session(duties=True)
    first = await _divide(world, holder)
    for _ in range(3):
        world.clock.advance(TERM - 1)
        world.beat(other)
        assert await _divide(world, holder) == first
    world.clock.advance(TERM - 1)
    assert not first & await _divide(world, other)


async def test_what_is_above_the_share_is_given_up_at_once(world: World) -> None:
    first = await world.open_session(duties=True)
    await _divide(world, first)
    second = await world.open_session(duties=True)
    kept = await _divide(world, first)
    taken = await _divide(world, second)
    assert len(kept) == ceil(world.store.partitions / 2)
    assert kept | taken == frozenset(range(world.store.partitions))
    assert not kept & taken


async def test_giving_up_lets_others_take_at_once(world: World) -> None:
    first = await world.open_session(duties=True)
    await _divide(world, first)
    await world.store.leases.give_up(first)
    await world.store.sessions.close(first)
    second = await world.open_session(duties=True)
    assert await _divide(world, second) == frozenset(range(world.store.partitions))
    await world.store.leases.give_up(first)  # not its own any more
    assert await _divide(world, second) == frozenset(range(world.store.partitions))


async def test_sessions_without_duties_take_no_share(world: World) -> None:
    for _ in range(3):
        await world.open_session(duties=False)
    session = await world.open_session(duties=True)
    assert await _divide(world, session) == frozenset(range(world.store.partitions))


async def _live_on(world: World, sessions: list[SessionId], seconds: float) -> None:
    """As processes do: a beat every 3 s, a division every third of a term."""
    ticks = round(seconds * 3)
    for tick in range(1, ticks + 1):
        world.clock.advance(1 / 3)
        for session in sessions:
            if tick % 9 == 0:
                world.beat(session, lease=15)
            if tick % 5 == 0:
                await _divide(world, session)


@pytest.mark.parametrize("beat_before_death", [0.0, 1.5, 2.9])
@pytest.mark.parametrize("survivors", [1, 3])
async def test_the_share_of_a_killed_process_moves_within_seven_seconds(
    world: World, survivors: int, beat_before_death: float
) -> None:
    dead = await world.open_session(duties=True, lease=15)
    living = [await world.open_session(duties=True, lease=15) for _ in range(survivors)]
    await _settle(world, [dead, *living])
    world.beat(dead, lease=15)
    world.clock.advance(beat_before_death)
    for session in living:
        world.beat(session, lease=15)
    await _settle(world, [dead, *living])  # its last renewal
    await _live_on(world, living, 7)
    held = [await _divide(world, session) for session in living]
    everything = frozenset(range(world.store.partitions))
    assert frozenset().union(*held) == everything
    for _ in range(6):  # and it stays so while its session has not expired yet
        await _live_on(world, living, 1)
        assert frozenset().union(*[await _divide(world, s) for s in living]) == everything
    held = await _settle(world, living)
    assert max(len(each) for each in held) == ceil(world.store.partitions / survivors)


async def test_a_session_that_was_only_late_has_its_share_again(world: World) -> None:
    late, other = [await world.open_session(duties=True) for _ in range(2)]
    before = await _settle(world, [late, other])
    world.clock.advance(TERM + 1)
    world.beat(other)
    assert await _divide(world, other) == frozenset(range(world.store.partitions))
    world.beat(late)
    after = await _settle(world, [other, late])
    assert sorted(len(each) for each in after) == sorted(len(each) for each in before)
    assert frozenset().union(*after) == frozenset(range(world.store.partitions))


async def test_living_sessions_keep_what_they_hold(world: World) -> None:
    sessions = [await world.open_session(duties=True, lease=15) for _ in range(3)]
    held = await _settle(world, sessions)
    for _ in range(5):
        await _live_on(world, sessions, 4)
        assert [await _divide(world, session) for session in sessions] == held
