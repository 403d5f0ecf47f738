"""A job's transaction that changes the job which has a key, beside those who lock what it will need: on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import psycopg
import pytest

from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.registry import define
from foliot.worker.run import failure
from support.stores import World
from worker.test_transaction import (
    INSERT,
    Office,
    Prepared,
    follow_anew,
    in_thread,
    until_somebody_waits,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["postgres-1"], indirect=True),
]
# Who has waited for a second looks whether somebody waits crosswise, once: then the next who looks is ended.
LOOKED = 1.2
LOCK_WORKFLOW = "SELECT 1 FROM foliot.workflows WHERE id = %s FOR UPDATE"
LOCK_JOB = "SELECT 1 FROM foliot.jobs WHERE id = %s FOR UPDATE"


@pytest.fixture
async def office(world: World) -> AsyncIterator[Office]:
    session = await world.open_session()
    office = Office(world, session, await world.run(session))
    await asyncio.to_thread(office.outside, "CREATE TABLE notes (text text)")
    yield office
    await office.desk.close()
    await asyncio.to_thread(office.outside, "DROP TABLE notes")


def replacing(world: World, key: str = "k", payload: bytes = b'"new"') -> Prepared:
    return Prepared(world.new_job(key=key, key_mode="replace", delay=60), payload)


async def of_one_chain(office: Office, **fields: Any) -> tuple[JobId, JobId]:
    """The office's job and one with a key. Returns that one, and the chain."""
    world = office.world
    waiting = await world.submit(key="k", **{"delay": 60, **fields})
    await follow_anew(world, waiting, office.job.id)
    chain = (await world.get(waiting)).workflow
    assert chain is not None
    return waiting, chain


@pytest.mark.parametrize("act", ["pause", "cancel", "follow"])
async def test_who_replaces_a_step_of_its_own_workflow_has_the_lock_of_that_before(
    office: Office, act: str
) -> None:
    """Who pauses it, cancels it or makes it one with another has that lock, and wants the rows of its steps."""
    world = office.world
    waiting, chain = await of_one_chain(office)
    other = await world.submit(delay=60)
    await follow_anew(world, other)
    flows = world.store.workflows
    block = office.block()
    async with block as tx:
        await tx.execute(INSERT)
        assert await tx.submit(replacing(world)) == waiting
        acting: asyncio.Future[Any]
        match act:
            case "pause":
                acting = asyncio.ensure_future(
                    flows.pause(world.partition, chain, note=None, by="somebody")
                )
            case "cancel":
                acting = asyncio.ensure_future(flows.cancel(world.partition, chain))
            case _:
                acting = asyncio.ensure_future(follow_anew(world, other, waiting))
        await until_somebody_waits(world, tx.connection)
        await asyncio.sleep(LOOKED)
    assert await acting
    assert await office.notes() == ["here"]
    assert await office.state() is JobState.SUCCEEDED
    assert (await world.get(waiting)).payload == b'"new"'


async def test_who_replaces_in_a_thread_has_it_too(office: Office) -> None:
    waiting, chain = await of_one_chain(office)

    def function() -> None:
        with office.block() as tx:
            tx.submit(replacing(office.world))
            with (
                psycopg.connect(office.world.place.direct) as other,
                pytest.raises(psycopg.errors.LockNotAvailable),
            ):
                other.execute(LOCK_WORKFLOW + " NOWAIT", [chain])

    await in_thread(function)
    assert (await office.world.get(waiting)).payload == b'"new"'


async def test_where_nobody_has_the_key_the_workflow_is_left_to_the_others(office: Office) -> None:
    _, chain = await of_one_chain(office)
    async with (
        office.block() as tx,
        await psycopg.AsyncConnection.connect(office.world.place.direct) as other,
    ):
        await tx.submit(replacing(office.world, key="free"))
        await other.execute(LOCK_WORKFLOW + " NOWAIT", [chain])


async def test_one_whose_chain_becomes_part_of_another_in_that_moment_has_the_lock_of_that(
    office: Office,
) -> None:
    world = office.world
    waiting, chain = await of_one_chain(office)
    single = await world.submit(delay=60)
    await follow_anew(world, single)
    home = (await world.get(single)).workflow
    async with await psycopg.AsyncConnection.connect(world.place.direct) as merging:
        await merging.execute(LOCK_WORKFLOW, [chain])
        block = office.block()
        async with block as tx:
            submitting = asyncio.ensure_future(tx.submit(replacing(world)))
            await until_somebody_waits(world, merging)
            moved = "UPDATE foliot.jobs SET workflow = %s WHERE id = ANY (%s::uuid[])"
            await merging.execute(moved, [home, [office.job.id, waiting]])
            await merging.commit()
            assert await submitting == waiting
            async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
                await other.execute(LOCK_WORKFLOW + " NOWAIT", [chain])
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    await other.execute(LOCK_WORKFLOW + " NOWAIT", [home])
    assert await office.state() is JobState.SUCCEEDED


async def test_one_that_the_server_has_ended_for_another_is_an_attempt_that_is_given_back(
    office: Office,
) -> None:
    """Whatever the function has locked itself: its end waits crosswise for whoever waits for that."""
    world = office.world
    waiting, chain = await of_one_chain(office)
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        await other.execute(LOCK_WORKFLOW, [chain])
        block = office.block()
        tx = await block.__aenter__()
        await tx.execute(INSERT)
        await tx.execute(LOCK_JOB, [waiting])
        wanting = asyncio.ensure_future(other.execute(LOCK_JOB, [waiting]))
        await until_somebody_waits(world, tx.connection)
        await asyncio.sleep(LOOKED)
        with pytest.raises(StoreUnavailable, match="deadlock detected") as caught:
            await block.__aexit__(None, None, None)
        await wanting
    assert not any(word in str(caught.value) for word in ("DETAIL", "HINT", "Process"))
    assert await office.notes() == []
    assert await office.state() is JobState.RUNNING
    definition = define(in_thread, kind="work", max_attempts=1)
    outcome = failure(office.job, definition, caught.value, ids=world.ids, loss_limit=3)
    linked = msgspec.structs.replace(outcome, flow=chain)
    assert await world.finish(office.session, linked) == []
    [attempt] = await world.store.jobs.attempts(office.job.id)
    assert (attempt.attempt, attempt.outcome) == (1, "interrupted")
    assert (await world.get(office.job.id)).attempt == 0
