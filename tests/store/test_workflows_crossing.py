"""Those who end, follow, retry and prune the same steps at the same moment, in PostgreSQL: each waits where it must,
and sees what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from foliot.author import Author
from foliot.model.job import End, JobState, Outcome
from foliot.store.postgres import workflows as postgres_workflows
from foliot.store.sql import parse_statement
from store.test_workflows_followed import finish, follow
from support.flows import draw
from support.stores import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["postgres-1"], indirect=True),
]
Act = Callable[[], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def holding(world: World, statement: str, *values: object) -> AsyncIterator[None]:
    """Rows that others wait for until the end of this."""
    async with await psycopg.AsyncConnection.connect(world.place.direct) as holder:
        await holder.execute(statement.encode(), values)
        yield
        await holder.commit()


async def waiting(world: World, number: int) -> None:
    """Until so many wait for a lock."""
    count = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
    async with (
        asyncio.timeout(20),
        await psycopg.AsyncConnection.connect(world.place.direct, autocommit=True) as watcher,
    ):
        found = None
        while found != (number,):
            found = await (await watcher.execute(count)).fetchone()


async def one_after_the_other(world: World, acts: Sequence[Act]) -> list[asyncio.Task[Any]]:
    """Each waits for a lock before the next begins."""
    tasks = []
    for number, act in enumerate(acts, 1):
        tasks.append(asyncio.create_task(act()))
        await waiting(world, number)
    return tasks


async def test_a_step_of_a_workflow_that_is_not_locked_is_left_alone_by_those_that_end_others(
    world: World,
) -> None:
    """It has just become one, so its end is refused; and whoever has locked that workflow may wait for us."""
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    plain = await world.submit()
    held = {job.id: job for job in await world.claim(flow.session)}
    await follow(world, plain)
    flow.claimed["a"] = held[flow.ids["a"]]
    outcomes = [flow.outcome("a", End.SUCCEED), Outcome(plain, held[plain].fence)]
    async with (
        holding(world, "SELECT 1 FROM foliot.steps WHERE job = %s FOR UPDATE", plain),
        asyncio.timeout(10),
    ):
        cycle = await world.store.jobs.finish_and_claim(
            world.partition, flow.session, outcomes=outcomes
        )
    assert cycle.refused == [plain]
    assert await world.state(flow.ids["a"]) is JobState.SUCCEEDED


async def test_several_follow_a_job_in_the_moment_in_which_it_ends(world: World) -> None:
    session = await world.open_session()
    first = await world.submit()
    [job] = await world.claim(session)
    outcome = Outcome(job.id, job.fence)
    followers: list[Act] = [lambda: follow(world, first) for _ in range(3)]
    async with holding(world, "SELECT 1 FROM foliot.jobs WHERE id = %s FOR UPDATE", first):
        ends, *tasks = await one_after_the_other(
            world, [lambda: world.finish(session, outcome), *followers]
        )
    assert await ends == []
    followed = await asyncio.gather(*tasks)
    assert len({home for _, home in followed}) == 1
    assert {job.id for job in await world.claim(session)} == {id for id, _ in followed}


async def test_a_dead_job_is_followed_in_the_moment_in_which_it_is_tried_again(
    world: World,
) -> None:
    session = await world.open_session()
    first = await world.submit()
    [job] = await world.claim(session)
    await finish(world, session, job, End.BURY)
    record = Author(world.ids, "somebody").each("retry")
    async with holding(world, "SELECT 1 FROM foliot.dead FOR UPDATE"):
        again, task = await one_after_the_other(
            world,
            [
                lambda: world.store.dead.retry(world.partition, [first], record=record),
                lambda: follow(world, first),
            ],
        )
    await again
    second, _ = await task
    assert await world.state(first) is JobState.READY
    assert await world.state(second) is JobState.WAITING


async def test_a_workflow_whose_step_is_just_followed_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between what a pruning has seen and the lock that it takes, a job comes that is to see what the step returned."""
    session = await world.open_session()
    first = await world.submit()
    await follow(world, first)
    for _ in range(2):
        [job] = await world.claim(session)
        await finish(world, session, job, End.SUCCEED, result=b'"told"')
    sql, name = postgres_workflows.SQL, "lock_old_workflows"
    # Between its snapshot and its locks it waits for a table.
    late = "WITH late AS MATERIALIZED (SELECT pg_advisory_xact_lock(1)::text AS late) "
    slow = late + sql[name].text.replace(
        "FROM foliot.workflows w WHERE",
        "FROM (SELECT late FROM late) l, foliot.workflows w WHERE",
        1,
    ).replace("FOR UPDATE SKIP", "FOR UPDATE OF w SKIP")
    monkeypatch.setitem(sql, name, parse_statement(name, slow))
    async with holding(world, "SELECT pg_advisory_xact_lock(1)"):
        [pruning] = await one_after_the_other(
            world, [lambda: world.store.workflows.prune(keep=-1, limit=10)]
        )
        second, _ = await follow(world, first)
    assert await pruning == 0
    [job] = await world.claim(session)
    found = await world.store.workflows.parents(world.partition, [job])
    assert [parent.result for parent in found[second]] == ["told"]
