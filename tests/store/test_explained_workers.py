"""Why a job is not running: what workers lack and lose, each there for real, in a store, when it is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from foliot.explain import Explanation
from foliot.explain_commands import explain_job
from foliot.ids import JobId, SessionId
from foliot.model.job import End, More
from foliot.model.lane import lane_of
from foliot.model.session import NewSession
from foliot.queue_commands import pause_queue
from support.stores import World

pytestmark = pytest.mark.anyio


async def told(world: World, id: JobId) -> Explanation:
    return await explain_job(world.store, id)


async def start(world: World, *, lease: float = 1000, **fields: Any) -> SessionId:
    """A worker."""
    plain: dict[str, Any] = {"queues": (), "kinds": ("echo",), "duties": False, **fields}
    session = NewSession(id=world.ids.session(), host="here", pid=1, version="0", **plain)
    await world.store.sessions.open(session, lease=lease)
    return session.id


async def test_a_queue_that_no_live_worker_takes_is_named(world: World) -> None:
    await start(world, queues=("mail", "slow"))
    since, id = world.clock.now(), await world.submit()
    world.clock.advance(5)
    reason = (await told(world, id)).reasons[0]
    assert reason.why == "no live worker serves the queue 'default'; it waits for one"
    assert reason.change == "a worker starts: foliot worker module:app --queues default"
    assert reason.since == since


async def test_the_worker_that_is_to_start_is_told_with_all_that_the_job_requires(
    world: World,
) -> None:
    id = await world.submit(lane=lane_of("default", ("gpu",)).number, more=More(requires=("gpu",)))
    for others, change in (
        ((), "--capabilities gpu"),
        (("mail",), "--capabilities gpu --queues default"),
        (("default",), "--capabilities gpu"),
    ):
        if others:
            await start(world, queues=others)
        reason = (await told(world, id)).reasons[0]
        assert reason.change == f"a worker starts: foliot worker module:app {change}"


async def test_a_kind_that_no_live_worker_of_the_queue_knows_is_named(world: World) -> None:
    await start(world, kinds=("other",))
    await start(world, queues=("mail",))
    since, id = world.clock.now(), await world.submit()
    world.clock.advance(5)
    reason = (await told(world, id)).reasons[0]
    why = "no live worker of the queue 'default' knows the kind 'echo'; it waits for one"
    assert (reason.why, reason.since) == (why, since)


async def test_what_no_single_worker_has_all_of_is_said(world: World) -> None:
    for name in ("gpu", "ssd"):
        await start(world, capabilities=(name,))
    lane = lane_of("default", ("gpu", "ssd")).number
    id = await world.submit(lane=lane, more=More(requires=("gpu", "ssd")))
    since = world.clock.now()
    world.clock.advance(5)
    reason = (await told(world, id)).reasons[0]
    nobody = "no single one has all of it; it waits for one"
    assert reason.why.endswith(f"requires: gpu, ssd; {nobody}")
    assert reason.since == since


async def test_workers_that_drain_take_nothing_more(world: World) -> None:
    session = await start(world)
    await start(world, queues=("mail",))
    await world.store.sessions.drain([session])
    since, id = world.clock.now(), await world.submit()
    world.clock.advance(5)
    reason = (await told(world, id)).reasons[0]
    why = "every worker that could run it is draining; it waits for another"
    assert (reason.why, reason.since) == (why, since)


async def test_no_worker_is_alive_since_the_last_one_was_heard_of(world: World) -> None:
    submitted, early = world.clock.now(), await world.submit()
    session = await start(world, lease=15, queues=("mail",))
    world.clock.advance(10)
    assert world.beat(session, lease=15)
    seen = world.clock.now()
    world.clock.advance(20)
    late = await world.submit()
    for id, since in ((early, seen), (late, world.clock.now())):
        reason = (await told(world, id)).reasons[0]
        assert (reason.why, reason.since) == ("no worker is alive", since)
    await start(world, queues=("mail",))
    reason = (await told(world, early)).reasons[0]
    assert reason.why.startswith("no live worker serves"), "nor did the lost one"
    assert reason.since == submitted


async def test_where_no_worker_has_been_lost_it_is_known_since_when_the_job_waits(
    world: World,
) -> None:
    """Not since when there is none: one that ended in good order has left nothing behind."""
    session = await start(world)
    since, id = world.clock.now(), await world.submit()
    later = await world.submit(delay=60)
    world.clock.advance(5)
    await world.store.sessions.close(session)
    reason = (await told(world, id)).reasons[0]
    assert (reason.why, reason.since) == ("no worker is alive; it waits for one", since)
    _, _, nobody = (await told(world, later)).reasons
    assert (nobody.why, nobody.since) == ("no worker is alive", None), "it waits for its time"


async def test_what_was_taken_back_waits_since_its_worker_was_lost(world: World) -> None:
    session = await start(world, lease=15)
    job = await world.run(session)
    world.beat(session, job.id, lease=15)
    world.clock.advance(60)
    await world.reap(session)
    lost = world.clock.now()
    await start(world)
    world.clock.advance(5)
    explanation = await told(world, job.id)
    assert explanation.why.startswith("suspect: a worker was lost")
    assert explanation.reasons[0].since == lost


async def test_a_running_job_says_how_to_end_it_or_that_somebody_has_asked(world: World) -> None:
    job = await world.run(await start(world))
    reason = (await told(world, job.id)).reasons[0]
    assert reason.change == f"it ends; or: foliot jobs cancel {job.id}"
    await world.cancel(job.id)
    explanation = await told(world, job.id)
    assert explanation.reasons[0].change == "it ends"
    assert "it was asked to end" in explanation.more


async def test_a_payload_that_does_not_fit_is_said_with_what_is_wrong(world: World) -> None:
    session = await start(world)
    job = await world.run(session)
    held = world.outcome(job, End.HOLD)
    held = msgspec.structs.replace(held, reason="unfitting_payload", error="Expected `int`")
    assert await world.finish(session, held) == []
    explanation = await told(world, job.id)
    assert explanation.why == "its payload does not fit the arguments of 'echo'"
    assert explanation.reasons[0].change == "a worker with another echo starts"
    await pause_queue(world.store, "default", by="ada")
    _, paused = (await told(world, job.id)).reasons
    assert paused.why.startswith("the queue 'default' was paused by ada")


async def test_a_kind_that_is_known_again_and_one_that_nobody_is_there_to_know(
    world: World,
) -> None:
    session = await start(world, kinds=("echo",), lease=15)
    id = await world.submit(kind="eco")
    [job] = await world.claim(session)
    assert await world.finish(session, world.outcome(job, End.HOLD)) == []
    world.clock.advance(60)
    why = "the kind 'eco' was unknown to its worker, and no worker is alive now"
    assert (await told(world, id)).why == why
    await start(world, kinds=("eco",), duties=True)
    assert "knows the kind 'eco' by now" in (await told(world, id)).why


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True)
async def test_more_jobs_ahead_than_are_counted_are_more(world: World) -> None:
    await start(world)
    for _ in range(2):
        await world.submit_many(5_000)
    assert (await told(world, await world.submit())).why == "more than 10,000 jobs ahead"


async def test_a_job_that_has_ended_says_how(world: World) -> None:
    session = await start(world)
    for end, why in (
        (End.SUCCEED, "attempt 1 succeeded at "),
        (End.BURY, "attempt 1 of 5 was the last at "),
    ):
        job = await world.run(session)
        await world.end(session, job, end)
        assert (await told(world, job.id)).why.startswith(why)
    id = await world.submit()
    await world.cancel(id)
    assert (await told(world, id)).why.endswith(", before it had started")
