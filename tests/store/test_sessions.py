"""Sessions: alive as long as they are extended, and remembered as long as a job names them."""

from __future__ import annotations

import asyncio

import pytest

from foliot.ids import SessionId
from foliot.model.job import End
from foliot.model.session import NewSession
from foliot.store.living import Heart
from support.stores import LEASE, World

pytestmark = pytest.mark.anyio


async def _live(world: World) -> dict[SessionId, bool]:
    return {session.id: session.live for session in await world.store.sessions.all()}


async def test_an_open_session_is_listed_as_it_is(world: World) -> None:
    new = NewSession(
        id=world.ids.session(),
        host='a "host", \\ with {signs}',
        pid=42,
        version="1.2",
        queues=("mail", "print"),
        kinds=("a.b", "c"),
        modules=("shop.mail", "shop"),
        duties=True,
    )
    await world.store.sessions.open(new, lease=LEASE)
    [session] = await world.store.sessions.all()
    assert (session.id, session.host, session.pid, session.version) == (
        new.id,
        new.host,
        new.pid,
        new.version,
    )
    assert (session.queues, session.kinds, session.duties) == (new.queues, new.kinds, True)
    assert session.modules == new.modules
    assert session.started_at == session.beat_at == world.clock.now()
    assert session.expires_at == world.after(LEASE)
    assert (session.live, session.executing) == (True, 0)


async def test_sessions_are_listed_in_order_of_their_start(world: World) -> None:
    opened = []
    for _ in range(3):
        opened.append(await world.open_session())
        world.clock.advance(1)
    assert list(await _live(world)) == opened


async def test_a_session_expires_when_it_is_not_extended(world: World) -> None:
    session = await world.open_session()
    world.clock.advance(LEASE - 0.001)
    assert await _live(world) == {session: True}
    world.clock.advance(0.001)
    assert await _live(world) == {session: False}


async def test_extending_keeps_a_session_alive(world: World) -> None:
    session = await world.open_session()
    for _ in range(3):
        world.clock.advance(LEASE - 1)
        assert world.beat(session)
    [seen] = await world.store.sessions.all()
    assert (seen.live, seen.beat_at, seen.expires_at) == (
        True,
        world.clock.now(),
        world.after(LEASE),
    )


async def test_a_beat_names_what_is_executing(world: World) -> None:
    session = await world.open_session()
    jobs = [await world.run(session) for _ in range(3)]
    assert world.beat(session, *(job.id for job in jobs))
    assert (await world.store.sessions.all())[0].executing == 3
    assert world.beat(session)
    assert (await world.store.sessions.all())[0].executing == 0


async def test_an_expired_session_never_revives(world: World) -> None:
    session = await world.open_session()
    world.clock.advance(LEASE)
    for _ in range(2):
        assert not world.beat(session)
    assert await _live(world) == {session: False}


async def test_a_session_that_never_was_cannot_be_extended(world: World) -> None:
    assert not world.beat(world.ids.session())
    assert await world.store.sessions.all() == []


async def test_a_heart_beats_from_a_thread_of_its_own(world: World) -> None:
    session = await world.open_session()
    heart = world.store.sessions.heart(session, lease=LEASE)

    def beat(heart: Heart) -> list[bool]:
        try:
            return [heart.extend([]) is not None for _ in range(5)]
        finally:
            heart.close()
            heart.close()  # twice is harmless

    assert await asyncio.to_thread(beat, heart) == [True] * 5


async def test_a_heart_beats_again_after_it_was_closed(world: World) -> None:
    heart = world.store.sessions.heart(await world.open_session(), lease=LEASE)
    assert heart.extend([])
    heart.close()
    assert heart.extend([])
    heart.close()


async def test_a_closed_session_is_gone(world: World) -> None:
    session, other = await world.open_session(), await world.open_session()
    await world.store.sessions.close(session)
    assert await _live(world) == {other: True}
    await world.store.sessions.close(session)
    assert not world.beat(session)


async def test_a_session_that_holds_jobs_is_not_closed(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.store.sessions.close(session)
    assert await _live(world) == {session: True}
    await world.end(session, job)
    await world.store.sessions.close(session)
    assert await _live(world) == {}


async def test_only_expired_sessions_that_hold_nothing_are_pruned(world: World) -> None:
    idle, busy = await world.open_session(), await world.open_session()
    job = await world.run(busy)
    assert await world.store.sessions.prune() == 0
    world.expire()
    live = await world.open_session()
    assert await world.store.sessions.prune() == 1
    assert await _live(world) == {busy: False, live: True}
    assert idle not in await _live(world)
    await world.reap(busy)
    assert await world.store.sessions.prune() == 1
    assert await _live(world) == {live: True}
    assert job.id


async def test_a_session_that_retried_all_it_had_is_pruned(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.RETRY, delay=60)
    world.expire()
    assert await world.store.sessions.prune() == 1


async def test_a_session_with_a_job_in_any_partition_is_kept(world: World) -> None:
    session = await world.open_session()
    world.partition = world.store.partitions - 1
    await world.run(session)
    world.expire()
    assert await world.store.sessions.prune() == 0
    await world.store.sessions.close(session)
    assert await _live(world) == {session: False}
