"""Sessions that were taken for dead, and report on a step that another has run since: they are refused, and nothing
changes, neither in the step nor in what comes after it."""

from __future__ import annotations

from typing import Any

import pytest

from foliot.errors import NotRunning
from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.model.workflow import Rule, WorkflowState
from support.flows import Drawing
from support.stores import World

pytestmark = pytest.mark.anyio

ENDS = [End.SUCCEED, End.BURY, End.RETRY, End.RELEASE, End.CANCEL]
# What comes after the step: to start when it succeeds, when it fails, and in any case.
CHILDREN = {"next": Rule.ALL_SUCCEEDED, "on_error": Rule.ANY_FAILED, "clean": Rule.ALL_DONE}


class Story:
    """A step that two have run, one after the other, and what both know of it."""

    def __init__(self, world: World, flow: Drawing, zombie: SessionId, first: ClaimedJob) -> None:
        self.world = world
        self.flow = flow
        self.zombie = zombie
        self.first = first

    async def report(self, end: End) -> None:
        outcome = Outcome(
            self.first.id, self.first.fence, end, result=b'"of the zombie"', flow=self.flow.id
        )
        before = await self.everything()
        assert await self.world.finish(self.zombie, outcome) == [self.first.id]
        assert not await self.flow.stuck()
        assert await self.everything() == before

    async def everything(self) -> list[Any]:
        jobs = [await self.world.get(id) for id in self.flow.ids.values()]
        attempts = [await self.world.attempts(id) for id in self.flow.ids.values()]
        flow, steps = await self.flow.get(), await self.flow.steps()
        return [flow, steps, jobs, attempts, await self.world.count()]


async def lose(world: World) -> Story:
    """A session claims the first step of a workflow and is lost; another one takes its place."""
    zombie = await world.open_session()
    flow = Drawing(world, zombie)
    await flow.submit(
        flow.step("a"),
        *(flow.step(name, "a", rule=rule) for name, rule in CHILDREN.items()),
        policy="continue",
    )
    await flow.claim()
    first = flow.claimed["a"]
    world.clock.advance(1)
    world.beat(zombie, first.id)
    world.expire()
    assert (await world.reap(zombie)).lost == 1
    flow.session = await world.open_session()
    assert await flow.claim() == {"a"}
    return Story(world, flow, zombie, first)


@pytest.mark.parametrize("end", ENDS)
async def test_a_zombie_changes_nothing_after_another_has_succeeded(world: World, end: End) -> None:
    story = await lose(world)
    flow = story.flow
    await story.report(end)  # while another runs it
    await flow.end("a", result=b'"of the other"')
    await story.report(end)  # when children may start
    assert await flow.claim() == {"next", "clean"}
    await story.report(end)  # while they run
    for name in ("next", "clean"):
        await flow.end(name)
    await story.report(end)  # when all is over, and no workflow runs
    assert (await flow.steps())["a"].result == b'"of the other"'
    assert await flow.states() == {
        "a": "succeeded",
        "next": "succeeded",
        "on_error": "skipped",
        "clean": "succeeded",
    }
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


@pytest.mark.parametrize("end", ENDS)
async def test_a_zombie_changes_nothing_after_another_has_failed(world: World, end: End) -> None:
    story = await lose(world)
    flow = story.flow
    await flow.end("a", End.BURY)
    await story.report(end)
    await flow.run("on_error", "clean")
    await story.report(end)
    await flow.store.retry(world.partition, flow.id)
    await story.report(end)  # when it is ready in another life
    assert await flow.claim() == {"a"}
    await story.report(end)
    await flow.end("a")
    await story.report(end)
    await flow.run("next")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_zombie_that_reports_with_others_takes_them_nothing(world: World) -> None:
    """One outcome of its trip is refused, and the other ends a step as it should."""
    story = await lose(world)
    flow = story.flow
    await flow.end("a")
    await flow.claim()
    late = Outcome(story.first.id, story.first.fence, End.BURY, flow=flow.id)
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, flow.session, outcomes=[late, flow.outcome("next", End.SUCCEED)]
    )
    assert cycle.refused == [flow.ids["a"]]
    assert await flow.states() == {
        "a": "succeeded",
        "next": "succeeded",
        "on_error": "skipped",
        "clean": "running",
    }
    seen = await flow.get()
    assert (seen.remaining, seen.failed) == (1, 0)


async def test_a_zombie_adds_no_steps_after_another_has_succeeded(world: World) -> None:
    story = await lose(world)
    await story.flow.end("a")
    step = story.flow.step("x", "a")
    story.flow.ids.pop("x")
    before = await story.everything()
    with pytest.raises(NotRunning):
        await story.flow.store.add(
            world.partition,
            story.flow.id,
            [step],
            by=(story.zombie, story.first.id, story.first.fence),
        )
    assert await story.everything() == before
