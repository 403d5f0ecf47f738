"""Jobs that stand for a workflow or make the elements of a map, by themselves, on every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from foliot.builtin import Awaiting, WorkflowPayload, run_map, run_workflow
from foliot.config import LimitSettings, Settings
from foliot.errors import Cancel, WorkflowFailed
from foliot.ids import Ids, JobId, SessionId, inner_id
from foliot.model.job import ClaimedJob, End, JobState
from foliot.model.workflow import MAP_KIND, WORKFLOW_KIND
from foliot.store.port import Store
from foliot.workflow_commands import pause_workflow, resume_workflow
from foliot.workflow_map import MapPayload
from support.flows import draw
from support.stores import World

pytestmark = pytest.mark.anyio
T = TypeVar("T")


class Host:
    """What the job that runs is to it."""

    step: str | None = None
    workflow: JobId | None = None
    settings = Settings()

    def __init__(self, world: World, session: SessionId, job: ClaimedJob) -> None:
        self._store = world.store
        self.session, self.id, self.fence = session, job.id, job.fence

    @property
    def ids(self) -> Ids:
        raise AssertionError("nothing is made anew")

    async def ask(self, work: Callable[[Store], Awaitable[T]]) -> T:
        return await work(self._store)


async def test_only_who_retries_the_job_has_the_failed_workflow_tried_again(world: World) -> None:
    """An attempt that was interrupted when it was to tell of the failure is no such thing."""
    flow = await draw(world)
    session = flow.session
    job = await world.run(session)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await world.end(session, job, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    await flow.end("i", End.BURY)
    told = WorkflowPayload(draft={})

    world.clock.advance(1)
    [job] = await world.claim(session)
    await world.end(session, job, End.RETRY, reason="interrupted", delay=0)
    await world.admit()
    [job] = await world.claim(session)
    with pytest.raises(WorkflowFailed, match="step i is dead"):
        await run_workflow(Host(world, session, job), told)

    await world.end(session, job, End.BURY)
    world.clock.advance(1)
    await world.store.dead.retry(world.partition, [job.id], record=lambda _ids: [])
    [job] = await world.claim(session)
    with pytest.raises(Awaiting):
        await run_workflow(Host(world, session, job), told)
    assert await world.state(flow.ids["i"]) is JobState.READY


async def test_a_job_that_was_asked_to_end_is_cancelled_when_its_workflow_has_not_succeeded(
    world: World,
) -> None:
    """It was released, and claimed, before somebody else could end it."""
    flow = await draw(world)
    job = await world.run(flow.session)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await world.end(flow.session, job, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    await world.store.jobs.cancel(world.partition, [job.id])
    await flow.end("i", End.BURY)
    [job] = await world.claim(flow.session)
    with pytest.raises(Cancel, match="requested"):
        await run_workflow(Host(world, flow.session, job), WorkflowPayload(draft={}))


async def test_one_that_ended_while_it_was_paused_with_the_outer_one_goes_on_when_that_is_retried(
    world: World,
) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("o", kind=WORKFLOW_KIND))
    flow = await draw(world)
    flow.session = outer.session
    [job] = await world.claim(outer.session)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await world.end(outer.session, job, End.HOLD, reason="workflow", awaits=flow.id, flow=outer.id)
    await flow.claim(queues=["inner"])
    await pause_workflow(world.store, outer.id)
    assert (await flow.get()).paused_at is not None
    await flow.end("i", End.BURY)
    await resume_workflow(world.store, outer.id)
    [job] = await world.claim(outer.session)
    await world.end(outer.session, job, End.BURY, flow=outer.id)
    await outer.store.retry(world.partition, outer.id)
    [job] = await world.claim(outer.session)
    host = Host(world, outer.session, job)
    host.workflow = outer.id
    with pytest.raises(Awaiting):
        await run_workflow(host, WorkflowPayload(draft={}))
    assert (await flow.get()).paused_at is None
    assert await world.state(flow.ids["i"]) is JobState.READY


@pytest.mark.parametrize("held", [True, False])
async def test_a_failed_workflow_is_tried_again_once_for_each_retry_of_the_job(
    world: World, held: bool
) -> None:
    """Whatever interrupts the attempts of that life: it may be before the job is held for what it has begun."""
    outer = await draw(world)
    await outer.submit(outer.step("o", kind=WORKFLOW_KIND), policy="continue")
    flow = await draw(world)
    flow.session = outer.session
    told = WorkflowPayload(draft={})

    async def hold(job: ClaimedJob) -> None:
        more = {"reason": "workflow", "awaits": flow.id, "flow": outer.id}
        await world.end(outer.session, job, End.HOLD, **more)

    async def fail() -> None:
        await flow.claim(queues=["inner"])
        await flow.end("i", End.BURY)

    async def interrupt(job: ClaimedJob) -> ClaimedJob:
        world.clock.advance(1)
        await world.end(outer.session, job, End.RETRY, delay=0, flow=outer.id)
        await world.admit()
        return (await world.claim(outer.session))[0]

    [job] = await world.claim(outer.session)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await hold(job)
    await fail()
    for life in (1, 2):
        [job] = await world.claim(outer.session)
        await world.end(outer.session, job, End.BURY, flow=outer.id)
        world.clock.advance(1)
        await outer.store.retry(world.partition, outer.id)
        [job] = await world.claim(outer.session)
        job = await interrupt(job)
        with pytest.raises(Awaiting):
            await run_workflow(Host(world, outer.session, job), told)
        assert (await world.get(flow.ids["i"])).generation == life
        if held:
            await hold(job)
            await fail()
            [job] = await world.claim(outer.session)
        else:
            await fail()
        job = await interrupt(job)
        with pytest.raises(WorkflowFailed, match="step i is dead"):
            await run_workflow(Host(world, outer.session, job), told)
        await world.end(outer.session, job, End.HOLD, reason="unknown_kind", flow=outer.id)
        await world.store.jobs.admit_kinds(world.partition, [WORKFLOW_KIND])


@pytest.mark.parametrize("again", ["begun", "ending", "ended"])
async def test_a_retry_by_hand_while_the_job_looks_at_the_failure_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """Whether that has ended by the time at which the job looks once more, or is asked to."""
    flow = await draw(world)
    job = await world.run(flow.session)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await world.end(flow.session, job, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    await flow.end("i", End.BURY)
    [job] = await world.claim(flow.session)
    if again == "ending":
        await world.end(flow.session, job, End.BURY)
        await world.store.dead.retry(world.partition, [job.id], record=lambda _ids: [])
        [job] = await world.claim(flow.session)
    looked_at = type(world.store.jobs if again == "ending" else world.store.workflows)
    get = looked_at.get

    async def slowly(store: object, id: JobId) -> object:
        found = await get(store, id)  # type: ignore[arg-type]
        monkeypatch.undo()
        await flow.store.retry(world.partition, flow.id)
        await flow.claim(queues=["inner"])
        if again == "ending":
            await flow.store.cancel(world.partition, flow.id)
        elif again == "ended":
            await flow.end("i")
        return found

    monkeypatch.setattr(looked_at, "get", slowly)
    with pytest.raises(Awaiting):
        await run_workflow(Host(world, flow.session, job), WorkflowPayload(draft={}))
    await world.end(flow.session, job, End.HOLD, reason="workflow", awaits=flow.id)
    if again != "ended":
        assert await world.state(job.id) is JobState.HELD
        await flow.end("i")
    assert await world.state(job.id) is JobState.READY


class MapHost(Host):
    step = "each"
    settings = Settings(limits=LimitSettings(steps=4))

    def __init__(self, world: World, session: SessionId, job: ClaimedJob) -> None:
        super().__init__(world, session, job)
        self.workflow, self._ids = job.flow, world.ids

    @property
    def ids(self) -> Ids:
        return self._ids


async def test_a_map_makes_its_elements_once_and_does_not_read_the_other_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands, and as many maps among them. What a lost attempt has added counts against no limit."""
    flow = await draw(world)
    await flow.submit(flow.step("each", kind=MAP_KIND))
    await flow.claim()
    host = MapHost(world, flow.session, flow.claimed["each"])
    told = MapPayload(msgspec.to_builtins(world.new_job()), "x", over=[1, 2, 3])

    async def read(_: JobId) -> None:
        raise AssertionError("it has read them all")

    monkeypatch.setattr(world.store.workflows, "steps", read)
    for _ in range(2):
        assert await run_map(host, told) == []
    assert (await flow.get()).total == 4
    assert {*await flow.store.named(flow.id, ["each[2]", "each[3]"])} == {"each[2]"}
