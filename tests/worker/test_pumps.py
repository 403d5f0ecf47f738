"""Trips under way at once: none of them keeps the others of its worker waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from foliot.config import Settings, WorkerSettings
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import JobState, Outcome
from foliot.testing.clock import ManualClock
from foliot.worker.cycle import Cycle
from support.stores import World, open_world, sqlite_place

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        yield world


@asynccontextmanager
async def pumping(world: World, in_flight: int) -> AsyncIterator[tuple[Cycle, list[Outcome]]]:
    """A cycle at work, and the outcomes of twelve jobs that it holds."""
    session = await world.open_session(lease=1e6)
    cycle = Cycle(
        world.store,
        session,
        Settings(worker=WorkerSettings(in_flight=in_flight)),
        clock=world.clock,
        ids=world.ids,
        trusted=lambda: True,
        look=lambda: None,
        announce=lambda _: None,
    )
    await world.submit_many(12)
    outcomes = [Outcome(job.id, job.fence) for job in await world.claim(session, 12)]
    pumps = asyncio.create_task(cycle.run())
    try:
        async with asyncio.timeout(20):
            yield cycle, outcomes
    finally:
        pumps.cancel()
        await asyncio.gather(pumps, return_exceptions=True)


def watch(
    world: World, monkeypatch: pytest.MonkeyPatch, before: Callable[[set[JobId]], Any]
) -> list[set[JobId]]:
    """`before` each trip, with the jobs that it finishes. Returns these sets, as they were sent."""
    finish, trips = world.store.jobs.finish_and_claim, list[set[JobId]]()

    async def watched(*args: Any, outcomes: Sequence[Outcome] = (), **rest: Any) -> Any:
        trips.append({outcome.id for outcome in outcomes})
        await before(trips[-1])
        return await finish(*args, outcomes=outcomes, **rest)

    monkeypatch.setattr(world.store.jobs, "finish_and_claim", watched)
    return trips


async def until_ended(world: World, id: JobId) -> None:
    while await world.state(id) is not JobState.SUCCEEDED:  # noqa: ASYNC110 - asks the store
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("in_flight", [1, 2, 3])
async def test_outcomes_that_are_refused_do_not_keep_a_later_one_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch, in_flight: int
) -> None:
    async with pumping(world, in_flight) as (cycle, [healthy, *poison]):
        refused = {outcome.id for outcome in poison}

        async def before(ids: set[JobId]) -> None:
            if ids & refused:
                raise ValueError("cannot be bound")

        trips = watch(world, monkeypatch, before)
        for outcome in poison:
            cycle.done(outcome)
        while len(trips) < 3:  # noqa: ASYNC110 - the store's thread answers when it likes
            await asyncio.sleep(0.001)
        sent = len(trips)
        cycle.done(healthy)
        await until_ended(world, healthy.id)
        # One by one, until they are dropped, they take sixty more.
        assert trips.index({healthy.id}) <= sent + 5
        await cycle.flush()


@pytest.mark.parametrize("in_flight", [1, 2])
async def test_what_ends_while_all_trips_are_held_up_is_finished_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, in_flight: int
) -> None:
    async with pumping(world, in_flight) as (cycle, outcomes):
        lock = asyncio.Event()  # somebody else has it
        locked = {outcome.id for outcome in outcomes[:in_flight]}

        async def before(ids: set[JobId]) -> None:
            if ids & locked:
                await lock.wait()

        trips = watch(world, monkeypatch, before)
        for number, outcome in enumerate(outcomes[:in_flight], 1):
            cycle.done(outcome)
            while len(trips) < number:  # noqa: ASYNC110 - a trip of its own for each
                await asyncio.sleep(0.001)
        for outcome in outcomes[in_flight:]:
            cycle.done(outcome)
            await until_ended(world, outcome.id)
        assert not lock.is_set()
        lock.set()
        await cycle.flush()
        assert await world.count() == {JobState.SUCCEEDED: 12}


async def test_the_spare_trip_leaves_what_would_wait_for_the_same_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three jobs under one limit end, and plain ones beside them."""
    async with pumping(world, 2) as (cycle, outcomes):
        lock = asyncio.Event()
        limited = [structs.replace(outcome, gates=("key:x",)) for outcome in outcomes[:3]]
        locked = {one.id for one in limited}

        async def before(ids: set[JobId]) -> None:
            if ids & locked:
                await lock.wait()

        trips = watch(world, monkeypatch, before)
        for number, one in enumerate(limited[:2], 1):
            cycle.done(one)
            while len(trips) < number:  # noqa: ASYNC110 - a trip of its own for each
                await asyncio.sleep(0.001)
        cycle.done(limited[2])
        for outcome in outcomes[3:]:
            cycle.done(outcome)
            await until_ended(world, outcome.id)
        assert not lock.is_set()
        lock.set()
        await cycle.flush()
        assert await world.count() == {JobState.SUCCEEDED: 12}


async def test_what_the_spare_trip_puts_back_goes_at_once_when_the_others_are_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pumping(world, 2) as (cycle, outcomes):
        lock, failed = asyncio.Event(), asyncio.Event()
        locked = {outcome.id for outcome in outcomes[:2]}

        async def before(ids: set[JobId]) -> None:
            if ids & locked:
                await lock.wait()
            elif not failed.is_set():
                lock.set()  # while the spare trip is under way, the others have nothing left to do
                for one in locked:
                    await until_ended(world, one)
                await asyncio.sleep(0.05)
                failed.set()
                raise StoreUnavailable("it was undone")

        trips = watch(world, monkeypatch, before)
        for number, outcome in enumerate(outcomes[:2], 1):
            cycle.done(outcome)
            while len(trips) < number:  # noqa: ASYNC110 - a trip of its own for each
                await asyncio.sleep(0.001)
        cycle.done(outcomes[2])
        await until_ended(world, outcomes[2].id)
        assert failed.is_set()
