"""Limits: jobs pass the gates when they are claimed, all of them or none; who leaves lets the next one in."""

from __future__ import annotations

from collections import Counter

import pytest

from foliot.ids import JobId
from foliot.limit_commands import delete_limit
from foliot.model.job import ClaimedJob, End, JobState
from foliot.model.lane import lane_of
from foliot.store.port import Share
from support.limits import ids, limit, standing, submit, submit_many, tend, trip, use, waits_for
from support.stores import World

pytestmark = pytest.mark.anyio
ELSEWHERE = "queue:elsewhere"  # with it, PostgreSQL cannot decide by keys alone


@pytest.fixture(params=["keys alone", "keys among others"])
async def keyed(request: pytest.FixtureRequest, world: World) -> World:
    """Both ways in which claims under limits of keys are decided."""
    if request.param != "keys alone":
        await limit(world, ELSEWHERE, concurrency=1)
    return world


# --- what is claimed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["queue:default", "kind:echo", "namespace:default"])
async def test_no_more_run_at_once_than_a_limit_allows(world: World, name: str) -> None:
    await limit(world, name, concurrency=2)
    session = await world.open_session()
    first, second, third, fourth = await submit_many(world, 4)
    claimed = await world.claim(session)
    assert ids(claimed) == [first, second]
    assert [job.gates for job in claimed] == [(name,), (name,)]
    assert [await waits_for(world, id) for id in (third, fourth)] == [name, name]
    assert await use(world, name) == (2, 2)
    assert (await world.store.jobs.peek()).limited == {world.partition}
    assert await world.claim(session) == []


async def test_who_leaves_lets_the_next_one_in_within_the_same_trip(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    waiting = await submit_many(world, 4, "a")
    [job] = await world.claim(session)
    ran = [job.id]
    while True:
        cycle = await trip(world, session, job)
        assert cycle.refused == []
        if not cycle.claimed:
            break
        [job] = cycle.claimed
        ran.append(job.id)
    assert ran == waiting
    assert await use(world, "key:a") == (0, 0)
    assert await world.count() == {JobState.SUCCEEDED: 4}


async def test_who_leaves_and_claims_nothing_lets_the_next_one_go_on(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    _, second, third = await submit_many(world, 3, "a")
    [job] = await world.claim(session)
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, session, outcomes=[world.outcome(job, End.SUCCEED)]
    )
    assert [one.state for one in cycle.admitted] == [JobState.READY]
    assert [await world.state(id) for id in (second, third)] == ["ready", "held"]
    assert ids(await world.claim(session)) == [second]


@pytest.mark.parametrize("name", ["kind:bulk", "key:a", "queue:bulk"])
async def test_those_who_waited_for_a_limit_do_not_go_before_a_lane_whose_turn_it_is(
    world: World, name: str
) -> None:
    await limit(world, name, concurrency=2)
    session = await world.open_session()
    key = "a" if name == "key:a" else None
    await submit_many(world, 6, key, kind="bulk", queue="bulk")
    running = (await trip(world, session, queues=["bulk"])).claimed
    assert len(running) == 2
    urgent = await world.submit(queue="urgent")
    cycle = await trip(world, session, running[0], room=1, queues=["urgent", "bulk"])
    assert ids(cycle.claimed) == [urgent]
    assert await use(world, name) == (1, 3), "and the next of those who wait is asked again"
    assert len((await trip(world, session, queues=["bulk"])).claimed) == 1


async def test_of_a_lane_no_more_start_than_its_share_although_more_have_left(keyed: World) -> None:
    world = keyed
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session()
    for name in "abcd":
        await submit_many(world, 3, name)
    running = await world.claim(session)
    assert len(running) == 4
    for name in "wxyz":
        await submit(world, name, queue="other")
    shares = [Share(lane_of("default"), 2), Share(lane_of("other"), 2)]
    done = [world.outcome(job, End.SUCCEED) for job in running]
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, session, outcomes=done, shares=shares, room=4
    )
    assert Counter(job.lane for job in cycle.claimed) == {share.lane.number: 2 for share in shares}
    assert len(await world.claim(session)) == 2, "the other two that were let in"


async def test_a_full_limit_does_not_block_those_behind_it(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    limited = await submit_many(world, 30, "a")
    others = await submit_many(world, 3)
    got: list[JobId] = []
    for _ in range(10):
        cycle = await trip(world, session, room=5)
        got += ids(cycle.claimed)
        assert len(cycle.claimed) + len(cycle.held) <= 5
    assert got == [limited[0], *others]


async def test_keys_have_their_own_slots_and_so_has_each_namespace(keyed: World) -> None:
    world = keyed
    await limit(world, "key:c:*", concurrency=1)
    session = await world.open_session()
    for key in ("c:1", "c:2", "d:1", None):
        await submit_many(world, 2, key)
    await submit_many(world, 2, "c:1", namespace="shop")
    claimed = await world.claim(session)
    gates = sorted(job.gates for job in claimed)
    assert gates == [
        (),
        (),
        (),
        (),
        ("key:c:1",),
        ("key:c:2",),
        ("key@shop@c:1",),
    ]
    assert await use(world, "key:c:1") == (1, 1)
    assert await use(world, "key@shop@c:1") == (1, 1)
    assert await use(world, "key:c:*") == (3, 3)


async def test_a_key_of_its_own_counts_before_patterns_and_a_longer_before_a_shorter(
    keyed: World,
) -> None:
    world = keyed
    for name, slots in {"key:*": 1, "key:c:*": 2, "key:c:7": 3}.items():
        await limit(world, name, concurrency=slots)
    session = await world.open_session()
    for key in ("x", "c:1", "c:7"):
        await submit_many(world, 4, key)
    gates = [gate for job in await world.claim(session) for gate in job.gates]
    assert {gate: gates.count(gate) for gate in gates} == {"key:x": 1, "key:c:1": 2, "key:c:7": 3}
    assert (await standing(world, "key:c:1")).limit.name == "key:c:*"


async def test_characters_of_patterns_mean_themselves(keyed: World) -> None:
    world = keyed
    await limit(world, "key:50%_[a]\\:*", concurrency=1)
    session = await world.open_session()
    for key in ("50%_[a]\\:1", "50 percent:1", "50%_[a]\\x"):
        await submit_many(world, 2, key)
    gates = sorted(job.gates for job in await world.claim(session))
    assert gates == [(), (), (), (), ("key:50%_[a]\\:1",)]


async def test_a_job_passes_all_its_gates_or_none(world: World) -> None:
    await limit(world, "queue:default", concurrency=3)
    await limit(world, "kind:echo", concurrency=9)
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    first, second = await submit_many(world, 2, "a")
    third, fourth, fifth = await submit_many(world, 3)
    claimed = await world.claim(session)
    assert ids(claimed) == [first, third, fourth]
    assert claimed[0].gates == ("queue:default", "kind:echo", "key:a")
    assert await waits_for(world, second) == "key:a"
    assert await waits_for(world, fifth) == "queue:default"
    assert await use(world, "kind:echo") == (3, 0)
    cycle = await trip(world, session, claimed[0])
    assert len(cycle.claimed) == 1, "one slot of the queue is free, whoever takes it"
    assert (await use(world, "queue:default"))[0] == 3
    assert (await use(world, "kind:echo"))[0] == 3


async def test_priority_and_order_of_submission_hold_among_those_who_wait(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    running = await submit(world, "a")
    [job] = await world.claim(session)
    assert job.id == running
    low = await submit(world, "a", priority=9)
    first, second = await submit_many(world, 2, "a")
    high = await submit(world, "a", priority=0)
    assert await world.claim(session) == []
    ran = []
    for _ in range(4):
        [job] = (await trip(world, session, job)).claimed
        ran.append(job.id)
    assert ran == [high, first, second, low]


async def test_a_limit_of_nothing_lets_nobody_in(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=0)
    session = await world.open_session()
    id = await submit(world, "a")
    other = await submit(world, "b")
    assert ids(await world.claim(session)) == [other]
    assert await tend(world) == 0
    assert await use(world, "key:a") == (0, 1)
    await limit(world, "key:a", concurrency=1)
    assert ids(await world.claim(session)) == [id]


# --- what gives slots back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", list(End))
async def test_every_end_of_an_attempt_gives_its_slot_back(keyed: World, end: End) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit_many(world, 2, "a")
    [job] = await world.claim(session)
    [following] = (await trip(world, session, job, end=end)).claimed
    assert await use(world, "key:a") == (1, 1 if end is End.RELEASE else 0)
    await world.end(session, following)
    assert (await use(world, "key:a"))[0] == 0


async def test_an_outcome_that_is_refused_gives_nothing_back(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session, other = await world.open_session(), await world.open_session(lease=1000)
    await submit_many(world, 3, "a")
    [job] = await world.claim(session)
    world.expire()
    assert (await world.reap(session)).total == 1
    assert await tend(world) >= 1
    [again] = await world.claim(other)
    cycle = await trip(world, session, job)
    assert (cycle.refused, cycle.claimed) == ([job.id], [])
    assert (await use(world, "key:a"))[0] == 1
    await world.end(other, again)
    assert (await trip(world, other, again)).refused == [again.id], "and not twice"
    assert (await use(world, "key:a"))[0] <= 1


async def test_an_outcome_of_an_earlier_claim_of_the_same_session_gives_nothing_back(
    keyed: World,
) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit(world, "a")
    [job] = await world.claim(session)
    await world.end(session, job, End.RELEASE)
    [again] = await world.claim(session)
    assert again.id == job.id
    await submit(world, "a")
    cycle = await trip(world, session, job)
    assert (cycle.refused, cycle.claimed) == ([job.id], [])
    assert await use(world, "key:a") == (1, 1)


async def test_the_same_outcome_twice_in_a_trip_gives_back_once(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=2)
    session = await world.open_session()
    await submit_many(world, 6, "a")
    first, _ = await world.claim(session)
    cycle = await trip(world, session, first, first)
    assert len(cycle.claimed) == 1
    assert (await use(world, "key:a"))[0] == 2


async def test_what_a_lost_session_ran_is_counted_anew(world: World) -> None:
    await limit(world, "queue:default", concurrency=2)
    session, other = await world.open_session(), await world.open_session(lease=1000)
    await submit_many(world, 4)
    assert len(await world.claim(session)) == 2
    assert await tend(world) == 0
    world.expire()
    await world.reap(session)
    assert await tend(world) == 2
    assert await use(world, "queue:default") == (0, 0)
    assert len(await world.claim(other)) == 2
    assert (await use(world, "queue:default"))[0] == 2


async def test_a_job_that_was_cancelled_while_it_waited_is_out_of_the_way(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    _, second, third = await submit_many(world, 3, "a")
    [job] = await world.claim(session)
    await world.cancel(second)
    assert await use(world, "key:a") == (1, 1)
    assert ids((await trip(world, session, job)).claimed) == [third]


async def test_a_job_that_expired_while_it_waited_does_not_start(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session(lease=1000)
    await submit(world, "a")
    late = await submit(world, "a", more={"expires_in": 60})
    third = await submit(world, "a")
    [job] = await world.claim(session)
    world.clock.advance(61)
    assert ids((await trip(world, session, job)).claimed) == [third]
    assert (await world.store.jobs.peek()).expired == {world.partition}
    assert await world.store.admission.expire(world.partition, limit=10) == 1
    assert await world.state(late) is JobState.CANCELLED
    assert await use(world, "key:a") == (1, 0)


# --- limits that change ----------------------------------------------------------------------------------------------


async def test_what_runs_when_a_limit_is_set_is_counted(keyed: World) -> None:
    world = keyed
    session = await world.open_session()
    await submit_many(world, 2, "a")
    running = await world.claim(session)
    assert [job.gates for job in running] == [(), ()]
    await submit_many(world, 2, "a")
    await limit(world, "key:a", concurrency=3)
    assert await use(world, "key:a") == (2, 0)
    assert len(await world.claim(session)) == 1
    await world.finish(session, *(world.outcome(job, End.SUCCEED) for job in running))
    assert await tend(world) == 1, "they did not know of the limit, so they gave nothing back"
    assert len(await world.claim(session)) == 1


async def test_a_lowered_limit_kills_nothing_and_a_raised_one_lets_in_at_once(world: World) -> None:
    await limit(world, "queue:default", concurrency=3)
    session = await world.open_session()
    await submit_many(world, 9)
    first, second, third = await world.claim(session)
    await limit(world, "queue:default", concurrency=1)
    assert await use(world, "queue:default") == (3, 6)
    assert (await trip(world, session, first, second)).claimed == []
    [fourth] = (await trip(world, session, third)).claimed
    assert await use(world, "queue:default") == (1, 5)
    await limit(world, "queue:default", concurrency=4)
    assert await world.count() == {
        JobState.SUCCEEDED: 3,
        JobState.RUNNING: 1,
        JobState.READY: 3,
        JobState.HELD: 2,
    }
    assert len(await world.claim(session)) == 3
    await world.end(session, fourth)
    assert (await use(world, "queue:default"))[0] == 3


async def test_a_deleted_limit_lets_all_go_on(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit_many(world, 4, "a")
    [job] = await world.claim(session)
    assert await world.claim(session) == []
    assert await delete_limit(world.store, "key:a", by="ops")
    assert not await delete_limit(world.store, "key:a", by="ops")
    assert [one.limit.name for one in await world.store.limits.all(most=9)] in ([], [ELSEWHERE])
    assert len(await world.claim(session)) == 3
    await world.end(session, job)
    await limit(world, "key:a", concurrency=5)
    assert await use(world, "key:a") == (3, 0)


async def test_a_store_with_old_rules_claims_by_the_new_ones(keyed: World) -> None:
    world = keyed
    session = await world.open_session()
    stale = await world.another_store()

    async def claim(*done: ClaimedJob) -> list[ClaimedJob]:
        cycle = await stale.jobs.finish_and_claim(
            world.partition,
            session,
            outcomes=[world.outcome(job, End.SUCCEED) for job in done],
            shares=[Share(lane_of("default"), 100)],
            room=100,
        )
        assert cycle.refused == []
        return cycle.claimed

    await submit_many(world, 2, "a")
    assert len(running := await claim()) == 2
    await submit_many(world, 9, "a")
    await limit(world, "key:a", concurrency=3)
    assert len(running := [*running, *await claim()]) == 3
    await limit(world, "key:a", concurrency=1)
    assert await claim(*running[:2]) == []
    await limit(world, "key:a", concurrency=4)
    assert len(await claim()) == 3
    await delete_limit(world.store, "key:a")
    assert len(await claim(running[2])) == 5


async def test_a_paused_queue_keeps_no_slot(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    [paused] = await submit_many(world, 1, "a")
    [job] = await world.claim(session)
    assert job.id == paused
    await submit_many(world, 3, "a")
    other = await submit(world, "a", queue="other")
    assert await world.claim(session, queues=["default", "other"]) == []
    await world.store.queues.pause("default", by="ops", note=None)
    cycle = await trip(world, session, job, queues=["default", "other"])
    assert ids(cycle.claimed) == [other]
    assert await use(world, "key:a") == (1, 3)


async def test_those_of_a_paused_queue_are_not_let_in_before_others(world: World) -> None:
    """Where nobody leaves: the slot was that of a session that is lost."""
    await limit(world, "key:a", concurrency=1)
    session, other = await world.open_session(), await world.open_session(lease=1000)
    await submit_many(world, 4, "a")
    await world.claim(session)
    second = await submit(world, "a", queue="other")
    assert await world.claim(other, queues=["default", "other"]) == []
    await world.store.queues.pause("default", by="ops", note=None)
    world.expire()
    await world.reap(session)
    assert await tend(world) == 1
    assert ids(await world.claim(other, queues=["default", "other"])) == [second]


async def test_looks_at_a_paused_queue_whose_limit_is_gone_come_to_an_end(world: World) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit_many(world, 3, "a")
    await world.claim(session)
    await world.store.queues.pause("default", by="ops", note=None)
    await delete_limit(world.store, "key:a")
    tended = await world.store.limits.tend(world.partition, "", limit=100)
    assert (tended.admitted, tended.wait) == ([], None)
    await world.store.queues.resume("default")
    assert await tend(world) == 2
    assert len(await world.claim(session)) == 2


async def test_jobs_of_kinds_that_the_worker_does_not_know_are_passed_on(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=1)
    session, other = await world.open_session(), await world.open_session(lease=1000)
    await submit(world, "a")
    strange = await submit(world, "a", kind="strange")
    await submit(world, "a")
    [job] = (await trip(world, session, kinds=["echo"])).claimed
    assert (await trip(world, other)).claimed == []
    cycle = await trip(world, session, job, kinds=["echo"])
    assert [one.state for one in cycle.admitted] == [JobState.READY]
    assert ids([*cycle.claimed, *(await trip(world, other)).claimed]) == [strange]
    assert await use(world, "key:a") == (1, 1)


async def test_one_trip_lets_no_more_in_than_it_has_room_for(keyed: World) -> None:
    world = keyed
    await limit(world, "key:a", concurrency=3)
    session = await world.open_session()
    await submit_many(world, 9, "a")
    jobs = await world.claim(session)
    cycle = await trip(world, session, *jobs, room=1)
    assert len(cycle.claimed) == 1
    assert await use(world, "key:a") == (1, 3)
    assert len(cycle.admitted) == 2, "those whom others may take"
    assert len(await world.claim(session)) == 2
    assert (await use(world, "key:a"))[0] == 3
