"""Limits together with order, turns, workflows, transactions of jobs, and many who claim at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import msgspec
import pytest

from foliot.author import Author
from foliot.config import Settings
from foliot.ids import SessionId, partition_of
from foliot.limit_commands import delete_limit, limit_of, set_limit
from foliot.model.job import ClaimedJob, End, JobState
from foliot.model.lane import Strategy, lane_of
from foliot.model.workflow import NewStep
from foliot.store.open import make_transactions
from foliot.store.port import Cycle, Jobs, Share
from foliot.store.transaction import Work
from support.flows import draw
from support.limits import ids, limit, submit, submit_many, trip, use, waits_for
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_ordered_jobs_under_a_limit_run_in_order(world: World) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    ordered = await submit_many(world, 3, "a", more={"ordering_key": "o"})
    free = await submit_many(world, 3, "a")
    await world.look()
    [job] = await world.claim(session)
    ran = [job.id]
    for _ in range(5):
        cycle = await trip(world, session, job)
        [job] = cycle.claimed or await world.claim(session)
        ran.append(job.id)
    assert set(ran) == {*ordered, *free}
    assert [id for id in ran if id in ordered] == ordered


async def test_an_ordered_job_that_waits_for_a_limit_keeps_its_followers_waiting(
    world: World,
) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit(world, "a")
    first = await submit(world, "a", more={"ordering_key": "o"})
    second = await submit(world, None, more={"ordering_key": "o"})
    await world.look()
    [job] = await world.claim(session)
    assert await waits_for(world, first) == "key:a"
    await world.look()
    await world.store.admission.walk(world.partition, ("", ""), limit=100)
    assert (await world.get(second)).reason == "order"
    [following] = (await trip(world, session, job)).claimed
    assert following.id == first
    assert ids((await trip(world, session, following)).claimed) == [second]


async def test_jobs_of_a_round_robin_queue_keep_their_turns_under_a_limit(world: World) -> None:
    await limit(world, "queue:default", concurrency=1)
    session = await world.open_session()
    await world.store.queues.configure("default", strategy=Strategy.ROUND_ROBIN)
    for customer in "ab":
        for _ in range(3):
            await submit(world, None, more={"fair_key": customer})
    await world.look()
    ran = []
    while claimed := await world.claim(session):
        [job] = claimed
        ran.append(job.facts.fair_key)
        await world.end(session, job)
    assert ran == ["a", "b"] * 3


async def test_steps_of_a_workflow_pass_the_gates_like_others(world: World) -> None:
    await limit(world, "kind:echo", concurrency=1)
    drawing = await draw(world)
    await drawing.submit(
        drawing.step("one"), drawing.step("two"), drawing.step("last", "one", "two")
    )
    ran: list[str] = []
    while names := await drawing.claim():
        [name] = names
        ran.append(name)
        await drawing.end(name, gates=drawing.claimed[name].gates)
        await drawing.settle()
    assert ran == ["one", "two", "last"]
    assert await use(world, "kind:echo") == (0, 0)


async def test_steps_with_a_key_wait_for_it(world: World) -> None:
    """Where keys are all that limits are about, and the end of a step concerns its workflow as well."""
    await limit(world, "key:a", concurrency=1)
    drawing = await draw(world)
    steps = [drawing.step(name) for name in ("one", "two")]
    keyed = [_with_key(step, "a") for step in steps]
    await drawing.submit(*keyed, drawing.step("last", "one", "two"))
    ran: list[str] = []
    while names := await drawing.claim():
        [name] = names
        ran.append(name)
        await drawing.end(name, gates=drawing.claimed[name].gates)
        await drawing.settle()
    assert ran == ["one", "two", "last"]


def _with_key(step: NewStep, key: str) -> NewStep:
    replace = msgspec.structs.replace
    more = step.job.more
    assert more is not None and more.extras is not None
    more = replace(more, extras=replace(more.extras, limit_key=key))
    return replace(step, job=replace(step.job, more=more))


@asynccontextmanager
async def _ended_in_a_transaction(
    world: World, session: SessionId, job: ClaimedJob
) -> AsyncIterator[tuple[Work, Cycle]]:
    """As a job with a transaction of its own ends in it; not committed yet."""
    transactions = make_transactions(Settings(store=world.place.settings), clock=world.clock)
    work = await transactions.begin(waits=True)
    partition = partition_of(job.id, work.partitions)

    async def finish(jobs: Jobs) -> Cycle:
        done = world.outcome(job, End.SUCCEED)
        return await jobs.finish_and_claim(partition, session, outcomes=[done])

    try:
        yield work, await work.ask(finish)
    finally:
        await transactions.close()


async def test_the_end_in_a_transaction_of_the_job_lets_the_next_one_go_on(world: World) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    _, second = await submit_many(world, 2, "a")
    [job] = await world.claim(session)
    assert await world.claim(session) == []
    async with _ended_in_a_transaction(world, session, job) as (work, cycle):
        await work.commit()
    assert cycle.refused == []
    assert [one.state for one in cycle.admitted] == [JobState.READY]
    assert ids(await world.claim(session)) == [second]


async def test_a_transaction_that_is_rolled_back_gives_nothing_back(world: World) -> None:
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit_many(world, 2, "a")
    [job] = await world.claim(session)
    assert await world.claim(session) == []
    async with _ended_in_a_transaction(world, session, job) as (work, _):
        await work.roll_back()
    assert await use(world, "key:a") == (1, 1)
    assert await world.claim(session) == []


async def test_what_is_set_and_deleted_is_written_down(world: World) -> None:
    ann, bob = Author(world.ids, "ann"), Author(world.ids, "bob")
    wanted = limit_of("queue:mail", concurrency=3, rate="10/minute", note="the contract")
    assert await set_limit(world.store, wanted, by=ann)
    assert not await set_limit(world.store, wanted, by=bob)
    assert await delete_limit(world.store, "queue:mail", by=bob)
    assert not await delete_limit(world.store, "queue:mail", by=ann)
    found = [(e.actor, e.action, e.target, e.detail) for e in await world.store.audit.list()]
    told = {"concurrency": 3, "rate": "10/minute", "burst": 1, "note": "the contract"}
    assert sorted(found) == [
        ("ann", "set limit", "queue:mail", told),
        ("bob", "delete limit", "queue:mail", {}),
    ]


async def test_keys_that_nobody_uses_are_forgotten_and_those_in_use_are_not(world: World) -> None:
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session(lease=100_000)
    await submit(world, "idle")
    [job] = await world.claim(session)
    await world.end(session, job)
    await submit(world, "busy")
    await world.claim(session)
    assert await world.store.limits.prune(limit=100) == 0
    world.clock.advance(3 * 3600)
    assert await world.store.limits.prune(limit=100) == 1
    assert await use(world, "key:busy") == (1, 0)


async def test_keys_are_forgotten_a_few_at_a_time(world: World) -> None:
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session(lease=100_000)
    for key in "abcde":
        await submit(world, key)
    for job in await world.claim(session):
        await world.end(session, job)
    world.clock.advance(3 * 3600)
    assert await world.store.limits.prune(limit=2) == 5


async def test_looks_go_from_limit_to_limit_a_few_at_a_time(world: World) -> None:
    await limit(world, "key:*", concurrency=1)
    session = await world.open_session()
    for key in "edcba":
        await submit_many(world, 2, key)
    running = await world.claim(session)
    await world.finish(
        session,
        *(msgspec.structs.replace(world.outcome(job, End.SUCCEED), gates=()) for job in running),
    )
    after: str | None = ""
    admitted = []
    while after is not None:
        tended = await world.store.limits.tend(world.partition, after, limit=2)
        admitted.append(len(tended.admitted))
        after = tended.after
    assert admitted == [2, 2, 1]
    assert len(await world.claim(session)) == 5


SLOTS = {"queue:default": 5, "kind:odd": 2, "key:*": 1}


@pytest.mark.parametrize("names", [["key:*"], ["key:*", "kind:odd"], list(SLOTS)])
async def test_many_who_claim_finish_change_and_look_at_once_never_overspend(
    world: World, names: list[str]
) -> None:
    """Every transaction that could let somebody in, at the same moment, again and again."""
    rules = {name: limit_of(name, concurrency=SLOTS[name]) for name in names}
    for one in rules.values():
        await set_limit(world.store, one)
    stores = [world.store, *[await world.another_store() for _ in range(2)]]
    sessions = [await world.open_session(lease=10_000) for _ in stores]
    chance = random.Random(3)
    total = 60
    for number in range(total):
        await submit(
            world, "abc"[number % 3] if number % 4 else None, kind=chance.choice(["echo", "odd"])
        )
    running: list[list[ClaimedJob]] = [[] for _ in stores]

    async def work(who: int) -> None:
        some = running[who]
        count = min(len(some), chance.randrange(4))
        done = [some.pop(chance.randrange(len(some))) for _ in range(count)]
        ends = [chance.choice([End.SUCCEED] * 5 + [End.RETRY, End.RELEASE]) for _ in done]
        told = [world.outcome(job, end) for job, end in zip(done, ends, strict=True)]
        cycle = await stores[who].jobs.finish_and_claim(
            world.partition,
            sessions[who],
            outcomes=[msgspec.structs.replace(outcome, delay=0.0) for outcome in told],
            shares=[Share(lane_of("default"), 10)],
            room=chance.choice([0, 3, 10]),
        )
        assert cycle.refused == []
        running[who] += cycle.claimed

    async def change(name: str) -> None:
        await set_limit(stores[1], msgspec.structs.replace(rules[name], note=f"{chance.random()}"))

    for _ in range(400):
        acts: list[Awaitable[object]] = [work(who) for who in range(len(stores))]
        acts += [store.limits.tend(world.partition, "", limit=50) for store in stores[:2]]
        if chance.random() < 0.2:
            acts.append(change(chance.choice(names)))
        await asyncio.gather(*acts)
        await world.admit()
        _check([job for some in running for job in some], names)
        if (await world.count()).get(JobState.SUCCEEDED) == total:
            break
    assert await world.count() == {JobState.SUCCEEDED: total}


def _check(running: list[ClaimedJob], names: list[str]) -> None:
    keys = Counter(job.facts.extras.limit_key for job in running)
    keys.pop(None, None)
    assert max(keys.values(), default=0) <= SLOTS["key:*"]
    if "kind:odd" in names:
        assert sum(job.kind == "odd" for job in running) <= SLOTS["kind:odd"]
    if "queue:default" in names:
        assert len(running) <= SLOTS["queue:default"]


async def test_a_limit_is_one_for_all_partitions(world: World) -> None:
    await limit(world, "queue:default", concurrency=2)
    session = await world.open_session()
    places = sorted({0, world.partition, world.store.partitions - 1})
    for place in places:
        await world.store.jobs.submit(place, [world.new_job(place) for _ in range(3)])
    claimed: list[ClaimedJob] = []
    for place in places:
        cycle = await world.store.jobs.finish_and_claim(
            place, session, shares=[Share(lane_of("default"), 9)], room=9
        )
        claimed += cycle.claimed
    assert len(claimed) == 2
    assert await use(world, "queue:default") == (2, 3 * len(places) - 2)
    assert (await world.store.jobs.peek()).limited == set(places)
    for job in claimed:
        place = partition_of(job.id, world.store.partitions)
        cycle = await world.store.jobs.finish_and_claim(
            place, session, outcomes=[world.outcome(job, End.SUCCEED)]
        )
    assert (await use(world, "queue:default"))[0] == 0


async def test_who_waited_for_a_queue_is_asked_for_its_key_by_what_is_used_of_that(
    world: World,
) -> None:
    await limit(world, "queue:default", concurrency=3)
    await limit(world, "key:a", concurrency=1)
    session = await world.open_session()
    await submit_many(world, 3)
    one, *_ = await world.claim(session)
    waiting = await submit(world, "a")
    assert await world.claim(session) == []
    assert await waits_for(world, waiting) == "queue:default"
    assert ids((await trip(world, session, one)).claimed) == [waiting]
