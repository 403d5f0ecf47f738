"""Runs of schedules that something follows are steps of a chain: one that is asked to end for the next ends as such."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from foliot.ids import fire_id, inner_id, mark_of
from foliot.model.job import End, JobState
from foliot.model.lane import lane_of
from foliot.model.schedule import Overlap
from foliot.model.workflow import Rule
from foliot.scheduler.fire import tell
from foliot.store.port import Wake
from store.test_runs import _by_hand
from store.test_workflows_crossing import waiting
from store.test_workflows_followed import follow
from store.test_workflows_inside import carry_on
from support.flows import Drawing
from support.schedules import Table
from support.stores import World

pytestmark = pytest.mark.anyio
ENDING = [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER]


@pytest.fixture
def table(world: World) -> Table:
    return Table(world)


@pytest.mark.parametrize("overlap", ENDING)
async def test_one_that_is_followed_ends_for_the_next_and_what_follows_it_is_told(
    world: World, table: Table, overlap: Overlap
) -> None:
    id = await table.create(overlap=overlap)
    await table.fire_at(1)
    await world.look()
    run = fire_id(id, table.at(1))
    after, _ = await follow(world, run, rule=Rule.ALL_DONE)
    instead, _ = await follow(world, run)
    fired = await table.fire_at(2)
    assert (fired.cancelled, fired.ended) == ({run: JobState.READY}, frozenset({run}))
    assert await table.states(id, 1) == ["cancelled"]
    assert await world.state(after) is JobState.READY
    assert await world.state(instead) is JobState.SKIPPED
    assert [state for _, state in fired.advance.lanes] == [JobState.READY]
    await world.look()
    assert await table.states(id, 2) == ["ready"]


async def test_one_that_is_followed_ends_for_a_run_by_hand(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.SKIP)
    await table.fire_at(1)
    run = fire_id(id, table.at(1))
    after, _ = await follow(world, run, rule=Rule.ALL_DONE)
    job = _by_hand(world, table, id)
    fired = await world.store.schedules.run_now(
        table.partition, id, job, overlap=Overlap.TERMINATE_OTHER
    )
    assert fired is not None
    assert fired.ended == {run}
    assert await table.states(id, 1) == ["cancelled"]
    assert await world.state(after) is JobState.READY


async def test_one_that_runs_is_asked_to_end_and_has_not_ended(world: World, table: Table) -> None:
    id = await table.create(overlap=Overlap.CANCEL_OTHER)
    await table.fire_at(1)
    await world.look()
    run = fire_id(id, table.at(1))
    after, _ = await follow(world, run, rule=Rule.ALL_DONE)
    await world.claim(await world.open_session())
    fired = await table.fire_at(2)
    assert (fired.cancelled, fired.ended) == ({run: JobState.RUNNING}, frozenset())
    assert await world.state(after) is JobState.WAITING


async def test_one_that_stands_for_a_workflow_is_told_to_have_ended_when_it_has(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.CANCEL_OTHER)
    await table.fire_at(1)
    await world.look()
    session = await world.open_session()
    [run] = await world.claim(session)
    flow = Drawing(world, session)
    flow.id = inner_id(run.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=run.id)
    await world.end(session, run, End.HOLD, reason="workflow", awaits=flow.id)
    told: list[Wake] = []
    tell(told.append, table.partition, await table.fire_at(2))
    assert told == [Wake(due=True, flows=True)]
    await carry_on(world, [flow.id])
    assert await table.states(id, 1) == ["cancelled"]


async def test_who_waits_is_told_of_the_end_and_who_claims_of_what_follows(
    world: World, table: Table
) -> None:
    id = await table.create(overlap=Overlap.TERMINATE_OTHER, queue="runs")
    await table.fire_at(1)
    run = fire_id(id, table.at(1))
    await follow(world, run, rule=Rule.ALL_DONE)
    told: list[Wake] = []
    tell(told.append, table.partition, await table.fire_at(2))
    [wake] = told
    assert wake.ended == (mark_of(run),)
    ready = {(table.partition, lane_of(queue).number) for queue in ("default", "runs")}
    assert {*wake.ready} == ready
    assert not (wake.due or wake.cancel or wake.flows)


@pytest.mark.parametrize("place", ["postgres-1"], indirect=True)
async def test_one_that_is_followed_in_the_moment_in_which_it_is_asked_to_end_ends_all_the_same(
    world: World, table: Table
) -> None:
    """It is no step when it is looked at, and one when it is locked."""
    id = await table.create(overlap=Overlap.CANCEL_OTHER)
    await table.fire_at(1)
    await world.look()
    run = fire_id(id, table.at(1))
    _, chain = await follow(world, await world.submit(), rule=Rule.ALL_DONE)
    async with await psycopg.AsyncConnection.connect(world.place.direct) as follower:
        await follower.execute("SELECT 1 FROM foliot.jobs WHERE id = %s FOR UPDATE", [run])
        firing = asyncio.create_task(table.fire_at(2))
        await waiting(world, 1)
        await follower.execute("UPDATE foliot.jobs SET workflow = %s WHERE id = %s", [chain, run])
        await follower.commit()
    assert (await firing).ended == {run}
    assert await table.states(id, 1) == ["cancelled"]
