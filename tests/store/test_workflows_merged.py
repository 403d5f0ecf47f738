"""Chains of which jobs are followed together: they become one, and it makes no difference which of them have ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foliot.errors import InvalidValue
from foliot.ids import JobId
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, Outcome
from foliot.model.workflow import NewStep, Rule, Workflow, WorkflowState
from foliot.store.postgres.ends import StepEnds
from store.test_workflows_followed import child_of, finish, follow
from support.flows import draw
from support.stores import World

pytestmark = pytest.mark.anyio


async def two_chains(world: World) -> tuple[list[JobId], list[JobId]]:
    """Two jobs, and one after each."""
    firsts = [await world.submit() for _ in range(2)]
    return firsts, [(await follow(world, id))[0] for id in firsts]


async def claim(world: World, session: Any) -> dict[JobId, ClaimedJob]:
    return {job.id: job for job in await world.claim(session)}


async def get(world: World, id: JobId) -> Workflow:
    found = await world.store.workflows.get(id)
    assert found is not None
    return found


@pytest.mark.parametrize("over", range(5))
async def test_jobs_of_two_chains_are_followed_whichever_of_them_have_ended(
    world: World, over: int
) -> None:
    """None, one, or both; before the child is submitted, or after."""
    session = await world.open_session()
    firsts, seconds = await two_chains(world)
    order = [firsts[0], seconds[0], firsts[1], seconds[1]]

    async def end(ids: list[JobId]) -> None:
        for id in ids:
            found = await claim(world, session)
            held.update(found)
            await finish(world, session, held[id], End.SUCCEED, result=b'"%s"' % id.encode())

    held: dict[JobId, ClaimedJob] = {}
    await end(order[:over])
    child, home = await follow(world, *seconds)
    await end(order[over:])
    held |= await claim(world, session)
    found = await world.store.workflows.parents(world.partition, [held[child]])
    assert [parent.result for parent in found[child]] == seconds
    await finish(world, session, held[child], End.SUCCEED)
    assert (await get(world, home)).state is WorkflowState.SUCCEEDED
    assert await world.store.workflows.find_stuck(world.partition, limit=9) == ([], False)


async def test_chains_that_became_one_are_one_in_all_respects(world: World) -> None:
    session = await world.open_session()
    (a, b), (after_a, after_b) = await two_chains(world)
    held = await claim(world, session)
    c, d = await world.submit(), await world.submit(delay=60)
    both, _ = await follow(world, b, d)
    await finish(world, session, held[b], End.BURY)
    after_c, _ = await follow(world, c)
    child, home = await follow(world, after_a, after_b, c, rule=Rule.ALL_DONE)
    steps = await world.store.workflows.steps(home)
    assert [step.number for step in steps] == list(range(9))
    everybody = {a, b, c, d, after_a, after_b, after_c, both, child}
    assert {step.job for step in steps} == everybody
    seen = await get(world, home)
    assert (seen.total, seen.failed, seen.remaining) == (9, 1, 6)
    for id in everybody:
        assert (await world.get(id)).workflow == home
    ids, _ = await world.store.workflows.retry(world.partition, home)
    assert set(ids) == {b, after_b, both}
    await world.store.workflows.cancel(world.partition, home)
    assert await world.state(after_c) is await world.state(d) is JobState.CANCELLED
    await finish(world, session, held[a], End.CANCEL)
    assert (await get(world, home)).state is WorkflowState.CANCELLED


async def test_a_job_is_cancelled_whose_chain_becomes_part_of_another(world: World) -> None:
    for _ in range(5):
        firsts = [await world.submit(delay=60) for _ in range(2)]
        for id in firsts:
            await follow(world, id)
        child, chain = child_of(world, *firsts)
        await asyncio.gather(
            world.store.workflows.follow(world.partition, child, chain), world.cancel(*firsts)
        )
        assert [await world.state(id) for id in firsts] == [JobState.CANCELLED] * 2
        assert await world.state(child.job.id) is JobState.SKIPPED


async def test_ends_and_children_of_many_chains_meet(world: World) -> None:
    session = await world.open_session()
    firsts = [await world.submit() for _ in range(8)]
    for id in firsts:
        await follow(world, id)
    held = await claim(world, session)

    async def end(id: JobId) -> None:
        outcome = Outcome(id, held[id].fence, End.SUCCEED, flow=held[id].flow)
        while await world.finish(session, outcome):
            [flow] = (await world.store.workflows.linked(world.partition, [id])).values()
            outcome = Outcome(id, held[id].fence, End.SUCCEED, flow=flow)

    pairs = list(zip(firsts, firsts[3:] + firsts[:3], strict=True))
    told = await asyncio.gather(*(follow(world, *pair) for pair in pairs), *map(end, firsts))
    children = [one[0] for one in told if one is not None]
    assert [await world.state(id) for id in children] == [JobState.READY] * 8


async def test_a_chain_does_not_become_part_of_what_somebody_has_drawn(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    (_, b), _ = await two_chains(world)
    with pytest.raises(InvalidValue, match="different workflows"):
        await follow(world, flow.ids["a"], b)


@pytest.mark.parametrize("rule", [Rule.ALL_SUCCEEDED, Rule.ALL_DONE])
async def test_a_step_that_lives_again_tells_those_that_followed_it_when_it_had_ended_elsewhere(
    world: World, rule: Rule
) -> None:
    """They were jobs of two chains then, and are of one now: the retry of this waits for it, as its graph says."""
    session = await world.open_session()
    p, later = await world.submit(), await world.submit(delay=3600)
    x, e = await follow(world, p)
    await finish(world, session, (await claim(world, session))[p], End.BURY)
    q = await world.submit()
    child, c = await follow(world, p, q, later, rule=rule)
    await world.store.workflows.retry(world.partition, e)
    z, home = await follow(world, p, q)
    assert {(await world.get(id)).workflow for id in (x, child, z)} == {home} <= {c, e}
    held = await claim(world, session)
    await finish(world, session, held[p], End.BURY)
    await finish(world, session, held[q], End.SUCCEED)
    ids, _ = await world.store.workflows.retry(world.partition, home)
    skipped = {child} if rule is Rule.ALL_SUCCEEDED else set()
    assert {*ids} == {p, x, z} | skipped
    world.clock.advance(3600)
    await world.admit()
    while held := await claim(world, session):
        for job in held.values():
            await finish(world, session, job, End.SUCCEED)
    seen = await get(world, home)
    assert (seen.state, seen.remaining) == (WorkflowState.SUCCEEDED, 0)
    assert await world.store.workflows.find_stuck(world.partition, limit=9) == ([], False)


async def test_a_paused_chain_is_followed_together_with_others_when_it_goes_on(
    world: World,
) -> None:
    _, seconds = await two_chains(world)
    home = (await world.get(seconds[0])).workflow
    assert home is not None
    await world.store.workflows.pause(world.partition, home, note=None, by="me")
    with pytest.raises(InvalidValue, match="jobs of chains of which some are paused"):
        await follow(world, *seconds)
    await world.store.workflows.resume(world.partition, home)
    await follow(world, *seconds)


async def test_chains_with_steps_of_one_name_are_followed_when_one_has_ended(world: World) -> None:
    """Those who have added the steps know them by it."""
    session = await world.open_session()
    firsts, seconds = await two_chains(world)
    held = await claim(world, session)
    for id in firsts:
        home = held[id].flow
        assert home is not None
        extras = Extras(step="check", parents=True)
        check = world.new_job(more=More(workflow=home, extras=extras))
        step = NewStep(name="check", job=check, parents=(id,), into=None, added_by=id)
        await world.store.workflows.add(world.partition, home, [step])
    with pytest.raises(InvalidValue, match="are jobs of chains that both have a step check"):
        await follow(world, *seconds)
    last = (await world.get(firsts[1])).workflow
    assert last is not None
    await world.store.workflows.cancel(world.partition, last)
    await finish(world, session, held[firsts[1]], End.CANCEL)
    child, _ = await follow(world, *seconds, rule=Rule.ALL_DONE)
    assert await world.state(child) is JobState.WAITING


@pytest.mark.parametrize("expired", [False, True])
async def test_a_step_is_not_taken_back_whose_chain_becomes_part_of_another_just_then(
    world: World, monkeypatch: pytest.MonkeyPatch, expired: bool
) -> None:
    """It was found as a step of the chain that it is no longer in; the other is not locked: nobody would be told."""
    session = await world.open_session()
    later = await world.submit(delay=3600)
    first = await world.submit(more=More(expires_in=5))
    seconds = [(await follow(world, id, rule=Rule.ALL_DONE))[0] for id in (later, first)]
    if not expired:
        assert {*await claim(world, session)} == {first}
    world.clock.advance(60)

    async def merge_and_lock(ends: StepEnds, right: Any = StepEnds.lock) -> None:
        monkeypatch.undo()
        await follow(world, *seconds)
        await right(ends)

    monkeypatch.setattr(StepEnds, "lock", merge_and_lock)
    for _ in range(2):
        if expired:
            await world.store.admission.expire(world.partition, limit=9)
        else:
            await world.reap(session, loss_limit=1)
        assert await world.store.workflows.find_stuck(world.partition, limit=9) == ([], True)
    assert await world.state(first) is (JobState.CANCELLED if expired else JobState.DEAD)
    assert await world.state(seconds[1]) is JobState.READY
