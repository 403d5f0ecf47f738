"""Strategies: in which order the jobs of a queue are claimed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import psycopg
import pytest

from foliot.ids import JobId
from foliot.model.job import End, JobState, More
from foliot.model.lane import Strategy, strategy_of
from support.stores import World

pytestmark = pytest.mark.anyio


async def _drain(world: World, session: str, batch: int = 1000) -> list[JobId]:
    ids: list[JobId] = []
    while jobs := await world.claim(session, batch):  # type: ignore[arg-type]  # an id is a string
        ids += [job.id for job in jobs]
    return ids


async def _fair(world: World, key: str | None, count: int = 1, **fields: Any) -> list[JobId]:
    more = None if key is None else More(fair_key=key)
    return await world.submit_many(count, more=more, **fields)


async def _round_robin(world: World, **weights: float) -> None:
    await world.store.queues.configure(
        "default", strategy=Strategy.ROUND_ROBIN, weights=weights, by="me"
    )


async def test_by_priority_unless_said_otherwise(world: World) -> None:
    session = await world.open_session()
    low, high = [await world.submit(priority=priority) for priority in (3, 1)]
    assert await _drain(world, session) == [high, low]


async def test_fifo_knows_no_priority(world: World) -> None:
    session = await world.open_session()
    await world.store.queues.configure("default", strategy=Strategy.FIFO)
    ids = [await world.submit(priority=priority) for priority in (3, 1, 2)]
    assert await _drain(world, session) == ids


async def test_aged_lets_a_low_priority_pass_when_it_has_waited_long_enough(world: World) -> None:
    session = await world.open_session()
    await world.store.queues.configure("default", strategy=Strategy.AGED, aging=10)
    old = await world.submit(priority=3)
    world.clock.advance(15)
    soon = await world.submit(priority=1)
    world.clock.advance(10)
    late = await world.submit(priority=1)
    assert await _drain(world, session) == [soon, old, late]


async def test_a_change_of_strategy_leaves_what_is_there_in_its_order(world: World) -> None:
    session = await world.open_session()
    before = [await world.submit(priority=priority) for priority in (3, 1)]
    assert await world.store.queues.configure("default", strategy=Strategy.FIFO, by="me")
    assert not await world.store.queues.configure("default", strategy=Strategy.FIFO, by="you")
    after = [await world.submit(priority=priority) for priority in (3, 1)]
    lanes = [lane.number for _, lane in (await world.store.jobs.peek()).ready]
    assert {strategy_of(lane) for lane in lanes} == {Strategy.PRIORITY, Strategy.FIFO}
    ran = await _drain(world, session)
    assert [id for id in ran if id in before] == before[::-1]
    assert [id for id in ran if id in after] == after
    [queue] = await world.store.queues.all()
    assert (queue.strategy, queue.updated_by) == (Strategy.FIFO, "me")


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_paused_queue_gives_nothing_whatever_its_strategy(
    world: World, strategy: Strategy
) -> None:
    session = await world.open_session()
    await world.store.queues.configure("default", strategy=strategy, by="you")
    id = await world.submit()
    await world.look()
    await world.store.queues.pause("default", by="me", note="the printer is on fire")
    assert await world.claim(session) == []
    [queue] = await world.store.queues.all()
    assert (queue.paused_by, queue.note) == ("me", "the printer is on fire")
    assert queue.strategy is strategy
    await world.store.queues.resume("default")
    assert await _drain(world, session) == [id]
    [queue] = await world.store.queues.all()
    assert (queue.paused_at, queue.updated_by) == (None, "you")


async def test_round_robin_serves_fair_keys_in_turn(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world)
    a, b = [await _fair(world, key, 3) for key in "ab"]
    c = await _fair(world, None, 2)
    await world.look()
    ran = await _drain(world, session)
    assert [{*ran[:3]}, {*ran[3:6]}, {*ran[6:]}] == [
        {a[0], b[0], c[0]},
        {a[1], b[1], c[1]},
        {a[2], b[2]},
    ]


async def test_a_key_of_weight_three_has_three_of_four_turns(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world, vip=3)
    vip = set(await _fair(world, "vip", 60))
    await _fair(world, "other", 60)
    await world.look()
    ran = await _drain(world, session, 1)
    assert [sum(id in vip for id in ran[n : n + 4]) for n in range(0, 80, 4)] == [3] * 20


async def test_a_key_that_comes_late_begins_where_the_lane_is(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world)
    heavy = await _fair(world, "heavy", 100)
    await world.look()
    assert [job.id for job in await world.claim(session, 50)] == heavy[:50]
    late = await _fair(world, "late", 100)
    await world.look()
    ran = [job.id for job in await world.claim(session, 20)]
    assert abs(sum(id in late for id in ran) - 10) <= 1


async def test_a_key_that_was_served_when_nobody_else_was_there_pays_nothing_for_it(
    world: World,
) -> None:
    session = await world.open_session()
    await _round_robin(world)
    await _fair(world, "early", 50)
    await world.look()
    assert len(await _drain(world, session)) == 50
    early, late = [await _fair(world, key, 10) for key in ("early", "late")]
    await world.look()
    ran = await _drain(world, session)
    assert all(len({*ran[n : n + 2]} & {*early}) == 1 for n in range(0, 20, 2))
    assert {*ran} == {*early, *late}


async def test_a_retry_keeps_its_turn_and_pulls_nobody_along(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world)
    heavy = await _fair(world, "heavy", 60)
    await world.look()
    failed, *_ = await world.claim(session, 30)
    await world.end(session, failed, End.RETRY, delay=1)
    world.clock.advance(1)
    await _fair(world, "other")
    await world.look()  # the lane has come this far
    await world.admit()
    new = await _fair(world, "new", 30)
    await world.look()
    ran = await _drain(world, session, 1)
    assert ran[0] == failed.id
    # Without the lane's head, all of the new key would run before what was there already.
    assert sum(id in new for id in ran[:20]) <= 11
    assert sum(id in heavy for id in ran[:20]) >= 8


async def test_a_job_for_later_gets_its_turn_when_it_is_due(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world)
    [later] = await _fair(world, "a", run_at=world.after(60))
    assert await world.state(later) is JobState.SCHEDULED
    world.clock.advance(60)
    await world.admit()
    job = await world.get(later)
    assert (job.state, job.reason) == (JobState.HELD, "turn")
    await world.look()
    assert await _drain(world, session) == [later]


async def test_places_of_keys_that_are_not_ahead_are_forgotten(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world)
    for key in "abc":
        await _fair(world, key, 3)
    await world.look()
    await _drain(world, session)
    await _fair(world, "d", 2)
    await world.look()
    assert _count(world, "fair") == 4
    await world.store.upkeep.prune(keep=3600, limit=100)
    assert _count(world, "fair") == 1
    a = await _fair(world, "a", 2)
    await world.look()
    assert len({*(await _drain(world, session))[:3]} & {*a}) == 1


def _count(world: World, table: str) -> int:
    if world.place.engine == "sqlite":
        with closing(sqlite3.connect(world.place.direct.removeprefix("sqlite:///"))) as file:
            return int(file.execute(f"SELECT count(*) FROM foliot_{table}").fetchone()[0])
    with psycopg.connect(world.place.direct) as link:
        return link.execute(f"SELECT FROM foliot.{table}").rowcount


async def test_two_who_give_turns_at_once_give_each_place_once(world: World) -> None:
    session = await world.open_session()
    await _round_robin(world)
    for key in "abcde":
        await _fair(world, key, 20)
    other = await world.another_store()
    for _ in range(10):
        for store in (world.store, other):
            await store.admission.look(world.partition, limit=7)
    await world.look()
    keys = Counter(job.facts.fair_key for job in await world.claim(session, 50))
    assert keys == dict.fromkeys("abcde", 10)


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_no_light_key_waits_for_more_than_two_rounds(world: World) -> None:
    """One key with 100,000 jobs, submitted and given its turns first, and 999 keys with ten."""
    session = await world.open_session(lease=1e6)
    await _round_robin(world)
    for _ in range(100):
        await _fair(world, "heavy", 1000)
    await world.look()
    await world.claim(session, 300)
    light, each = 999, 10
    for key in range(light):
        await _fair(world, f"light{key}", each)
    await world.look()
    served: Counter[str] = Counter()
    position = 0
    while served.total() - served["heavy"] < light * each:
        for job in await world.claim(session, 500):
            name = job.facts.fair_key or ""
            served[name] += 1
            position += 1
            if name != "heavy":
                assert position <= (served[name] + 1) * (light + 1)
    assert served["heavy"] <= each + 1


@pytest.mark.parametrize(
    "light", [50, 130], ids=["keys of one look", "more keys than a look takes"]
)
async def test_no_light_key_waits_for_more_than_two_rounds_while_turns_are_given(
    world: World, light: int
) -> None:
    """One key with 2,000 jobs, submitted first, and many with three; workers claim between looks at a hundred."""
    session = await world.open_session(lease=1e6)
    await _round_robin(world)
    await _fair(world, "heavy", 2000)
    each = 3
    for key in range(light):
        await _fair(world, f"light{key}", each)
    served: Counter[str] = Counter()
    position = 0
    while served.total() - served["heavy"] < light * each:
        await world.store.admission.look(world.partition, limit=100)
        for job in await world.claim(session, 10):
            name = job.facts.fair_key or ""
            served[name] += 1
            position += 1
            if name != "heavy":
                assert position <= (served[name] + 1) * (light + 1)
    assert served["heavy"] <= each + 1 + 10  # the last claim is filled up


async def test_turns_are_given_to_all_when_there_are_more_keys_than_a_look_takes(
    world: World,
) -> None:
    session = await world.open_session()
    await _round_robin(world)
    ids = [id for key in range(25) for id in await _fair(world, f"key{key}", 3)]
    ids += await _fair(world, None, 3)
    assert len(await world.look(limit=4)) == len(ids)
    assert {*(await _drain(world, session))} == {*ids}
