"""Lanes of a worker: hints, shares of queues by weight, capabilities, and kinds that only others know."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from foliot import commands, queue_commands
from foliot.checks import check_queue_options
from foliot.errors import InvalidValue
from foliot.model.job import JobState, More
from foliot.model.lane import Lane, Strategy, lane_of, weights_of
from foliot.model.session import NewSession
from foliot.registry import define
from foliot.store.port import Share
from foliot.testing.clock import ManualClock
from foliot.worker.lanes import Lanes
from support.stores import World, open_world, sqlite_place

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        yield world


def _round_robin(queue: str) -> Lane:
    lane = lane_of(queue)
    return msgspec.structs.replace(lane, number=lane.number | Strategy.ROUND_ROBIN)


def test_a_hint_for_a_queue_heats_every_lane_that_it_has() -> None:
    lanes, base = Lanes({}), lane_of("mail")
    old = msgspec.structs.replace(base, number=base.number | Strategy.FIFO)
    for lane in (base, old):
        lanes.see(0, lane)
    while lanes:
        lanes.settle(0, lanes.shares(0, 5), 5, [], began=lanes.news)
    assert lanes.hear(0, base.number)
    assert {share.lane for share in lanes.shares(0, 5)} == {base, old}


def test_a_hint_for_turns_that_have_to_be_given_asks_for_a_look() -> None:
    lanes = Lanes({})
    assert not lanes.hear(0, lane_of("mail").number)  # not known yet
    lanes.see(0, _round_robin("mail"))
    assert not lanes.hear(0, lane_of("mail").number)


def test_a_lane_of_another_queue_or_capability_is_left_alone() -> None:
    lanes = Lanes({"mail": 1}, ["gpu"])
    lanes.see(0, lane_of("print"))
    lanes.see(0, lane_of("mail", ("gpu", "region:eu")))
    assert not lanes
    assert lanes.hear(0, lane_of("print").number)  # no look is needed
    lanes.see(0, lane_of("mail", ("gpu",)))
    assert [share.lane for share in lanes.shares(0, 5)] == [lane_of("mail", ("gpu",))]


def test_room_is_shared_by_weight() -> None:
    lanes = Lanes(weights_of(["mail=3", "print"]))
    for queue in ("mail", "print"):
        lanes.see(0, lane_of(queue))
    assert {s.lane.queue: s.quota for s in lanes.shares(0, 100)} == {"mail": 75, "print": 25}


@pytest.mark.parametrize(("weights", "expected"), [(["a=3", "b"], (30, 10)), ([], (20, 20))])
async def test_even_one_job_at_a_time_every_queue_has_its_share(
    world: World, weights: list[str], expected: tuple[int, int]
) -> None:
    session = await world.open_session()
    await world.submit_many(100, queue="a")
    await world.submit_many(40, queue="b")
    lanes = Lanes(weights_of(weights))
    served: Counter[str] = Counter()
    for _ in range(40):
        for _, lane in (await world.store.jobs.peek()).ready:
            lanes.see(0, lane)
        shares = lanes.shares(0, 1)
        cycle = await world.store.jobs.finish_and_claim(0, session, shares=shares, room=1)
        lanes.settle(0, shares, 1, [job.lane for job in cycle.claimed], began=lanes.news)
        served.update("a" if job.lane == lane_of("a").number else "b" for job in cycle.claimed)
    assert (served["a"], served["b"]) == expected


async def test_what_a_queue_leaves_goes_to_the_others(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(50, queue="a")
    lanes = Lanes(weights_of(["a", "b=9"]))
    for queue in "ab":
        lanes.see(0, lane_of(queue))
    claimed = 0
    for _ in range(3):
        shares = lanes.shares(0, 10)
        cycle = await world.store.jobs.finish_and_claim(0, session, shares=shares, room=10)
        lanes.settle(0, shares, 10, [job.lane for job in cycle.claimed], began=lanes.news)
        claimed += len(cycle.claimed)
    assert claimed == 1 + 10 + 10


def test_the_more_had_to_wait_the_further_the_next_claim_looks() -> None:
    lanes, lane = Lanes({}), lane_of("mail")
    lanes.see(0, lane)
    looked = []
    for claimed, held in ((0, 1), (0, 5), (0, 21), (0, 85), (0, 341), (0, 501), (1, 30), (1, 0)):
        looked += [share.past for share in lanes.shares(0, 1)]
        lanes.settle(
            0, lanes.shares(0, 1), 1, [lane.number] * claimed, [lane.number] * held, began=0
        )
    looked += [share.past for share in lanes.shares(0, 1)]
    assert looked == [0, 4, 20, 84, 340, 500, 500, 30, 0]


def test_those_looked_at_past_what_there_is_room_for_take_no_turns_of_others() -> None:
    lanes, a, b = Lanes({}), lane_of("a"), lane_of("b")
    for lane in (a, b):
        lanes.see(0, lane)
    served: Counter[str] = Counter()
    for _ in range(20):
        first, *_ = shares = lanes.shares(0, 1)
        served[first.lane.queue] += 1
        found = [first.lane.number] * (1 + first.past)
        if first.lane == a:
            lanes.settle(0, shares, 1, [], found, began=0)
        else:
            lanes.settle(0, shares, 1, [b.number], began=0)
    assert served == {"a": 10, "b": 10}


async def test_a_worker_takes_only_kinds_it_knows_where_there_are_others(world: World) -> None:
    session = await world.open_session()

    def other() -> None: ...

    await commands.announce(world.store, [define(other)])
    strange = await world.submit_many(5, kind="other")
    mine = await world.submit_many(5, kind="echo")
    lanes = Lanes({}, kinds=["echo"])
    lanes.know(await world.store.definitions.all())
    for _ in range(3):
        lanes.see(0, lane_of("default"))
        shares = lanes.shares(0, 100)
        cycle = await world.store.jobs.finish_and_claim(0, session, shares=shares, room=100)
        lanes.settle(0, shares, 100, [job.lane for job in cycle.claimed], began=lanes.news)
        assert lanes.sort_out(cycle.claimed) == []
    assert [await world.state(id) for id in mine] == ["running"] * 5
    assert [((await world.get(id)).state, (await world.get(id)).fence) for id in strange] == [
        (JobState.READY, 0)
    ] * 5


async def test_a_kind_that_was_met_once_is_never_taken_again(world: World) -> None:
    session = await world.open_session()
    lanes = Lanes({}, kinds=["echo"])
    await world.submit_many(3, kind="other")
    lanes.see(0, lane_of("default"))
    cycle = await world.store.jobs.finish_and_claim(0, session, shares=lanes.shares(0, 10), room=10)
    assert lanes.sort_out(cycle.claimed) == []  # nobody has announced it: it is held
    assert len(cycle.claimed) == 3
    await world.submit_many(3, kind="other")
    lanes.see(0, lane_of("default"))
    assert lanes.shares(0, 10) == [Share(lane_of("default"), 10, ("echo",))]


async def test_lanes_that_nobody_can_serve_are_named(world: World) -> None:
    needs = ("gpu",)
    await world.submit(lane=lane_of("default", needs).number, more=More(requires=needs))
    await world.submit()
    assert await queue_commands.unserved_lanes(world.store) == [
        lane_of("default"),
        lane_of("default", needs),
    ]
    await world.open_session()
    assert await queue_commands.unserved_lanes(world.store) == [lane_of("default", needs)]
    session = NewSession(
        id=world.ids.session(),
        host="here",
        pid=1,
        version="0",
        queues=("default",),
        kinds=("echo",),
        duties=False,
        capabilities=needs,
    )
    await world.store.sessions.open(session, lease=30)
    assert await queue_commands.unserved_lanes(world.store) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"strategy": "lifo"},
        {"strategy": 3},
        {"aging": -1},
        {"aging": "60"},
        {"weights": {"vip": 0}},
        {"weights": {"vip": "3"}},
        {"weights": {"vip": float("nan")}},
        {"weights": {"": 1}},
        {"weights": ["vip"]},
    ],
    ids=str,
)
def test_a_bad_option_of_a_queue_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        check_queue_options(**bad)


async def test_a_queue_is_configured_by_name(world: World) -> None:
    assert await queue_commands.configure_queue(
        world.store, "mail", strategy="round_robin", weights={"vip": 3}, by="me"
    )
    assert not await queue_commands.configure_queue(world.store, "mail", strategy="round_robin")
    [queue] = await world.store.queues.all()
    assert (queue.strategy, queue.weights) == (Strategy.ROUND_ROBIN, {"vip": 3.0})
    with pytest.raises(InvalidValue):
        await queue_commands.configure_queue(world.store, "no/slash", strategy="fifo")
