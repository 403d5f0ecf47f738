"""Parents that end at the same instant, again and again: each join starts once, each workflow ends once, nobody waits
for somebody who waits for him."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, JobState, More, Outcome
from foliot.model.lane import lane_of
from foliot.model.workflow import NewStep, NewWorkflow, WorkflowState
from foliot.store import flowing
from foliot.store.port import Cycle, Share, Store
from foliot.store.postgres import workflows as postgres_workflows
from foliot.store.sql import parse_statement
from foliot.testing.clock import ManualClock
from support.stores import Databases, World, open_world, postgres_place, sqlite_place

pytestmark = pytest.mark.anyio

SIDES: Final = ("left", "right")
TOGETHER: Final = 60  # workflows whose parents end at the same time
# Keeps workflows to itself until so many trips wait for them.
Gate = Callable[[Sequence[JobId], int], AbstractAsyncContextManager[None]]


def draw(world: World, rounds: int) -> NewWorkflow:
    """In each round a step on the left and one on the right, and both wait for both of the round before: two joins, and
    at last the end of the workflow."""
    id = world.new_job().id
    steps: list[NewStep] = []
    above: tuple[JobId, ...] = ()
    for number in range(rounds):
        jobs = [world.new_job(queue=side, more=More(workflow=id)) for side in SIDES]
        steps += [NewStep(name=f"{job.queue}-{number}", job=job, parents=above) for job in jobs]
        above = tuple(job.id for job in jobs)
    return NewWorkflow(id=id, name="race", steps=tuple(steps))


class Side:
    """A worker that serves one side, with connections of its own."""

    def __init__(self, world: World, store: Store, session: SessionId, queue: str) -> None:
        self._store = store
        self._partition = world.partition
        self._session = session
        self._queue = queue

    async def claim(self, count: int) -> list[ClaimedJob]:
        share = Share(lane_of(self._queue), count)
        cycle = await self._store.jobs.finish_and_claim(
            self._partition, self._session, shares=[share], room=count
        )
        return cycle.claimed

    async def end(self, jobs: Sequence[ClaimedJob]) -> Cycle:
        outcomes = [Outcome(job.id, job.fence, flow=job.flow) for job in jobs]
        return await self._store.jobs.finish_and_claim(
            self._partition, self._session, outcomes=outcomes
        )


async def race(world: World, gate: Gate, *, flows: int, rounds: int) -> None:
    stores = [world.store, await world.another_store()]
    left, right = [
        Side(world, store, await world.open_session(lease=1e6), side)
        for store, side in zip(stores, SIDES, strict=True)
    ]
    for _ in range(flows // TOGETHER):
        drawn = [draw(world, rounds) for _ in range(TOGETHER)]
        for flow in drawn:
            assert await world.store.workflows.submit(world.partition, flow)
        for number in range(rounds):
            lefts, rights = await asyncio.gather(left.claim(1000), right.claim(1000))
            expected = [
                {flow.steps[2 * number + place].job.id for flow in drawn} for place in (0, 1)
            ]
            assert [{job.id for job in lefts}, {job.id for job in rights}] == expected
            assert {job.fence for job in (*lefts, *rights)} == {1}, "somebody has started before"
            cycles = await _end_at_once(left, right, lefts, rights, gate, number)
            assert [cycle.refused for cycle in cycles] == [[]] * 4
            begun = [state for cycle in cycles for _, state in cycle.advance.lanes]
            ended = sorted(id for cycle in cycles for id in cycle.advance.ended)
            joins = 0 if number + 1 == rounds else 2 * TOGETHER
            assert begun == [JobState.READY] * joins, f"{len(begun)} of {joins} joins have begun"
            assert ended == ([] if joins else sorted(flow.id for flow in drawn))
        for flow in drawn:
            seen = await world.store.workflows.get(flow.id)
            assert seen is not None
            assert (seen.state, seen.remaining) == (WorkflowState.SUCCEEDED, 0)
    assert await world.count() == {JobState.SUCCEEDED: 2 * flows * rounds}


async def _end_at_once(
    left: Side,
    right: Side,
    lefts: list[ClaimedJob],
    rights: list[ClaimedJob],
    gate: Gate,
    number: int,
) -> list[Cycle]:
    """In four trips: each shares workflows with two others, and they come in opposite orders."""
    third = TOGETHER // 3
    lefts.sort(key=lambda job: str(job.flow))
    rights.sort(key=lambda job: str(job.flow), reverse=True)
    trips: list[Callable[[], Coroutine[Any, Any, Cycle]]] = [
        lambda: left.end(lefts[: 2 * third]),
        lambda: right.end(rights[: 2 * third]),
        lambda: left.end(lefts[2 * third :]),
        lambda: right.end(rights[2 * third :]),
    ]
    turn = number % 4
    flows = [job.flow for job in lefts if job.flow is not None]
    async with gate(flows, 4):
        under_way = [asyncio.ensure_future(trip()) for trip in trips[turn:] + trips[:turn]]
    return list(await asyncio.gather(*under_way))


@asynccontextmanager
async def open_gate(flows: Sequence[JobId], trips: int) -> AsyncIterator[None]:
    """Where there is one writer, they queue up by themselves."""
    yield


@asynccontextmanager
async def lock_gate(world: World) -> AsyncIterator[Gate]:
    """Trips that all wait when they are let go have begun before any of them has ended."""
    url = world.place.direct
    async with (
        await psycopg.AsyncConnection.connect(url) as holder,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher,
    ):

        @asynccontextmanager
        async def gate(flows: Sequence[JobId], trips: int) -> AsyncIterator[None]:
            lock = "SELECT id FROM foliot.workflows WHERE id = ANY (%s::uuid[]) FOR UPDATE"
            await holder.execute(lock, [flows])
            yield
            waiting = 0
            async with asyncio.timeout(30):
                while waiting < trips:
                    count = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
                    row = await (await watcher.execute(count)).fetchone()
                    waiting = row[0] if row else 0
            await holder.commit()

        yield gate


async def test_a_join_of_parents_that_end_at_once_starts_once_in_ten_thousand_rounds(
    databases: Databases, clock: ManualClock
) -> None:
    log = databases.server.log_text
    before = log().count("deadlock detected")
    async with (
        postgres_place(databases, partitions=1) as place,
        open_world(place, clock) as world,
        lock_gate(world) as gate,
    ):
        await race(world, gate, flows=1020, rounds=11)
    assert log().count("deadlock detected") == before


async def test_so_it_does_in_a_file(tmp_path: Path, clock: ManualClock) -> None:
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        await race(world, open_gate, flows=120, rounds=11)


async def decide_and_then_count(
    talk: flowing.Talk, flows: Sequence[str], progress: flowing.Progress
) -> None:
    """Level by level as well, but what a workflow's row would keep others from is over when that is written."""
    while told := await talk.ask("take_untold_steps", ids=flowing.to_json(list(flows))):
        ended = flowing._below(told)
        found = await talk.ask("read_steps", ids=flowing.to_json(sorted(ended)))
        standing = {flow: flowing._Standing(False, False, False) for flow in flows}
        await flowing._decide(talk, found, ended, standing, progress)
        await talk.hear()
        settled = flowing._settle(talk, told)
        await talk.hear()
        flowing._stand(talk, settled.rows, progress)


@pytest.mark.parametrize("locked", [True, False])
async def test_without_the_lock_of_its_workflow_a_join_is_lost(
    databases: Databases, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    """So the rounds above are what they say: two end its parents at once, and do not see each other."""
    monkeypatch.setattr(flowing, "_tell", decide_and_then_count)
    if not locked:
        sql = postgres_workflows.SQL
        careless = sql["lock_workflows"].text.replace(" FOR UPDATE", "")
        monkeypatch.setitem(sql, "lock_workflows", parse_statement("lock_workflows", careless))
    async with (
        postgres_place(databases, partitions=1) as place,
        open_world(place, clock) as world,
        lock_gate(world) as gate,
    ):
        if locked:
            await race(world, gate, flows=TOGETHER, rounds=3)
        else:
            with pytest.raises(AssertionError, match="of 120 joins have begun"):
                await race(world, gate, flows=TOGETHER, rounds=3)
