"""Admitting: due jobs become ready, earliest first, and nothing starts early."""

from __future__ import annotations

import asyncio

import pytest

from foliot.model.job import End, JobState
from foliot.model.lane import lane_of
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_only_due_jobs_are_admitted(world: World) -> None:
    due = await world.submit(run_at=world.after(10))
    ahead = await world.submit(run_at=world.after(10.001))
    world.clock.advance(10)
    assert await world.admit() == [lane_of("default").number]
    assert await world.state(due) is JobState.READY
    assert await world.state(ahead) is JobState.SCHEDULED


async def test_the_earliest_are_admitted_first_within_the_limit(world: World) -> None:
    late, early, middle = [await world.submit(run_at=world.after(s)) for s in (3, 1, 2)]
    world.clock.advance(5)
    assert len(await world.admit(2)) == 2
    assert [await world.state(id) for id in (early, middle, late)] == [
        "ready",
        "ready",
        "scheduled",
    ]
    assert len(await world.admit(2)) == 1
    assert await world.admit(2) == []


async def test_admitted_jobs_are_claimed_in_order_of_their_due_time(world: World) -> None:
    session = await world.open_session()
    late, early = [await world.submit(run_at=world.after(s)) for s in (2, 1)]
    world.clock.advance(5)
    now = await world.submit()
    await world.admit()
    assert [job.id for job in await world.claim(session)] == [early, late, now]


async def test_admitting_names_the_lanes_to_wake(world: World) -> None:
    for queue in ("mail", "print", "mail"):
        await world.submit(queue=queue, run_at=world.after(1))
    world.clock.advance(1)
    lanes = sorted(lane_of(queue).number for queue in ("mail", "print", "mail"))
    assert sorted(await world.admit()) == lanes


async def test_only_one_partition_is_admitted(world: World) -> None:
    for partition in range(world.store.partitions):
        job = world.new_job(partition, run_at=world.after(1))
        await world.store.jobs.submit(partition, [job])
    world.clock.advance(1)
    for partition in range(world.store.partitions):
        assert len(await world.store.jobs.admit(partition, limit=10)) == 1


async def test_admitting_at_once_admits_each_job_once(world: World) -> None:
    await world.submit_many(100, run_at=world.after(1))
    world.clock.advance(1)
    other = await world.another_store()
    stores = [world.store, other] * 2
    admitted = await asyncio.gather(*(s.jobs.admit(world.partition, limit=40) for s in stores))
    admitted.append(await world.admit())  # what all of them found locked
    assert sum(len(lanes) for lanes in admitted) == 100
    assert await world.count() == {JobState.READY: 100}


async def test_a_held_job_is_admitted_when_its_kind_is_known(world: World) -> None:
    session = await world.open_session()
    held = {}
    for kind in ("mail", "print"):
        job = await world.run(session, kind=kind)
        await world.end(session, job, End.HOLD, reason="unknown_kind")
        held[kind] = job.id
    lanes = await world.store.jobs.admit_kinds(world.partition, ["mail", "fax"])
    assert lanes == [lane_of("default").number]
    seen = await world.get(held["mail"])
    assert (seen.state, seen.reason) == (JobState.READY, None)
    assert await world.state(held["print"]) is JobState.HELD
    assert await world.store.jobs.admit_kinds(world.partition, ["mail", "fax"]) == []
    assert await world.store.jobs.admit_kinds(world.partition, []) == []
    [again] = await world.claim(session)
    assert (again.id, again.attempt, again.fence) == (held["mail"], 1, 2)


async def test_a_job_held_for_another_reason_is_not_admitted_by_its_kind(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.HOLD, reason="breaker")
    assert await world.store.jobs.admit_kinds(world.partition, ["echo"]) == []
    assert await world.state(job.id) is JobState.HELD


async def test_kinds_are_admitted_up_to_the_limit_each_job_once(world: World) -> None:
    session = await world.open_session()
    for kind in ("mail", "print") * 3:
        job = await world.run(session, kind=kind)
        await world.end(session, job, End.HOLD, reason="unknown_kind")
    admitted = []
    for left in (2, 0):
        lanes = await world.store.jobs.admit_kinds(world.partition, ["print", "mail"], limit=4)
        admitted.append(len(lanes))
        assert (await world.count()).get(JobState.HELD, 0) == left
    assert admitted == [4, 2]
