"""Why a job is not running: limits and breakers, each there for real, in a store, when it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from foliot.breaker_commands import open_breaker
from foliot.explain import Explanation
from foliot.explain_commands import explain_job
from foliot.ids import JobId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.breaker import Options, Report, Tally
from foliot.model.job import End, Extras, More
from foliot.queue_commands import pause_queue, resume_queue
from support.stores import World

pytestmark = pytest.mark.anyio
STRIPE = More(extras=Extras(breaker="stripe"))
KEYED = More(extras=Extras(limit_key="z:1"))


async def told(world: World, id: JobId) -> Explanation:
    return await explain_job(world.store, id)


async def whys(world: World, id: JobId) -> list[str]:
    return [reason.why for reason in (await told(world, id)).reasons]


async def limit(world: World, name: str, concurrency: int) -> None:
    await set_limit(world.store, limit_of(name, concurrency=concurrency))


async def test_a_limit_that_was_set_after_the_job_was_due_holds_it_since_then(world: World) -> None:
    session = await world.open_session()
    ready, held = await world.submit(queue="other"), await world.submit()
    world.clock.advance(20)
    set_at = world.clock.now()
    for queue in ("default", "other"):
        await limit(world, f"queue:{queue}", 0)
    world.clock.advance(5)
    assert await world.claim(session) == []
    for id, queue, state in ((ready, "other", "ready"), (held, "default", "held")):
        explanation = await told(world, id)
        assert explanation.state == state
        assert explanation.why == f"limit queue:{queue} is at 0/0"
        since = explanation.reasons[0].since
        assert since is not None and timedelta() <= since - set_at < timedelta(seconds=1)
        assert explanation.reasons[0].change == f"foliot limits set queue:{queue} --concurrency 1"


async def test_of_a_limit_lowered_to_none_nobody_has_to_end(world: World) -> None:
    """However many do, that lets nobody in."""
    session = await world.open_session()
    await world.run(session)
    await limit(world, "queue:default", 0)
    id = await world.submit()
    [first, *_] = (await told(world, id)).reasons
    assert first.why.startswith("limit queue:default is at 1/0, held by job ")
    assert first.change == "foliot limits set queue:default --concurrency 2"


async def test_a_key_of_another_namespace_is_called_as_it_was_given(world: World) -> None:
    session = await world.open_session()
    await limit(world, "key:z:*", 1)
    await world.run(session, more=KEYED, namespace="n2")
    id = await world.submit(more=KEYED, namespace="n2")
    assert (await told(world, id)).why.startswith("limit key:z:1 in namespace n2 is at 1/1, held")
    assert await world.claim(session) == []
    assert (await told(world, id)).why.startswith("limit key:z:1 in namespace n2 is at 1/1, held")


async def test_a_limit_that_is_gone_is_said_to_be(world: World) -> None:
    session = await world.open_session(duties=True)
    await limit(world, "key:z:*", 0)
    id = await world.submit(more=KEYED, namespace="n2")
    assert await world.claim(session) == []
    await world.store.limits.delete("key:z:*")
    assert await whys(world, id) == [
        "waited for key:z:1 in namespace n2, which is no limit any more: it is about to be asked again"
    ]


async def test_room_is_not_spoken_of_while_the_queue_is_paused(world: World) -> None:
    session = await world.open_session(duties=True)
    await limit(world, "key:z:1", 1)
    holder = await world.run(session, more=KEYED)
    id = await world.submit(more=KEYED)
    assert await world.claim(session) == []
    await pause_queue(world.store, "default", by="ada")
    paused, full = await whys(world, id)
    assert paused.startswith("the queue 'default' was paused by ada")
    assert full.startswith("limit key:z:1 is at 1/1")
    await world.end(session, holder, gates=("key:z:1",))
    assert await whys(world, id) == [paused]
    await resume_queue(world.store, "default")
    assert await whys(world, id) in (
        ["limit key:z:1 has room again: it is about to be asked"],
        ["the next of its lane: it runs as soon as a worker has room"],
    )


async def test_all_that_stand_in_the_way_are_told_and_first_what_stays(world: World) -> None:
    """Ready or held."""
    session = await world.open_session(duties=True)
    await limit(world, "queue:default", 1)
    await limit(world, "kind:echo", 0)
    await open_breaker(world.store, "stripe", new=True, note="they move", by="ada")
    id = await world.submit(more=STRIPE)
    [kind, breaker, place] = await whys(world, id)
    assert kind == "limit kind:echo is at 0/0"
    assert breaker == "breaker 'stripe' was opened by ada: they move"
    assert place == "the next of its lane"
    assert await world.claim(session) == []
    assert await whys(world, id) == [kind, breaker]
    await limit(world, "kind:echo", 1)
    await world.store.limits.delete("queue:default")
    assert breaker in await whys(world, id)


async def test_an_opened_breaker_is_told_of_where_no_worker_is_alive_either(world: World) -> None:
    await open_breaker(world.store, "stripe", new=True)
    world.clock.advance(10)
    id = await world.submit(more=STRIPE)
    nobody, breaker = (await told(world, id)).reasons
    assert nobody.why == "no worker is alive; it waits for one"
    assert breaker.why == "breaker 'stripe' was opened: by hand"
    assert (breaker.since, breaker.change) == (world.after(-10), "foliot breakers close stripe")


async def test_a_breaker_says_that_some_try_and_then_how_fast_the_others_follow(
    world: World,
) -> None:
    session = await world.open_session(lease=1000, duties=True)
    await world.store.breakers.declare("stripe", Options(release=10.0))
    await world.store.breakers.report("stripe", Report(tallies=(Tally(0.0, 5, 0),), error="503"))
    ids = await world.submit_many(3, more=STRIPE)
    assert await world.claim(session) == []
    reason = (await told(world, ids[2])).reasons[0]
    assert reason.why.startswith("breaker 'stripe' is open until ")
    assert reason.why.endswith(": 503")
    world.clock.advance(30)
    await world.store.breakers.tick()
    half_open = (await told(world, ids[2])).reasons[0]
    assert half_open.why == "breaker 'stripe' is half open: 1 at a time tries"
    assert half_open.since == world.clock.now()
    assert half_open.change == "enough of them succeed, or: foliot breakers close stripe"
    world.clock.advance(1)
    await world.store.breakers.report("stripe", Report(succeeded=(0.5,)))
    recovering = (await told(world, ids[2])).reasons[0]
    assert recovering.why == "breaker 'stripe' has closed: those who waited go on, 10 a second"
    assert (recovering.since, recovering.change) == (world.clock.now(), "its turn comes")


async def test_of_a_breaker_at_which_some_may_try_it_is_said_that_nobody_lets_them(
    world: World,
) -> None:
    session = await world.open_session(lease=1000)
    off = (
        "no live process does the scheduler's duties: the live workers have worker.scheduler=false"
    )
    await open_breaker(world.store, "stripe", new=True, seconds=60)
    id = await world.submit(more=STRIPE)
    assert await world.claim(session) == []
    breaker, nobody = await whys(world, id)
    assert breaker.startswith("breaker 'stripe' is open until ") and nobody.startswith(off)
    world.clock.advance(60)
    for state in ("is open until", "is half open"):
        nobody, breaker = await whys(world, id)
        assert nobody.startswith(off) and breaker.startswith(f"breaker 'stripe' {state}")
        await world.store.breakers.tick()
    await world.open_session(lease=1000, duties=True)
    assert (await whys(world, id)) == ["breaker 'stripe' is half open: 1 at a time tries"]


async def test_of_a_full_limit_it_is_said_as_well_that_nobody_does_the_duties(world: World) -> None:
    session = await world.open_session(lease=1000)
    await limit(world, "queue:default", 1)
    id = (await world.submit_many(2))[1]
    await world.claim(session)
    full, nobody = await whys(world, id)
    assert full.startswith("limit queue:default is at 1/1")
    assert nobody.startswith("no live process does the scheduler's duties")


async def shut(world: World) -> list[str]:
    """A breaker and two limits that only a hand opens again, and one of each that open by themselves."""
    await open_breaker(world.store, "stripe", new=True, note="they move", by="ada")
    await open_breaker(world.store, "other", new=True, seconds=3600)
    await limit(world, "queue:default", 0)
    await limit(world, "key:z:1", 0)
    await limit(world, "namespace:default", 1)
    return [
        "limit queue:default is at 0/0",
        "limit key:z:1 is at 0/0",
        "breaker 'stripe' was opened by ada: they move",
    ]


async def scheduled(world: World, more: More) -> JobId:
    return await world.submit(delay=59, more=more)


async def in_order(world: World, more: More) -> JobId:
    more = msgspec.structs.replace(more, ordering_key="a")
    await world.submit(more=more)
    id = await world.submit(more=more)
    await world.look()
    return id


async def to_be_looked_at(world: World, more: More) -> JobId:
    return await world.submit(more=msgspec.structs.replace(more, ordering_key="a"))


async def of_an_unknown_kind(world: World, more: More) -> JobId:
    session = await world.open_session()
    job = await world.run(session, more=more, kind="eco")
    assert await world.finish(session, world.outcome(job, End.HOLD)) == []
    return job.id


@pytest.mark.parametrize("make", [scheduled, in_order, to_be_looked_at, of_an_unknown_kind])
async def test_what_is_shut_by_hand_is_named_before_the_job_gets_to_it(
    world: World, make: Callable[[World, More], Awaitable[JobId]]
) -> None:
    """What opens by itself may have done so until then."""
    id = await make(world, More(extras=Extras(breaker="stripe", limit_key="z:1")))
    names = await shut(world)
    await world.open_session(duties=True)
    _, *others = await whys(world, id)
    assert others == names


async def test_a_limit_that_is_shut_before_a_job_is_due_has_kept_it_from_nothing_yet(
    world: World,
) -> None:
    await world.open_session(lease=1000, duties=True)
    await limit(world, "queue:default", 0)
    due, id = world.after(60), await world.submit(delay=60)
    _, full = (await told(world, id)).reasons
    assert (full.why, full.since) == ("limit queue:default is at 0/0", None)
    assert full.change == "foliot limits set queue:default --concurrency 1"
    world.clock.advance(70)
    _, full = (await told(world, id)).reasons
    assert full.since == due
