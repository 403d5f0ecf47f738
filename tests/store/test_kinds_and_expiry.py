"""What nobody knows is held, what nobody needs any more is cancelled."""

from __future__ import annotations

import msgspec
import pytest

from foliot import commands, queue_commands
from foliot.model.job import End, JobState, More, Outcome
from foliot.model.lane import lane_of
from foliot.registry import define
from support.limits import limit
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_jobs_of_kinds_that_nobody_knows_are_held_at_the_front_of_their_lane(
    world: World,
) -> None:
    known = await world.submit(kind="echo")
    strange = await world.submit_many(3, kind="strange")
    behind = await world.submit(kind="strange")
    mail = await world.submit(kind="strange", queue="mail")
    held = await world.store.admission.hold_kinds(world.partition, ["echo"], limit=4)
    assert sorted(held) == sorted([*strange, mail])
    assert [await world.state(id) for id in (known, behind)] == ["ready", "ready"]
    seen = await world.get(mail)
    assert (seen.state, seen.reason, seen.fence) == (JobState.HELD, "unknown_kind", 0)
    assert len(await world.store.jobs.admit_kinds(world.partition, ["strange"])) == 4
    everything = await world.store.admission.hold_kinds(
        world.partition, ["echo", "strange"], limit=9
    )
    assert everything == []


async def test_what_waited_for_a_limit_is_not_written_on_a_job_that_nobody_knows(
    world: World,
) -> None:
    await limit(world, "queue:default", concurrency=0)
    id = await world.submit(kind="strange")
    await world.claim(await world.open_session())
    await limit(world, "queue:default", concurrency=1)
    assert await world.state(id) is JobState.READY
    assert await world.store.admission.hold_kinds(world.partition, ["echo"], limit=4) == [id]
    job = await world.get(id)
    assert (job.reason, job.note) == ("unknown_kind", None)


async def test_an_unfitting_payload_goes_back_when_the_arguments_have_changed(
    world: World,
) -> None:
    def echo(number: int) -> None: ...

    await commands.announce(world.store, [define(echo)])
    [definition] = await world.store.definitions.all()
    session = await world.open_session()
    job = await world.run(session)
    note = f"{definition.fingerprint}: number is missing"
    outcome = Outcome(job.id, job.fence, End.HOLD, reason="unfitting_payload", error=note)
    assert await world.finish(session, outcome) == []
    assert (await world.get(job.id)).note == "number is missing"
    assert [held.note for held in await world.store.overview.held(cap=10)] == ["number is missing"]
    assert await world.store.admission.admit_payloads(world.partition, limit=10) == []
    await world.store.definitions.put([msgspec.structs.replace(definition, fingerprint="new")])
    lanes = await world.store.admission.admit_payloads(world.partition, limit=10)
    assert lanes == [lane_of("default").number]
    seen = await world.get(job.id)
    assert (seen.state, seen.reason, seen.note) == (JobState.READY, None, None)


async def test_what_has_not_started_in_time_is_cancelled(world: World) -> None:
    session = await world.open_session()
    more = More(expires_in=10)
    running = await world.run(session, more=more)
    waiting = [
        await world.submit(more=more),
        await world.submit(more=more, run_at=world.after(60)),
        await world.submit(more=More(expires_in=10, ordering_key="a")),
    ]
    lasting = await world.submit(more=More(expires_in=10.1))
    world.clock.advance(10)
    assert (await world.store.jobs.peek()).expired == {world.partition}
    assert [job.id for job in await world.claim(session)] == [lasting]
    assert await world.store.admission.expire(world.partition, limit=2) == 2
    assert await world.store.admission.expire(world.partition, limit=2) == 1
    assert await world.store.admission.expire(world.partition, limit=2) == 0
    for id in waiting:
        job = await world.get(id)
        assert (job.state, job.reason, job.finished_at) == ("cancelled", "expired", world.after(0))
    assert await world.state(running.id) is JobState.RUNNING
    assert (await world.store.jobs.peek()).expired == frozenset()
    await world.end(session, running)


async def test_a_job_put_off_while_nobody_knew_its_kind_does_not_start_early(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.finish(session, world.outcome(job, End.HOLD))
    await commands.change(world.store, job.id, {"delay": 3600.0})
    await world.store.jobs.admit_kinds(world.partition, ["echo"])
    assert await world.state(job.id) == "scheduled"
    assert await world.claim(session) == []


async def test_a_job_moved_to_a_queue_of_turns_while_it_was_held_waits_for_its_turn(
    world: World,
) -> None:
    await queue_commands.configure_queue(world.store, "turns", strategy="round_robin")
    session = await world.open_session()
    job = await world.run(session)
    await world.finish(session, world.outcome(job, End.HOLD))
    await commands.change(world.store, job.id, {"queue": "turns"})
    await world.store.jobs.admit_kinds(world.partition, ["echo"])
    seen = await world.get(job.id)
    assert (seen.state, seen.reason) == (JobState.HELD, "turn")


async def test_a_queue_is_known_by_any_live_job_in_it(world: World) -> None:
    session = await world.open_session()
    await world.run(session, queue="running")
    held = await world.run(session, queue="held")
    await world.finish(session, world.outcome(held, End.HOLD))
    done = await world.run(session, queue="ended")
    await world.finish(session, world.outcome(done, End.SUCCEED))
    await world.submit(queue="scheduled", run_at=world.after(600))
    await world.submit(queue="ready")
    names = ("running", "held", "scheduled", "ready", "ended")
    doubts = await queue_commands.find_doubts(world.store, [("queue", name) for name in names])
    assert list(doubts) == [("queue", "ended")]
