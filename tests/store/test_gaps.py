"""Times at which nobody fired, or on which nothing is to fire: gaps, and what is made up for."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from foliot.ids import ScheduleId
from foliot.model.schedule import FOREVER, Misfire, ScheduleState
from foliot.store.scheduling import CatchUp, Fired, Jump
from support.schedules import TZDATA, Table
from support.stores import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def table(world: World) -> Table:
    return Table(world)


async def _missed(table: Table, ids: int = 1, **fields: object) -> list[ScheduleId]:
    """Schedules whose times of the minutes 1 to 4 nobody fired; it is a little later than 4."""
    made = await table.create_many(ids, **fields)
    table.world.clock.advance(4 * 60 + 30)
    assert await table.jump(4, next=5) == 1
    return made


async def test_a_late_trigger_jumps_and_what_it_passes_over_is_a_gap(
    world: World, table: Table
) -> None:
    [id] = await _missed(table)
    assert await table.due() == []
    found = await table.get(id)
    assert (found.next_at, found.fired_at) == (table.at(5), table.at(4))
    open_gap = await table.gap()
    gap = open_gap.gap
    assert (gap.start, gap.to, gap.count, gap.reason) == (table.at(1), table.at(4), 4, "missed")
    assert (gap.nominal, gap.cursor, gap.done) == (None, None, False)
    assert not open_gap.repeats
    assert open_gap.due is not None and (open_gap.due.count, open_gap.due.upper) == (1, None)
    assert (await world.store.jobs.peek()).missed == {table.partition}
    assert await world.store.schedules.gaps_of(
        table.partition, gap.trigger, start=table.at(4), to=table.at(9)
    ) == [gap]
    assert not await world.store.schedules.gaps_of(
        table.partition, gap.trigger, start=table.at(5), to=table.at(9)
    )
    await table.fire_at(5)
    assert await table.states(id, 1, 2, 3, 4, 5) == [None, None, None, None, "ready"]


async def test_a_jump_that_expects_another_position_does_nothing(
    world: World, table: Table
) -> None:
    await table.create_many(3)
    world.clock.advance(60)
    await table.fire(chunk=1)  # it has begun
    assert await table.jump(1, next=2) == 0
    trigger = table.trigger()
    wrong = Jump(trigger.id, table.at(2), table.at(2), 1, "missed", table.at(3))
    assert await world.store.schedules.jump(table.partition, [wrong], tzdata=TZDATA) == 0
    assert await world.store.schedules.gaps(table.partition, limit=10, chunk=10) == []


async def test_excluded_times_in_a_row_are_one_gap_and_nothing_to_catch_up_with(
    world: World, table: Table
) -> None:
    await table.create()
    for minute in (1, 2, 3):
        world.clock.advance(60)
        await table.jump(minute, next=minute + 1, reason="excluded")
    await table.fire_at(4)
    world.clock.advance(60)
    await table.jump(5, next=6, reason="excluded")
    gaps = await world.store.schedules.gaps_of(
        table.partition, table.trigger().id, start=table.at(0), to=table.at(9)
    )
    assert [(gap.start, gap.to, gap.count, gap.done) for gap in gaps] == [
        (table.at(1), table.at(3), 3, True),
        (table.at(5), table.at(5), 1, True),
    ]
    assert (await world.store.jobs.peek()).missed == frozenset()


async def test_missed_times_are_caught_up_with_by_the_rule_of_each_schedule(
    world: World, table: Table
) -> None:
    none = await table.create(misfire=Misfire.SKIP)
    latest = await table.create(misfire=Misfire.LATEST)
    every = await table.create(misfire=Misfire.ALL)
    await _missed(table)
    open_gap = await table.gap()
    assert open_gap.repeats
    for minute in (1, 2, 3, 4):
        gap = (await table.gap()).gap
        then = table.at(minute + 1)
        step = CatchUp(gap, nominal=table.at(minute), policy=Misfire.ALL, then=then)
        assert (await table.catch_up(step) or Fired()).jobs == 1
        assert await table.catch_up(step) is None  # somebody else was faster
    gap = (await table.gap()).gap
    assert gap.nominal == table.at(5)
    fired = await table.catch_up(CatchUp(gap, nominal=table.at(4), policy=Misfire.LATEST))
    assert fired is not None and fired.jobs == 2  # and the one that _missed made
    assert await world.store.schedules.gaps(table.partition, limit=10, chunk=10) == []
    assert await table.states(none, 1, 2, 3, 4) == [None] * 4
    assert await table.states(latest, 1, 2, 3, 4) == [None, None, None, "ready"]
    assert await table.states(every, 1, 2, 3, 4) == ["ready"] * 4


async def test_catching_up_goes_no_further_back_than_the_window(world: World, table: Table) -> None:
    [id] = await _missed(table, misfire=Misfire.ALL, misfire_window=100)
    for minute in (1, 2, 3, 4):
        gap = (await table.gap()).gap
        await table.catch_up(
            CatchUp(gap, nominal=table.at(minute), policy=Misfire.ALL, then=table.at(minute + 1))
        )
    assert await table.states(id, 1, 2, 3, 4) == [None, None, "ready", "ready"]


@pytest.mark.parametrize("stateful", [False, True])
async def test_catching_up_is_no_faster_than_its_rate(
    world: World, table: Table, stateful: bool
) -> None:
    limit = 9 if stateful else None
    [id] = await _missed(table, misfire=Misfire.ALL, catchup_rate=0.1, max_runs=limit)
    for place, minute in enumerate((1, 2, 3, 4)):
        gap = (await table.gap()).gap
        step = CatchUp(
            gap,
            stateful=stateful,
            nominal=table.at(minute),
            policy=Misfire.ALL,
            place=place,
            then=table.at(minute + 1),
        )
        assert (await table.catch_up(step) or Fired()).jobs == 1
    jobs = [await table.job(id, minute) for minute in (1, 2, 3, 4)]
    now = world.clock.now()
    assert [job and job.run_at for job in jobs] == [
        now + timedelta(seconds=10 * place) for place in range(4)
    ]


async def test_a_gap_of_many_schedules_is_caught_up_with_in_chunks(
    world: World, table: Table
) -> None:
    ids = await _missed(table, 5)
    after: ScheduleId | None = None
    for last in (False, False, True):
        found = await table.gap(chunk=2)
        assert found.due is not None
        assert (found.due.upper is None, found.gap.cursor) == (last, after)
        after = found.due.upper
        await table.catch_up(
            CatchUp(
                found.gap,
                nominal=table.at(4),
                upper=after,
                then=None if last else table.at(5),
                after=after,
            )
        )
    assert [await table.states(id, 4) for id in ids] == [["ready"]] * 5
    assert await world.store.schedules.gaps(table.partition, limit=10, chunk=10) == []


async def test_two_who_catch_up_with_the_same_do_it_once(world: World, table: Table) -> None:
    other = await world.another_store()
    ids = await _missed(table, 10)
    step = CatchUp((await table.gap()).gap, nominal=table.at(4))
    done = await asyncio.gather(
        *(
            store.schedules.catch_up(table.partition, [step])
            for store in (world.store, other, world.store, other)
        )
    )
    assert sorted(one.jobs for one in done) == [0, 0, 0, 10]
    assert [await table.states(id, 4) for id in ids] == [["ready"]] * 10


async def test_a_gap_of_a_trigger_that_is_gone_is_closed(world: World, table: Table) -> None:
    [id] = await _missed(table)
    await world.store.schedules.delete(table.partition, [id])
    await table.fire_at(5)
    found = await table.gap()
    assert found.due is None
    assert await table.catch_up(CatchUp(found.gap)) is not None
    assert (await world.store.jobs.peek()).missed == frozenset()


async def test_a_trigger_whose_last_time_was_missed_ends_when_that_is_caught_up_with(
    world: World, table: Table
) -> None:
    [id] = await table.create_many(1)
    world.clock.advance(4 * 60 + 30)
    [due] = await table.due()
    jump = Jump(due.id, due.nominal, table.at(4), 4, "missed", FOREVER)
    assert await world.store.schedules.jump(table.partition, [jump], tzdata=TZDATA) == 1
    assert (await table.get(id)).next_at is None
    assert await table.state(id) is ScheduleState.ACTIVE
    step = CatchUp((await table.gap()).gap, nominal=table.at(4), ends=True)
    assert (await table.catch_up(step) or Fired()).jobs == 1
    assert await table.state(id) is ScheduleState.ENDED
    assert await table.states(id, 4) == ["ready"]


async def test_a_paused_schedule_is_not_caught_up_with(world: World, table: Table) -> None:
    first, second = await _missed(table, 2)
    await world.store.schedules.pause(table.partition, [first])
    await table.catch_up(CatchUp((await table.gap()).gap, nominal=table.at(4)))
    assert await table.states(first, 4) == [None]
    assert await table.states(second, 4) == ["ready"]


async def test_what_was_written_down_long_ago_is_forgotten(world: World, table: Table) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])
    await _missed(table)
    await table.catch_up(CatchUp((await table.gap()).gap, nominal=table.at(4)))
    await world.store.schedules.pause(table.partition, [new.id])
    await world.store.schedules.resume(table.partition, [(new.id, table.trigger(), 1)])
    assert await world.store.schedules.change(table.partition, new, version=1)
    world.clock.advance(100)
    await world.store.schedules.pause(table.partition, [new.id])
    prune = world.store.schedules.prune
    assert await prune(table.partition, keep=3600, limit=1) == 0
    world.clock.advance(3600)
    assert await prune(table.partition, keep=3600, limit=1) >= 3
    # It is still paused.
    assert [reason for _, _, reason in await table.ledger(new.id)] == ["paused"]
    assert await world.store.schedules.versions(new.id) == []
    assert await prune(table.partition, keep=3600, limit=1) == 0
