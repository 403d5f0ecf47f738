"""Submitting: all or nothing, in order, once for each key and each id."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from foliot.ids import JobId
from foliot.model.job import End, JobState, NewJob, Outcome, Priority
from foliot.model.lane import lane_of
from foliot.store import batches
from foliot.store.port import Share, Store
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_a_submitted_job_is_ready_and_reads_back_as_it_was_given(world: World) -> None:
    new = world.new_job(
        kind="mail.send", payload=b'{"to":"\xc3\xbc"}', queue="mail", namespace="shop", priority=1,
        max_attempts=7, timeout=2.5, key='say "hello, {world}" \\ NULL',
    )  # fmt: skip
    assert await world.submit(new) == new.id
    job = await world.get(new.id)
    assert (job.kind, job.payload, job.queue, job.namespace) == (
        new.kind,
        new.payload,
        new.queue,
        new.namespace,
    )
    assert (job.priority, job.key, job.state) == (new.priority, new.key, JobState.READY)
    assert (job.attempt, job.losses, job.generation, job.fence) == (0, 0, 0, 0)
    assert job.created_at == job.run_at == world.clock.now()
    assert job.started_at is None and job.finished_at is None and job.session is None


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"\x00\xff\\x00'\"", b"x" * 1_000_000], ids=["none", "{}", "odd", "big"]
)
async def test_a_payload_is_kept_byte_by_byte(world: World, payload: bytes) -> None:
    session = await world.open_session()
    job = await world.run(session, payload=payload)
    assert job.payload == payload
    await world.end(session, job, result=payload)
    finished = await world.get(job.id)
    assert (finished.payload, finished.result) == (payload, payload)


@pytest.mark.parametrize("key", ["NULL", "", "null", "{a,b}", "🗝", "a'b", "\\", '"', " x "])
async def test_a_key_is_any_text(world: World, key: str) -> None:
    first = await world.submit(key=key)
    assert (await world.get(first)).key == key
    assert await world.submit(key=key) == first


async def test_a_job_with_its_time_ahead_is_scheduled(world: World) -> None:
    ahead = await world.submit(run_at=world.after(0.001))
    now = await world.submit(run_at=world.clock.now())
    past = await world.submit(run_at=world.after(-3600))
    assert await world.state(ahead) is JobState.SCHEDULED
    assert await world.state(now) is JobState.READY
    assert await world.state(past) is JobState.READY


async def test_times_are_kept_to_the_microsecond(world: World) -> None:
    at = world.after(60) + timedelta(microseconds=1)
    assert (await world.get(await world.submit(run_at=at))).run_at == at


async def test_jobs_come_by_priority_then_due_time_then_id(world: World) -> None:
    submitted = {
        "low": await world.submit(priority=Priority.LOW),
        "late": await world.submit(),
        "later": await world.submit(),
        "early": await world.submit(run_at=world.after(-1)),
        "earliest": await world.submit(run_at=world.after(-2)),
        "high": await world.submit(priority=Priority.HIGH),
        "first": await world.submit(priority=0, run_at=world.clock.now()),
    }
    expected = ["first", "high", "earliest", "early", "late", "later", "low"]
    session = await world.open_session()
    one_by_one = [(await world.claim(session, 1))[0].id for _ in range(3)]
    at_once = [job.id for job in await world.claim(session)]
    assert one_by_one + at_once == [submitted[name] for name in expected]


async def test_one_bad_job_keeps_the_whole_batch_out(world: World) -> None:
    bad = world.new_job(payload=cast(bytes, None))
    many = [world.new_job() for _ in range(1500)]  # more than fit in one insert
    with pytest.raises(Exception):  # noqa: B017, PT011 - any, as long as nothing is kept
        await world.submit(*many, bad)
    assert await world.count() == {}
    await world.submit(*many)
    assert await world.count() == {JobState.READY: 1500}


async def test_a_large_batch_is_kept_whole_and_in_order(world: World) -> None:
    ids = await world.submit_many(2500)
    assert len(set(ids)) == 2500
    session = await world.open_session()
    assert [job.id for job in await world.claim(session, 2500)] == ids


async def test_an_empty_batch_is_nothing(world: World) -> None:
    assert await world.store.jobs.submit(world.partition, []) == []
    assert await world.store.jobs.submit(world.partition, [], resend=True) == []


async def test_a_key_stands_for_one_live_job(world: World) -> None:
    first = await world.submit(key="order-42", payload=b"1")
    second = await world.submit(key="order-42", payload=b"2")
    assert second == first
    assert (await world.get(first)).payload == b"1"
    assert await world.count() == {JobState.READY: 1}


@pytest.mark.parametrize("state", ["scheduled", "running", "retried", "held"])
async def test_a_key_is_taken_while_its_job_lives(world: World, state: str) -> None:
    session = await world.open_session()
    if state == "scheduled":
        first = await world.submit(key="k", run_at=world.after(60))
    else:
        job = await world.run(session, key="k")
        first = job.id
        if state == "retried":
            await world.end(session, job, End.RETRY, delay=5)
        elif state == "held":
            await world.end(session, job, End.HOLD, reason="unknown_kind")
    assert await world.submit(key="k") == first


@pytest.mark.parametrize("end", [End.SUCCEED, End.CANCEL, End.BURY])
async def test_a_key_is_free_again_when_its_job_has_ended(world: World, end: End) -> None:
    session = await world.open_session()
    job = await world.run(session, key="k")
    await world.end(session, job, end)
    second = await world.submit(key="k")
    assert second != job.id
    assert await world.state(second) is JobState.READY


async def test_a_key_is_of_its_kind_and_namespace(world: World) -> None:
    ids = {
        await world.submit(key="k", kind="mail"),
        await world.submit(key="k", kind="print"),
        await world.submit(key="k", kind="mail", namespace="other"),
    }
    assert len(ids) == 3
    assert await world.submit(key="k", kind="print") in ids


async def test_a_batch_may_name_one_key_twice_and_mix_with_jobs_without(world: World) -> None:
    jobs = [
        world.new_job(key="b"),
        world.new_job(),
        world.new_job(key="a"),
        world.new_job(key="b"),
        world.new_job(),
    ]
    ids = await world.store.jobs.submit(world.partition, jobs)
    assert ids == [jobs[0].id, jobs[1].id, jobs[2].id, jobs[0].id, jobs[4].id]
    assert await world.count() == {JobState.READY: 4}


async def _resend(world: World, job: NewJob) -> JobId:
    [id] = await world.store.jobs.submit(world.partition, [job], resend=True)
    return id


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("end", [None, *End])
async def test_a_job_sent_again_is_never_made_again(
    world: World, end: End | None, key: str | None
) -> None:
    session = await world.open_session()
    new = world.new_job(key=key)
    assert await _resend(world, new) == new.id
    if end is not None:
        [job] = await world.claim(session)
        await world.end(session, job, end, delay=60, reason="unknown_kind")
    before = await world.get(new.id)
    for _ in range(2):
        assert await _resend(world, new) == new.id
    assert await world.get(new.id) == before
    assert sum((await world.count()).values()) == 1


async def test_a_running_job_sent_again_is_left_alone(world: World) -> None:
    session = await world.open_session()
    new = world.new_job()
    await world.submit(new)
    [job] = await world.claim(session)
    assert await _resend(world, new) == new.id
    assert await world.claim(session) == []
    await world.end(session, job)


async def test_of_a_batch_sent_again_only_what_is_missing_is_made(world: World) -> None:
    session = await world.open_session()
    jobs = [world.new_job() for _ in range(3)]
    await world.submit(*jobs[:2])
    [first] = await world.claim(session, 1)
    await world.end(session, first)
    ids = await world.store.jobs.submit(world.partition, jobs, resend=True)
    assert ids == [job.id for job in jobs]
    assert await world.count() == {JobState.SUCCEEDED: 1, JobState.READY: 2}


async def test_a_resend_whose_key_went_to_another_job_still_means_its_own(world: World) -> None:
    session = await world.open_session()
    first = world.new_job(key="k")
    await world.submit(first)
    [job] = await world.claim(session)
    await world.end(session, job)
    await world.submit(key="k")
    assert await _resend(world, first) == first.id
    assert await world.count() == {JobState.SUCCEEDED: 1, JobState.READY: 1}


async def test_of_racing_submits_with_one_key_one_makes_the_job(world: World) -> None:
    other = await world.another_store()
    for number in range(10):
        jobs = [world.new_job(key=f"k{number}") for _ in range(8)]
        stores = [world.store, other] * 4
        found = await asyncio.gather(
            *(s.jobs.submit(world.partition, [j]) for s, j in zip(stores, jobs, strict=True))
        )
        assert len({id for [id] in found}) == 1
    assert await world.count() == {JobState.READY: 10}


async def test_crossing_batches_with_the_same_keys_all_succeed(world: World) -> None:
    names = [f"k{number}" for number in range(20)]
    forth = [world.new_job(key=key) for key in names]
    back = [world.new_job(key=key) for key in reversed(names)]
    ids, others = await asyncio.gather(
        world.store.jobs.submit(world.partition, forth),
        world.store.jobs.submit(world.partition, back),
    )
    assert ids == list(reversed(others))
    assert await world.count() == {JobState.READY: 20}


async def test_a_key_raced_by_its_jobs_end_still_stands_for_one_job(world: World) -> None:
    """The holder of a key ends while others submit: each submit gets a job that exists."""
    session = await world.open_session()
    other = await world.another_store()

    async def submit_often(store: Store) -> set[JobId]:
        found = set()
        for _ in range(30):
            found |= set(await store.jobs.submit(world.partition, [world.new_job(key="k")]))
        return found

    async def run_often() -> int:
        finished = 0
        while not submitting.done():
            for job in await world.claim(session):
                await world.end(session, job)
                finished += 1
            await asyncio.sleep(0)
        return finished

    submitting = asyncio.gather(submit_often(world.store), submit_often(other))
    running = asyncio.create_task(run_often())
    first, second = await submitting
    finished = await running
    total = await world.count()
    assert sum(total.values()) == len(first | second)
    assert total.get(JobState.SUCCEEDED, 0) == finished


async def test_a_resend_racing_the_finish_never_runs_the_job_twice(world: World) -> None:
    session = await world.open_session()
    other = await world.another_store()
    for _ in range(15):
        new = world.new_job()
        await world.submit(new)
        [job] = await world.claim(session)
        shares = [Share(lane_of("default"), 10)]
        cycle, ids, again = await asyncio.gather(
            world.store.jobs.finish_and_claim(
                world.partition,
                session,
                outcomes=[Outcome(job.id, job.fence)],
                shares=shares,
                room=10,
            ),
            other.jobs.submit(world.partition, [new], resend=True),
            other.jobs.submit(world.partition, [new], resend=True),
        )
        assert cycle == type(cycle)([], [])
        assert ids == again == [new.id]
    assert await world.count() == {JobState.SUCCEEDED: 15}


async def test_a_delay_is_counted_on_the_clock_of_the_store(world: World) -> None:
    """Not on that of the sender: both are told the same moment only when the job has arrived."""
    later = await world.submit(delay=12.5)
    at_once = await world.submit(delay=0.0)
    seen = await world.get(later)
    assert (seen.state, seen.run_at) == (JobState.SCHEDULED, world.after(12.5))
    assert (await world.get(at_once)).state is JobState.READY
    world.clock.advance(12.499)
    assert await world.admit() == []
    world.clock.advance(0.001)
    assert len(await world.admit()) == 1


async def test_a_submission_of_many_bytes_is_sent_in_several_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LARGEST", 1000)
    payloads = [b'"' + b"x" * size + b'"' for size in (10, 600, 500, 5000, 1, 2, 998)]
    jobs = [world.new_job(payload=payload) for payload in payloads]
    pieces = list(batches.chunks(jobs, lambda job: len(job.payload)))
    assert [len(piece) for piece in pieces] == [2, 1, 1, 2, 1]
    await world.submit(*jobs)
    for job in jobs:
        assert (await world.get(job.id)).payload == job.payload
