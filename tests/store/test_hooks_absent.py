"""Hooks that nobody runs: since when is written down; those that no code declares any more go, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from foliot.hook_sync import GRACE, cancel_unheard, let_absent_go
from foliot.ids import SessionId
from foliot.model.definition import Defaults, StoredDefinition
from foliot.model.job import JobState
from foliot.model.session import NewSession
from foliot.scheduler.duty import Office
from foliot.scheduler.hooks import Hooks
from foliot.scheduler.partitions import AllPartitions
from foliot.store.events import Listened
from support.hooks import listen, listener, listening
from support.stores import World

pytestmark = pytest.mark.anyio
HOOK = "on.job.dead.hook"
MINUTE = 60.0


async def _open(
    world: World, *kinds: str, modules: Sequence[str] = ("shop",), lease: float = 100_000
) -> SessionId:
    """A worker of code that has these hooks."""
    session = NewSession(
        id=world.ids.session(),
        host="here",
        pid=1,
        version="0",
        queues=(),
        kinds=("work", *kinds),
        modules=tuple(modules),
        duties=False,
    )
    await world.store.sessions.open(session, lease=lease)
    return session.id


async def _announce(world: World, *hooks: str) -> None:
    known = [
        StoredDefinition(
            kind=hook,
            queue="hooks",
            signature="",
            schema="{}",
            fingerprint="",
            version=1,
            options=Defaults(),
        )
        for hook in hooks
    ]
    await world.store.definitions.put(known)


async def _hooks(world: World) -> list[str]:
    return sorted({one.hook for one in await world.store.events.listeners()})


async def test_a_hook_that_no_live_worker_runs_is_marked_until_one_does(world: World) -> None:
    await listen(world, "job.dead", kinds=("a", "b"))
    runs = await _open(world, HOOK)
    assert await let_absent_go(world.store) == []
    [one] = await world.store.events.listeners()
    assert one.absent_since is None
    await world.store.sessions.close(runs)
    assert await let_absent_go(world.store) == []
    since = world.clock.now()
    world.clock.advance(MINUTE)
    assert await let_absent_go(world.store) == []
    [one] = await world.store.events.listeners()
    assert one.absent_since == since
    await _open(world, HOOK)
    assert await let_absent_go(world.store) == []
    [one] = await world.store.events.listeners()
    assert one.absent_since is None


async def test_a_hook_that_the_code_of_its_module_has_no_more_goes_after_a_grace(
    world: World,
) -> None:
    """The new release was started, then the old one stopped: nobody starts after that."""
    await listen(world, "job.dead", kinds=("a", "b"))
    await listen(world, "job.dead", name="kept")
    kept = "on.job.dead.kept"
    old = await _open(world, HOOK, kept)
    await _announce(world, HOOK, kept)
    await _open(world, kept)
    world.clock.advance(MINUTE)
    await world.store.sessions.close(old)
    assert await let_absent_go(world.store) == []
    gone, other = [await world.submit(kind=kind, run_at=world.after(9999)) for kind in (HOOK, kept)]
    world.clock.advance(GRACE - 1)
    assert await let_absent_go(world.store) == []
    world.clock.advance(1)
    assert await let_absent_go(world.store) == [HOOK]
    assert await _hooks(world) == [kept]
    assert [await world.state(id) for id in (gone, other)] == [
        JobState.CANCELLED,
        JobState.SCHEDULED,
    ]


async def test_a_hook_whose_module_nobody_serves_stays(world: World) -> None:
    await listen(world, "job.dead")
    await _open(world, modules=("elsewhere",))
    for _ in range(3):
        world.clock.advance(GRACE)
        assert await let_absent_go(world.store) == []
    assert await _hooks(world) == [HOOK]


async def test_an_outage_during_a_deployment_takes_no_hook_away(world: World) -> None:
    """Longer than the lease and than the grace: all sessions have run out, and the older code is back first."""
    await listen(world, "job.dead")
    await _open(world, lease=30)
    await world.store.sessions.close(await _open(world, HOOK, lease=30))
    await let_absent_go(world.store)  # its worker was just starting again
    world.clock.advance(2 * GRACE)
    waiting = await world.submit(kind=HOOK)
    await _open(world)
    assert await let_absent_go(world.store) == []
    world.clock.advance(GRACE - 1)
    assert await let_absent_go(world.store) == []
    await _open(world, HOOK)
    await listen(world, "job.dead")
    world.clock.advance(2 * GRACE)
    assert await let_absent_go(world.store) == []
    assert await world.state(waiting) is JobState.READY


async def test_who_declares_a_hook_again_in_the_last_moment_keeps_it(world: World) -> None:
    await listen(world, "job.dead")
    await _open(world)
    await let_absent_go(world.store)
    world.clock.advance(2 * GRACE)
    await listen(world, "job.dead")  # and its session is only being opened
    assert await let_absent_go(world.store) == []
    assert await _hooks(world) == [HOOK]


async def test_what_was_left_waiting_for_a_hook_that_is_gone_is_cancelled_later(
    world: World,
) -> None:
    """Who let it go was killed in the middle, or more was delivered meanwhile."""
    await listen(world, "job.dead")
    await listen(world, "job.dead", name="other")
    await _announce(world, HOOK, "on.job.dead.other")
    orphans = await world.submit_many(5, kind=HOOK)
    [other] = await world.submit_many(1, kind="on.job.dead.other")
    strange = await world.submit(kind="strange")
    assert len(await world.store.admission.hold_kinds(world.partition, ["x"], limit=9)) == 7
    assert await cancel_unheard(world.store, world.partition, limit=2) == 0
    await world.store.events.listen([], gone=[HOOK])
    assert await cancel_unheard(world.store, world.partition, limit=2) == 5
    assert {await world.state(id) for id in orphans} == {JobState.CANCELLED}
    assert [await world.state(id) for id in (other, strange)] == ["held", "held"]


async def test_the_duty_does_all_of_it(world: World) -> None:
    await listen(world, "job.dead")
    await _announce(world, HOOK)
    session = await _open(world)
    partitions = AllPartitions(world.store, session, clock=world.clock, ids=world.ids, term=5.0)
    duty = Hooks(Office(world.store, partitions, world.clock, world.ids))
    await duty.tick()
    world.clock.advance(GRACE)
    job = await world.submit(kind=HOOK)
    await duty.tick()
    assert await _hooks(world) == []
    assert await world.state(job) is JobState.CANCELLED
    late = await world.submit(kind=HOOK)  # delivered by a transaction that was open then
    await world.store.admission.hold_kinds(world.partition, ["work"], limit=9)
    await duty.tick()
    assert await world.state(late) is JobState.CANCELLED


async def test_a_hook_that_a_live_worker_of_another_module_runs_stays_with_that(
    world: World,
) -> None:
    first, second = listener("job.dead"), listener("job.dead", kinds=("a",), origin="mail")
    events = world.store.events
    assert await events.listen([first]) == Listened((HOOK,))
    runs = await _open(world, HOOK)
    assert await events.listen([second]) == Listened((), {HOOK: "shop"})
    assert await listening(world) == [first]
    await world.store.sessions.know(runs, ["work"], ["shop"])
    assert await events.listen([second]) == Listened((HOOK,))
    assert await listening(world) == [second]


async def test_a_hook_that_moves_within_an_app_moves_at_once(world: World) -> None:
    moved = listener("job.dead", origin="shop.alarms")
    await listen(world, "job.dead")
    await _open(world, HOOK)
    found = await world.store.events.listen([moved], modules=("shop", "shop.alarms"))
    assert (found, await listening(world)) == (Listened((HOOK,)), [moved])
