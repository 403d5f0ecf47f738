"""Jobs that are submitted after others: they and those make a chain, which is a workflow that nobody drew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foliot.errors import InvalidValue
from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, JobState, More, Outcome
from foliot.model.lane import lane_of
from foliot.model.workflow import NewStep, NewWorkflow, Rule, WorkflowState
from support.flows import draw
from support.stores import World

pytestmark = pytest.mark.anyio
LANE = lane_of("default").number


def child_of(
    world: World, *after: JobId, rule: Rule = Rule.ALL_SUCCEEDED, **fields: Any
) -> tuple[NewStep, NewWorkflow]:
    job = world.new_job(**fields)
    chain = NewWorkflow(
        id=world.new_job().id, name="chain", steps=(), policy="continue", chain=True
    )
    return NewStep(name=job.id, job=job, rule=rule, parents=after), chain


async def follow(world: World, *after: JobId, **fields: Any) -> tuple[JobId, JobId]:
    """The job that follows these, and its chain."""
    child, chain = child_of(world, *after, **fields)
    home, _ = await world.store.workflows.follow(world.partition, child, chain)
    return child.job.id, home


async def finish(world: World, session: Any, job: ClaimedJob, end: End, **fields: Any) -> None:
    """As a worker does: a job that has become a step since it was claimed is ended as one."""
    outcome = Outcome(job.id, job.fence, end, flow=job.flow, **fields)
    if await world.finish(session, outcome):
        linked = await world.store.workflows.linked(world.partition, [job.id])
        again = Outcome(job.id, job.fence, end, flow=linked[job.id], **fields)
        assert await world.finish(session, again) == []


@pytest.mark.parametrize("end", [End.SUCCEED, End.BURY])
async def test_a_job_follows_one_that_waits(world: World, end: End) -> None:
    session = await world.open_session()
    first = await world.submit()
    second, home = await follow(world, first, payload=b"[2]")
    assert await world.state(second) is JobState.WAITING
    [job] = await world.claim(session)
    assert (job.id, job.flow) == (first, home)
    await finish(world, session, job, end, result=b"1" if end is End.SUCCEED else None)
    if end is End.BURY:
        assert await world.state(second) is JobState.SKIPPED
        return
    [job] = await world.claim(session)
    assert (job.id, job.payload, job.facts.extras.parents) == (second, b"[2]", True)
    [parent] = (await world.store.workflows.parents(world.partition, [job]))[second]
    assert (parent.id, parent.result) == (first, 1)
    await finish(world, session, job, End.SUCCEED)
    chain = await world.store.workflows.get(home)
    assert chain is not None
    assert (chain.state, chain.chain, chain.total) == (WorkflowState.SUCCEEDED, True, 2)
    assert await world.store.workflows.list(name=None, state=None, limit=9, before=None) == []


async def test_a_job_follows_one_that_runs_and_does_not_know(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    second, _ = await follow(world, job.id)
    assert job.flow is None
    await finish(world, session, job, End.SUCCEED)
    assert await world.state(second) is JobState.READY


async def test_a_job_ends_together_with_one_of_the_chain_that_it_has_just_joined(
    world: World,
) -> None:
    """It was claimed as a plain one; the lock of the chain is there, because of the other."""
    session = await world.open_session()
    first, plain = await world.submit(), await world.submit()
    _, chain = await follow(world, first)
    found = {job.id: job for job in await world.claim(session)}
    last, home = await follow(world, first, plain)
    assert home == chain
    outcomes = [Outcome(job.id, job.fence, End.SUCCEED, flow=job.flow) for job in found.values()]
    for refused in await world.finish(session, *outcomes):
        await finish(world, session, found[refused], End.SUCCEED)
    assert await world.state(last) is JobState.READY


async def test_jobs_are_cancelled_of_which_one_has_just_become_a_step(world: World) -> None:
    first, plain = await world.submit(delay=60), await world.submit(delay=60)
    _, home = await follow(world, first)
    store = world.store.workflows
    child, chain = child_of(world, first, plain)
    await asyncio.gather(world.cancel(first, plain), store.follow(world.partition, child, chain))
    await world.cancel(child.job.id)
    ended = await store.get(home)
    assert ended is not None and ended.state is WorkflowState.FAILED


@pytest.mark.parametrize("end", [End.RETRY, End.RELEASE, End.HOLD])
async def test_one_that_comes_back_is_followed_when_it_ends(world: World, end: End) -> None:
    session = await world.open_session()
    job = await world.run(session)
    second, _ = await follow(world, job.id)
    reason = "unknown_kind" if end is End.HOLD else None
    await finish(world, session, job, end, delay=0, reason=reason)
    assert await world.state(second) is JobState.WAITING
    world.clock.advance(1)
    await world.admit()
    await world.store.jobs.admit_kinds(world.partition, ["echo"])
    [job] = await world.claim(session)
    await finish(world, session, job, End.SUCCEED)
    assert await world.state(second) is JobState.READY


@pytest.mark.parametrize("end", [End.RETRY, End.RELEASE])
async def test_one_that_comes_back_waits_while_the_chain_is_paused_that_it_has_joined(
    world: World, end: End
) -> None:
    """Whoever runs it does not know that it is a step by now."""
    session, plain, chain = await _joined(world)
    assert await world.store.workflows.pause(world.partition, chain, note=None, by="me")
    await finish(world, session, plain, end, delay=0)
    await world.admit()
    job = await world.store.jobs.get(plain.id)
    assert job is not None
    assert (job.state, job.reason) == (JobState.HELD, "paused")


async def test_one_that_comes_back_ends_with_the_chain_that_it_has_joined(world: World) -> None:
    session, plain, chain = await _joined(world)
    await world.store.workflows.cancel(world.partition, chain)
    await finish(world, session, plain, End.RELEASE)
    assert await world.state(plain.id) is JobState.CANCELLED


async def _joined(world: World) -> tuple[SessionId, ClaimedJob, JobId]:
    """A job that became a step of a chain while it ran."""
    session = await world.open_session()
    plain = await world.run(session)
    _, chain = await follow(world, plain.id)
    return session, plain, chain


async def test_a_job_follows_one_that_has_ended(world: World) -> None:
    session = await world.open_session()
    done, dead = [await world.run(session) for _ in range(2)]
    await world.end(session, done, result=b"[1]")
    await world.end(session, dead, End.BURY)
    after_done, _ = await follow(world, done.id)
    after_dead, _ = await follow(world, dead.id)
    on_error, _ = await follow(world, dead.id, rule=Rule.ANY_FAILED)
    assert await world.state(after_done) is JobState.READY
    assert await world.state(after_dead) is JobState.SKIPPED
    assert await world.state(on_error) is JobState.READY


async def test_what_a_job_that_ended_before_returned_is_seen_by_those_that_follow(
    world: World,
) -> None:
    session = await world.open_session()
    first = await world.run(session)
    await world.end(session, first, result=b"[1]")
    ids = [(await follow(world, first.id))[0] for _ in range(3)]
    jobs = await world.claim(session)
    assert [job.id for job in jobs] == ids
    found = await world.store.workflows.parents(world.partition, jobs)
    assert [[parent.result for parent in found[id]] for id in ids] == [[[1]]] * 3


async def test_chains_grow_at_any_of_their_jobs(world: World) -> None:
    session = await world.open_session()
    a = await world.submit()
    b, home = await follow(world, a)
    c, _ = await follow(world, b)
    d, _ = await follow(world, a, c)
    [job] = await world.claim(session)
    await finish(world, session, job, End.SUCCEED)
    e, _ = await follow(world, a, b)
    plain = await world.submit(queue="other")
    f, _ = await follow(world, e, plain)
    steps = await world.store.workflows.steps(home)
    assert [step.job for step in steps] == [a, b, c, d, e, plain, f]
    assert [step.number for step in steps] == list(range(7))
    for ids in ([b], [c, e], [d]):
        jobs = await world.claim(session)
        assert [job.id for job in jobs] == ids
        for job in jobs:
            await finish(world, session, job, End.SUCCEED)
    [job] = await world.claim(session, queues=["other"])
    await finish(world, session, job, End.SUCCEED)
    [job] = await world.claim(session)
    await finish(world, session, job, End.SUCCEED)
    chain = await world.store.workflows.get(home)
    assert chain is not None and chain.state is WorkflowState.SUCCEEDED


async def test_a_chain_that_has_ended_is_followed_by_another(world: World) -> None:
    session = await world.open_session()
    a = await world.submit()
    b, home = await follow(world, a)
    for _ in range(2):
        [job] = await world.claim(session)
        await finish(world, session, job, End.SUCCEED, result=b"1")
    plain = await world.submit(queue="other")
    c, other = await follow(world, a, b, plain)
    assert other != home
    assert await world.state(c) is JobState.WAITING
    [job] = await world.claim(session, queues=["other"])
    await finish(world, session, job, End.SUCCEED, result=b"2")
    [job] = await world.claim(session)
    found = (await world.store.workflows.parents(world.partition, [job]))[c]
    assert [parent.result for parent in found] == [1, 1, 2]
    await finish(world, session, job, End.SUCCEED)
    chain = await world.store.workflows.get(other)
    assert chain is not None and chain.state is WorkflowState.SUCCEEDED


async def test_a_retry_of_a_chain_does_not_reach_into_another(world: World) -> None:
    session = await world.open_session()
    a = await world.submit()
    b, home = await follow(world, a)
    [job] = await world.claim(session)
    await finish(world, session, job, End.BURY)
    plain = await world.submit(delay=60)
    c, _ = await follow(world, a, plain, rule=Rule.ALL_DONE)
    ids, _ = await world.store.workflows.retry(world.partition, home)
    assert ids == [a, b]
    [job] = await world.claim(session)
    await finish(world, session, job, End.SUCCEED)
    assert await world.state(b) is JobState.READY
    assert await world.state(c) is JobState.WAITING


async def test_a_chain_whose_jobs_follow_those_of_another_is_tried_again(world: World) -> None:
    session = await world.open_session()
    a = await world.submit()
    b, _ = await follow(world, a)
    for _ in range(2):
        [job] = await world.claim(session)
        await finish(world, session, job, End.SUCCEED)
    c, other = await follow(world, b)
    d, _ = await follow(world, c)
    [job] = await world.claim(session)
    await finish(world, session, job, End.BURY)
    ids, _ = await world.store.workflows.retry(world.partition, other)
    assert ids == [c, d]
    for id in (c, d):
        [job] = await world.claim(session)
        assert job.id == id
        await finish(world, session, job, End.SUCCEED)


async def test_a_chain_is_tried_again_whose_parent_was_skipped_elsewhere(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.run("a", end=End.BURY)
    await flow.settle()
    assert (await flow.states())["b"] == "skipped"
    c, home = await follow(world, flow.ids["b"], rule=Rule.ALL_DONE)
    [job] = await world.claim(flow.session)
    await finish(world, flow.session, job, End.BURY)
    ids, _ = await world.store.workflows.retry(world.partition, home)
    assert ids == [c]
    [job] = await world.claim(flow.session)
    await finish(world, flow.session, job, End.SUCCEED)
    assert await world.state(flow.ids["b"]) is JobState.SKIPPED


async def test_a_job_that_died_before_it_was_followed_is_no_failure_of_the_workflow(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    dead = await world.run(flow.session, queue="other")
    await world.end(flow.session, dead, End.BURY)
    last, home = await follow(world, flow.ids["a"], dead.id, rule=Rule.ALL_DONE)
    assert home == flow.id
    flow.ids["last"] = last
    await flow.run("a", end=End.BURY)
    await flow.settle()
    await flow.run("last")
    assert (await flow.get()).state is WorkflowState.FAILED
    ids, _ = await flow.store.retry(world.partition, flow.id)
    assert ids == [flow.ids["a"], flow.ids["b"]]
    await flow.run("a")
    await flow.run("b")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_job_that_was_submitted_by_itself_is_tried_again_with_its_chain(
    world: World,
) -> None:
    session = await world.open_session()
    more = More(tags=("x",), fair_key="f")
    a = await world.submit(payload=b"[7]", kind="mail", max_attempts=3, timeout=5, more=more)
    b, home = await follow(world, a)
    [job] = await world.claim(session)
    await finish(world, session, job, End.BURY)
    assert await world.state(b) is JobState.SKIPPED
    ids, _ = await world.store.workflows.retry(world.partition, home)
    assert ids == [a, b]
    [job] = await world.claim(session)
    assert (job.id, job.fence, job.payload, job.kind) == (a, 2, b"[7]", "mail")
    assert (job.max_attempts, job.timeout, job.facts.tags) == (3, 5, ("x",))
    await finish(world, session, job, End.SUCCEED)
    assert await world.state(b) is JobState.READY


async def test_following_again_with_the_same_id_changes_nothing(world: World) -> None:
    first = await world.submit()
    child, chain = child_of(world, first)
    once = await world.store.workflows.follow(world.partition, child, chain)
    again = await world.store.workflows.follow(world.partition, child, chain)
    assert once[0] == again[0]
    assert len(await world.store.workflows.steps(once[0])) == 2


@pytest.mark.parametrize("ended", [False, True])
async def test_many_follow_one_at_once(world: World, ended: bool) -> None:
    session = await world.open_session()
    job = await world.run(session)
    if ended:
        await world.end(session, job)
    found = await asyncio.gather(*(follow(world, job.id) for _ in range(8)))
    assert len({id for id, _ in found}) == 8
    if not ended:
        assert len({home for _, home in found}) == 1
        await finish(world, session, job, End.SUCCEED)
    assert [await world.state(id) for id, _ in found] == [JobState.READY] * 8


async def test_jobs_follow_a_step_of_a_workflow_and_join_it(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    id, home = await follow(world, flow.ids["a"])
    assert home == flow.id
    flow.ids["c"] = id
    await flow.run("a")
    late, home = await follow(world, flow.ids["a"])
    assert home == flow.id
    flow.ids["d"] = late
    await flow.run("b", "c", "d")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED
    assert (await flow.get()).total == 4


async def test_jobs_of_two_workflows_that_run_are_not_followed_together(world: World) -> None:
    flows = [await draw(world) for _ in range(2)]
    for flow in flows:
        await flow.submit(flow.step("a"))
    with pytest.raises(InvalidValue, match="different workflows"):
        await follow(world, *(flow.ids["a"] for flow in flows))


async def test_a_job_of_its_own_is_not_drawn_into_a_workflow(world: World) -> None:
    """It would fail that, or be ended with it. One that has ended is a past of the child, and no more."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    plain = await world.submit()
    held = {job.id: job for job in await world.claim(flow.session)}
    with pytest.raises(InvalidValue, match=f"{plain}' has not ended .* step of workflow {flow.id}"):
        await follow(world, flow.ids["a"], plain)
    assert await world.store.workflows.linked(world.partition, [plain]) == {}
    await world.end(flow.session, held[plain], End.BURY)
    _, home = await follow(world, flow.ids["a"], plain, rule=Rule.ALL_DONE)
    assert home == flow.id
    seen = await flow.get()
    assert (seen.state, seen.failed) == (WorkflowState.RUNNING, 0)


async def test_a_job_that_is_unknown_is_not_followed(world: World) -> None:
    known, unknown = await world.submit(), world.new_job().id
    child, chain = child_of(world, known, unknown)
    with pytest.raises(InvalidValue, match="is no job"):
        await world.store.workflows.follow(world.partition, child, chain)
    assert await world.store.jobs.get(child.job.id) is None
    assert await world.store.workflows.get(chain.id) is None
    assert await world.store.workflows.linked(world.partition, [known]) == {}


async def test_a_child_that_is_sent_again_while_it_is_being_stored_is_one(world: World) -> None:
    """Its reply is lost before its transaction has ended."""
    first = await world.submit()
    _, home = await follow(world, first)
    for _ in range(10):
        child, chain = child_of(world, first)
        sent = [world.store.workflows.follow(world.partition, child, chain) for _ in range(3)]
        assert [flow for flow, _ in await asyncio.gather(*sent)] == [home] * 3
    flow = await world.store.workflows.get(home)
    assert flow is not None
    assert flow.total == 12
