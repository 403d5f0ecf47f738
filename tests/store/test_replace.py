"""Unique keys in the modes replace and debounce: the last submission counts, as long as its job has not started."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foliot.ids import JobId
from foliot.model.job import End, Extras, JobState, More, NewJob, Outcome
from foliot.model.lane import lane_of
from foliot.model.retry import Fixed
from foliot.store.port import Store
from store.test_workflows_followed import follow
from support.stores import LEASE, World

pytestmark = pytest.mark.anyio

MODES = ["replace", "debounce"]
both = pytest.mark.parametrize("mode", MODES)


async def send(world: World, payload: bytes = b"{}", *, mode: str, **fields: Any) -> JobId:
    return await world.submit(payload=payload, key="k", key_mode=mode, **fields)


@both
@pytest.mark.parametrize("state", ["none", "ready", "scheduled", "held", "retried"])
async def test_a_job_that_has_not_started_takes_over_the_arguments(
    world: World, mode: str, state: str
) -> None:
    session = await world.open_session()
    first = None
    if state == "scheduled":
        first = await world.submit(key="k", payload=b"1", delay=60)
    elif state != "none":
        first = await world.submit(key="k", payload=b"1")
    if state in ("held", "retried"):
        [job] = await world.claim(session)
        end = End.HOLD if state == "held" else End.RETRY
        await world.end(session, job, end, delay=60, reason="unknown_kind")
    second = await send(world, b"2", mode=mode)
    assert first is None or second == first
    assert (await world.get(second)).payload == b"2"
    assert sum((await world.count()).values()) == 1


@both
async def test_options_are_taken_over_whole(world: World, mode: str) -> None:
    more = More(
        tags=("a",), expires_in=50.0, fair_key="f", extras=Extras(version=2, retry=Fixed(1))
    )
    first = await world.submit(key="k", queue="q", priority=1, timeout=5, more=more)
    await send(world, mode=mode, priority=7, max_attempts=2, queue="other")
    job = await world.get(first)
    assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("other", 7, 2, None)
    assert (job.tags, job.expires_at, job.fair_key, job.extras.retry) == ((), None, None, None)
    session = await world.open_session()
    assert await world.claim(session, queues=["q"]) == []
    assert [job.id for job in await world.claim(session, queues=["other"])] == [first]
    other = More(tags=("b",), expires_in=9.0, requires=("gpu",), extras=Extras(ignore_result=True))
    second = await send(
        world, mode=mode, more=other, timeout=3.0, lane=lane_of("default", ("gpu",)).number
    )
    job = await world.get(second)
    assert (job.tags, job.timeout, job.requires) == (("b",), 3.0, ("gpu",))
    assert (job.expires_at, job.extras.ignore_result) == (world.after(9), True)


@both
async def test_attempts_start_anew_with_the_new_arguments(world: World, mode: str) -> None:
    """What has failed was another submission. Who claimed it before is still refused."""
    session = await world.open_session()
    first = await world.submit(key="k", max_attempts=2)
    [late] = await world.claim(session)
    await world.end(session, late, End.RETRY, delay=0)
    await send(world, b"2", mode=mode, max_attempts=2)
    job = await world.get(first)
    assert (job.attempt, job.losses, job.fence) == (0, 0, late.fence)
    await world.admit()
    [again] = await world.claim(session)
    assert (again.attempt, again.payload) == (1, b"2") and again.fence > late.fence
    assert await world.finish(session, Outcome(late.id, late.fence)) == [late.id]


async def test_a_job_that_lost_its_workers_and_is_replaced_is_no_suspect(world: World) -> None:
    lost = await world.open_session()
    await world.run(lost, key="k")
    world.clock.advance(LEASE + 1)
    await world.reap(lost)
    first = await send(world, b"2", mode="replace")
    assert (await world.get(first)).losses == 0


async def test_replace_keeps_the_time_and_debounce_starts_it_again(world: World) -> None:
    first = await world.submit(key="k", delay=60)
    due = world.after(60)
    world.clock.advance(10)
    assert await send(world, mode="replace", delay=500) == first
    assert (await world.get(first)).run_at == due
    assert await send(world, mode="debounce", delay=60) == first
    assert (await world.get(first)).run_at == world.after(60)
    world.clock.advance(50)
    assert await world.admit() == []
    world.clock.advance(10)
    assert len(await world.admit()) == 1


async def test_a_burst_that_is_debounced_is_one_job_after_the_last(world: World) -> None:
    ids = set()
    for number in range(5):
        world.clock.advance(1)
        ids.add(await send(world, b"%d" % number, mode="debounce", delay=30))
    [id] = ids
    job = await world.get(id)
    assert (job.payload, job.run_at, job.state) == (b"4", world.after(30), JobState.SCHEDULED)


async def test_a_ready_job_that_is_debounced_waits_again(world: World) -> None:
    first = await world.submit(key="k")
    assert await send(world, mode="debounce", delay=30) == first
    assert await world.state(first) is JobState.SCHEDULED
    assert await world.claim(await world.open_session()) == []


@both
async def test_a_running_job_gives_up_its_key_to_a_new_one(world: World, mode: str) -> None:
    session = await world.open_session()
    job = await world.run(session, key="k", payload=b"1")
    second = await send(world, b"2", mode=mode)
    assert second != job.id
    old, new = await world.get(job.id), await world.get(second)
    assert (old.state, old.payload, old.key) == (JobState.RUNNING, b"1", None)
    assert (new.state, new.payload, new.key) == (JobState.READY, b"2", "k")
    await world.end(session, job, End.RETRY, delay=0)  # it goes on by itself
    assert await send(world, b"3", mode=mode) == second
    assert (await world.get(job.id)).payload == b"1"


@both
async def test_a_job_that_has_ended_stands_in_nobodys_way(world: World, mode: str) -> None:
    session = await world.open_session()
    job = await world.run(session, key="k")
    await world.end(session, job)
    assert await send(world, mode=mode) != job.id


@both
async def test_other_kinds_and_namespaces_are_left_alone(world: World, mode: str) -> None:
    others = [
        await world.submit(key="k", kind="other", payload=b"1"),
        await world.submit(key="k", namespace="other", payload=b"1"),
        await world.submit(key="k2", payload=b"1"),
    ]
    await send(world, b"2", mode=mode)
    assert [(await world.get(id)).payload for id in others] == [b"1"] * 3


async def test_of_a_key_that_is_named_twice_in_a_batch_the_last_that_replaces_counts(
    world: World,
) -> None:
    def job(key: str | None, mode: str, payload: bytes) -> NewJob:
        return world.new_job(key=key, key_mode=mode, payload=payload)

    jobs = [
        job("a", "replace", b"a1"), job(None, "keep", b"-"), job("a", "replace", b"a2"),
        job("b", "keep", b"b1"), job("b", "keep", b"b2"), job("a", "keep", b"a3"),
        job("c", "keep", b"c1"), job("c", "debounce", b"c2"),
    ]  # fmt: skip
    ids = await world.store.jobs.submit(world.partition, jobs)
    assert ids[0] == ids[2] == ids[5] and ids[3] == ids[4] and ids[6] == ids[7]
    payloads = [(await world.get(id)).payload for id in ids]
    assert payloads == [b"a2", b"-", b"a2", b"b1", b"b1", b"a2", b"c2", b"c2"]
    assert sum((await world.count()).values()) == 4
    again = await world.store.jobs.submit(world.partition, jobs, resend=True)
    assert again == ids
    assert sum((await world.count()).values()) == 4


@both
@pytest.mark.parametrize("claimed", [False, True])
async def test_a_submission_sent_again_takes_effect_once(
    world: World, mode: str, claimed: bool
) -> None:
    session = await world.open_session()
    first = await world.submit(key="k", payload=b"1")
    new = world.new_job(key="k", key_mode=mode, payload=b"2")
    assert await world.submit(new) == first
    if claimed:
        assert [job.payload for job in await world.claim(session)] == [b"2"]
    before = await world.get(first)
    for _ in range(2):
        assert await world.store.jobs.submit(world.partition, [new], resend=True) == [first]
    assert await world.get(first) == before
    assert sum((await world.count()).values()) == 1


@both
@pytest.mark.parametrize("ended", [False, True])
async def test_one_sent_again_does_not_undo_what_came_after_it(
    world: World, mode: str, ended: bool
) -> None:
    session = await world.open_session()
    first = world.new_job(key="k", key_mode=mode, payload=b"1")
    await world.submit(first)
    [job] = await world.claim(session)
    second = await send(world, b"2", mode=mode)
    if ended:
        await world.end(session, job)
    assert await world.store.jobs.submit(world.partition, [first], resend=True) == [first.id]
    assert (await world.get(second)).payload == b"2"
    assert sum((await world.count()).values()) == 2


@both
async def test_no_submission_is_lost_between_submitters_and_a_claim(
    world: World, mode: str
) -> None:
    """Every submission was run, or was replaced by one that came later; and the last one was run."""
    other = await world.another_store()
    session = await world.open_session()
    numbers = iter(range(1, 1000))
    ran: list[int] = []
    stands: dict[JobId, int] = {}

    async def submit(store: Store) -> int:
        """Returns its last number."""
        number = 0
        for _ in range(25):
            number = next(numbers)
            job = world.new_job(key="k", key_mode=mode, payload=b"%d" % number)
            [id] = await store.jobs.submit(world.partition, [job])
            stands[id] = max(stands.get(id, 0), number)
        return number

    async def run() -> None:
        while not submitting.done():
            for job in await world.claim(session):
                ran.append(int(job.payload))
                await world.end(session, job)
            await asyncio.sleep(0.001)

    submitting = asyncio.gather(submit(world.store), submit(other))
    running = asyncio.create_task(run())
    lasts = await submitting
    await running
    for job in await world.claim(session):
        ran.append(int(job.payload))
        await world.end(session, job)
    assert len(ran) == len(set(ran)) == len(stands)
    # What was committed last is the last of one of the two, however far the other was behind.
    assert ran[-1] in lasts
    assert await world.count() == {JobState.SUCCEEDED: len(ran)}


async def test_crossing_batches_that_replace_all_succeed(world: World) -> None:
    other = await world.another_store()
    names = [f"k{number}" for number in range(12)]
    forth = [world.new_job(key=key, key_mode="replace", payload=b"1") for key in names]
    back = [world.new_job(key=key, key_mode="debounce", payload=b"2") for key in reversed(names)]
    ids, others = await asyncio.gather(
        world.store.jobs.submit(world.partition, forth), other.jobs.submit(world.partition, back)
    )
    assert ids == list(reversed(others))
    assert await world.count() == {JobState.READY: 12}


@both
async def test_a_step_of_a_paused_workflow_takes_over_and_waits_on(world: World, mode: str) -> None:
    first = await world.submit(key="k")
    _, chain = await follow(world, first)
    flows = world.store.workflows
    assert await flows.pause(world.partition, chain, note=None, by="somebody")
    assert await send(world, b"2", mode=mode) == first
    assert await world.claim(await world.open_session()) == []
    assert await flows.resume(world.partition, chain) is not None
    [job] = await world.claim(await world.open_session())
    assert (job.id, job.payload) == (first, b"2")
