"""Roll-ups in the store: each batch is added once, no two processes write to one row, and putting minutes together
changes nothing that anybody can see."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import psycopg
import pytest

from foliot.config import RetentionSettings, Settings
from foliot.model.rollup import Ended, Histogram, Key, Rollup, Sum, merge
from foliot.scheduler.duty import Office
from foliot.scheduler.partitions import AllPartitions
from foliot.scheduler.prune import Prune
from foliot.store.rollups import TOGETHER
from support.stores import World

pytestmark = pytest.mark.anyio

DAY = 86_400.0
KEY = Key("default", "mail", "send", Ended.SUCCEEDED)


def rollup(
    minute: int,
    count: int = 1,
    *,
    key: Key = KEY,
    seconds: int = 1,
    waits: Histogram | None = None,
    runs: Histogram | None = None,
) -> Rollup:
    return Rollup(minute, key, count, seconds, waits or {3: count}, runs or {7: count})


def this_minute(world: World) -> int:
    return int(world.clock.now().timestamp()) // 60 * 60


async def everything(world: World) -> list[Rollup]:
    return merge(await world.store.rollups.read(0, 1 << 40))


def writers(world: World) -> list[str]:
    """Of each row, who wrote it."""
    return [row[0] for row in rows(world, "SELECT writer FROM {}rollups ORDER BY writer")]


def rows(world: World, statement: str) -> list[tuple[Any, ...]]:
    if world.place.engine == "sqlite":
        connection = sqlite3.connect(world.place.settings.url.removeprefix("sqlite:///"))
        try:
            return connection.execute(statement.format("foliot_")).fetchall()
        finally:
            connection.close()
    with psycopg.connect(world.place.direct) as link:
        found = link.execute(statement.format("foliot.").encode()).fetchall()
    return [tuple(str(value) for value in row) for row in found]


async def test_what_is_written_is_read_as_it_was(world: World) -> None:
    minute = this_minute(world)
    said = [
        rollup(minute, 5, seconds=(1 << 60) - 1, waits={0: 4, 110: 1}, runs={12: 5}),
        rollup(minute, 2, key=Key('a "b" \\ {c}', "ünï:x", "k.v-1", Ended.INTERRUPTED)),
        rollup(minute - 60, 10**12, key=Key("default", "mail", "send", Ended.DEAD)),
    ]
    await world.store.rollups.write(world.ids.session(), 1, said)
    assert await everything(world) == merge(said)


async def test_batches_of_one_process_add_up_in_one_row(world: World) -> None:
    minute, writer = this_minute(world), world.ids.session()
    await world.store.rollups.write(writer, 1, [rollup(minute, 2, seconds=1, waits={1: 2})])
    more = rollup(minute, 3, seconds=2, waits={1: 1, 2: 2}, runs={9: 3})
    await world.store.rollups.write(writer, 2, [more])
    assert await world.store.rollups.read(minute, minute + 60) == [
        rollup(minute, 5, seconds=3, waits={1: 3, 2: 2}, runs={7: 2, 9: 3})
    ]
    assert writers(world) == [writer]


async def test_a_batch_that_is_sent_again_is_not_added_again(world: World) -> None:
    minute, writer = this_minute(world), world.ids.session()
    for batch in (1, 1, 2, 2, 1):
        await world.store.rollups.write(writer, batch, [rollup(minute)])
    assert [one.count for one in await everything(world)] == [2]


async def test_also_not_after_its_minute_has_been_put_together(world: World) -> None:
    minute, writer = this_minute(world), world.ids.session()
    await world.store.rollups.write(writer, 1, [rollup(minute)])
    world.clock.advance(600)
    assert await world.store.rollups.compact(age=180, limit=100) == 1
    await world.store.rollups.write(writer, 1, [rollup(minute)])
    assert [one.count for one in await everything(world)] == [1]
    await world.store.rollups.write(writer, 2, [rollup(minute, 4)])
    await world.store.rollups.compact(age=180, limit=100)
    assert [one.count for one in await everything(world)] == [5], "what comes late counts too"
    assert writers(world) == [TOGETHER]


async def test_two_processes_never_write_to_one_row(world: World) -> None:
    minute, some = this_minute(world), sorted(world.ids.session() for _ in range(3))
    for writer in some:
        await world.store.rollups.write(writer, 1, [rollup(minute, seconds=2)])
    assert writers(world) == some
    assert await everything(world) == [
        rollup(minute, 3, seconds=2, waits={3: 3}, runs={7: 3}),
    ]


async def test_only_the_minutes_and_names_that_are_asked_for_are_read(world: World) -> None:
    minute = this_minute(world)
    keys = [
        Key(namespace, queue, kind, Ended.SUCCEEDED)
        for namespace in ("a", "b")
        for queue in ("x", "y")
        for kind in ("k", "l")
    ]
    said = [rollup(minute + 60 * n, key=key) for key in keys for n in range(3)]
    await world.store.rollups.write(world.ids.session(), 1, said)
    read = world.store.rollups.read
    found = await read(minute + 60, minute + 120, namespace="a", queue="y", kind="l")
    assert [(one.minute, one.key) for one in found] == [
        (minute + 60, Key("a", "y", "l", Ended.SUCCEEDED))
    ]
    assert len(await read(minute + 60, minute + 120)) == 8
    assert len(await read(minute, minute + 180, queue="x")) == 12
    assert await read(minute + 180, minute + 1000) == []


async def test_minutes_are_put_together_when_they_are_over_and_not_before(world: World) -> None:
    minute = this_minute(world)
    said = [rollup(minute - 60 * n, n + 1) for n in range(8)]
    for number in range(3):
        await world.store.rollups.write(world.ids.session(), 1, said)
        assert len(writers(world)) == 8 * (number + 1)
    before = await everything(world)
    assert await world.store.rollups.compact(age=180, limit=4) == 15
    assert await everything(world) == before
    assert writers(world).count(TOGETHER) == 5
    assert len(writers(world)) == 5 + 3 * 3
    assert await world.store.rollups.compact(age=180, limit=4) == 0


async def test_steps_of_a_minute_are_put_together_as_one(world: World) -> None:
    minute = this_minute(world) - 600
    steps = [rollup(minute + start, 2, seconds=0b11 << start) for start in range(0, 60, 10)]
    await world.store.rollups.write(world.ids.session(), 1, steps)
    assert len(writers(world)) == 6
    assert await world.store.rollups.compact(age=180, limit=100) == 6
    [whole] = await world.store.rollups.read(minute, minute + 60)
    assert (whole.minute, whole.count) == (minute, 12)
    assert whole.seconds == sum(0b11 << start for start in range(0, 60, 10))


async def test_what_ended_of_a_queue_is_one_row_for_each_step_whoever_counted_it(
    world: World,
) -> None:
    """A fleet of forty processes and ten kinds writes hundreds of rows in every step."""
    minute = this_minute(world) - 240
    keys = [
        Key(namespace, queue, kind, outcome)
        for namespace in ("default", "other")
        for queue in ("mail", "reports")
        for kind in ("send", "fetch")
        for outcome in (Ended.SUCCEEDED, Ended.DEAD)
    ]
    for number in range(3):
        said = [
            rollup(minute + start, 2, key=key, seconds=1 << start + number, waits={number: 1, 9: 1})
            for start in (0, 10, 60)
            for key in keys
        ]
        await world.store.rollups.write(world.ids.session(), 1, said)
    waits = {0: 8, 1: 8, 2: 8, 9: 24}
    steps = [Sum(minute + start, 48, 0b111 << start, waits, {7: 48}) for start in (0, 10, 60)]
    read = world.store.rollups.sums
    assert await read(minute, minute + 120, queue="mail") == steps
    assert await read(minute, minute + 60, queue="mail") == steps[:2]
    assert await read(minute, minute + 120, queue="none") == []
    assert steps[1].ends == [minute + 10, minute + 11, minute + 12]
    await world.store.rollups.compact(age=180, limit=100)
    twice = {bucket: 2 * count for bucket, count in waits.items()}
    together = Sum(minute, 96, 0b111 | 0b111 << 10, twice, {7: 96})
    assert await read(minute, minute + 120, queue="mail") == [together, steps[2]]


async def test_putting_together_beside_writers_loses_and_doubles_nothing(world: World) -> None:
    """Of minutes that are still being written to, by two at once."""
    minute = this_minute(world)
    keys = [Key("default", "mail", kind, Ended.SUCCEEDED) for kind in "abc"]
    other = await world.another_store()
    rounds = 25

    async def write(store: Any) -> None:
        writer = world.ids.session()
        for batch in range(1, rounds + 1):
            for _ in range(2):  # as after a reply that was lost
                await store.rollups.write(
                    writer, batch, [rollup(minute - 60 * (batch % 2), key=key) for key in keys]
                )

    done = False

    async def put_together(store: Any) -> None:
        while not done:
            await store.rollups.compact(age=0, limit=2)

    tending = [asyncio.create_task(put_together(store)) for store in (world.store, other)]
    await asyncio.gather(*(write(store) for store in (world.store, other, other)))
    done = True
    await asyncio.gather(*tending)
    await world.store.rollups.compact(age=0, limit=100)
    found = await everything(world)
    assert set(writers(world)) == {TOGETHER}
    assert sum(one.count for one in found) == 3 * rounds * len(keys)
    assert len(found) == 2 * len(keys)
    for one in found:
        assert one.waits == {3: one.count} and one.runs == {7: one.count}


async def test_old_minutes_are_forgotten_in_batches(world: World) -> None:
    minute = this_minute(world)
    said = [rollup(minute - 60 * n) for n in range(10)]
    await world.store.rollups.write(world.ids.session(), 1, said)
    world.clock.advance(DAY - 300)
    assert await world.store.rollups.prune(keep=DAY, limit=2) == 4
    assert await world.store.rollups.prune(keep=DAY, limit=2) == 0
    assert [one.minute for one in await everything(world)] == [
        minute - 60 * n for n in range(5, -1, -1)
    ]
    assert await world.store.rollups.prune(keep=None, limit=2) == 0


async def test_writers_are_forgotten_when_they_are_silent_for_a_day(world: World) -> None:
    minute, silent, busy = this_minute(world), world.ids.session(), world.ids.session()
    await world.store.rollups.write(silent, 1, [rollup(minute)])
    world.clock.advance(DAY - 10)
    await world.store.rollups.write(busy, 1, [rollup(minute)])
    await world.store.rollups.prune(keep=None, limit=100)
    assert len(rows(world, "SELECT writer FROM {}rollup_writers")) == 2
    world.clock.advance(20)
    await world.store.rollups.prune(keep=None, limit=100)
    assert rows(world, "SELECT writer FROM {}rollup_writers") == [(busy,)]


async def test_the_duty_that_prunes_puts_minutes_together_and_forgets_old_ones(
    world: World,
) -> None:
    minute = this_minute(world)
    for _ in range(2):
        said = [rollup(minute - 60 * n) for n in (0, 10, 3 * 1440)]
        await world.store.rollups.write(world.ids.session(), 1, said)
    settings = Settings(retention=RetentionSettings(rollups=2 * DAY))
    session = await world.open_session(duties=True)
    partitions = AllPartitions(
        world.store, session, clock=world.clock, ids=world.ids, term=settings.scheduler.term
    )
    prune = Prune(Office(world.store, partitions, world.clock, world.ids, settings))
    await prune.tick()
    assert [(one.minute, one.count) for one in await everything(world)] == [
        (minute - 600, 2),
        (minute, 2),
    ]
    assert writers(world).count(TOGETHER) == 1
    assert len(writers(world)) == 3, "this minute is not over"
