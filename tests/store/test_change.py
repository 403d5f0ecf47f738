"""Changing a job that has not started: all of it, at its new place; never one that runs or has ended."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from foliot import commands
from foliot.errors import InvalidValue, NotChangeable, UnknownJob
from foliot.ids import JobId
from foliot.model.change import Change
from foliot.model.job import End, Extras, JobState, More
from foliot.model.lane import lane_of
from foliot.options import Changes
from foliot.registry import Registry, define
from support.stores import World

pytestmark = pytest.mark.anyio


async def change(world: World, id: JobId, **options: Any) -> JobState:
    return await commands.change(world.store, id, cast(Changes, options))


async def test_each_part_can_be_changed_and_the_rest_stays(world: World) -> None:
    more = More(tags=("a",), fair_key="f", expires_in=9000.0, extras=Extras(version=3))
    id = await world.submit(priority=5, timeout=9, max_attempts=3, payload=b'{"n":1}', more=more)
    before = await world.get(id)
    expected: dict[str, Any] = {
        "priority": 1, "timeout": 2.5, "max_attempts": 8, "queue": "other",
        "tags": ("x", "y"), "run_at": world.after(500),
    }  # fmt: skip
    for name, value in expected.items():
        await change(world, id, **{name: value})
        assert getattr(await world.get(id), name) == value
    await change(world, id, payload={"n": 2})
    moment = world.after(700)
    await change(world, id, expires=moment)
    after = await world.get(id)
    assert after.payload == b'{"n":2}'
    assert after.expires_at == moment
    assert (after.fair_key, after.extras, after.created_at, after.fence) == (
        before.fair_key,
        before.extras,
        before.created_at,
        before.fence,
    )
    await change(world, id, tags=[], delay=0, expires=60)
    after = await world.get(id)
    assert (after.tags, after.state) == ((), JobState.READY)
    assert (await world.get(id)).expires_at is not None


async def test_a_changed_priority_is_its_new_place(world: World) -> None:
    first, second, third = [await world.submit() for _ in range(3)]
    await change(world, third, priority=0)
    await change(world, first, priority=9)
    claimed = await world.claim(await world.open_session())
    assert [job.id for job in claimed] == [third, second, first]
    assert [job.priority for job in claimed] == [0, 2, 9]


async def test_a_changed_time_makes_it_wait_or_go(world: World) -> None:
    id = await world.submit()
    assert await change(world, id, delay=60) is JobState.SCHEDULED
    assert await world.claim(await world.open_session()) == []
    assert await change(world, id, run_at=world.after(-5)) is JobState.READY
    assert len(await world.claim(await world.open_session())) == 1


async def test_a_changed_queue_is_another_lane_with_the_same_needs(world: World) -> None:
    gpu = lane_of("default", ("gpu",))
    id = await world.submit(lane=gpu.number, more=More(requires=("gpu",)))
    await change(world, id, queue="other")
    [(_, lane)] = (await world.store.jobs.peek()).ready
    assert lane == lane_of("other", ("gpu",))


async def test_tags_and_payload_change_without_losing_the_place(world: World) -> None:
    first, second = await world.submit(), await world.submit()
    world.clock.advance(5)
    await change(world, first, tags=["x"], payload={}, max_attempts=2)
    assert [job.id for job in await world.claim(await world.open_session())] == [first, second]


async def test_what_is_held_for_its_kind_stays_held(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.HOLD, reason="unknown_kind")
    assert await change(world, job.id, priority=1) is JobState.HELD
    assert (await world.get(job.id)).reason == "unknown_kind"
    await world.store.jobs.admit_kinds(world.partition, ["echo"])
    assert [job.priority for job in await world.claim(session)] == [1]


async def test_what_is_held_for_its_payload_goes_on_with_a_new_one(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.HOLD, reason="unfitting_payload")
    assert await change(world, job.id, priority=1) is JobState.HELD
    assert await change(world, job.id, payload={"n": 1}) is JobState.READY
    assert [job.payload for job in await world.claim(session)] == [b'{"n":1}']


async def test_a_job_that_runs_or_has_ended_is_not_changed(world: World) -> None:
    session = await world.open_session()
    for end in (None, End.SUCCEED, End.CANCEL, End.BURY):
        job = await world.run(session)
        if end is not None:
            await world.end(session, job, end)
        before = await world.get(job.id)
        with pytest.raises(NotChangeable) as caught:
            await change(world, job.id, priority=1, payload={})
        assert caught.value.state == before.state
        assert before.state in str(caught.value)
        assert await world.get(job.id) == before


async def test_an_unknown_job_cannot_be_changed(world: World) -> None:
    with pytest.raises(UnknownJob):
        await change(world, world.ids.job(), priority=1)


async def test_a_change_and_a_claim_never_mix(world: World) -> None:
    """Either the change comes first, and the job runs with it, or the claim does, and the change is refused."""
    session = await world.open_session()
    other = await world.another_store()
    outcomes = set()
    for _ in range(20):
        id = await world.submit(payload=b"old")
        changed, claimed = await asyncio.gather(
            other.jobs.change(world.partition, id, Change(payload=b"new", priority=1)),
            world.claim(session, 1),
        )
        outcomes.add(changed is not None)
        if not claimed:
            claimed = await world.claim(session, 1)
        [job] = claimed
        assert (job.payload, job.priority) == ((b"new", 1) if changed else (b"old", 2))
        await world.end(session, job)
    assert outcomes


async def test_a_new_payload_is_checked_by_what_is_known_of_the_kind(world: World) -> None:
    def echo(n: int) -> None: ...

    id = await world.submit()
    await change(world, id, payload={"anything": 1})
    await commands.announce(world.store, [define(echo)])
    with pytest.raises(InvalidValue, match="payload lacks n"):
        await change(world, id, payload={})
    registry = Registry()
    registry.add(define(echo))
    with pytest.raises(InvalidValue, match="does not fit echo"):
        await commands.change(world.store, id, {"payload": {"n": "x"}}, registry=registry)
    await commands.change(world.store, id, {"payload": {"n": 5}}, registry=registry)
    assert (await world.get(id)).payload == b'{"n":5}'


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 11}, {"delay": -1}, {"delay": 1, "run_at": 5}, {"queue": "a b"},
        {"payload": [1]}, {"payload": {"x": object()}}, {"tags": "vip"}, {"max_attempts": 0},
        {"timeout": 0}, {"expires": -1}, {"key": "k"}, {"prio": 1},
    ],
)  # fmt: skip
async def test_a_bad_change_is_refused_and_nothing_changes(
    world: World, options: dict[str, Any]
) -> None:
    id = await world.submit()
    before = await world.get(id)
    with pytest.raises(InvalidValue):
        await change(world, id, **options)
    assert await world.get(id) == before
