"""Firing: at a nominal time each schedule of a trigger becomes exactly one job, whoever fires and however often."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest

from foliot.ids import fire_id, fire_jitter
from foliot.model.job import JobState, More
from foliot.model.lane import Strategy, base_of, lane_of, strategy_of
from foliot.model.schedule import ScheduleState
from foliot.store.scheduling import Fired, Move
from support.schedules import TZDATA, Table, move_of
from support.stores import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def table(world: World) -> Table:
    return Table(world)


async def test_at_its_time_a_schedule_becomes_the_job_that_its_id_and_time_name(
    world: World, table: Table
) -> None:
    more = More(tags=("red",), fair_key="ann", requires=("gpu",))
    lane = lane_of("mail", ("gpu",)).number
    new = table.new(
        kind="sum",
        payload=b'{"x":1}',
        queue="mail",
        priority=7,
        max_attempts=3,
        timeout=2.5,
        more=more,
    )
    new = msgspec.structs.replace(new, template=msgspec.structs.replace(new.template, lane=lane))
    await world.store.schedules.create(table.partition, [new])
    fired = await table.fire_at(1)
    assert fired == Fired([(lane, JobState.READY, 1)], 1, {})
    job = await world.get(fire_id(new.id, table.at(1)))
    assert (job.kind, job.payload, job.queue, job.state) == ("sum", b'{"x":1}', "mail", "ready")
    assert (job.priority, job.max_attempts, job.timeout) == (7, 3, 2.5)
    assert (job.tags, job.fair_key, job.requires) == (("red",), "ann", ("gpu",))
    assert (job.created_at, job.run_at) == (world.clock.now(), table.time(1))
    assert (job.extras.schedule, job.extras.nominal) == (new.name, table.at(1))


async def test_a_fired_job_runs_like_any_other(world: World, table: Table) -> None:
    id = await table.create()
    await table.fire_at(1)
    session = await world.open_session()
    [job] = await world.claim(session)
    assert job.id == fire_id(id, table.at(1))
    await world.end(session, job)
    assert await table.states(id, 1) == ["succeeded"]
    assert (await world.get(job.id)).extras.nominal == table.at(1)


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("stateful", [False, True])
async def test_it_is_placed_as_a_submitted_job_is(
    world: World, table: Table, strategy: Strategy, stateful: bool
) -> None:
    await world.store.queues.configure("mail", strategy=strategy, aging=30.0)
    fields = {"queue": "mail", "priority": 5}
    id = await table.create(**fields, max_runs=9 if stateful else None)
    fired = await table.fire_at(1)
    [(lane, state, count)] = fired.lanes
    assert (base_of(lane), strategy_of(lane)) == (lane_of("mail").number, strategy)
    assert count == 1
    assert state is (JobState.HELD if strategy is Strategy.ROUND_ROBIN else JobState.READY)
    submitted = await world.submit(**fields, run_at=table.time(1))
    await world.look()
    session = await world.open_session()
    claimed = await world.claim(session, queues=["mail"])
    assert {job.id for job in claimed} == {submitted, fire_id(id, table.at(1))}


async def test_a_job_that_has_an_ordering_key_waits_to_be_looked_at(
    world: World, table: Table
) -> None:
    id = await table.create(more=More(ordering_key="k"))
    assert [state for _, state, _ in (await table.fire_at(1)).lanes] == ["held"]
    await world.look()
    assert await table.states(id, 1) == ["ready"]


@pytest.mark.parametrize("stateful", [False, True])
async def test_a_start_deadline_counts_from_the_nominal_time(
    world: World, table: Table, stateful: bool
) -> None:
    limit = 9 if stateful else None
    only = await table.create(start_deadline=300, max_runs=limit)
    first = await table.create(start_deadline=300, more=More(expires_in=60), max_runs=limit)
    last = await table.create(start_deadline=30, more=More(expires_in=600), max_runs=limit)
    none = await table.create(more=More(expires_in=60), max_runs=limit)
    world.clock.advance(5)
    await table.fire_at(1 + 5 / 60)
    jobs = [await table.job(id, 1) for id in (only, first, last, none)]
    now = world.clock.now()
    minute = timedelta(minutes=1)
    assert [job and job.expires_at for job in jobs] == [
        table.time(6),
        now + minute,
        table.time(1.5),
        now + minute,
    ]


@pytest.mark.parametrize("stateful", [False, True])
async def test_phase_and_jitter_are_of_the_job_and_not_of_the_trigger(
    world: World, table: Table, stateful: bool
) -> None:
    limit = 9 if stateful else None
    phased = await table.create(phase=17, max_runs=limit)
    shaken = [await table.create(jitter=30, phase=5, max_runs=limit) for _ in range(5)]
    fired = await table.fire_at(1)
    assert fired.jobs == 6 and JobState.SCHEDULED in {state for _, state, _ in fired.lanes}
    job = await table.job(phased, 1)
    assert job is not None and job.run_at == table.time(1) + timedelta(seconds=17)
    for id in shaken:
        late = fire_jitter(id, table.at(1), 30)
        job = await table.job(id, 1)
        assert 0 <= late <= 30
        assert job is not None and job.run_at == table.time(1) + timedelta(seconds=5 + late)
    assert (await table.get(phased)).next_at == table.at(2)


async def test_a_large_trigger_is_fired_in_chunks_each_schedule_once(
    world: World, table: Table
) -> None:
    ids = await table.create_many(10)
    world.clock.advance(60)
    seen = []
    for _ in range(4):
        [due] = await table.due(chunk=3)
        seen.append((due.count, due.cursor, due.upper))
        assert due.nominal == table.at(1)
        await table.fire(chunk=3)
    assert seen == [
        (4, None, ids[2]),
        (4, ids[2], ids[5]),
        (4, ids[5], ids[8]),
        (1, ids[8], None),
    ]
    assert await table.due() == []
    assert await world.count() == {JobState.READY: 10}
    assert [await table.states(id, 1) for id in ids] == [["ready"]] * 10
    [found] = await world.store.schedules.get(ids[:1])
    assert (found.next_at, found.fired_at) == (table.at(2), table.at(1))


async def test_several_triggers_fire_in_one_transaction(world: World, table: Table) -> None:
    plain = await table.create_many(3)
    other = await table.create_many(2, words="another")
    limited = await table.create(max_runs=5)
    world.clock.advance(60)
    assert [due.stateful for due in await table.due()].count(True) == 1
    fired = await table.fire()
    assert (fired.moved, fired.jobs) == (3, 6)
    assert [await table.states(id, 1) for id in (*plain, *other, limited)] == [["ready"]] * 6


async def test_a_move_that_expects_another_position_does_nothing(
    world: World, table: Table
) -> None:
    ids = await table.create_many(4)
    world.clock.advance(60)
    [due] = await table.due(chunk=2)
    move = move_of(due, chunk=2)
    wrong = [
        msgspec.structs.replace(move, nominal=move.nominal - 60),
        msgspec.structs.replace(move, cursor=ids[0]),
        msgspec.structs.replace(move, trigger=move.trigger + 1),
    ]
    for each in wrong:
        fired = await world.store.schedules.fire(table.partition, [each], tzdata=TZDATA)
        assert (fired.moved, fired.jobs) == (0, 0)
    assert (await world.store.schedules.fire(table.partition, [move], tzdata=TZDATA)).jobs == 2
    assert (await world.store.schedules.fire(table.partition, [move], tzdata=TZDATA)).jobs == 0
    assert await world.count() == {JobState.READY: 2}


async def test_nothing_fires_before_its_time(world: World, table: Table) -> None:
    await table.create()
    assert await table.due() == []
    trigger = table.trigger()
    early = Move(trigger.id, False, trigger.next, None, None, trigger.next + 60, 1)
    world.clock.advance(59.999)
    assert (await world.store.schedules.fire(table.partition, [early], tzdata=TZDATA)).moved == 0
    assert (await world.store.jobs.peek()).fire_in[table.partition] == pytest.approx(0.001)


async def test_after_the_last_time_the_schedules_have_ended(world: World, table: Table) -> None:
    ids = await table.create_many(3)
    await table.fire_at(1, every=None)
    for id in ids:
        assert await table.states(id, 1) == ["ready"]
        assert await table.state(id) is ScheduleState.ENDED
        assert (await table.get(id)).trigger is None
    assert table.partition not in (await world.store.jobs.peek()).fire_in


async def test_two_schedulers_that_fire_the_same_do_it_once(world: World, table: Table) -> None:
    other = await world.another_store()
    ids = await table.create_many(30)
    ids += await table.create_many(30, max_runs=100)
    for minute in range(1, 6):
        world.clock.advance(60)
        while due := await table.due(chunk=7):
            moves = [move_of(one, chunk=7) for one in due]
            results = await asyncio.gather(
                *(
                    store.schedules.fire(table.partition, moves, tzdata=TZDATA)
                    for store in (world.store, other, world.store, other)
                )
            )
            assert sum(fired.moved for fired in results) == len(moves)
        assert (await world.count())[JobState.READY] == 60 * minute
    for id in ids[30:]:
        assert (await table.get(id)).runs == 5


async def test_a_schedule_that_is_paused_while_it_fires_has_one_answer(
    world: World, table: Table
) -> None:
    other = await world.another_store()
    ids = await table.create_many(40)
    world.clock.advance(2)
    for minute in range(1, 5):
        world.clock.advance(60)
        moves = [move_of(one) for one in await table.due()]
        some = ids[(minute - 1) * 10 : minute * 10]
        await asyncio.gather(
            world.store.schedules.fire(table.partition, moves, tzdata=TZDATA),
            *(other.schedules.pause(table.partition, [id]) for id in some),
        )
        for id in some:
            [(start, to, reason)] = await table.ledger(id)
            assert (to, reason) == (None, "paused")
            [state] = await table.states(id, minute)
            # Paused before it fired, or after: then the pause begins later than that time.
            assert (state is None) == (start <= minute), (state, start)
    before = await world.count()
    world.clock.advance(60)
    await table.fire()
    assert await world.count() == before


async def test_a_schedule_that_is_changed_while_it_fires_has_one_answer(
    world: World, table: Table
) -> None:
    other = await world.another_store()
    new = [table.new() for _ in range(24)]
    await world.store.schedules.create(table.partition, new)
    world.clock.advance(2)
    for minute in range(1, 5):
        world.clock.advance(60)
        moves = [move_of(one) for one in await table.due()]
        some = new[(minute - 1) * 6 : minute * 6]
        later = table.trigger(words="another", next=table.at(100))
        await asyncio.gather(
            world.store.schedules.fire(table.partition, moves, tzdata=TZDATA),
            *(
                other.schedules.change(
                    table.partition, msgspec.structs.replace(one, trigger=later), version=1
                )
                for one in some
            ),
        )
        for one in some:
            [was] = await world.store.schedules.versions(one.id)
            now = await table.get(one.id)
            assert was.until == now.since
            [state] = await table.states(one.id, minute)
            ledger = await table.ledger(one.id)
            assert (state is None) == bool(ledger), (state, ledger)
            assert now.trigger == later.id


async def test_a_schedule_that_is_deleted_while_it_fires_does_so_no_more(
    world: World, table: Table
) -> None:
    other = await world.another_store()
    ids = await table.create_many(10)
    world.clock.advance(60)
    moves = [move_of(one) for one in await table.due()]
    await asyncio.gather(
        world.store.schedules.fire(table.partition, moves, tzdata=TZDATA),
        *(other.schedules.delete(table.partition, [id]) for id in ids),
    )
    before = await world.count()
    world.clock.advance(60)
    await table.fire()
    assert await world.count() == before
    assert await world.store.schedules.count() == {}


async def test_schedules_are_made_while_their_trigger_is_forgotten(
    world: World, table: Table
) -> None:
    other = await world.another_store()
    trigger = table.trigger()
    for _ in range(5):
        id = await table.create(trigger=trigger)
        await world.store.schedules.delete(table.partition, [id])
        world.clock.advance(60)
        moves = [move_of(one) for one in await table.due()]
        new = [table.new() for _ in range(4)]
        await asyncio.gather(
            world.store.schedules.fire(table.partition, moves, tzdata=TZDATA),
            *(other.schedules.create(table.partition, [one]) for one in new),
        )
        world.clock.advance(60)
        while await table.due():
            await table.fire()
        minute = (table.now - table.noon) // 60
        for one in new:
            assert await table.states(one.id, minute) == ["ready"]
        await world.store.schedules.delete(table.partition, [one.id for one in new])
        await table.fire_at(minute + 1)


# Looks


async def test_what_is_overdue_is_named_the_longest_first(world: World, table: Table) -> None:
    first = await table.create_many(2)
    world.clock.advance(61)
    second = await table.create_many(3, words="another")
    world.clock.advance(60)
    found = await world.store.schedules.overdue(seconds=0.5)
    assert [(one.partition, one.expression, one.seconds, one.size) for one in found] == [
        (table.partition, "every minute", 61, 2),
        (table.partition, "another", 1, 3),
    ]
    assert len(await world.store.schedules.overdue(seconds=30)) == 1
    names = [(await table.get(ids[0])).name for ids in (first, second)]
    assert [one.schedule for one in found] == names


async def test_a_trigger_without_schedules_is_not_overdue(world: World, table: Table) -> None:
    [one, other] = await table.create_many(2)
    world.clock.advance(90)
    for id, left in ((one, [1]), (other, [])):
        await world.store.schedules.delete(table.partition, [id])
        late = await world.store.schedules.overdue(seconds=0.5)
        assert [trigger.size for trigger in late] == left


async def test_the_forecast_names_the_largest_groups(world: World, table: Table) -> None:
    await table.create_many(2)
    await table.create_many(3, words="another")
    await table.create_many(4, max_runs=3)
    groups, triggers = await world.store.schedules.forecast(limit=10)
    assert [(group.expression, group.size, group.next) for group in groups] == [
        ("every minute", 6, table.at(1)),
        ("another", 3, table.at(1)),
    ]
    assert triggers == 3
    assert len((await world.store.schedules.forecast(limit=1))[0]) == 1


async def test_peek_names_the_next_trigger(world: World, table: Table) -> None:
    assert (await world.store.jobs.peek()).fire_in == {}
    await table.create(trigger=table.trigger(words="later", next=table.at(5)))
    await table.create()
    assert (await world.store.jobs.peek()).fire_in == {table.partition: 60}
    world.clock.advance(70)
    assert (await world.store.jobs.peek()).fire_in == {table.partition: -10}
