"""Workflows that run for a job, perhaps a step: what is asked of the job concerns them, and it ends after them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from foliot.commands import cancel
from foliot.errors import NotRunning
from foliot.ids import JobId, inner_id
from foliot.model.job import End, JobState, More
from foliot.model.workflow import Rule, WorkflowState
from foliot.store import steering
from foliot.store.flowing import Progress, Talk
from foliot.store.port import Cycle
from foliot.workflow_commands import pause_like
from support.flows import Drawing, draw
from support.stores import World

pytestmark = pytest.mark.anyio


async def inside(world: World, outer: Drawing, name: str, queue: str = "inner") -> Drawing:
    """For a claimed step: a workflow of two steps, of which the first runs."""
    flow = Drawing(world, outer.session)
    flow.id = inner_id(outer.ids[name])
    steps = [flow.step("i", queue=queue), flow.step("j", "i", queue=queue)]
    await flow.submit(*steps, waiter=outer.ids[name])
    await outer.end(name, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=[queue])
    return flow


async def let_in(world: World) -> int:
    """Of those that wait for one with the same ordering key."""
    walk = await world.store.admission.walk(world.partition, ("", ""), limit=10)
    return len(walk.admitted)


async def carry_on(world: World, ids: Sequence[JobId]) -> None:
    while ids:
        ids = (await world.store.workflows.advance(world.partition, ids)).more


async def failing(world: World) -> tuple[Drawing, Drawing]:
    """One step has failed beside another that stands for a workflow; a third is to come after that, however it ends."""
    outer = await draw(world)
    await outer.submit(
        outer.step("w"), outer.step("x"), outer.step("after", "w", rule=Rule.ALL_DONE)
    )
    await outer.claim()
    flow = await inside(world, outer, "w")
    cycle = await outer.end("x", End.BURY, reason="failed")
    await carry_on(world, cycle.advance.more)
    return outer, flow


async def test_a_failure_beside_it_stops_a_workflow_at_once_and_what_follows_waits_for_its_end(
    world: World,
) -> None:
    outer, flow = await failing(world)
    assert (await flow.get()).cancel_requested
    assert await flow.states() == {"i": "running", "j": "cancelled"}
    assert await outer.states() == {"w": "held", "x": "dead", "after": "waiting"}
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    assert cycle.advance.ended == (flow.id,)
    await carry_on(world, cycle.advance.more)
    assert await outer.states() == {"w": "cancelled", "x": "dead", "after": "ready"}
    await outer.run("after")
    assert (await outer.get()).state is WorkflowState.FAILED


async def test_a_workflow_is_not_retried_while_one_inside_it_is_ending(world: World) -> None:
    outer, flow = await failing(world)
    with pytest.raises(NotRunning, match="ending what runs after a failure"):
        await outer.store.retry(world.partition, outer.id)
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    await carry_on(world, cycle.advance.more)
    alive, _ = await outer.store.retry(world.partition, outer.id)
    assert {*alive} == {outer.ids["w"], outer.ids["x"]}


async def test_a_cancelled_workflow_has_not_ended_before_those_inside_it(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w"), outer.step("b", "w"))
    await outer.claim()
    flow = await inside(world, outer, "w")
    advance = await outer.store.cancel(world.partition, outer.id)
    await carry_on(world, advance.more)
    assert await outer.states() == {"w": "held", "b": "cancelled"}
    with pytest.raises(NotRunning, match="being cancelled"):
        await outer.store.retry(world.partition, outer.id)
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    await carry_on(world, cycle.advance.more)
    assert await outer.states() == {"w": "cancelled", "b": "cancelled"}
    assert (await outer.get()).state is WorkflowState.CANCELLED


async def test_a_cancelled_job_keeps_its_turn_until_its_workflow_has_ended(world: World) -> None:
    ordered = More(ordering_key="nightly")
    first, second = [await world.submit(more=ordered) for _ in range(2)]
    await world.look()
    session = await world.open_session()
    [job] = await world.claim(session)
    assert job.id == first
    flow = Drawing(world, session)
    await flow.submit(flow.step("i", queue="inner"), waiter=first)
    await world.end(session, job, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    assert await world.store.jobs.cancel(world.partition, [first]) == {first: JobState.HELD}
    assert await let_in(world) == 0
    assert await world.state(first) is JobState.HELD
    found, _ = await world.store.workflows.find_stuck(world.partition, limit=10)
    assert found == [flow.id], "the duty sees that it is to end"
    await carry_on(world, [flow.id])
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    await carry_on(world, cycle.advance.more)
    assert await world.state(first) is JobState.CANCELLED
    assert await let_in(world) == 1
    assert await world.state(second) is JobState.READY


async def test_who_cancels_a_job_has_its_workflow_asked_to_end_at_once(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    flow = Drawing(world, session)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await world.end(session, job, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    assert await cancel(world.store, job.id) is JobState.RUNNING
    assert (await flow.get()).cancel_requested
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    await carry_on(world, cycle.advance.more)
    assert await cancel(world.store, job.id) is JobState.CANCELLED


async def test_a_failure_is_not_retried_before_what_was_asked_to_end_with_it_has(
    world: World,
) -> None:
    """Its workflow has ended, and it is about to."""
    outer, flow = await failing(world)
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    with pytest.raises(NotRunning, match="ending what runs after a failure"):
        await outer.store.retry(world.partition, outer.id)
    await carry_on(world, cycle.advance.more)
    alive, _ = await outer.store.retry(world.partition, outer.id)
    assert {*alive} == {outer.ids["w"], outer.ids["x"]}


async def submitting(world: World, **fields: Any) -> tuple[Drawing, Drawing]:
    """An attempt has submitted its workflow, of which a step runs elsewhere, and has not ended yet."""
    outer = await draw(world)
    await outer.submit(outer.step("w", **fields), outer.step("after", "w", rule=Rule.ALL_DONE))
    await outer.claim()
    flow = Drawing(world, await world.open_session())
    flow.id = inner_id(outer.ids["w"])
    await flow.submit(flow.step("i", queue="inner"), waiter=outer.ids["w"])
    await flow.claim(queues=["inner"])
    return outer, flow


async def see_it_end(world: World, outer: Drawing, flow: Drawing) -> None:
    """It has been asked to, and its workflow as well: what follows begins after both."""
    assert (await flow.get()).cancel_requested
    assert (await outer.states())["after"] == "waiting"
    cycle = await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    await carry_on(world, cycle.advance.more)
    assert await outer.states() == {"w": "cancelled", "after": "ready"}


async def test_a_cancel_reaches_a_workflow_that_is_just_being_submitted(world: World) -> None:
    outer, flow = await submitting(world)
    assert await cancel(world.store, outer.ids["w"]) is JobState.RUNNING
    cycle = await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await carry_on(world, cycle.advance.more)
    await see_it_end(world, outer, flow)


async def test_an_attempt_that_a_cancel_interrupts_after_the_submission_does_not_end_its_job(
    world: World,
) -> None:
    outer, flow = await submitting(world)
    assert await cancel(world.store, outer.ids["w"]) is JobState.RUNNING
    await outer.end("w", End.RETRY, reason="cancelled", delay=0)
    await world.admit()
    assert (await outer.states())["w"] == "ready"
    await outer.claim()
    cycle = await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await carry_on(world, cycle.advance.more)
    await see_it_end(world, outer, flow)


@pytest.mark.parametrize("first", ["cancel", "loss"])
async def test_a_job_that_lost_its_worker_after_the_submission_ends_after_its_workflow(
    world: World, first: str
) -> None:
    outer, flow = await submitting(world)
    if first == "cancel":
        await cancel(world.store, outer.ids["w"])
        await world.reap(outer.session)
        await carry_on(world, [flow.id])  # as the duty does
    else:
        await world.reap(outer.session)
        assert await cancel(world.store, outer.ids["w"]) is JobState.RUNNING
    assert (await outer.states())["w"] == "ready"
    await see_it_end(world, outer, flow)


async def test_one_inside_that_ends_while_its_pause_is_looked_at_is_no_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, flow = await submitting(world)
    await outer.store.pause(world.partition, outer.id, note=None, by="ada")
    get = type(outer.store).get
    asked: list[JobId] = []

    async def slowly(store: object, id: JobId) -> object:
        found = await get(store, id)
        asked.append(id)
        if len(asked) == 1:
            await flow.end("i")
            await outer.store.resume(world.partition, outer.id)
        return found

    monkeypatch.setattr(type(outer.store), "get", slowly)
    await pause_like(world.store, flow.id, outer.id)
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def interrupt(world: World, outer: Drawing) -> None:
    """The attempt, before it could say what its job waits for."""
    await outer.end("w", End.RETRY, reason="interrupted", delay=0)
    await world.admit()


async def has_ended(world: World, outer: Drawing) -> bool:
    """Once the duties have looked, and a worker has said of the job that it was asked to end, if it has to be asked."""
    found, _ = await world.store.workflows.find_stuck(world.partition, limit=10)
    await carry_on(world, found)
    outer.session = await world.open_session()
    if "w" in await outer.claim():
        cycle = await outer.end("w", End.CANCEL, reason="requested")
        await carry_on(world, cycle.advance.more)
    return (await outer.states())["w"] == "cancelled"


async def test_a_job_whose_workflow_runs_is_not_held_by_a_pause_and_ends_though_its_worker_died(
    world: World,
) -> None:
    """The worker that ended the last step of the workflow, before it could carry on."""
    outer, flow = await submitting(world)
    await outer.store.pause(world.partition, outer.id, note=None, by="ada")
    await interrupt(world, outer)
    assert (await outer.states())["w"] == "ready"
    advance = await outer.store.cancel(world.partition, outer.id)
    await carry_on(world, advance.more)
    await flow.end("i", End.RETRY, reason="cancelled", delay=0)
    assert await has_ended(world, outer)
    assert (await outer.get()).state is WorkflowState.CANCELLED


async def test_a_job_that_was_paused_before_its_workflow_was_retried_by_itself_ends_after_it(
    world: World,
) -> None:
    outer, flow = await submitting(world)
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await flow.end("i", End.BURY)
    await outer.store.pause(world.partition, outer.id, note=None, by="ada")
    assert (await outer.steps())["w"].reason == "paused"
    await flow.store.retry(world.partition, flow.id)
    await flow.claim(queues=["inner"])
    advance = await outer.store.cancel(world.partition, outer.id)
    await carry_on(world, advance.more)
    await flow.end("i", End.RETRY, reason="cancelled", delay=0)  # and its worker dies
    assert await has_ended(world, outer)


@pytest.mark.parametrize("place", ["postgres-1"], indirect=True)
async def test_a_workflow_that_ends_while_the_one_around_it_is_cancelled_takes_its_job_along(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between what the cancel asks of the job, and its look for what runs within."""
    outer, flow = await submitting(world)
    await outer.store.pause(world.partition, outer.id, note=None, by="ada")
    await interrupt(world, outer)
    go, ends = steering._go_inside, list[asyncio.Task[Cycle]]()

    async def late(talk: Talk, jobs: Sequence[str], progress: Progress) -> None:
        ends.append(asyncio.create_task(flow.end("i")))
        await asyncio.sleep(0.1)
        await go(talk, jobs, progress)

    monkeypatch.setattr(steering, "_go_inside", late)
    advance = await outer.store.cancel(world.partition, outer.id)
    monkeypatch.undo()
    await carry_on(world, advance.more)
    await carry_on(world, (await ends[0]).advance.more)
    assert await has_ended(world, outer)


async def test_a_job_whose_workflow_has_begun_in_time_does_not_expire(world: World) -> None:
    outer, flow = await submitting(world, more=More(expires_in=60))
    await interrupt(world, outer)
    world.clock.advance(61)
    assert await world.store.admission.expire(world.partition, limit=10) == 0
    assert await outer.states() == {"w": "ready", "after": "waiting"}
    assert (await flow.get()).state is WorkflowState.RUNNING


async def test_a_job_has_begun_with_its_first_attempt_however_often_it_is_held_again(
    world: World,
) -> None:
    began = world.clock.now()
    outer, flow = await submitting(world)
    world.clock.advance(5)
    await interrupt(world, outer)
    world.clock.advance(3600)
    outer.session = await world.open_session()
    await outer.claim()
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await flow.end("i")
    outer.session = await world.open_session()
    await outer.run("w")
    assert (await outer.steps())["w"].started_at == began


async def test_a_job_that_its_worker_never_started_ends_after_its_workflow(world: World) -> None:
    """It is asked to end while it waits in a worker for a slot."""
    outer, flow = await submitting(world)
    await interrupt(world, outer)
    await outer.claim()
    assert await cancel(world.store, outer.ids["w"]) is JobState.RUNNING
    await carry_on(world, [flow.id])  # as the duty does
    await outer.end("w", End.RELEASE, reason="cancelled")
    assert (await outer.states())["w"] == "ready"
    await see_it_end(world, outer, flow)


@pytest.mark.parametrize("first", ["failure", "cancel", "loss"])
async def test_a_job_whose_last_attempt_fails_while_its_workflow_runs_looks_again(
    world: World, first: str
) -> None:
    """It ends as that does, and what comes after it does not run beside that."""
    outer, flow = await submitting(world, max_attempts=1)
    if first == "loss":
        await world.reap(outer.session, loss_limit=1)
    else:
        if first == "cancel":
            await cancel(world.store, outer.ids["w"])
        await outer.end("w", End.BURY, reason="failed", error="E")
    assert len(await world.attempts(outer.ids["w"])) == 1
    world.clock.advance(60)
    await world.admit()
    assert await outer.states() == {"w": "ready", "after": "waiting"}
    outer.session = await world.open_session()
    await outer.claim()
    cycle = await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await carry_on(world, cycle.advance.more)
    if first == "cancel":
        await see_it_end(world, outer, flow)
        return
    await flow.end("i")
    outer.session = await world.open_session()
    await outer.run("w")
    assert await outer.states() == {"w": "succeeded", "after": "ready"}
