"""Why a job is not running: nobody does the scheduler's duties, there for real, in a store, when it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from foliot.explain import Explanation
from foliot.explain_commands import explain_job
from foliot.ids import JobId, SessionId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import End, Extras, More
from foliot.model.session import NewSession
from support.stores import World

pytestmark = pytest.mark.anyio

NOBODY = "no live process does the scheduler's duties"
OFF = f"{NOBODY}: the live workers have worker.scheduler=false; it waits for one"
KEYED = More(extras=Extras(limit_key="z:1"))


async def told(world: World, id: JobId) -> Explanation:
    return await explain_job(world.store, id)


async def whys(world: World, id: JobId) -> list[str]:
    return [reason.why for reason in (await told(world, id)).reasons]


async def start(world: World, *, lease: float = 1000, **fields: Any) -> SessionId:
    """A worker without duties, unless said otherwise."""
    plain: dict[str, Any] = {"queues": (), "kinds": ("echo",), "duties": False, **fields}
    session = NewSession(id=world.ids.session(), host="here", pid=1, version="0", **plain)
    await world.store.sessions.open(session, lease=lease)
    return session.id


async def overdue(world: World) -> JobId:
    return await world.submit(delay=5)


async def expired(world: World) -> JobId:
    return await world.submit(more=More(expires_in=5.0))


async def ordered(world: World) -> JobId:
    return await world.submit(more=More(ordering_key="a"))


async def next_of_its_key(world: World) -> JobId:
    first, id = [await ordered(world) for _ in range(2)]
    await world.look()
    await world.cancel(first)
    return id


async def known_again(world: World) -> JobId:
    session = await start(world)
    job = await world.run(session)
    assert await world.finish(session, world.outcome(job, End.HOLD)) == []
    return job.id


async def with_room(world: World) -> JobId:
    await set_limit(world.store, limit_of("key:z:1", concurrency=1))
    session = await start(world)
    running = await world.run(session, more=KEYED)
    other, id = [await world.submit(more=KEYED) for _ in range(2)]
    assert await world.claim(session) == []
    await world.end(session, running, gates=("key:z:1",))
    await world.cancel(other)
    return id


async def without_its_limit(world: World) -> JobId:
    await set_limit(world.store, limit_of("key:z:1", concurrency=0))
    id = await world.submit(more=KEYED)
    assert await world.claim(await start(world)) == []
    await world.store.limits.delete("key:z:1")
    return id


@pytest.mark.parametrize(
    ("make", "what", "soon"),
    [
        (overdue, "due since ", ", and about to be made ready"),
        (expired, "expired at ", ": about to be cancelled"),
        (ordered, "is to be looked at for its turn", "about to be looked at for its turn"),
        (next_of_its_key, "the next of ordering key 'a'", ", about to be made ready"),
        (known_again, "a live worker knows the kind", ": it is about to be made ready"),
        (with_room, "limit key:z:1 has room again", ": it is about to be asked"),
        (without_its_limit, "waited for key:z:1", ": it is about to be asked again"),
    ],
)
async def test_where_nobody_does_the_duties_that_comes_first_and_nothing_is_about_to_happen(
    world: World, make: Callable[[World], Awaitable[JobId]], what: str, soon: str
) -> None:
    await start(world)
    id = await make(world)
    world.clock.advance(10)
    nobody, waits, *_ = (await told(world, id)).reasons
    assert nobody.why == OFF
    assert nobody.since is not None and nobody.since <= world.clock.now()
    assert nobody.change == "foliot scheduler runs, or a worker with worker.scheduler=true"
    assert waits.why.startswith(what) and "about to" not in waits.why
    await start(world, duties=True, kinds=())
    assert soon in (await told(world, id)).why
    assert not any(NOBODY in why for why in await whys(world, id))


async def test_nobody_does_the_duties_since_the_last_who_did_was_heard_of(world: World) -> None:
    early = await world.submit(delay=1)
    session = await start(world, duties=True, lease=15)
    world.clock.advance(10)
    assert world.beat(session, lease=15)
    seen = world.clock.now()
    world.clock.advance(20)
    due, late = world.after(1), await world.submit(delay=1)
    world.clock.advance(2)
    for id, since in ((early, seen), (late, due)):
        reason = (await told(world, id)).reasons[0]
        assert (reason.why, reason.since) == (NOBODY, since)
        assert reason.change == "a worker starts, or: foliot scheduler"


async def test_before_its_time_a_job_is_told_second_that_nobody_will_make_it_ready(
    world: World,
) -> None:
    await start(world)
    first, second = (await told(world, await world.submit(delay=60))).reasons
    assert first.why.startswith("due in 1m")
    assert second.why == f"{NOBODY}: the live workers have worker.scheduler=false"
    assert second.since is None, "it has kept it from nothing yet"


async def test_a_job_whose_worker_was_lost_says_so_first(world: World) -> None:
    session = await start(world, lease=15)
    job = await world.run(session)
    began = world.clock.now()
    world.clock.advance(5)
    world.beat(session, job.id, lease=15)
    seen = world.clock.now()
    world.clock.advance(60)
    lost, nobody, attempt = (await told(world, job.id)).reasons
    assert (lost.why, lost.since) == ("its worker here, process 1, was lost", seen)
    assert nobody.why.startswith(NOBODY) and nobody.since == seen
    assert (attempt.why, attempt.since) == ("attempt 1 of 5 began there", began)
    await start(world, duties=True)
    lost, attempt = (await told(world, job.id)).reasons
    assert lost.why == "its worker here, process 1, was lost: it is about to be taken back"
    assert (lost.since, attempt.why) == (seen, "attempt 1 of 5 began there")
