"""What people may ask of schedules, on every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from foliot import schedule_commands as commands
from foliot import schedule_making
from foliot.author import Author
from foliot.errors import FoliotError, InvalidValue, UnknownSchedule
from foliot.ids import JobId, partition_of, schedule_id
from foliot.model.job import Extras, JobState, More, NewJob
from foliot.model.lane import lane_of
from foliot.model.schedule import Misfire, Overlap, ScheduleState
from foliot.schedule_commands import Draft, check_draft
from foliot.schedule_sync import sync
from support.stores import World

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()


def template(**fields: Any) -> NewJob:
    queue = fields.pop("queue", "default")
    given = {"kind": "report", "payload": b'{"n":1}', "queue": queue, **fields}
    return NewJob(JobId(""), lane=lane_of(queue, ()).number, **given)


def draft(name: str = "nightly", expression: str | None = "0 3 * * *", /, **options: Any) -> Draft:
    job, origin = options.pop("job", None) or template(), options.pop("origin", None)
    return Draft(name, job, expression, cast(Any, options), origin)


async def test_a_schedule_reads_back_as_it_was_said(world: World) -> None:
    job = template(queue="mail", priority=1, max_attempts=7, timeout=2.5, more=More(tags=("a",)))
    [put] = await commands.create(
        world.store,
        [
            draft(
                "shop/nightly",
                "every weekday at 9am",
                job=job,
                timezone="Europe/Berlin",
                overlap="buffer_all",
                buffer=7,
                misfire="all",
                misfire_window="2h",
                spread="5m",
                tags=["shop", "eu"],
                max_runs=3,
            )
        ],
    )
    assert (put.outcome, put.before) == ("created", None)
    found = await commands.get(world.store, "shop/nightly")
    assert (found.kind, found.queue, found.priority) == ("report", "mail", 1)
    assert (found.max_attempts, found.timeout, found.payload) == (7, 2.5, b'{"n":1}')
    rules = found.rules
    assert (rules.expression, rules.text) == ("every weekday at 9am", "0 9 * * 1-5")
    assert (rules.timezone, rules.overlap, rules.buffer) == (
        "Europe/Berlin",
        Overlap.BUFFER_ALL,
        7,
    )
    assert (rules.misfire, rules.misfire_window, rules.spread) == (Misfire.ALL, 7200.0, 300)
    assert (found.state, found.tags, found.version) == (
        ScheduleState.ACTIVE,
        ("shop", "eu"),
        1,
    )
    assert found.next_at is not None


async def test_saying_the_same_again_changes_nothing(world: World) -> None:
    job = template(timeout=0.1, more=More(tags=("b",), extras=Extras(ignore_result=True)))
    said = draft(job=job, tags=["x"], start_deadline="90s", catchup_rate=0.3)
    await commands.create(world.store, [said])
    [put] = await commands.create(world.store, [said])
    assert put.outcome == "unchanged"
    assert (await commands.get(world.store, "nightly")).version == 1


async def test_saying_something_else_makes_a_new_version(world: World) -> None:
    await commands.create(world.store, [draft()])
    [put] = await commands.create(world.store, [draft("nightly", "0 4 * * *")])
    assert put.outcome == "changed"
    assert put.before is not None and put.before.rules.text == "0 3 * * *"
    found = await commands.get(world.store, "nightly")
    assert (found.version, found.rules.text) == (2, "0 4 * * *")
    [old] = await world.store.schedules.versions(found.id)
    assert old.rules.text == "0 3 * * *"


async def test_of_a_name_twice_in_one_call_the_last_counts(world: World) -> None:
    puts = await commands.create(world.store, [draft(), draft("nightly", "0 5 * * *")])
    assert [put.outcome for put in puts] == ["created", "changed"]
    assert (await commands.get(world.store, "nightly")).rules.text == "0 5 * * *"


async def test_a_changed_one_stays_paused(world: World) -> None:
    await commands.create(world.store, [draft()])
    assert await commands.pause(world.store, "nightly", note="holidays") == ["nightly"]
    await commands.create(world.store, [draft("nightly", "0 4 * * *")])
    found = await commands.get(world.store, "nightly")
    assert (found.state, found.note) == (ScheduleState.PAUSED, "holidays")
    assert await commands.resume(world.store, "nightly") == ["nightly"]
    found = await commands.get(world.store, "nightly")
    assert (found.state, found.note) == (ScheduleState.ACTIVE, None)


async def test_all_of_a_tag_are_paused_and_resumed_together(world: World) -> None:
    drafts = [draft(f"s{n}", tags=["eu" if n % 2 else "us"]) for n in range(20)]
    await commands.create(world.store, drafts)
    odd = sorted(f"s{n}" for n in range(1, 20, 2))
    assert await commands.pause(world.store, tag="eu", note="outage", by="ada") == odd
    paused = await commands.search(world.store, state="paused")
    assert sorted(one.name for one in paused) == odd
    assert {(one.note, one.paused_by) for one in paused} == {("outage", "ada")}
    assert await commands.pause(world.store, tag="eu") == []
    assert await commands.resume(world.store, tag="eu") == odd
    assert await commands.search(world.store, state="paused") == []


async def test_a_list_is_by_tag_kind_name_and_namespace(world: World) -> None:
    await commands.create(
        world.store,
        [
            draft("a.one", tags=["x"]),
            draft("a.two", job=template(kind="other")),
            draft("b_one", job=template(namespace="shop")),
            draft("b%one"),
        ],
    )

    async def names(**wanted: Any) -> list[str]:
        return [one.name for one in await commands.search(world.store, **wanted)]

    assert await names() == ["a.one", "a.two", "b%one", "b_one"]
    assert await names(tag="x") == ["a.one"]
    assert await names(kind="other") == ["a.two"]
    assert await names(name="a.*") == ["a.one", "a.two"]
    assert await names(name="b_one") == ["b_one"]
    assert await names(namespace="shop") == ["b_one"]
    assert len(await names(limit=2)) == 2


async def test_who_asks_for_an_unknown_one_is_told_the_nearest(world: World) -> None:
    await commands.create(world.store, [draft("nightly-report")])
    with pytest.raises(UnknownSchedule, match="did you mean nightly-report"):
        await commands.get(world.store, "nightly-repotr")
    with pytest.raises(UnknownSchedule):
        await commands.pause(world.store, ["nightly-report", "weekly"])
    assert (await commands.get(world.store, "nightly-report")).state is ScheduleState.ACTIVE


async def test_a_deleted_one_is_gone_and_its_name_free(world: World) -> None:
    await commands.create(world.store, [draft()])
    assert await commands.delete(world.store, "nightly") == ["nightly"]
    with pytest.raises(UnknownSchedule):
        await commands.get(world.store, "nightly")
    [put] = await commands.create(world.store, [draft()])
    assert put.outcome == "created"


async def test_an_update_changes_what_it_names_and_keeps_the_rest(world: World) -> None:
    end = world.clock.now() + timedelta(days=400)
    await commands.create(
        world.store,
        [draft("n", "every weekday at 9am", misfire="all", end=end, tags=["a"], jitter=5)],
    )
    found = await commands.update(world.store, "n", overlap="allow", timezone="Europe/Berlin")
    assert (found.rules.overlap, found.rules.timezone) == (Overlap.ALLOW, "Europe/Berlin")
    assert (found.rules.expression, found.rules.misfire) == ("every weekday at 9am", Misfire.ALL)
    assert (found.rules.jitter, found.tags, found.version) == (5, ("a",), 2)
    assert found.rules.end == int(end.timestamp())
    found = await commands.update(world.store, "n", end=None, tags=[], expression="0 1 * * *")
    assert (found.rules.end, found.tags, found.rules.text) == (None, (), "0 1 * * *")
    assert found.rules.timezone == "Europe/Berlin"
    found = await commands.update(world.store, "n", job=template(kind="other", priority=0))
    assert (found.kind, found.priority, found.version) == ("other", 0, 4)
    same = await commands.update(world.store, "n", overlap="allow")
    assert same.version == 4


async def test_an_update_goes_from_an_expression_to_a_delay_and_back(world: World) -> None:
    await commands.create(world.store, [draft("n", "0 1 * * *")])
    found = await commands.update(world.store, "n", after_completion="10m")
    assert (found.rules.after_completion, found.rules.text) == (600.0, "")
    found = await commands.update(world.store, "n", expression="0 2 * * *")
    assert (found.rules.after_completion, found.rules.text) == (None, "0 2 * * *")


async def test_running_it_by_hand_follows_its_rule_of_overlap_or_another(world: World) -> None:
    await commands.create(world.store, [draft("n", job=template(priority=1, timeout=5.0))])
    first = await commands.trigger(world.store, "n", ids=world.ids)
    assert first is not None
    job = await world.get(first)
    assert (job.kind, job.priority, job.timeout) == ("report", 1, 5.0)
    assert (job.extras.schedule, job.extras.nominal) == ("n", None)
    assert job.state is JobState.READY
    assert await commands.trigger(world.store, "n", ids=world.ids) is None
    by = Author(world.ids, "ada")
    second = await commands.trigger(world.store, "n", overlap="allow", ids=world.ids, by=by)
    assert second is not None and second != first
    [entry] = await world.store.audit.list(target="schedule:n")
    assert (entry.actor, entry.action) == ("ada", "trigger")


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_run_by_hand_that_becomes_no_job_leaves_the_live_one_alone(world: World) -> None:
    await commands.create(world.store, [draft(job=template(key="one"), overlap="terminate_other")])
    first = await commands.trigger(world.store, "nightly", ids=world.ids)
    assert first is not None
    assert await commands.trigger(world.store, "nightly", ids=world.ids) is None
    assert await world.state(first) is JobState.READY


async def test_a_buffered_run_by_hand_waits_for_the_one_before(world: World) -> None:
    await commands.create(world.store, [draft("n", overlap="buffer_one")])
    runs = [await commands.trigger(world.store, "n", ids=world.ids) for _ in range(3)]
    assert runs[0] is not None and runs[1] is not None and runs[2] is None
    found = [await world.get(run) for run in runs[:2] if run is not None]
    id = schedule_id("default", "n")
    assert {job.ordering_key for job in found} == {f"schedule:{id}"}


async def test_acts_by_an_author_are_written_down(world: World) -> None:
    by = Author(world.ids, "ada")
    await commands.create(world.store, [draft("n")])
    await commands.pause(world.store, "n", note="why", by=by)
    await commands.resume(world.store, "n", by=by)
    await commands.update(world.store, "n", expression="0 1 * * *", by=by)
    await commands.delete(world.store, "n", by=by)
    entries = await world.store.audit.list(target="schedule:n")
    assert sorted(one.action for one in entries) == ["change", "delete", "pause", "resume"]


async def test_keys_are_refused_where_there_are_several_partitions(world: World) -> None:
    said = draft(job=template(key="k"), overlap="allow")
    if world.store.partitions == 1:
        await commands.create(world.store, [said])
        return
    with pytest.raises(InvalidValue, match="several partitions"):
        await commands.create(world.store, [said])


async def test_what_has_no_time_ahead_has_ended(world: World) -> None:
    await commands.create(world.store, [draft("old", "2020-01-01T00:00:00Z", origin="shop.jobs")])
    found = await commands.get(world.store, "old")
    assert (found.state, found.trigger) == (ScheduleState.ENDED, None)
    assert await commands.next_fires(world.store, "old") == []


async def test_people_cannot_make_what_never_fires(world: World) -> None:
    past = world.clock.now() - timedelta(days=1)
    with pytest.raises(InvalidValue) as caught:
        await commands.create(world.store, [draft("n", "2020-01-01T00:00:00Z")])
    assert caught.value.field == "expression"
    with pytest.raises(InvalidValue) as caught:
        await commands.create(world.store, [draft("n", "0 3 * * *", end=past)])
    assert caught.value.field == "end"
    await commands.create(world.store, [draft("n")])
    with pytest.raises(InvalidValue, match="no time"):
        await commands.update(world.store, "n", end=past)
    assert (await commands.get(world.store, "n")).version == 1


async def test_saying_again_what_is_over_by_now_is_no_mistake(world: World) -> None:
    soon = (world.clock.now() + timedelta(minutes=1)).isoformat()
    await commands.create(world.store, [draft("once", soon)])
    world.clock.advance(3600)
    [put] = await commands.create(world.store, [draft("once", soon)])
    assert put.outcome == "unchanged"


async def test_the_next_fires_end_with_the_schedule(world: World) -> None:
    now = world.clock.now()  # twelve
    world.clock.advance(1)
    end = now + timedelta(hours=3)
    await commands.create(world.store, [draft("n", "0 * * * *", end=end)])
    fires = await commands.next_fires(world.store, "n", 10)
    assert [fire.at - now for fire in fires] == [timedelta(hours=hours) for hours in (1, 2, 3)]
    await commands.pause(world.store, "n")
    assert await commands.next_fires(world.store, "n") == []


async def test_many_are_made_at_once(world: World) -> None:
    drafts = [draft(f"s{n}", f"{n % 60} {n % 24} * * *", overlap="allow") for n in range(6000)]
    puts = await commands.create(world.store, drafts)
    assert {put.outcome for put in puts} == {"created"}
    assert (await world.store.schedules.count())[ScheduleState.ACTIVE] == 6000


async def test_more_than_a_page_of_a_tag_is_paused(world: World) -> None:
    await commands.create(world.store, [draft(f"s{n}", tags=("t",)) for n in range(1500)])
    assert len(await commands.pause(world.store, tag="t")) == 1500
    assert len(await commands.delete(world.store, tag="t")) == 1500
    with pytest.raises(InvalidValue, match="which one"):
        await commands.delete(world.store)
    with pytest.raises(InvalidValue, match="together with tag"):
        await commands.delete(world.store, "n", tag="t")


async def test_one_that_is_changed_while_it_is_resumed_fires_as_changed(world: World) -> None:
    await commands.create(world.store, [draft("one", "* * * * *"), draft("two", "* * * * *")])
    await commands.pause(world.store, ["one", "two"])
    read = [await commands.get(world.store, name) for name in ("one", "two")]
    await commands.update(world.store, "one", expression="0 0 1 1 *")
    for one in read:
        partition = partition_of(one.id, world.store.partitions)
        assert await schedule_making.attach(world.store, partition, [one]) == [one.id]
        assert await schedule_making.attach(world.store, partition, [one]) == []
    one, two = [await commands.get(world.store, name) for name in ("one", "two")]
    assert one.state is two.state is ScheduleState.ACTIVE
    first = datetime(world.clock.now().year + 1, 1, 1, tzinfo=UTC)
    assert one.next_at == first.timestamp()
    assert two.next_at is not None and two.next_at < one.next_at


async def test_workers_that_start_together_declare_once(world: World) -> None:
    stores = [world.store, *[await world.another_store() for _ in range(3)]]
    for expression in ("0 3 * * *", "0 4 * * *"):
        declared = [draft(f"s{n}", expression, origin="shop") for n in range(20)]
        diffs = await asyncio.gather(
            *(sync(store, declared, modules=frozenset({"shop"})) for store in stores)
        )
        assert sum(len(diff.changes) for diff in diffs) == 20
    found = await commands.search(world.store)
    assert {(one.version, one.rules.text) for one in found} == {(2, "0 4 * * *")}


# What is refused, and what is worked out, without a store.


def checked(*args: Any, **options: Any) -> Any:
    return check_draft(draft(*args, **options), now=NOON)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("timezone", {"timezone": "Mars/Olympus"}),
    ("dst_gap", {"dst_gap": "maybe"}),
    ("dst_overlap", {"dst_overlap": "third"}),
    ("calendars", {"calendars": "holidays"}),
    ("calendars", {"calendars": ["a b"]}),
    ("start", {"start": "2026-01-01"}),
    ("start", {"start": datetime(2026, 1, 1)}),  # noqa: DTZ001 - that is what is wrong with it
    ("end", {"start": datetime(2027, 1, 2, tzinfo=UTC), "end": datetime(2027, 1, 1, tzinfo=UTC)}),
    ("spread", {"spread": -1}),
    ("spread", {"spread": 1.5}),
    ("spread", {"spread": "8d"}),
    ("jitter", {"jitter": "soon"}),
    ("jitter", {"jitter": -1}),
    ("jitter", {"jitter": "1d"}),
    ("overlap", {"overlap": "queue"}),
    ("buffer", {"buffer": 3}),
    ("buffer", {"overlap": "buffer_all", "buffer": 0}),
    ("misfire", {"misfire": "some"}),
    ("misfire_window", {"misfire_window": float("nan")}),
    ("catchup_rate", {"catchup_rate": 0}),
    ("catchup_rate", {"catchup_rate": True}),
    ("start_deadline", {"start_deadline": 0}),
    ("max_runs", {"max_runs": 0}),
    ("max_runs", {"max_runs": True}),
    ("max_runs", {"max_runs": 2**31}),
    ("pause_after", {"pause_after": 0}),
    ("carry_result", {"carry_result": "yes"}),
    ("tags", {"tags": "vip"}),
    ("tags", {"tags": [""]}),
    ("anchor", {"anchor": datetime(2026, 1, 1, tzinfo=UTC)}),
    ("schedule", {"colour": "red"}),
    ("expression", {"after_completion": "10m"}),
]


@pytest.mark.parametrize(("field", "options"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_bad_option_is_refused_with_its_field(field: str, options: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(InvalidValue) as caught:
            checked("n", "0 3 * * *", **options)
        assert caught.value.field == field


def test_true_is_no_number_even_after_one_was_right() -> None:
    checked("n", "0 3 * * *", max_runs=1)
    with pytest.raises(InvalidValue, match="max_runs"):
        checked("n", "0 3 * * *", max_runs=True)


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 201, 7, None, "a\x00b"])
def test_a_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        checked(name)
    assert caught.value.field == "name"


@pytest.mark.parametrize(
    ("field", "job"),
    [
        ("delay", template(delay=5.0)),
        ("run_at", template(run_at=datetime(2027, 1, 1, tzinfo=UTC))),
        ("key_mode", template(key="k", key_mode="replace")),
        ("idempotency_key", template(more=More(extras=Extras(idempotency_key="k")))),
    ],
)
def test_options_that_a_schedule_decides_are_refused(field: str, job: NewJob) -> None:
    with pytest.raises(InvalidValue) as caught:
        checked("n", "0 3 * * *", job=job)
    assert caught.value.field == field


@pytest.mark.parametrize("overlap", ["buffer_one", "buffer_all", "cancel_other"])
def test_an_ordering_key_and_an_overlap_that_orders_exclude_each_other(overlap: str) -> None:
    job = template(more=More(ordering_key="account-7"))
    with pytest.raises(InvalidValue, match="ordering_key"):
        checked("n", "0 3 * * *", job=job, overlap=overlap)
    checked("n", "0 3 * * *", job=job, overlap="skip")


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("calendars", {"calendars": ["holidays"]}),
        ("dst_gap", {"dst_gap": "skip"}),
        ("anchor", {"anchor": datetime(2026, 1, 1, tzinfo=UTC)}),
        ("overlap", {"overlap": "allow"}),
    ],
)
def test_what_names_times_is_refused_with_a_delay(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        checked("n", None, after_completion=5, **options)
    assert caught.value.field == field


def test_one_without_any_time_is_refused() -> None:
    with pytest.raises(InvalidValue, match="after_completion"):
        checked("n", None)


def test_a_result_that_is_not_kept_cannot_be_carried() -> None:
    job = template(more=More(extras=Extras(ignore_result=True)))
    with pytest.raises(InvalidValue, match="carry_result"):
        checked("n", "0 3 * * *", job=job, carry_result=True)


def test_of_many_the_one_that_is_refused_is_named() -> None:
    with pytest.raises(FoliotError) as caught:
        schedule_making._checked(
            _OnePartition(),  # type: ignore[arg-type]
            [draft("good"), draft("bad", "61 * * * *")],
            NOON,
        )
    assert "schedule 'bad': expression" in str(caught.value)


class _OnePartition:
    partitions = 1


def test_equal_times_share_a_trigger_and_others_do_not() -> None:
    plain: dict[str, Any] = {"overlap": "allow"}
    one = checked("a", "every day at 3am", **plain).trigger
    assert checked("b", "0 3 * * *", **plain, jitter=9, max_runs=None).trigger == one
    others = [
        checked("b", "0 3 * * *").trigger,  # stateful
        checked("b", "0 4 * * *", **plain).trigger,
        checked("b", "0 3 * * *", **plain, timezone="Europe/Berlin").trigger,
        checked("b", "0 3 * * *", **plain, dst_gap="skip").trigger,
        checked("b", "0 3 * * *", **plain, calendars=["x"]).trigger,
        checked("b", None, after_completion=60).trigger,
        checked("c", None, after_completion=60).trigger,
    ]
    assert len({one.id, *(other.id for other in others)}) == 8


def test_a_start_does_not_move_the_trigger_that_others_share() -> None:
    start = datetime(2027, 1, 1, tzinfo=UTC)
    late = checked("late", "0 3 * * *", start=start)
    assert late.trigger.next == checked("now", "0 3 * * *").trigger.next
    assert late.rules.start == int(start.timestamp())


def test_a_time_that_is_now_is_still_ahead() -> None:
    assert checked("n", "0 12 * * *").trigger.next == int(NOON)
    assert check_draft(draft("n", "0 12 * * *"), now=NOON + 0.5).trigger.next == NOON + 86_400  # type: ignore[union-attr]


def test_words_that_count_from_now_count_from_the_stores_now() -> None:
    for later in (0, 60):
        made = check_draft(draft("n", "in 10 minutes"), now=NOON + later)
        assert made.trigger is not None and made.trigger.next == NOON + later + 600


def test_a_hashed_field_follows_the_name() -> None:
    texts = {checked(f"n{n}", "H H * * *").rules.text for n in range(20)}
    assert len(texts) > 10
    assert checked("n1", "H H * * *").rules.text == checked("n1", "H H * * *").rules.text


def test_a_spread_gives_every_schedule_its_place() -> None:
    places = {checked(f"n{n}", "0 3 * * *", spread="1h").phase for n in range(50)}
    assert len(places) > 40 and all(place is not None and 0 <= place < 3600 for place in places)
    assert checked("n", "0 3 * * *").phase is None


def test_rules_survive_their_json() -> None:
    rules = checked(
        "n", "0 3 * * *", overlap="buffer_all", buffer=3, calendars={"b", "a"}, catchup_rate=2
    ).rules
    assert rules.calendars == ("a", "b")
    assert msgspec.json.decode(msgspec.json.encode(rules), type=type(rules)) == rules
