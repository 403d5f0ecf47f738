"""Followed jobs with a unique key: tried again with their chain, they have it as before, or are not tried again."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from foliot.config import LimitSettings
from foliot.errors import InvalidValue, KeyHeld
from foliot.ids import JobId, SessionId
from foliot.model.job import End, Extras, JobState, More
from foliot.model.workflow import WorkflowState
from foliot.workflow_commands import rerun_workflow
from store.test_workflows_followed import finish, follow
from store.test_workflows_kept import DAY, prune
from support.records import dump
from support.stores import World

pytestmark = pytest.mark.anyio


async def fail_keyed(
    world: World, session: SessionId, more: More | None = None
) -> tuple[JobId, JobId]:
    """A job with a key that is followed, and dead; and its chain."""
    first = await world.submit(key="k", more=more)
    second, home = await follow(world, first)
    [job] = await world.claim(session)
    await finish(world, session, job, End.BURY)
    assert await world.state(second) is JobState.SKIPPED
    return first, home


async def test_a_job_that_is_tried_again_with_its_chain_has_its_key(world: World) -> None:
    """Each time."""
    session = await world.open_session()
    first, home = await fail_keyed(world, session)
    for _ in range(2):
        await world.store.workflows.retry(world.partition, home)
        assert (await world.get(first)).key == "k"
        assert await world.submit(key="k") == first
        [job] = await world.claim(session)
        assert (job.id, job.facts.key) == (first, "k")
        await finish(world, session, job, End.BURY)


async def test_a_chain_is_not_tried_again_while_another_job_has_the_key_of_one_of_its_own(
    world: World,
) -> None:
    """It is said which, nothing is changed, and it is tried again when that has ended."""
    session = await world.open_session()
    first, home = await fail_keyed(world, session)
    other = await world.submit(key="k")
    before = await dump(world)
    with pytest.raises(InvalidValue) as refused:
        await world.store.workflows.retry(world.partition, home)
    assert str(refused.value) == (
        f"key: 'k' is the unique key of {first}, and belongs to job {other} now; "
        "retry it when that has ended"
    )
    assert await dump(world) == before
    [job] = await world.claim(session)
    await world.end(session, job)
    ids, _ = await world.store.workflows.retry(world.partition, home)
    assert first in ids
    assert (await world.get(first)).key == "k"


@pytest.mark.parametrize("place", ["postgres-1", "postgres-8"], indirect=True)
async def test_a_chain_is_not_tried_again_while_a_transaction_of_others_holds_the_key(
    world: World,
) -> None:
    """Nor is that waited for, with the workflow locked for its workers."""
    session = await world.open_session()
    first, home = await fail_keyed(world, session)
    job = await world.get(first)
    before = await dump(world)
    with psycopg.connect(world.place.direct) as other:
        other.execute(
            "INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace,"
            " kind, queue, created_at, run_at, key, payload) VALUES (%s, gen_random_uuid(), 1, 1, 1, 1, 1, 'ready',"
            " %s, %s, 'default', now(), now(), 'k', '{}')",
            (world.partition, job.namespace, job.kind),
        )
        async with asyncio.timeout(10):
            with pytest.raises(KeyHeld):
                await world.store.workflows.retry(world.partition, home)
        other.rollback()
    assert await dump(world) == before
    ids, _ = await world.store.workflows.retry(world.partition, home)
    assert first in ids


async def test_two_jobs_of_a_chain_that_have_had_one_key_are_tried_again_one_by_one(
    world: World,
) -> None:
    session = await world.open_session()
    slow = await world.submit(queue="slow")
    ids: list[JobId] = []
    for _ in range(2):
        ids.append(await world.submit(key="k"))
        _, home = await follow(world, ids[-1], slow)
        [job] = await world.claim(session)
        await finish(world, session, job, End.BURY)
    with pytest.raises(InvalidValue, match=f"of {ids[0]} as well; retry one after the other"):
        await world.store.workflows.retry(world.partition, home)
    for id in reversed(ids):
        await world.store.workflows.retry(world.partition, home, only=[id])
        [job] = await world.claim(session)
        assert (job.id, job.facts.key) == (id, "k")
        await finish(world, session, job, End.SUCCEED)


async def test_a_job_that_gave_up_its_key_while_it_ran_is_tried_again_without(world: World) -> None:
    session = await world.open_session()
    first = await world.submit(key="k")
    _, home = await follow(world, first)
    [job] = await world.claim(session)
    other = await world.submit(key="k", key_mode="replace")
    assert other != first
    await finish(world, session, job, End.BURY)
    await world.store.workflows.retry(world.partition, home)
    assert (await world.get(first)).key is None
    assert (await world.get(other)).key == "k"


async def test_a_key_is_kept_longer_than_the_history_of_its_job(world: World) -> None:
    session = await world.open_session()
    first = await world.submit(key="k")
    await follow(world, first, queue="slow")
    _, home = await follow(world, first, await world.submit(queue="slow"))
    await world.cancel(first)
    world.clock.advance(2 * DAY)
    await prune(world, keep=DAY)
    assert await world.store.jobs.get(first) is None
    await world.store.workflows.retry(world.partition, home)
    session = await world.open_session()
    [job] = await world.claim(session)
    assert (job.id, job.facts.key) == (first, "k")
    flow = await world.store.workflows.get(home)
    assert flow is not None and flow.state is WorkflowState.RUNNING


async def test_a_chain_that_is_submitted_once_more_has_no_key(world: World) -> None:
    session = await world.open_session()
    more = More(extras=Extras(idempotency_key="request-42"))
    first, home = await fail_keyed(world, session, more)
    await world.submit(key="k")
    again = await rerun_workflow(world.store, home, ids=world.ids, limits=LimitSettings())
    job = await world.get((await world.store.workflows.steps(again))[0].job)
    assert (job.key, job.extras.idempotency_key, job.state) == (None, None, JobState.READY)
    assert job.id != first
