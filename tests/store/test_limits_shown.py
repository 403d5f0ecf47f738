"""What is shown of limits: what runs and who waits, in a few questions however many limits there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foliot.explain_commands import explain_job
from foliot.limit_commands import list_limits
from foliot.store.postgres.connection import Connections
from foliot.testing.clock import ManualClock
from support.limits import limit, standing, submit, submit_many, trip, use
from support.stores import Databases, World, open_world, postgres_place

pytestmark = pytest.mark.anyio


async def _shown(world: World) -> dict[str, tuple[int, int]]:
    return {one.limit.name: (one.used, one.waiting) for one in await list_limits(world.store)}


@pytest.mark.parametrize("name", ["queue:default", "key:a", "key:*"])
async def test_what_a_lost_worker_ran_is_no_use_although_nobody_waits(
    world: World, name: str
) -> None:
    await limit(world, name, concurrency=3)
    session = await world.open_session()
    await submit_many(world, 2, "a")
    assert len(await world.claim(session)) == 2
    assert await _shown(world) == {name: (2, 0)}
    world.expire()
    await world.reap(session)
    assert await _shown(world) == {name: (0, 0)}
    assert (await standing(world, name)).keys == []
    gate = name.replace("*", "a")
    assert (await standing(world, gate)).used == 0


async def test_each_limit_shows_those_who_wait_for_it(world: World) -> None:
    for name in ("queue:default", "key:*", "key:b:*", "kind:other"):
        await limit(world, name, concurrency=1)
    session = await world.open_session()
    await submit(world, "b:1", queue="one")
    await submit_many(world, 2, "b:1", queue="one")
    await submit_many(world, 3, "b:2", queue="one")
    await submit_many(world, 4, "a", queue="one")
    await submit_many(world, 5)
    assert len((await trip(world, session, queues=["default", "one"])).claimed) == 4
    assert await _shown(world) == {
        "key:*": (1, 3),
        "key:b:*": (2, 4),
        "kind:other": (0, 0),
        "queue:default": (1, 4),
    }
    found = await standing(world, "key:b:*")
    assert [(key.name, key.used) for key in found.keys] == [("key:b:1", 1), ("key:b:2", 1)]
    assert await use(world, "key:b:2") == (1, 2)


async def test_of_a_rate_is_shown_what_is_left_and_when_the_next_may_start(world: World) -> None:
    await limit(world, "key:a", rate="60/minute", burst=3)
    await limit(world, "queue:slow", concurrency=1)
    session = await world.open_session()

    async def left() -> list[tuple[float | None, float | None]]:
        return [(one.tokens, one.wait) for one in await list_limits(world.store)]

    assert await left() == [(3, 0), (None, None)]
    jobs = await submit_many(world, 2, "a")
    assert len(await world.claim(session)) == len(jobs)
    [(tokens, wait), _] = await left()
    assert tokens == pytest.approx(1, abs=0.9)
    assert wait == 0
    await submit_many(world, 9, "a")
    await world.claim(session)
    [(tokens, wait), _] = await left()
    assert tokens is not None and tokens < 1
    assert wait == pytest.approx(1 - tokens, abs=1e-6)
    assert (await standing(world, "key:a")).tokens == pytest.approx(tokens, abs=0.9)


async def test_of_a_rate_for_many_keys_it_is_shown_of_each(world: World) -> None:
    await limit(world, "key:*", rate="1/hour", burst=2)
    session = await world.open_session()
    for key, many in (("a", 3), ("b", 1)):
        for _ in range(many):
            await submit(world, key)
    done = await world.claim(session)
    for job in done:
        await world.end(session, job)
    await submit(world, "c")
    await world.claim(session)
    [found] = await list_limits(world.store)
    assert (found.tokens, found.wait) == (None, None)
    a, c = sorted(found.keys, key=lambda key: key.name)
    assert (a.name, a.used) == ("key:a", 0), "nobody runs, and one waits"
    assert a.tokens == pytest.approx(0, abs=0.1)
    assert a.wait == pytest.approx(3600, abs=360)
    assert (c.name, c.used, c.wait) == ("key:c", 1, 0)
    assert c.tokens == pytest.approx(1, abs=0.1)


async def test_those_who_wait_are_counted_up_to_a_number(world: World) -> None:
    await limit(world, "key:*", concurrency=0)
    await submit_many(world, 3, "a")
    await submit_many(world, 3, "b")
    await world.claim(await world.open_session())
    [all_], [some] = [await world.store.limits.all(most=most) for most in (7, 5)]
    assert (all_.waiting, all_.at_least) == (6, False)
    assert (some.waiting, some.at_least) == (5, True)


async def test_who_waits_in_any_partition_is_counted(world: World) -> None:
    await limit(world, "key:*", concurrency=0)
    session = await world.open_session()
    last = world.partition
    for world.partition in {0, last}:
        await submit_many(world, 2, "a")
        await submit(world, "b")
        await world.claim(session)
    many = len({0, last})
    assert await _shown(world) == {"key:*": (0, 3 * many)}
    assert await use(world, "key:a") == (0, 2 * many)


async def test_gates_of_a_job_tell_how_many_they_have_let_in_and_who_began_first(
    world: World,
) -> None:
    for name in ("queue:default", "namespace:default", "kind:other"):
        await limit(world, name, concurrency=9)
    await limit(world, "key:*", concurrency=2, rate="60/minute", burst=2)
    await limit(world, "namespace:shop", concurrency=1000)
    session = await world.open_session()
    ids = []
    for namespace in ("default", "shop", "default"):
        ids.append(await submit(world, "a", namespace=namespace))
        await trip(world, session)
        world.clock.advance(0.001)
    await submit(world, "a")
    await world.claim(session)
    mine = ["queue:default", "kind:echo", "namespace:default", "key:a", "key@shop@a", "kind:other"]
    found = await world.store.limits.gates(mine, most=100, holders=2)
    assert {name: (one.used, one.holders, one.waiting) for name, one in found.items()} == {
        "queue:default": (3, ids[:2], 0),
        "namespace:default": (2, [ids[0], ids[2]], 0),
        "key:a": (2, [ids[0], ids[2]], 1),
        "key@shop@a": (1, [ids[1]], 0),
        "kind:other": (0, [], 0),
    }
    assert found["key@shop@a"].limit.name == "key:*"
    assert (found["key:a"].wait, found["key@shop@a"].wait) == (None, 0)
    [(name, other)] = (
        await world.store.limits.gates(["namespace:shop"], most=100, holders=0)
    ).items()
    assert (name, other.limit.concurrency) == ("namespace:shop", 1000), "counted or not"
    assert await world.store.limits.gates(["kind:none", "queue:none"], most=100, holders=2) == {}


async def test_what_runs_is_read_once_for_all_gates_of_a_job(
    databases: Databases, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read: Callable[..., Any] = Connections.read

    async def count(self: Connections, statement: Any, values: Any) -> Any:
        asked.append(statement.name)
        return await read(self, statement, values)

    async with (
        postgres_place(databases, partitions=1) as place,
        open_world(place, clock) as world,
    ):
        for name in ("queue:default", "kind:echo", "namespace:default", "key:*"):
            await limit(world, name, concurrency=1)
        id = await submit(world, "a")
        monkeypatch.setattr(Connections, "read", count)
        await explain_job(world.store, id)
        questions = ("list_limits", "list_holders", "count_running", "read_uses", "count_waiting")
        assert [asked.count(name) for name in questions] == [1, 1, 0, 1, 1]


async def test_the_questions_are_as_many_whatever_there_is(
    databases: Databases, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read: Callable[..., Any] = Connections.read

    async def count(self: Connections, statement: Any, values: Any) -> Any:
        if statement.name != "notify":  # that goes out whenever there is time for it
            asked.append(statement.name)
        return await read(self, statement, values)

    async with (
        postgres_place(databases, partitions=8) as place,
        open_world(place, clock) as world,
    ):
        await limit(world, "key:0", concurrency=0)
        monkeypatch.setattr(Connections, "read", count)
        await list_limits(world.store)
        few = list(asked)
        for number in range(20):
            await limit(world, f"key:{number}", concurrency=0, rate="1/second")
            await submit(world, f"{number}")
        await world.claim(await world.open_session())
        asked.clear()
        assert sum(one.waiting for one in await list_limits(world.store)) == 20
        assert asked == few


class _Ahead(ManualClock):
    """That of a process which is an hour before the store."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(hours=1)

    def now_for_store(self) -> None:
        return None


async def test_tokens_are_told_by_the_clock_that_counted_them(databases: Databases) -> None:
    async with (
        postgres_place(databases, partitions=1) as place,
        open_world(place, _Ahead()) as world,
    ):
        await limit(world, "key:a", rate="1/hour")
        await submit_many(world, 2, "a")
        assert len(await world.claim(await world.open_session())) == 1
        assert (await standing(world, "key:a")).wait == pytest.approx(3600, abs=60)
