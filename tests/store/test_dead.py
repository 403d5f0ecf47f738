"""The dead-letter queue: nothing leaves it unasked, and who asked is written down with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from foliot.ids import JobId, SessionId
from foliot.model.audit import Deed
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, Outcome
from foliot.model.lane import Lane, Strategy, lane_of
from foliot.model.note import NewLine
from foliot.store.port import Share
from foliot.store.searching import Record, Retried
from support.stores import World

pytestmark = pytest.mark.anyio


async def bury(world: World, **fields: object) -> JobId:
    """A job that died after two attempts and a lost session."""
    session = await world.open_session()
    job = await world.run(session, **fields)
    await world.end(session, job, End.RETRY, reason="worker_lost", error="gone")
    await world.admit()
    [job] = await world.claim(session, 1, queues=[str(fields.get("queue", "default"))])
    await world.end(session, job, End.BURY, reason="failed", error="no")
    return job.id


def told(world: World, action: str = "retry") -> Record:
    def record(ids: Sequence[str]) -> list[Deed]:
        return [Deed(world.ids.job(), "ada@here", action, id, {"n": 1}) for id in ids]

    return record


async def retry(world: World, *ids: JobId, **options: object) -> Retried:
    payload, extras = options.get("payload"), options.get("extras")
    assert payload is None or isinstance(payload, bytes)
    assert extras is None or isinstance(extras, str)
    return await world.store.dead.retry(
        world.partition, ids, record=told(world), payload=payload, extras=extras
    )


async def test_a_retried_job_is_new_again_and_its_fence_is_not(world: World) -> None:
    more = More(tags=("vip",), requires=("gpu",), extras=Extras(version=3))
    dead = await world.get(await bury(world, timeout=9, max_attempts=2, payload=b'{"a": 1}'))
    other = await bury(world, queue="other", more=more, key="k", priority=1)
    world.clock.advance(60)
    retried = await retry(world, dead.id)
    assert set(retried.lanes) == {dead.id} and retried.taken == {}
    job = await world.get(dead.id)
    assert job.state is JobState.READY
    assert (job.attempt, job.losses, job.generation) == (0, 0, dead.generation + 1)
    assert (job.fence, job.created_at, job.run_at) == (
        dead.fence,
        dead.created_at,
        world.clock.now(),
    )
    assert (job.payload, job.timeout, job.max_attempts) == (dead.payload, 9, 2)
    assert await world.state(other) is JobState.DEAD
    before = await world.get(other)
    await retry(world, other)
    after = await world.get(other)
    for name in ("tags", "requires", "extras", "key", "priority", "queue", "namespace"):
        assert getattr(after, name) == getattr(before, name)


async def test_a_retried_job_is_claimed_with_the_next_fence(world: World) -> None:
    id = await bury(world)
    before = await world.attempts(id)
    fence = (await world.get(id)).fence
    await retry(world, id)
    session = await world.open_session()
    [job] = await world.claim(session)
    assert (job.id, job.fence, job.attempt) == (id, fence + 1, 1)
    await world.end(session, job, End.BURY, error="again")
    assert (await world.get(id)).generation == 1
    after = await world.attempts(id)
    assert after[: len(before)] == before, "the attempts of the earlier life are still told"
    assert [attempt.fence for attempt in after] == [1, 2, 3]
    await retry(world, id)
    [job] = await world.claim(session)
    await world.end(session, job, result=b"1")
    assert (await world.get(id)).state is JobState.SUCCEEDED
    assert (await world.get(id)).generation == 2


async def test_a_retried_job_takes_its_place_by_its_new_time(world: World) -> None:
    id = await bury(world)
    world.clock.advance(60)
    early = await world.submit(run_at=world.after(-1))
    await retry(world, id)
    world.clock.advance(1)
    late = await world.submit()
    session = await world.open_session()
    assert [job.id for job in await world.claim(session)] == [early, id, late]


async def test_the_payload_can_be_mended(world: World) -> None:
    id = await bury(world, payload=b'{"a": "x"}')
    await retry(world, id, payload=b'{"a": 1}', extras='{"version":2}')
    job = await world.get(id)
    assert (job.payload, job.extras) == (b'{"a": 1}', Extras(version=2))


async def test_what_is_not_dead_is_left_alone(world: World) -> None:
    session = await world.open_session()
    running = (await world.run(session)).id
    ready = await world.submit()
    unknown = world.new_job().id
    before = [await world.get(running), await world.get(ready)]
    retried = await retry(world, running, ready, unknown)
    assert (retried.lanes, retried.taken) == ({}, {})
    assert [await world.get(running), await world.get(ready)] == before
    assert (
        await world.store.dead.purge(world.partition, [running, ready, unknown], record=told(world))
        == []
    )
    assert await world.store.audit.list() == []


async def test_a_job_whose_key_is_taken_stays_dead(world: World) -> None:
    first, second = await bury(world, key="k"), await bury(world, key="k")
    free = await bury(world, key="free")
    heir = await world.submit(key="k")
    retried = await retry(world, first, second, free)
    assert set(retried.lanes) == {free}
    assert retried.taken == {first: heir, second: heir}
    assert await world.state(first) is JobState.DEAD
    await world.cancel(heir)
    retried = await retry(world, first, second)
    assert len(retried.lanes) == 1, "one of the two has the key now"
    assert list(retried.taken.values()) == list(retried.lanes)


async def test_a_job_of_a_queue_by_turns_is_held_for_its_turn(world: World) -> None:
    id = await bury(world, queue="turns")
    await world.store.queues.configure("turns", strategy=Strategy.ROUND_ROBIN)
    await retry(world, id)
    job = await world.get(id)
    assert (job.state, job.reason) == (JobState.HELD, "admission")
    await world.store.admission.look(world.partition, limit=10)
    assert await world.state(id) is JobState.READY


async def test_a_job_is_placed_by_the_strategy_that_its_queue_has_now(world: World) -> None:
    """In the lane of that strategy, where workers look for it."""
    await world.store.queues.configure("mail", strategy=Strategy.FIFO)
    session = await world.open_session()
    id = await world.submit(queue="mail", priority=9)
    [job] = await claim(world, session, "mail", Strategy.FIFO)
    await world.end(session, job, End.BURY)
    await world.store.queues.configure("mail", strategy=Strategy.PRIORITY)
    low = await world.submit(queue="mail", priority=9)
    high = await world.submit(queue="mail", priority=0)
    world.clock.advance(1)
    await retry(world, id)
    claimed = await claim(world, session, "mail", Strategy.PRIORITY)
    assert [job.id for job in claimed] == [high, low, id]


async def claim(
    world: World, session: SessionId, queue: str, strategy: Strategy
) -> list[ClaimedJob]:
    lane = Lane(lane_of(queue).number | strategy, queue)
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, session, shares=[Share(lane, 10)], room=10
    )
    return cycle.claimed


async def test_a_job_of_an_ordering_key_waits_for_those_that_are_active(world: World) -> None:
    session = await world.open_session()
    first, second = [await world.submit(more=More(ordering_key="k")) for _ in range(2)]
    await world.store.admission.look(world.partition, limit=10)
    [job] = await world.claim(session)
    assert job.id == first
    bury = Outcome(job.id, job.fence, End.BURY, order=("default", "k"))
    assert await world.finish(session, bury) == []
    [job] = await world.claim(session)
    assert job.id == second
    await retry(world, first)
    assert (await world.get(first)).state is JobState.HELD
    await world.store.admission.look(world.partition, limit=10)
    assert (await world.get(first)).reason == "order", "the second one runs"
    done = Outcome(job.id, job.fence, End.SUCCEED, order=("default", "k"))
    assert await world.finish(session, done) == []
    assert [job.id for job in await world.claim(session)] == [first]


async def test_a_purged_job_is_gone_with_its_attempts_and_its_log(world: World) -> None:
    id, other = await bury(world), await bury(world)
    at = world.clock.now()
    lines = [NewLine(one, 1, 1, 1, at, "INFO", "shop", "hello") for one in (id, other)]
    await world.store.logs.write(world.partition, lines)
    assert await world.store.dead.purge(world.partition, [id], record=told(world, "purge")) == [id]
    assert await world.store.jobs.get(id) is None
    assert await world.attempts(id) == []
    assert await world.store.logs.all(id) == []
    assert [line.message for line in await world.store.logs.all(other)] == ["hello"]
    assert await world.state(other) is JobState.DEAD
    assert len(await world.attempts(other)) == 2


async def test_what_was_done_is_written_down_with_it(world: World) -> None:
    first, second, third = [await bury(world) for _ in range(3)]
    await retry(world, first)
    world.clock.advance(1)
    await world.store.dead.purge(world.partition, [second], record=told(world, "purge"))
    newest, oldest = await world.store.audit.list()
    assert (oldest.action, oldest.target, oldest.actor) == ("retry", first, "ada@here")
    assert (newest.action, newest.target, newest.detail) == ("purge", second, {"n": 1})
    assert newest.at == world.clock.now()
    assert await world.store.audit.list(target=first) == [oldest]
    assert await world.store.audit.list(target=third) == []
    assert await world.store.audit.list(limit=1) == [newest]
    assert await world.store.audit.list(limit=1, after=newest.id) == [oldest]


async def test_an_act_that_cannot_be_written_down_is_not_done(world: World) -> None:
    id = await bury(world)

    def broken(ids: Sequence[str]) -> list[Deed]:
        raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        await world.store.dead.retry(world.partition, [id], record=broken)
    with pytest.raises(RuntimeError, match="no ink"):
        await world.store.dead.purge(world.partition, [id], record=broken)
    assert await world.state(id) is JobState.DEAD
    assert len(await world.attempts(id)) == 2


async def test_an_entry_is_brought_up_to_date(world: World) -> None:
    deed = Deed(world.ids.job(), "ada", "purge", "state:dead", {"count": 1})
    await world.store.audit.write([deed])
    await world.store.audit.write([Deed(deed.id, "ada", "purge", "state:dead", {"count": 2})])
    [entry] = await world.store.audit.list()
    assert entry.detail == {"count": 2}


async def test_of_two_who_retry_the_same_job_one_does(world: World) -> None:
    ids = [await bury(world) for _ in range(5)]
    store = await world.another_store()
    record = told(world)
    both = await asyncio.gather(
        world.store.dead.retry(world.partition, ids, record=record),
        store.dead.retry(world.partition, ids[::-1], record=record),
    )
    assert sorted([*both[0].lanes, *both[1].lanes]) == sorted(ids)
    assert both[0].taken == both[1].taken == {}
    assert len(await world.store.audit.list()) == len(ids)
    assert {(await world.get(id)).generation for id in ids} == {1}
