"""A pause goes into the workflows that run for steps, as far as they run when it comes or are submitted later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from foliot.author import Author
from foliot.builtin import Awaiting, WorkflowPayload, run_workflow
from foliot.config import Settings
from foliot.ids import Ids, JobId, inner_id
from foliot.model.job import ClaimedJob, End
from foliot.model.workflow import WORKFLOW_KIND, Workflow
from foliot.store.port import Store
from foliot.workflow_commands import pause_workflow, resume_workflow
from foliot.workflow_form import Draft, sleep_step, workflow_payload
from support.flows import Drawing, draw
from support.stores import World

pytestmark = pytest.mark.anyio
T = TypeVar("T")
INNER = Draft(name="inner", steps=(sleep_step("i", 0, queue="inner"),))
TOLD = WorkflowPayload(**workflow_payload(INNER))


class Host:
    """A step that runs, and stands for a workflow."""

    step = "o"
    settings = Settings()

    def __init__(self, flow: Drawing, job: ClaimedJob) -> None:
        self.workflow: JobId | None = flow.id
        self._store: Store = flow.world.store
        self.session, self.id, self.fence = flow.session, job.id, job.fence
        self.ids: Ids = flow.world.ids

    async def ask(self, work: Callable[[Store], Awaitable[T]]) -> T:
        return await work(self._store)


async def look(world: World, id: JobId) -> Workflow:
    found = await world.store.workflows.get(id)
    assert found is not None
    return found


async def runs_inside(outer: Drawing, *, held: bool = True, kind: str = "echo") -> Drawing:
    """What the step that can be claimed stands for; `held`: that was held for it."""
    [job] = await outer.world.claim(outer.session)
    flow = await draw(outer.world)
    flow.id = inner_id(job.id)
    await flow.submit(flow.step("one", kind=kind), flow.step("two", "one"), waiter=job.id)
    if held:
        more = {"reason": "workflow", "awaits": flow.id, "flow": outer.id}
        await outer.world.end(outer.session, job, End.HOLD, **more)
    flow.session = outer.session
    return flow


async def draw_outer(world: World) -> Drawing:
    flow = await draw(world)
    return await flow.submit(flow.step("o", kind=WORKFLOW_KIND))


@pytest.mark.parametrize("held", [True, False])
async def test_nothing_starts_within_a_paused_workflow_either(world: World, held: bool) -> None:
    outer = await draw_outer(world)
    middle = await runs_inside(outer, kind=WORKFLOW_KIND)
    inner = await runs_inside(middle, held=held)
    assert await inner.claim() == {"one"}
    await pause_workflow(world.store, outer.id, by=Author(world.ids, "ada"), note="lunch")
    await inner.end("one")
    assert (await inner.states())["two"] == "held"
    assert await inner.claim() == set()
    for flow in (outer, middle, inner):
        found = await flow.get()
        assert (found.paused_by, found.note) == ("ada", "lunch")
    await resume_workflow(world.store, outer.id, by=Author(world.ids, "ada"))
    for flow in (outer, middle, inner):
        assert (await flow.get()).paused_at is None
    assert await inner.claim() == {"two"}
    told = [(entry.action, entry.target) for entry in await world.store.audit.list()]
    flows = (inner.id, middle.id, outer.id)
    assert told == [("resume", id) for id in flows] + [("pause", id) for id in flows]


async def test_one_within_that_was_paused_by_itself_is_resumed_with_the_outer(world: World) -> None:
    outer = await draw_outer(world)
    inner = await runs_inside(outer)
    await pause_workflow(world.store, inner.id, note="by itself")
    assert (await outer.get()).paused_at is None
    await pause_workflow(world.store, outer.id)
    await resume_workflow(world.store, outer.id)
    assert (await inner.get()).paused_at is None


async def test_one_within_that_has_ended_meanwhile_is_no_error(world: World) -> None:
    outer = await draw_outer(world)
    inner = await runs_inside(outer, held=False)
    await inner.run("one")
    await inner.run("two")
    await pause_workflow(world.store, outer.id)
    await resume_workflow(world.store, outer.id)
    assert (await inner.get()).paused_at is None


async def test_one_that_is_submitted_in_a_paused_workflow_is_paused_like_it(world: World) -> None:
    outer = await draw_outer(world)
    [job] = await world.claim(outer.session)
    await pause_workflow(world.store, outer.id, by=Author(world.ids, "ada"), note="lunch")
    with pytest.raises(Awaiting):
        await run_workflow(Host(outer, job), TOLD)
    inner = await look(world, inner_id(job.id))
    assert (inner.paused_by, inner.note) == ("ada", "lunch")
    assert await world.claim(outer.session, queues=["inner"]) == []
    await resume_workflow(world.store, outer.id)
    assert len(await world.claim(outer.session, queues=["inner"])) == 1


async def test_one_whose_step_lost_its_worker_is_resumed_with_the_outer(world: World) -> None:
    """The attempt that had submitted it did not come to say so."""
    outer = await draw_outer(world)
    inner = await runs_inside(outer, held=False)
    await pause_workflow(world.store, outer.id)
    await world.reap(outer.session)
    await resume_workflow(world.store, outer.id)
    assert (await inner.get()).paused_at is None
    await pause_workflow(world.store, outer.id)
    assert (await inner.get()).paused_at is not None


async def test_a_worker_that_dies_as_it_pauses_one_within_leaves_none_paused_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who resumes the outer one has just been there."""
    outer = await draw_outer(world)
    [job] = await world.claim(outer.session)
    await pause_workflow(world.store, outer.id)
    pause = world.store.workflows.pause

    async def late(*args: Any, **fields: Any) -> bool:
        await resume_workflow(world.store, outer.id)
        await pause(*args, **fields)
        raise SystemExit

    monkeypatch.setattr(world.store.workflows, "pause", late)
    with pytest.raises(SystemExit):
        await run_workflow(Host(outer, job), TOLD)
    monkeypatch.undo()
    assert (await look(world, inner_id(job.id))).paused_at is None


async def test_one_that_is_paused_after_its_outer_was_resumed_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who resumes finds nothing to resume within, and then it is paused by who has seen the pause before."""
    outer = await draw_outer(world)
    [job] = await world.claim(outer.session)
    await pause_workflow(world.store, outer.id)
    pause = world.store.workflows.pause

    async def late(*args: Any, **fields: Any) -> bool:
        await resume_workflow(world.store, outer.id)
        return await pause(*args, **fields)

    monkeypatch.setattr(world.store.workflows, "pause", late)
    with pytest.raises(Awaiting):
        await run_workflow(Host(outer, job), TOLD)
    assert (await look(world, inner_id(job.id))).paused_at is None
    assert len(await world.claim(outer.session, queues=["inner"])) == 1
