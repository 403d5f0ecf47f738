"""Firing: at a nominal time each schedule of a trigger becomes exactly one job, whoever fires and however often."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest

from foliot.ids import ScheduleId, fire_id, fire_jitter
from foliot.model.job import JobState, More
from foliot.model.lane import Strategy, base_of, lane_of, strategy_of
from foliot.model.schedule import FOREVER, Misfire, ScheduleState
from foliot.store.scheduling import CatchUp, Fired, Jump, Move
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


# Missed times


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
            store.schedules.catch_up(table.partition, step)
            for store in (world.store, other, world.store, other)
        )
    )
    assert sorted(one.jobs for one in done if one is not None) == [10]
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


# Looks


async def test_what_is_overdue_is_named_the_longest_first(world: World, table: Table) -> None:
    await table.create_many(2)
    world.clock.advance(61)
    await table.create_many(3, words="another")
    world.clock.advance(60)
    found = await world.store.schedules.overdue(seconds=0.5)
    assert [(one.partition, one.expression, one.seconds, one.size) for one in found] == [
        (table.partition, "every minute", 61, 2),
        (table.partition, "another", 1, 3),
    ]
    assert len(await world.store.schedules.overdue(seconds=30)) == 1


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


async def test_what_was_written_down_long_ago_is_forgotten(world: World, table: Table) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])
    await _missed(table)
    await table.catch_up(CatchUp((await table.gap()).gap, nominal=table.at(4)))
    await world.store.schedules.pause(table.partition, [new.id])
    await world.store.schedules.resume(table.partition, [(new.id, table.trigger())])
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
