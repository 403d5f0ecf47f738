"""Trips to the store: nothing that a store answers ends them, and no outcome is sent for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foliot import commands
from foliot.config import Settings
from foliot.errors import FoliotError, StoreUnavailable
from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, JobState, Outcome
from foliot.model.lane import lane_of
from foliot.registry import define
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Peek, Wake
from foliot.testing.clock import ManualClock
from foliot.worker.cycle import Cycle
from foliot.worker.success import success
from foliot.worker.trip import fitting
from support.flows import draw
from support.limits import limit
from support.stores import World, open_world, sqlite_place

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        yield world


class Rig:
    """A cycle on a store, and what it announced."""

    def __init__(
        self, world: World, session: SessionId, kinds: Sequence[str] | None = None
    ) -> None:
        self.world = world
        self.wakes: list[Wake] = []
        self.cycle = Cycle(
            world.store,
            session,
            Settings(),
            clock=world.clock,
            ids=world.ids,
            trusted=lambda: True,
            look=lambda: None,
            announce=self.wakes.append,
            kinds=kinds,
        )

    async def flush(self) -> None:
        pumps = asyncio.create_task(self.cycle.run())
        try:
            await self.cycle.flush()
            assert not pumps.done()
        finally:
            pumps.cancel()
            await asyncio.gather(pumps, return_exceptions=True)


class Slots:
    """As much room as one likes, and everything that came in."""

    def __init__(self, room: int) -> None:
        self.left = room
        self.jobs: list[ClaimedJob] = []

    def room(self, prefetch: int) -> int:
        return self.left

    def ids(self) -> set[JobId]:
        return set()

    def add(self, jobs: Sequence[ClaimedJob], *, since: float) -> None:
        self.left -= len(jobs)
        self.jobs.extend(jobs)


@pytest.fixture
async def session(world: World) -> SessionId:
    return await world.open_session(lease=1e6)


def refuse(
    world: World, monkeypatch: pytest.MonkeyPatch, refused: Callable[[Outcome], bool]
) -> list[int]:
    """A store that cannot take some outcomes. Returns the sizes of the trips that failed."""
    finish, sizes = world.store.jobs.finish_and_claim, []

    async def refusing(*args: Any, outcomes: Sequence[Outcome] = (), **rest: Any) -> Any:
        if any(refused(outcome) for outcome in outcomes):
            sizes.append(len(outcomes))
            raise ValueError("cannot be bound")
        return await finish(*args, outcomes=outcomes, **rest)

    monkeypatch.setattr(world.store.jobs, "finish_and_claim", refusing)
    return sizes


async def running(world: World, session: SessionId, count: int) -> list[ClaimedJob]:
    await world.submit_many(count)
    return await world.claim(session, count)


async def test_an_outcome_that_cannot_be_stored_does_not_keep_the_others_back(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await running(world, session, 5)
    rig = Rig(world, session)
    refuse(world, monkeypatch, lambda outcome: outcome.result == b"bad")
    for job in jobs:
        rig.cycle.done(Outcome(job.id, job.fence, result=b"bad" if job is jobs[2] else b'"good"'))
    await rig.flush()
    assert await world.count() == {JobState.SUCCEEDED: 4, JobState.SCHEDULED: 1}
    [attempt] = await world.attempts(jobs[2].id)
    assert attempt.error == "the outcome could not be stored: ValueError"


async def test_a_result_of_the_last_attempt_that_cannot_be_stored_is_the_end(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = await running(world, session, 1)
    rig = Rig(world, session)
    refuse(world, monkeypatch, lambda outcome: outcome.result == b"bad")
    last = msgspec.structs.replace(job, attempt=job.max_attempts)
    rig.cycle.done(msgspec.structs.replace(success(last, 1, limit=100), result=b"bad"))
    await rig.flush()
    assert await world.state(job.id) is JobState.DEAD


async def test_an_outcome_that_is_never_taken_is_dropped_in_the_end(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job, other] = await running(world, session, 2)
    rig = Rig(world, session)
    sizes = refuse(world, monkeypatch, lambda outcome: outcome.id == job.id)
    rig.cycle.done(Outcome(job.id, job.fence))
    rig.cycle.done(Outcome(other.id, other.fence))
    await rig.flush()
    assert await world.state(other.id) is JobState.SUCCEEDED
    assert await world.state(job.id) is JobState.RUNNING
    assert sizes == [2, 1, 1, 1, 1, 1, 1]
    monkeypatch.undo()
    await rig.cycle.reconcile()
    await rig.flush()
    assert await world.state(job.id) is JobState.READY


async def test_whatever_a_claim_raises_the_next_one_is_made(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit_many(3)
    rig, slots = Rig(world, session), Slots(10)
    rig.cycle.serve(slots)  # type: ignore[arg-type]
    finish, failures = (
        world.store.jobs.finish_and_claim,
        [RuntimeError("first"), KeyError("second")],
    )

    async def failing(*args: Any, **rest: Any) -> Any:
        if failures:
            raise failures.pop()
        return await finish(*args, **rest)

    monkeypatch.setattr(world.store.jobs, "finish_and_claim", failing)
    rig.cycle.see(await world.store.jobs.peek())
    pumps = asyncio.create_task(rig.cycle.run())
    while not slots.jobs:  # noqa: ASYNC110 - the store's thread answers when it likes
        await asyncio.sleep(0.001)
    assert len(slots.jobs) == 3
    assert rig.cycle.uncertain
    pumps.cancel()
    await asyncio.gather(pumps, return_exceptions=True)


def raise_once(
    monkeypatch: pytest.MonkeyPatch, world: World, asked: str, error: Exception
) -> list[Exception | None]:
    """When the store is asked this of workflows. Returns what came of each time."""
    answer, times = getattr(world.store.workflows, asked), list[Exception | None]()

    async def failing(*args: Any, **rest: Any) -> Any:
        times.append(None if times else error)
        if times == [error]:
            raise error
        return await answer(*args, **rest)

    monkeypatch.setattr(world.store.workflows, asked, failing)
    return times


AFTER_A_TRIP = pytest.mark.parametrize("error", [FoliotError("a row"), StoreUnavailable("away")])


@AFTER_A_TRIP
async def test_what_was_claimed_is_given_back_if_its_parents_are_not_known(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.run("a", result=b"1")
    rig, slots = Rig(world, session), Slots(10)
    rig.cycle.serve(slots)  # type: ignore[arg-type]
    times = raise_once(monkeypatch, world, "parents", error)
    rig.cycle.see(await world.store.jobs.peek())
    pumps = asyncio.create_task(rig.cycle.run())
    async with asyncio.timeout(10):
        while not (times and rig.cycle.uncertain):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        await rig.cycle.reconcile()
        while not slots.jobs:
            rig.cycle.see(await world.store.jobs.peek())
            await asyncio.sleep(0.001)
    [job] = slots.jobs
    assert [parent.result for parent in job.parents] == [1]
    pumps.cancel()
    await asyncio.gather(pumps, return_exceptions=True)


@AFTER_A_TRIP
async def test_an_outcome_that_was_refused_goes_again_if_nobody_says_why(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    [job] = await running(world, session, 1)
    rig = Rig(world, session)
    await world.reap(session)
    times = raise_once(monkeypatch, world, "linked", error)
    rig.cycle.done(Outcome(job.id, job.fence))  # of an attempt that was taken back
    async with asyncio.timeout(10):
        await rig.flush()
    assert times == [error, None]
    assert await world.state(job.id) is JobState.READY


@AFTER_A_TRIP
async def test_a_workflow_that_cannot_be_carried_on_is_left_to_the_duty(
    world: World, session: SessionId, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    flow = await draw(world)
    steps = [flow.step(str(n), *([str(n - 1)] if n else [])) for n in range(60)]
    await flow.submit(*steps, policy="continue")
    await flow.claim()
    rig = Rig(world, flow.session)
    times = raise_once(monkeypatch, world, "advance", error)
    rig.cycle.done(flow.outcome("0", End.BURY))
    pumps = asyncio.create_task(rig.cycle.run())
    async with asyncio.timeout(10):
        while not times:  # noqa: ASYNC110 - the store's thread answers when it likes
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert not pumps.done()
    pumps.cancel()
    await asyncio.gather(pumps, return_exceptions=True)
    await flow.settle()
    assert await world.state(flow.ids["59"]) is JobState.SKIPPED


@pytest.mark.parametrize(
    ("end", "delay", "told"),
    [
        (End.RETRY, 0.01, True),
        (End.RETRY, 3600.0, False),
        (End.RELEASE, 0.0, True),
        (End.HOLD, 0.0, True),
        (End.SUCCEED, 0.0, False),
    ],
)
async def test_others_are_told_of_what_goes_back(
    world: World, session: SessionId, end: End, delay: float, told: bool
) -> None:
    [job] = await running(world, session, 1)
    rig = Rig(world, session)
    rig.cycle.done(Outcome(job.id, job.fence, end, delay=delay, reason="failed"))
    await rig.flush()
    assert rig.wakes == ([Wake(due=True)] if told else [])


async def test_empty_lanes_cool_although_others_are_busy(world: World, session: SessionId) -> None:
    queues = [f"queue{number}" for number in range(10)]
    await world.submit_many(50, queue="queue4")
    await world.submit_many(2, queue="queue7")
    rig, slots = Rig(world, session), Slots(20)
    rig.cycle.serve(slots)  # type: ignore[arg-type]
    rig.cycle.see(Peek([(0, lane_of(queue)) for queue in queues], {}))
    for total in (4, 12, 20):
        trip = rig.cycle._next_trip()
        assert trip is not None
        assert await rig.cycle._make(trip)
        assert len(slots.jobs) == total
    assert rig.cycle.lanes._hot.keys() == {0}
    assert rig.cycle.lanes._hot[0].keys() == {lane_of("queue4").number}


async def test_lanes_that_there_was_no_room_to_ask_stay_hot(
    world: World, session: SessionId
) -> None:
    for queue in ("a", "b", "c"):
        await world.submit_many(5, queue=queue)
    rig, slots = Rig(world, session), Slots(2)
    rig.cycle.serve(slots)  # type: ignore[arg-type]
    rig.cycle.see(Peek([(0, lane_of(queue)) for queue in ("a", "b", "c")], {}))
    trip = rig.cycle._next_trip()
    assert trip is not None
    assert await rig.cycle._make(trip)
    assert len(slots.jobs) == 2
    assert len(rig.cycle.lanes._hot[0]) == 3


def test_a_trip_carries_no_more_than_some_megabytes() -> None:
    large = Outcome(JobId("a"), 1, result=bytes(1 << 20))
    small = Outcome(JobId("b"), 1)
    assert fitting([large] * 100) == 16
    assert fitting([Outcome(JobId("c"), 1, result=bytes(1 << 25)), small]) == 1
    assert fitting([small] * 5000) == 2000
    assert fitting([]) == 0


async def test_partitions_that_were_given_up_are_not_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await world.open_session(duties=True)
    partitions = Partitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
    divide, under_way, go_on = world.store.leases.divide, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **rest: Any) -> frozenset[int]:
        under_way.set()
        await go_on.wait()
        return await divide(*args, **rest)

    monkeypatch.setattr(world.store.leases, "divide", slow)
    tick = asyncio.create_task(partitions.tick())
    await under_way.wait()
    giving_up = asyncio.create_task(partitions.give_up())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(tick, giving_up)
    assert partitions.held == frozenset()
    monkeypatch.undo()
    other = await world.open_session(duties=True)
    await world.store.sessions.close(session)
    assert await world.store.leases.divide(other, term=5) == {0}


class Picky:
    """A cycle that knows one kind, where another worker's job is in front."""

    def __init__(self, world: World, session: SessionId) -> None:
        self.world = world
        self.slots = Slots(10)
        self.cycle = Rig(world, session, kinds=["echo"]).cycle
        self.cycle.serve(self.slots)  # type: ignore[arg-type]

    async def begin(self) -> None:
        def theirs() -> None: ...

        await commands.announce(self.world.store, [define(theirs)])
        self.cycle.lanes.know(await self.world.store.definitions.all())
        await self.world.submit(kind="theirs")

    async def step(self, took: float = 0.0) -> list[str]:
        """The next trip, which takes so long; what has been claimed by now."""
        self.cycle.see(await self.world.store.jobs.peek())
        trip = asyncio.create_task(self.cycle.step())
        await asyncio.sleep(0)
        self.world.clock.advance(took)
        await trip
        return [job.kind for job in self.slots.jobs]


async def test_a_dear_claim_by_kind_is_not_repeated_at_once(
    world: World, session: SessionId, clock: ManualClock
) -> None:
    """It walks past all of others' jobs, and every one of them that is submitted is news."""
    picky = Picky(world, session)
    await picky.begin()
    assert await picky.step(took=0.04) == []
    await world.submit()
    clock.advance(0.39)
    assert await picky.step() == []
    clock.advance(0.02)
    assert await picky.step() == ["echo"]
    await world.submit()
    assert await picky.step() == ["echo"] * 2, "that one was cheap"


async def test_a_lane_that_gave_some_who_have_to_wait_is_not_in_vain(
    world: World, session: SessionId
) -> None:
    picky = Picky(world, session)
    await picky.begin()
    await limit(world, "kind:echo", concurrency=0)
    await world.submit_many(30)
    for _ in range(2):
        await picky.step(took=0.04)
    assert (await world.count())[JobState.HELD] == 30


async def test_after_its_rest_a_lane_is_asked_again_without_news(
    world: World, session: SessionId
) -> None:
    picky = Picky(world, session)
    await picky.begin()
    assert await picky.step(took=0.006) == []
    await asyncio.wait_for(picky.cycle.wait(), 30)


@pytest.mark.parametrize(
    ("fields", "news"),
    [
        ({"rate": "1/hour"}, [True, False, False, False, True, False]),
        ({"concurrency": 0}, [False] * 6),
    ],
)
async def test_who_has_to_wait_for_a_rate_is_told_of_now_and_then(
    world: World,
    session: SessionId,
    clock: ManualClock,
    fields: dict[str, object],
    news: list[bool],
) -> None:
    """Who does the duties would find out by looking, which may take a second, and looks for those who come soon after.
    Who leaves a slot lets in who waits for it, so that nobody has to be told."""
    rig = Rig(world, session)
    rig.cycle.serve(Slots(10))  # type: ignore[arg-type]
    await limit(world, "kind:echo", **fields)
    await world.submit()
    await world.claim(session)
    told = []
    for pause in (0.0, 0.1, 1.5, 2.9, 1.0, 1.5):
        clock.advance(pause)
        await world.submit()
        rig.cycle.see(await world.store.jobs.peek())
        await rig.cycle.step()
        told.append(rig.wakes == [Wake(due=True)])
        rig.wakes.clear()
    assert told == news
