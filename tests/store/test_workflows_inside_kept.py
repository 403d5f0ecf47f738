"""Workflows that run for a job are kept until that has said how they ended, and as long as what is around them: a job
that finds none runs all of it again."""

from __future__ import annotations

import pytest

from foliot.builtin import Awaiting, run_workflow
from foliot.ids import JobId, inner_id
from foliot.model.job import ClaimedJob, End
from foliot.model.workflow import WORKFLOW_KIND, WorkflowState
from store.test_workflows_kept import DAY, prune
from store.test_workflows_paused import TOLD, Host
from support.flows import Drawing, draw
from support.records import dump
from support.stores import World

pytestmark = pytest.mark.anyio


async def begin(flow: Drawing, job: ClaimedJob) -> JobId:
    """What it stands for is submitted, and it is held."""
    with pytest.raises(Awaiting):
        await run_workflow(Host(flow, job), TOLD)
    inner = inner_id(job.id)
    more = {"reason": "workflow", "awaits": inner, "flow": job.flow}
    await flow.world.end(flow.session, job, End.HOLD, **more)
    return inner


async def run_inner(flow: Drawing, end: End = End.SUCCEED) -> None:
    [step] = await flow.world.claim(flow.session, queues=["inner"])
    await flow.world.end(flow.session, step, end, flow=step.flow)


async def pass_days(flow: Drawing, days: int) -> None:
    """As sessions do not outlive them, the drawing goes on with another."""
    for _ in range(2):
        flow.world.clock.advance(days * DAY / 2)
        await prune(flow.world, keep=DAY)
    flow.session = await flow.world.open_session()


async def state_of(world: World, id: JobId) -> WorkflowState | None:
    found = await world.store.workflows.get(id)
    return None if found is None else found.state


@pytest.mark.parametrize("scheduled", [False, True])
async def test_what_a_job_stands_for_is_kept_until_the_job_has_said_how_it_ended(
    world: World, scheduled: bool
) -> None:
    """Its queue may be paused for longer than workflows are kept."""
    flow = await draw(world)
    if scheduled:
        await world.submit(kind=WORKFLOW_KIND)
    else:
        await flow.submit(flow.step("o", kind=WORKFLOW_KIND))
    [job] = await world.claim(flow.session)
    inner = await begin(flow, job)
    await run_inner(flow)
    await pass_days(flow, 10)
    assert await state_of(world, inner) is WorkflowState.SUCCEEDED
    [job] = await world.claim(flow.session)
    assert await run_workflow(Host(flow, job), TOLD) == {"i": None}
    await world.end(flow.session, job, flow=job.flow)
    await pass_days(flow, 10)
    kept = await dump(world)
    assert [kept[name] for name in ("workflows", "steps", "followers")] == [[]] * 3


async def test_what_a_step_stood_for_is_kept_as_long_as_the_workflow_around_it(
    world: World,
) -> None:
    """However deep: who retries that goes on with what failed inside, and does not run again what succeeded there."""
    outer = await draw(world)
    await outer.submit(
        outer.step("o", kind=WORKFLOW_KIND), outer.step("slow", queue="slow"), policy="continue"
    )
    [job] = await world.claim(outer.session)
    middle = Drawing(world, outer.session)
    middle.id = inner_id(job.id)
    await middle.submit(middle.step("m", kind=WORKFLOW_KIND), waiter=job.id, policy="continue")
    held = {"reason": "workflow", "flow": outer.id}
    await world.end(outer.session, job, End.HOLD, awaits=middle.id, **held)
    [within] = await world.claim(outer.session)
    inner = await begin(middle, within)
    await run_inner(middle, End.BURY)
    for flow in (middle.id, outer.id):
        [job] = await world.claim(outer.session)
        await world.end(outer.session, job, End.BURY, flow=flow)
    await pass_days(outer, 10)
    for id in (middle.id, inner):
        assert await state_of(world, id) is WorkflowState.FAILED
    [job] = await world.claim(outer.session, queues=["slow"])
    await world.end(outer.session, job, flow=outer.id)
    assert await state_of(world, outer.id) is WorkflowState.FAILED
    await pass_days(outer, 10)
    kept = await dump(world)
    assert [kept[name] for name in ("workflows", "steps", "followers")] == [[]] * 3
