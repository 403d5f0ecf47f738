"""Strict order: jobs that share an ordering key run one at a time, in the order of their ids, across retries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foliot.ids import JobId
from foliot.model.job import End, JobState, More, Outcome
from foliot.model.lane import Strategy
from support.stores import World

pytestmark = pytest.mark.anyio


async def _submit(world: World, key: str = "a", **fields: Any) -> JobId:
    return await world.submit(more=More(ordering_key=key), **fields)


async def _states(world: World, *ids: JobId) -> list[tuple[str, str | None]]:
    jobs = [await world.get(id) for id in ids]
    return [(job.state.value, job.reason) for job in jobs]


async def test_a_new_job_waits_to_be_looked_at(world: World) -> None:
    id = await _submit(world)
    assert await _states(world, id) == [("held", "admission")]
    peek = await world.store.jobs.peek()
    assert peek.due_in[world.partition] == 0
    assert peek.ordered == {world.partition}


async def test_only_the_first_of_a_key_is_admitted(world: World) -> None:
    first, second, third = [await _submit(world) for _ in range(3)]
    other = await _submit(world, "b")
    assert {one.state for one in await world.look()} == {JobState.READY}
    assert await _states(world, first, second, third, other) == [
        ("ready", None),
        ("held", "order"),
        ("held", "order"),
        ("ready", None),
    ]
    assert world.partition not in (await world.store.jobs.peek()).due_in
    assert await world.look() == []


async def test_the_same_key_in_another_namespace_is_another_key(world: World) -> None:
    ids = [await _submit(world, namespace=namespace) for namespace in ("default", "other")]
    await world.look()
    assert [await world.state(id) for id in ids] == ["ready", "ready"]


@pytest.mark.parametrize("end", [End.SUCCEED, End.CANCEL, End.BURY])
async def test_the_end_of_one_admits_the_next_in_the_same_commit(world: World, end: End) -> None:
    session = await world.open_session()
    ids = [await _submit(world) for _ in range(3)]
    await world.look()
    for position, id in enumerate(ids):
        [job] = await world.claim(session)
        assert job.id == id
        cycle = await world.store.jobs.finish_and_claim(
            world.partition, session, outcomes=[world.outcome(job, end)]
        )
        assert [one.state for one in cycle.admitted] == (["ready"] if position < 2 else [])


async def test_what_is_finished_and_claimed_at_once_stays_in_order(world: World) -> None:
    session = await world.open_session()
    ids = [await _submit(world) for _ in range(5)]
    await world.look()
    [job] = await world.claim(session)
    seen = [job.id]
    shares = await world._shares("default", 10)
    for _ in range(4):
        cycle = await world.store.jobs.finish_and_claim(
            world.partition,
            session,
            outcomes=[Outcome(job.id, job.fence, order=job.order)],
            shares=shares,
            room=10,
        )
        [job] = cycle.claimed
        seen.append(job.id)
    assert seen == ids


async def test_a_failed_job_blocks_its_followers_until_it_has_ended(world: World) -> None:
    session = await world.open_session()
    first, second = [await _submit(world) for _ in range(2)]
    await world.look()
    [job] = await world.claim(session)
    await world.end(session, job, End.RETRY, delay=60)
    await world.look()
    await world.store.admission.walk(world.partition, ("", ""), limit=100)
    assert await _states(world, first, second) == [("scheduled", None), ("held", "order")]
    assert await world.claim(session) == []
    world.clock.advance(60)
    await world.admit()
    [job] = await world.claim(session)
    assert (job.id, job.attempt) == (first, 2)
    await world.end(session, job)
    assert await world.state(second) is JobState.READY


async def test_a_released_or_reaped_job_keeps_its_place(world: World) -> None:
    session = await world.open_session()
    first, second = [await _submit(world) for _ in range(2)]
    await world.look()
    [job] = await world.claim(session)
    await world.end(session, job, End.RELEASE)
    assert [job.id for job in await world.claim(session)] == [first]
    world.expire()
    await world.reap(session)
    assert await _states(world, first, second) == [("ready", None), ("held", "order")]


async def test_a_job_held_for_its_kind_blocks_its_followers(world: World) -> None:
    session = await world.open_session()
    first, second = [await _submit(world) for _ in range(2)]
    await world.look()
    [job] = await world.claim(session)
    await world.end(session, job, End.HOLD, reason="unknown_kind")
    await world.store.admission.walk(world.partition, ("", ""), limit=100)
    assert await _states(world, first, second) == [("held", "unknown_kind"), ("held", "order")]


async def test_a_job_whose_time_is_ahead_holds_its_place_until_then(world: World) -> None:
    session = await world.open_session()
    first = await _submit(world, run_at=world.after(60))
    second = await _submit(world)
    await world.look()
    assert await _states(world, first, second) == [("scheduled", None), ("held", "order")]
    world.clock.advance(60)
    await world.admit()
    [job] = await world.claim(session)
    await world.end(session, job)
    assert [job.id for job in await world.claim(session)] == [second]


@pytest.mark.parametrize("how", ["cancel", "expire", "reap"])
async def test_a_walk_admits_the_next_where_nobody_else_did(world: World, how: str) -> None:
    session = await world.open_session()
    more = More(ordering_key="a", expires_in=LATE if how == "expire" else None)
    first = await world.submit(more=more)
    second = await _submit(world)
    await world.look()
    if how == "cancel":
        await world.cancel(first)
    elif how == "expire":
        world.clock.advance(LATE)
        assert (await world.store.jobs.peek()).expired == {world.partition}
        assert await world.store.admission.expire(world.partition, limit=10) == 1
    else:
        await world.claim(session)
        world.expire()
        assert (await world.reap(session, loss_limit=1)).dead == 1
    walked = await world.store.admission.walk(world.partition, ("", ""), limit=100)
    assert len(walked.admitted) == (0 if how == "expire" else 1)
    assert walked.after is None
    assert await world.state(second) is JobState.READY


LATE = 100.0


async def test_a_walk_goes_from_key_to_key_a_few_at_a_time(world: World) -> None:
    first = {key: await _submit(world, key) for key in "edcba"}
    second = {key: await _submit(world, key) for key in "edcba"}
    await world.look()
    await world.cancel(*first.values())
    after: tuple[str, str] | None = ("", "")
    steps = []
    while after is not None:
        walk = await world.store.admission.walk(world.partition, after, limit=2)
        steps.append(len(walk.admitted))
        after = walk.after
    assert steps == [2, 2, 1]
    assert [await world.state(id) for id in second.values()] == ["ready"] * 5


async def test_a_lower_id_that_comes_late_goes_first_if_it_can(world: World) -> None:
    session = await world.open_session()
    low = world.new_job(more=More(ordering_key="a"))
    first, second = [await _submit(world) for _ in range(2)]
    await world.look()
    await world.submit(low)
    await world.look()
    ran = []
    while found := await world.claim(session):
        ran += [job.id for job in found]
        await world.end(session, found[0])
    assert ran == [first, low.id, second]


async def test_ordered_jobs_of_a_round_robin_queue_get_their_turns(world: World) -> None:
    session = await world.open_session()
    await world.store.queues.configure("default", strategy=Strategy.ROUND_ROBIN)
    first, second = [await _submit(world) for _ in range(2)]
    await world.look()
    assert await _states(world, first, second) == [("ready", None), ("held", "order")]
    [job] = await world.claim(session)
    await world.end(session, job)
    assert await _states(world, second) == [("held", "turn")]
    await world.look()
    assert [job.id for job in await world.claim(session)] == [second]


async def test_many_who_look_and_finish_at_once_never_let_two_run(world: World) -> None:
    """Every transaction that could admit the next of a key, at the same moment, again and again."""
    session = await world.open_session()
    others = [await world.another_store() for _ in range(2)]
    keys = "abc"
    for key in keys:
        for _ in range(8):
            await _submit(world, key)
    ran: dict[str, list[JobId]] = {key: [] for key in keys}
    await world.look()
    for _ in range(8):
        jobs = await world.claim(session)
        assert len(jobs) == len(keys)
        for job in jobs:
            assert job.order is not None
            ran[job.order[1]].append(job.id)
        ends = [
            store.jobs.finish_and_claim(
                world.partition, session, outcomes=[Outcome(job.id, job.fence, order=job.order)]
            )
            for job, store in zip(jobs, (world.store, *others), strict=True)
        ]
        looks = [
            store.admission.walk(world.partition, ("", ""), limit=10)
            for store in (*others, world.store)
        ]
        await asyncio.gather(
            *ends, *looks, *(s.admission.look(world.partition, limit=5) for s in others)
        )
        await world.store.admission.walk(world.partition, ("", ""), limit=10)
    assert all(ids == sorted(ids) and len(ids) == 8 for ids in ran.values())
    assert await world.count() == {JobState.SUCCEEDED: 24}
