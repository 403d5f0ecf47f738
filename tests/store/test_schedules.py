"""Schedules: made, paused, resumed, changed, deleted, found; and what is written down of each."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest

from foliot.ids import ScheduleId, fire_id, partition_of, schedule_id
from foliot.model.audit import Deed
from foliot.model.job import JobState
from foliot.model.schedule import Overlap, ScheduleState
from foliot.store.scheduling import GRACE, Wanted
from support.schedules import Table
from support.stores import World

pytestmark = pytest.mark.anyio
MICROSECOND = timedelta(microseconds=1)


@pytest.fixture
def table(world: World) -> Table:
    return Table(world)


async def test_a_new_schedule_is_attached_to_its_trigger(world: World, table: Table) -> None:
    new = table.new(tags=("a", "b"), origin="shop", priority=3, timeout=2.5, payload=b'{"x":1}')
    assert await world.store.schedules.create(table.partition, [new]) == {new.id}
    found = await table.get(new.id)
    assert (found.name, found.state, found.version, found.runs) == (new.name, "active", 1, 0)
    assert (found.trigger, found.next_at, found.fired_at) == (new.trigger.id, table.at(1), None)  # type: ignore[union-attr]
    assert (found.tags, found.origin, found.priority) == (("a", "b"), "shop", 3)
    assert (found.timeout, found.payload, found.rules) == (2.5, b'{"x":1}', new.rules)
    assert found.created_at == found.since == found.active_from == world.clock.now()


async def test_creating_again_changes_nothing_and_says_so(world: World, table: Table) -> None:
    old, new = table.new(), table.new()
    await world.store.schedules.create(table.partition, [old])
    other = msgspec.structs.replace(old, origin="another")
    assert await world.store.schedules.create(table.partition, [other, new]) == {new.id}
    assert (await table.get(old.id)).origin is None
    await table.fire_at(1)
    assert await table.states(old.id, 1) == ["ready"]


async def test_one_name_in_two_namespaces_is_two_schedules(world: World, table: Table) -> None:
    assert schedule_id("a", "x") != schedule_id("b", "x")
    assert await table.create(namespace="a") != await table.create(namespace="b")
    assert await world.store.schedules.count() == {ScheduleState.ACTIVE: 2}


async def test_it_answers_for_times_from_now_on(world: World, table: Table) -> None:
    first = await table.create()
    await table.fire_at(1)
    second = await table.create()  # in the same moment, when that time is done
    await table.fire_at(2)
    assert (await table.get(second)).active_from == table.time(1) + MICROSECOND
    assert await table.states(first, 1, 2) == ["ready", "ready"]
    assert await table.states(second, 1, 2) == [None, "ready"]


async def test_one_made_while_its_trigger_fires_answers_from_the_next_time_on(
    world: World, table: Table
) -> None:
    await table.create_many(3)
    await table.fire_at(1, chunk=1)
    late = await table.create_many(4)
    while await table.due():
        await table.fire(chunk=1)
    await table.fire_at(2)
    for id in late:
        assert await table.states(id, 1, 2) == [None, "ready"]


async def test_it_fires_between_its_start_and_its_end_both_included(table: Table) -> None:
    id = await table.create(start=table.at(2), end=table.at(3))
    assert (await table.get(id)).active_from == table.time(2)
    for minute in (1, 2, 3, 4):
        await table.fire_at(minute)
    assert await table.states(id, 1, 2, 3, 4) == [None, "ready", "ready", None]


async def test_one_whose_times_are_all_past_is_attached_to_nothing(
    world: World, table: Table
) -> None:
    id = await table.create(trigger=None, state=ScheduleState.ENDED)
    found = await table.get(id)
    assert (found.state, found.trigger, found.next_at) == ("ended", None, None)


async def test_a_paused_schedule_does_not_fire_and_its_pause_is_written_down(
    world: World, table: Table
) -> None:
    id, other = await table.create_many(2)
    paused = await world.store.schedules.pause(table.partition, [id], by="ann", note="audit")
    assert paused == [id]
    assert await world.store.schedules.pause(table.partition, [id]) == []
    await table.fire_at(1)
    assert await table.states(id, 1) == [None]
    assert await table.states(other, 1) == ["ready"]
    found = await table.get(id)
    assert (found.state, found.paused_by, found.note, found.trigger) == (
        "paused",
        "ann",
        "audit",
        None,
    )
    assert await table.ledger(id) == [(0, None, "paused")]


async def test_a_resumed_schedule_fires_from_then_on(world: World, table: Table) -> None:
    id, other = await table.create_many(2)
    await world.store.schedules.pause(table.partition, [id, other], state=ScheduleState.PARKED)
    assert await table.state(id) is ScheduleState.PARKED
    world.clock.advance(90)
    trigger = table.trigger()
    back = await world.store.schedules.resume(table.partition, [(id, trigger, 1), (other, None, 1)])
    assert sorted(back) == sorted([id, other])
    assert await world.store.schedules.resume(table.partition, [(id, trigger, 1)]) == []
    assert await table.state(other) is ScheduleState.ENDED
    await table.fire_at(2)  # the time before, at which nobody was attached
    await table.fire()
    assert await table.states(id, 1, 2) == [None, "ready"]
    assert await table.ledger(id) == [(0, 1.5, "paused")]
    found = await table.get(id)
    assert (found.state, found.note, found.paused_at) == ("active", None, None)
    assert found.active_from == table.time(1.5)


async def test_a_time_that_is_due_and_not_fired_belongs_to_the_pause(
    world: World, table: Table
) -> None:
    id = await table.create()
    world.clock.advance(62)
    await world.store.schedules.pause(table.partition, [id])
    assert await table.ledger(id) == [(1, None, "paused")]


async def test_what_was_missed_long_before_the_pause_stays_missed(
    world: World, table: Table
) -> None:
    id = await table.create()
    world.clock.advance(60 + GRACE + 50)
    await world.store.schedules.pause(table.partition, [id])
    assert await table.ledger(id) == [(1, 2, "missed"), (2, None, "paused")]


async def test_a_time_that_was_fired_before_the_pause_is_not_of_it(
    world: World, table: Table
) -> None:
    first, second, third = await table.create_many(3)
    world.clock.advance(62)
    await table.fire(chunk=2)  # in the middle of it
    await world.store.schedules.pause(table.partition, [first, third])
    await table.fire()
    assert await table.states(first, 1) == await table.states(second, 1) == ["ready"]
    assert await table.states(third, 1) == [None]
    assert await table.ledger(first) == [(1.033, None, "paused")]
    assert await table.ledger(third) == [(1, None, "paused")]


async def test_a_change_is_a_new_version_and_the_old_one_keeps_its_span(
    world: World, table: Table
) -> None:
    old = table.new()
    await world.store.schedules.create(table.partition, [old])
    await table.fire_at(1)
    world.clock.advance(30)
    new = table.new(old.name, words="every other minute", priority=4, tags=("x",), kind="sum")
    new = msgspec.structs.replace(new, trigger=table.trigger(words="every other minute"))
    assert await world.store.schedules.change(table.partition, new, version=1)
    found = await table.get(old.id)
    assert (found.version, found.kind, found.priority, found.tags) == (2, "sum", 4, ("x",))
    assert (found.rules, found.trigger) == (new.rules, new.trigger.id)  # type: ignore[union-attr]
    assert found.since == found.active_from == table.time(1.5)
    [was] = await world.store.schedules.versions(old.id)
    assert (was.version, was.rules, was.trigger) == (1, old.rules, old.trigger.id)  # type: ignore[union-attr]
    assert (was.active_from, was.until) == (table.time(0), table.time(1.5))
    await table.fire_at(2)
    job = await table.job(old.id, 2)
    assert job is not None and job.kind == "sum"
    assert await table.ledger(old.id) == []


async def test_a_time_that_is_due_while_it_is_changed_belongs_to_the_new_version(
    world: World, table: Table
) -> None:
    old = table.new()
    await world.store.schedules.create(table.partition, [old])
    world.clock.advance(60)  # nobody has fired yet
    new = table.new(old.name, kind="sum")
    assert await world.store.schedules.change(table.partition, new, version=1)
    assert (await table.get(old.id)).since == table.time(1)
    await table.fire_at(1)
    job = await table.job(old.id, 1)
    assert job is not None and job.kind == "sum"
    assert await table.ledger(old.id) == []


async def test_a_change_of_another_version_does_nothing(world: World, table: Table) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])
    changed = msgspec.structs.replace(new, origin="x")
    assert not await world.store.schedules.change(table.partition, changed, version=2)
    assert not await world.store.schedules.change(table.partition, table.new(), version=1)
    assert await world.store.schedules.change(table.partition, changed, version=1)
    assert not await world.store.schedules.change(table.partition, changed, version=1)
    assert len(await world.store.schedules.versions(new.id)) == 1


async def test_a_paused_schedule_that_is_changed_stays_paused(world: World, table: Table) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])
    await world.store.schedules.pause(table.partition, [new.id])
    changed = msgspec.structs.replace(new, origin="x")
    assert await world.store.schedules.change(table.partition, changed, version=1)
    await table.fire_at(1)
    found = await table.get(new.id)
    assert (found.state, found.origin, found.trigger) == ("paused", "x", None)
    assert await table.states(new.id, 1) == [None]
    assert await table.ledger(new.id) == [(0, None, "paused")]


@pytest.mark.parametrize(("late", "reason"), [(2, "edited"), (60, "missed")])
async def test_what_its_old_trigger_has_not_done_is_not_made_up_for(
    world: World, table: Table, late: int, reason: str
) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])
    world.clock.advance(60 + late)
    changed = msgspec.structs.replace(new, trigger=table.trigger(words="another"))
    assert await world.store.schedules.change(table.partition, changed, version=1)
    [(start, to, told)] = await table.ledger(new.id)
    assert (start, told) == (1, reason)
    assert to is not None and 1 < to <= 1 + late / 60
    await table.fire()
    assert await table.states(new.id, 1) == [None]


async def test_a_schedule_that_ended_can_be_changed_into_one_that_fires(
    world: World, table: Table
) -> None:
    ended = table.new(trigger=None, state=ScheduleState.ENDED)
    await world.store.schedules.create(table.partition, [ended])
    again = msgspec.structs.replace(ended, trigger=table.trigger(), state=ScheduleState.ACTIVE)
    assert await world.store.schedules.change(table.partition, again, version=1)
    await table.fire_at(1)
    assert await table.states(ended.id, 1) == ["ready"]


async def test_a_deleted_schedule_is_forgotten_and_its_jobs_stay(
    world: World, table: Table
) -> None:
    new = table.new()
    id = new.id
    await world.store.schedules.create(table.partition, [new])
    await table.fire_at(1)
    await world.store.schedules.pause(table.partition, [id])
    assert await world.store.schedules.change(table.partition, new, version=1)
    assert await world.store.schedules.delete(table.partition, [id]) == [id]
    assert await world.store.schedules.delete(table.partition, [id]) == []
    assert await world.store.schedules.get([id]) == []
    assert await world.store.schedules.versions(id) == []
    assert await table.ledger(id) == []
    assert await table.states(id, 1) == ["ready"]
    await table.fire_at(2)
    assert await table.states(id, 2) == [None]


async def test_a_trigger_without_schedules_is_forgotten_when_it_comes_up(
    world: World, table: Table
) -> None:
    id = await table.create()
    await world.store.schedules.delete(table.partition, [id])
    fired = await table.fire_at(1)
    assert (fired.moved, fired.jobs) == (1, 0)
    world.clock.advance(3600)
    assert await table.due() == []
    assert (await world.store.schedules.forecast(limit=10))[1] == 0


async def test_what_is_done_by_hand_is_recorded_with_it(world: World, table: Table) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])

    def record(action: str) -> object:
        return lambda ids: [Deed(world.ids.job(), "ann", action, id, {}) for id in ids]

    schedules, partition = world.store.schedules, table.partition
    await schedules.change(partition, new, version=1, record=record("change"))  # type: ignore[arg-type]
    await schedules.pause(partition, [new.id], record=record("pause"))  # type: ignore[arg-type]
    await schedules.resume(partition, [(new.id, new.trigger, 2)], record=record("resume"))  # type: ignore[arg-type]
    await schedules.delete(partition, [new.id], record=record("delete"))  # type: ignore[arg-type]
    await schedules.delete(partition, [new.id], record=record("delete"))  # type: ignore[arg-type]
    entries = await world.store.audit.list(target=new.id)
    assert sorted(entry.action for entry in entries) == ["change", "delete", "pause", "resume"]


async def test_schedules_are_found_by_what_they_are(world: World, table: Table) -> None:
    plain = await table.create()
    tagged = await table.create(tags=("red", "blue"), origin="shop", kind="sum")
    spaced = await table.create(namespace="other")
    await world.store.schedules.pause(table.partition, [plain])

    async def find(**wanted: object) -> set[ScheduleId]:
        found = await world.store.schedules.search(Wanted(**wanted), limit=100)  # type: ignore[arg-type]
        return {schedule.id for schedule in found}

    assert await find() == {plain, tagged, spaced}
    assert await find(tag="red") == await find(origin="shop") == await find(kind="sum") == {tagged}
    assert await find(tag="re") == set()
    assert await find(namespace="other") == {spaced}
    assert await find(state=ScheduleState.PAUSED) == {plain}
    assert await find(namespace="other", tag="red") == set()


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("Ab*", {"Ab[1]", "Ab%x"}),
        ("ab*", {"ab_y"}),
        ("*_*", {"ab_y"}),
        ("*%*", {"Ab%x"}),
        ("Ab[1]", {"Ab[1]"}),
        ("Ab?x", set()),
        ("\\*", {"\\z"}),
        ("ab_y", {"ab_y"}),
    ],
)
async def test_of_a_pattern_only_the_star_is_special(
    world: World, table: Table, pattern: str, matches: set[str]
) -> None:
    for name in ("Ab[1]", "Ab%x", "ab_y", "\\z"):
        new = table.new(name)
        await world.store.schedules.create(partition_of_world(world, new.id), [new])
    found = await world.store.schedules.search(Wanted(name=pattern), limit=10)
    assert {schedule.name for schedule in found} == matches


async def test_a_long_list_is_read_page_by_page(world: World, table: Table) -> None:
    made = {schedule.id for schedule in [table.new(f"n{i}") for i in range(40)]}
    for i in range(40):
        new = table.new(f"n{i}")
        await world.store.schedules.create(partition_of_world(world, new.id), [new])
    found: list[ScheduleId] = []
    while page := await world.store.schedules.search(
        Wanted(), limit=7, after=found[-1] if found else None
    ):
        found += [schedule.id for schedule in page]
    assert len(found) == 40 and set(found) == made
    assert len(await world.store.schedules.get(found)) == 40


async def test_calendars_are_put_listed_and_deleted(world: World) -> None:
    calendars = world.store.calendars
    await calendars.put("b", '["12-25"]', by="ann")
    await calendars.put("a", "[]")
    await calendars.put("b", '["12-26"]', by="bob")
    found = await calendars.all()
    assert [(one.name, one.dates, one.updated_by) for one in found] == [
        ("a", "[]", None),
        ("b", '["12-26"]', "bob"),
    ]
    assert found[0].updated_at == world.clock.now()
    assert await calendars.delete("a")
    assert not await calendars.delete("a")
    assert [one.name for one in await calendars.all()] == ["b"]


async def test_the_store_says_what_time_it_is(world: World) -> None:
    assert await world.store.schedules.now() == world.clock.now()


async def test_of_many_who_make_the_same_schedule_one_does(world: World, table: Table) -> None:
    other = await world.another_store()
    new = [table.new() for _ in range(20)]
    made = await asyncio.gather(
        *(store.schedules.create(table.partition, new) for store in (world.store, other) * 3)
    )
    assert sum(len(some) for some in made) == 20
    await table.fire_at(1)
    assert await world.count() == {JobState.READY: 20}


async def test_one_that_is_changed_to_wait_for_its_last_run_does(
    world: World, table: Table
) -> None:
    new = table.new()
    await world.store.schedules.create(table.partition, [new])
    await table.fire_at(1)
    waits = table.new(new.name, overlap=Overlap.SKIP)
    assert await world.store.schedules.change(table.partition, waits, version=1)
    await table.fire_at(2)
    await table.fire_at(3)
    # It did not look at its runs before, so that one does not count.
    assert await table.states(new.id, 1, 2, 3) == ["ready", "ready", None]
    assert fire_id(new.id, table.at(2)) in await world.store.schedules.runs(
        table.partition, [fire_id(new.id, table.at(2))]
    )


def partition_of_world(world: World, id: ScheduleId) -> int:
    return partition_of(id, world.store.partitions)


async def test_schedules_that_swap_their_triggers_do_not_wait_for_each_other_forever(
    world: World, table: Table
) -> None:
    other = await world.another_store()
    words = ["one", "another"]
    new = [[table.new(words=word) for _ in range(10)] for word in words]
    for some in new:
        await world.store.schedules.create(table.partition, some)
    swapped = [
        msgspec.structs.replace(schedule, trigger=table.trigger(words=word))
        for some, word in zip(new, reversed(words), strict=True)
        for schedule in some
    ]
    done = await asyncio.gather(
        *(
            (world.store if number % 2 else other).schedules.change(table.partition, one, version=1)
            for number, one in enumerate(swapped)
        )
    )
    assert all(done)
    await table.fire_at(1)
    assert await world.count() == {JobState.READY: 20}


async def test_a_schedule_that_is_resumed_while_it_is_changed_is_what_it_was_changed_into(
    world: World, table: Table
) -> None:
    other = await world.another_store()
    new = [table.new() for _ in range(12)]
    schedules, partition = world.store.schedules, table.partition
    await schedules.create(partition, new)
    await schedules.pause(partition, [one.id for one in new])
    later = table.trigger(words="another")
    changed = [msgspec.structs.replace(one, trigger=later) for one in new]
    world.clock.advance(62)
    await asyncio.gather(
        *(schedules.change(partition, one, version=1) for one in changed),
        *(other.schedules.resume(partition, [(one.id, one.trigger, 1)]) for one in new),
        *(table.fire() for _ in range(3)),
    )
    await schedules.resume(partition, [(one.id, later, 2) for one in new])
    for one in new:
        found = await table.get(one.id)
        assert (found.version, found.state, found.trigger) == (2, "active", later.id)


async def test_a_schedule_is_not_resumed_by_rules_that_it_has_no_longer(
    world: World, table: Table
) -> None:
    new = table.new()
    schedules, partition = world.store.schedules, table.partition
    await schedules.create(partition, [new])
    await schedules.pause(partition, [new.id])
    later = table.trigger(words="another")
    assert await schedules.change(partition, msgspec.structs.replace(new, trigger=later), version=1)
    assert await schedules.resume(partition, [(new.id, new.trigger, 1)]) == []
    found = await table.get(new.id)
    assert (found.state, found.trigger) == ("paused", None)
    assert (await table.ledger(new.id))[-1] == (0, None, "paused")
    assert await schedules.resume(partition, [(new.id, later, 2)]) == [new.id]
    assert (await table.get(new.id)).trigger == later.id
