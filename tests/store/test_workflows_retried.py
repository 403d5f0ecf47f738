"""Workflows that are tried again, and those that run for a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from foliot import commands
from foliot.errors import InvalidValue, NotRunning
from foliot.ids import inner_id
from foliot.limit_commands import limit_of, set_limit
from foliot.model.audit import Deed
from foliot.model.change import Change
from foliot.model.job import End, Extras, JobState, More, Outcome
from foliot.model.lane import lane_of
from foliot.model.workflow import (
    MAP_KIND,
    SIGNAL_KIND,
    WORKFLOW_KIND,
    Advance,
    Rule,
    WorkflowState,
)
from foliot.store.port import Share
from foliot.workflow_commands import carry_on
from store.test_workflows_followed import follow
from support.flows import Drawing, draw, ready
from support.hooks import listen, outbox_rows
from support.stores import World

pytestmark = pytest.mark.anyio
LANE = lane_of("default").number


async def cancel(flow: Drawing) -> None:
    assert await flow.store.cancel(flow.world.partition, flow.id) is not None
    await flow.settle()


async def fail(flow: Drawing, *names: str) -> None:
    await flow.claim()
    for name in names:
        await flow.end(name, End.BURY, error="x")
    await flow.settle()


async def test_a_retry_runs_what_failed_and_what_follows_and_nothing_else(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b", "a", payload=b"[7]"),
        flow.step("c", "b"),
        flow.step("d", "c"),
        flow.step("on_error", "b", rule=Rule.ANY_FAILED),
        deadline=500,
    )
    await flow.run("a", result=b"1")
    await fail(flow, "b")
    await flow.run("on_error")
    assert (await flow.get()).state is WorkflowState.FAILED
    world.clock.advance(100)
    ids, advance = await flow.store.retry(world.partition, flow.id)
    assert ids == [flow.ids[name] for name in "bcd"]
    assert await flow.states() == {
        "a": "succeeded",
        "b": "ready",
        "c": "waiting",
        "d": "waiting",
        "on_error": "succeeded",
    }
    seen = await flow.get()
    assert (seen.state, seen.remaining, seen.failed) == (WorkflowState.RUNNING, 3, 0)
    assert (seen.deadline_at, seen.finished_at) == (world.after(500), None)
    assert await flow.claim() == {"b"}
    job = flow.claimed["b"]
    assert (job.payload, job.fence, job.attempt, job.flow) == (b"[7]", 2, 1, flow.id)
    assert (await flow.store.parents(world.partition, [job]))[job.id][0].result == 1
    await flow.end("b")
    await flow.run("c")
    await flow.run("d")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED
    assert await flow.store.retry(world.partition, flow.id) == ([], advance)
    assert (await world.get(flow.ids["d"])).generation == 1


@pytest.mark.parametrize("limit", [None, "kind:echo", "key:customer:*"])
async def test_a_step_that_is_tried_again_is_due_from_then_on(
    world: World, limit: str | None
) -> None:
    """Not since its id was made, or stats would say that it had waited while it was dead. However it is claimed."""
    if limit is not None:
        await set_limit(world.store, limit_of(limit, concurrency=100))
    flow = await draw(world)
    step = flow.step("a")
    assert step.job.more is not None
    more = replace(step.job.more, extras=Extras(step="a", limit_key="customer:1"))
    await flow.submit(replace(step, job=replace(step.job, more=more)))
    await fail(flow, "a")
    world.clock.advance(100)
    await flow.store.retry(world.partition, flow.id)
    assert await flow.claim() == {"a"}
    due = flow.claimed["a"].facts.run_at
    assert due is not None
    assert datetime.fromtimestamp(0, UTC) + timedelta(microseconds=due) == world.after(0)


async def test_a_retry_of_some_leaves_the_others_as_they_are(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b"),
        flow.step("after_a", "a"),
        flow.step("join", "a", "b"),
        policy="continue",
    )
    await fail(flow, "a", "b")
    ids, _ = await flow.store.retry(world.partition, flow.id, only=[flow.ids["a"]])
    assert ids == [flow.ids["a"], flow.ids["after_a"]]
    await flow.run("a")
    await flow.run("after_a")
    assert await flow.states() == {
        "a": "succeeded",
        "b": "dead",
        "after_a": "succeeded",
        "join": "skipped",
    }
    assert (await flow.get()).state is WorkflowState.FAILED
    await flow.store.retry(world.partition, flow.id)
    await flow.run("b")
    await flow.run("join")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_what_is_tried_again_runs_although_others_have_failed_before(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), flow.step("each", "b"), flow.step("c"))
    await cancel(flow)
    again = [flow.ids[name] for name in ("a", "b", "each")]
    await flow.store.retry(world.partition, flow.id, only=again)
    await flow.run("a")
    await flow.run("b")
    await flow.claim()
    element = flow.step("each[0]", "each", into=None, added_by="each", mapped="each")
    await flow.store.add(world.partition, flow.id, [element])
    await flow.end("each")
    await flow.run("each[0]")
    assert not await flow.stuck()
    seen = await flow.get()
    assert (seen.state, seen.failed) == (WorkflowState.FAILED, 1)


async def test_another_failure_after_a_retry_of_some_stops_the_rest(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), flow.step("c"), flow.step("d"))
    await cancel(flow)
    again = [flow.ids[name] for name in ("a", "b", "d")]
    await flow.store.retry(world.partition, flow.id, only=again)
    await fail(flow, "d")
    assert (await flow.states())["b"] == "skipped"


async def test_a_retry_brings_back_what_the_failure_of_another_had_stopped(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("later", delay=60), flow.step("end", "later"))
    await fail(flow, "a")
    assert (await flow.states())["later"] == "skipped"
    await flow.store.retry(world.partition, flow.id)
    assert await flow.states() == {"a": "ready", "later": "scheduled", "end": "waiting"}
    await fail(flow, "a")
    assert await flow.states() == {"a": "dead", "later": "skipped", "end": "skipped"}


async def test_a_workflow_is_not_tried_again_while_a_failure_ends_what_runs(world: World) -> None:
    """Or these would end as failures, and stop what is tried again."""
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b"),
        flow.step("clean", "a", rule=Rule.ALL_DONE),
        flow.step("end", "b"),
    )
    assert await flow.claim() == {"a", "b"}
    await flow.end("a", End.BURY)
    await flow.settle()
    assert await flow.claim() == {"clean"}
    with pytest.raises(NotRunning, match="is ending what runs after a failure: retry it when that"):
        await flow.store.retry(world.partition, flow.id)
    await flow.end("b", End.CANCEL)
    ids, _ = await flow.store.retry(world.partition, flow.id)
    assert set(ids) == {flow.ids[name] for name in ("a", "b", "end")}
    await flow.end("clean")
    await flow.run("a", "b")
    assert (await flow.states())["end"] == "ready"


async def test_a_retry_of_some_decides_about_elements_by_the_rule_of_their_map(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b"),
        flow.step("each", "b", rule=Rule.ANY_FAILED),
        flow.step("each[0]", "each", mapped="each"),
    )
    await fail(flow, "b")
    await flow.end("a", End.BURY)
    await flow.run("each", end=End.BURY)
    await flow.settle()
    assert (await flow.states())["each[0]"] == "skipped"
    await flow.store.retry(world.partition, flow.id, only=[flow.ids["each"]])
    await flow.run("each")
    await flow.run("each[0]")


async def test_a_cancelled_workflow_can_be_tried_again(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await cancel(flow)
    await flow.store.retry(world.partition, flow.id)
    await flow.run("a")
    await flow.run("b")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


@pytest.mark.parametrize("late", [True, False])
async def test_one_in_which_all_succeeded_too_late_has_succeeded_when_it_is_tried_again(
    world: World, late: bool
) -> None:
    """Or after a cancel. Nothing runs once more, whoever listens is told, and who did it is written down."""
    await listen(world, "workflow.succeeded")
    flow = await draw(world)
    await flow.submit(flow.step("a"), deadline=60)
    await flow.claim()
    if late:
        world.clock.advance(60)
        await flow.settle()
    else:
        await cancel(flow)
    await flow.end("a", result=b"1")
    seen = await flow.get()
    assert seen.state is (WorkflowState.FAILED if late else WorkflowState.CANCELLED)
    assert await outbox_rows(world) == []
    world.clock.advance(1)

    def record(ids: object) -> list[Deed]:
        return [Deed(world.ids.job(), "me", "retry", flow.id)]

    answer = await flow.store.retry(world.partition, flow.id, record=record)
    assert answer == ([], Advance(ended=(flow.id,)))
    seen = await flow.get()
    assert (seen.state, seen.reason, seen.remaining) == (WorkflowState.SUCCEEDED, None, 0)
    assert (seen.finished_at, seen.cancel_requested) == (world.clock.now(), False)
    assert await flow.states() == {"a": "succeeded"}
    assert (await world.get(flow.ids["a"])).generation == 0
    told = await outbox_rows(world)
    assert [(row["event"], row["subject"]) for row in told] == [("workflow.succeeded", flow.id)]
    assert [one.action for one in await world.store.audit.list(target=flow.id)] == ["retry"]
    answer = await flow.store.retry(world.partition, flow.id, record=record)
    assert answer == ([], Advance())
    assert len(await outbox_rows(world)) == len(await world.store.audit.list(target=flow.id)) == 1


async def test_what_a_rule_has_skipped_in_time_is_skipped_when_nothing_runs_again(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b"),
        flow.step("on_error", "a", rule=Rule.ANY_FAILED),
        flow.step("after", "on_error"),
        deadline=60,
    )
    await flow.claim()
    await flow.end("a")
    world.clock.advance(60)
    await flow.settle()
    await flow.end("b")
    states = await flow.states()
    assert states == {"a": "succeeded", "b": "succeeded", "on_error": "skipped", "after": "skipped"}
    assert (await flow.get()).state is WorkflowState.FAILED
    assert (await flow.store.retry(world.partition, flow.id))[0] == []
    assert await flow.states() == states
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_one_that_was_late_is_not_as_good_as_succeeded_while_a_step_of_it_has_failed(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), deadline=60)
    await flow.claim()
    world.clock.advance(60)
    await flow.settle()
    await flow.end("a")
    assert await flow.states() == {"a": "succeeded", "b": "cancelled"}
    ids, advance = await flow.store.retry(world.partition, flow.id)
    assert (ids, advance.ended) == ([flow.ids["b"]], ())
    await flow.run("b")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_job_that_is_held_for_one_with_nothing_left_to_run_goes_on(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w"), outer.step("b", "w"))
    await outer.claim()
    flow = Drawing(world, outer.session)
    await flow.submit(flow.step("i", queue="inner"), waiter=outer.ids["w"], deadline=60)
    await flow.claim(queues=["inner"])
    world.clock.advance(60)
    await flow.settle()
    await flow.end("i")
    assert (await flow.get()).state is WorkflowState.FAILED
    await outer.end("w", End.BURY)
    await outer.settle()
    await outer.store.retry(world.partition, outer.id)
    await outer.claim()
    ids, advance = await flow.store.retry(world.partition, flow.id)
    assert (ids, advance.ended) == ([], (flow.id,))
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await outer.run("w")
    await outer.run("b")
    assert (await outer.get()).state is WorkflowState.SUCCEEDED


async def test_a_signal_that_came_too_late_is_there_for_the_retry(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("ok", signal="go", kind=SIGNAL_KIND, more=More(expires_in=60)),
        policy="continue",
    )
    world.clock.advance(60)
    await world.store.admission.expire(world.partition, limit=10)
    await flow.store.signal(world.partition, flow.id, "go", b"1")
    await flow.store.retry(world.partition, flow.id)
    assert await flow.states() == {"a": "ready", "ok": "succeeded"}


async def test_a_retry_brings_back_what_waits_for_a_step_that_was_added_later(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("sum", "a"))
    await flow.claim()
    added = [flow.step("x", "a"), flow.step("y", "x", into=["sum"])]
    await flow.store.add(world.partition, flow.id, added)
    await flow.end("a")
    await fail(flow, "x")
    assert await flow.states() == {"a": "succeeded", "sum": "skipped", "x": "dead", "y": "skipped"}
    await flow.store.retry(world.partition, flow.id)
    for name in ("x", "y", "sum"):
        await flow.run(name)
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_the_end_of_a_step_that_is_tried_again_is_not_counted_twice(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("r"),
        flow.step("clean", "a", "r", rule=Rule.ALL_DONE),
        policy="continue",
    )
    await fail(flow, "a")
    await flow.store.retry(world.partition, flow.id)
    await flow.run("a")
    assert await flow.states() == {"a": "succeeded", "r": "running", "clean": "waiting"}
    await flow.end("r")
    await flow.run("clean")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


@pytest.mark.parametrize("policy", ["fail_fast", "continue"])
async def test_a_step_that_a_failure_rules_out_is_skipped_when_it_is_tried_again(
    world: World, policy: str
) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("r", rule=Rule.ALL_DONE),  # which the failure leaves alone
        flow.step("b", "a", "r"),
        flow.step("c", "b"),
        flow.step("clean", "b", "r", rule=Rule.ALL_DONE),
        policy=policy,
    )
    await flow.claim()
    await world.cancel(flow.ids["b"])
    await flow.end("a", End.BURY)
    await flow.settle()
    ids, _ = await flow.store.retry(world.partition, flow.id, only=[flow.ids["b"]])
    assert ids == [flow.ids["b"]]
    assert await flow.states() == {
        "a": "dead",
        "r": "running",
        "b": "skipped",
        "c": "skipped",
        "clean": "waiting",
    }
    assert (await world.get(flow.ids["b"])).generation == 1
    await flow.end("r")
    await flow.run("clean")
    seen = await flow.get()
    assert (seen.state, seen.failed, seen.remaining) == (WorkflowState.FAILED, 1, 0)


async def test_a_retry_after_which_nothing_can_run_ends_the_workflow_again(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("on_error", "a", rule=Rule.ANY_FAILED))
    await flow.claim()
    await world.cancel(flow.ids["on_error"])
    await flow.end("a")
    assert (await flow.get()).state is WorkflowState.FAILED
    ids, advance = await flow.store.retry(world.partition, flow.id)
    assert (ids, advance.ended) == ([flow.ids["on_error"]], (flow.id,))
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_zombie_of_the_life_before_a_retry_changes_nothing(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.claim()
    late = flow.outcome("a", End.SUCCEED)
    await flow.end("a", End.BURY)
    await flow.settle()
    await flow.store.retry(world.partition, flow.id)
    await flow.claim()
    assert await world.finish(flow.session, late) == [flow.ids["a"]]
    assert await flow.states() == {"a": "running", "b": "waiting"}


async def test_a_dead_step_is_not_taken_from_its_workflow(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await fail(flow, "a")
    retried = await world.store.dead.retry(world.partition, [flow.ids["a"]], record=lambda _ids: [])
    assert retried.lanes == {}
    assert await flow.states() == {"a": "dead", "b": "skipped"}


async def inner(world: World, outer: Drawing, name: str) -> Drawing:
    flow = Drawing(world, outer.session)
    flow.id = inner_id(outer.ids[name])
    await flow.submit(flow.step("i", queue="inner"), waiter=outer.ids[name])
    return flow


async def test_a_job_that_stands_for_a_workflow_goes_on_when_that_has_ended(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w"), outer.step("b", "w"))
    await outer.claim()
    flow = await inner(world, outer, "w")
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    assert await outer.states() == {"w": "held", "b": "waiting"}
    await flow.claim(queues=["inner"])
    cycle = await flow.end("i")
    assert cycle.advance.ended == (flow.id,)
    assert cycle.advance.lanes == ready(1, LANE)
    await outer.run("w")
    await outer.run("b")
    assert (await outer.get()).state is WorkflowState.SUCCEEDED


@pytest.mark.parametrize("end", [End.SUCCEED, End.BURY, None])
async def test_it_has_started_when_it_began_to_stand_for_it(world: World, end: End | None) -> None:
    """And not when it is claimed once more, to say how that has ended."""
    outer = await draw(world)
    await outer.submit(outer.step("w"), policy="continue")
    began = world.clock.now()
    await outer.claim()
    flow = await inner(world, outer, "w")
    world.clock.advance(1)
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    world.clock.advance(60)
    assert (await outer.steps())["w"].started_at == began
    ended = world.clock.now()
    if end is None:
        await commands.cancel(world.store, outer.ids["w"])
    else:
        await flow.claim(queues=["inner"])
        await flow.end("i")
        await outer.run("w", end=end)
    job, [run] = await world.get(outer.ids["w"]), (await outer.steps()).values()
    assert job.started_at == run.started_at == began
    assert job.finished_at == run.finished_at == ended


async def test_it_is_not_held_for_one_that_has_ended_already(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w"))
    await outer.claim()
    flow = await inner(world, outer, "w")
    await flow.claim(queues=["inner"])
    await flow.end("i")
    cycle = await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    assert cycle.advance.lanes == ready(1, LANE)
    assert await outer.states() == {"w": "ready"}


@pytest.mark.parametrize("ended", [True, False])
async def test_a_step_and_then_its_workflow_were_retried_each_by_itself(
    world: World, ended: bool
) -> None:
    """The inner one has lost the job that it ran for, which lives again: that is told of its end all the same."""
    outer = await draw(world)
    await outer.submit(outer.step("w"))
    await outer.claim()
    flow = await inner(world, outer, "w")
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    await flow.end("i", End.BURY)
    await outer.run("w", end=End.BURY)
    await flow.store.retry(world.partition, flow.id)
    await outer.store.retry(world.partition, outer.id)
    assert await outer.claim() == {"w"}
    await flow.claim(queues=["inner"])
    if ended:
        await flow.end("i")
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    if not ended:
        assert await outer.states() == {"w": "held"}
        await flow.end("i")
    assert await outer.states() == {"w": "ready"}


async def test_what_runs_as_a_workflow_has_started_in_time(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w", more=More(expires_in=60)))
    await outer.claim()
    flow = await inner(world, outer, "w")
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    world.clock.advance(61)
    assert await world.store.admission.expire(world.partition, limit=10) == 0
    await flow.claim(queues=["inner"])
    await flow.end("i")
    await outer.run("w")
    assert (await outer.get()).state is WorkflowState.SUCCEEDED


async def test_a_plain_job_is_held_for_a_workflow_too(world: World) -> None:
    """As one of a schedule is."""
    flow = await draw(world)
    job = await world.run(flow.session)
    await flow.submit(flow.step("i", queue="inner"), waiter=job.id)
    await world.end(flow.session, job, End.HOLD, reason="workflow", awaits=flow.id)
    await flow.claim(queues=["inner"])
    await flow.end("i")
    assert await world.state(job.id) is JobState.READY


async def test_a_cancelled_workflow_takes_along_those_of_its_steps(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w"))
    await outer.claim()
    flow = await inner(world, outer, "w")
    await outer.end("w", End.HOLD, reason="workflow", awaits=flow.id)
    advance = await outer.store.cancel(world.partition, outer.id)
    assert advance.more == (flow.id,)
    await carry_on(world.store, world.partition, advance)
    assert (await outer.get()).state is WorkflowState.CANCELLED
    assert (await flow.get()).state is WorkflowState.CANCELLED


async def test_an_inner_workflow_that_is_tried_again_does_not_need_its_job(world: World) -> None:
    outer = await draw(world)
    await outer.submit(outer.step("w"))
    await outer.claim()
    flow = await inner(world, outer, "w")
    await outer.end("w", End.CANCEL)
    await flow.settle()
    assert (await flow.get()).state is WorkflowState.CANCELLED
    await flow.store.retry(world.partition, flow.id)
    assert not await flow.stuck()
    await flow.claim(queues=["inner"])
    await flow.end("i")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_step_that_succeeded_is_run_anew_when_it_is_named_with_what_came_after_it(
    world: World,
) -> None:
    """An approval with a payload that its reader could not read."""
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("ok", "a", signal="go", kind=SIGNAL_KIND),
        flow.step("read", "ok"),
        flow.step("beside", "a"),
        flow.step("end", "read", "beside"),
        flow.step("on_error", "read", rule=Rule.ANY_FAILED),
    )
    await flow.run("a")
    await flow.store.signal(world.partition, flow.id, "go", b'"wrong"')
    await flow.claim()
    await flow.end("beside")
    await flow.end("read", End.BURY)
    await flow.settle()
    await flow.run("on_error")
    ids, _ = await flow.store.retry(world.partition, flow.id, only=[flow.ids["ok"]])
    assert ids == [flow.ids[name] for name in ("ok", "read", "end", "on_error")]
    assert await flow.states() == {
        "a": "succeeded",
        "ok": "held",
        "read": "waiting",
        "beside": "succeeded",
        "end": "waiting",
        "on_error": "waiting",
    }
    seen = await flow.get()
    assert (seen.state, seen.remaining, seen.failed) == (WorkflowState.RUNNING, 4, 0)
    await flow.store.signal(world.partition, flow.id, "go", b'"right"')
    assert await flow.claim() == {"read"}
    job = flow.claimed["read"]
    assert (await flow.store.parents(world.partition, [job]))[job.id][0].result == "right"
    await flow.end("read")
    await flow.run("end")
    seen = await flow.get()
    assert (seen.state, seen.remaining, seen.failed) == (WorkflowState.SUCCEEDED, 0, 0)
    assert (await flow.states())["on_error"] == "skipped"


async def test_what_waits_counts_the_end_of_a_step_that_is_run_anew_once(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"), flow.step("b"), flow.step("join", "a", "b"), flow.step("c", "join")
    )
    await flow.claim()
    await flow.end("a")
    ids, _ = await flow.store.retry(world.partition, flow.id, only=[flow.ids["a"]])
    assert ids == [flow.ids["a"]]
    await flow.end("b")
    assert (await flow.states())["join"] == "waiting"
    for name in ("a", "join", "c"):
        await flow.run(name)
    seen = await flow.get()
    assert (seen.state, seen.remaining) == (WorkflowState.SUCCEEDED, 0)


async def test_a_step_is_not_run_anew_under_what_runs_nor_what_made_others(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("each", "a", kind=MAP_KIND),
        flow.step("b", "each"),
        flow.step("inner", kind=WORKFLOW_KIND),
    )

    async def refused(name: str, said: str) -> None:
        with pytest.raises(InvalidValue, match=said):
            await flow.store.retry(world.partition, flow.id, only=[flow.ids[name]])

    await flow.claim()
    await flow.end("a")
    await flow.end("inner")
    await refused("inner", "'inner' cannot be run anew: it stands for a workflow")
    assert await flow.claim() == {"each"}
    await refused("a", "'each' cannot be run anew: it has begun, and not ended")
    element = flow.step("each[0]", "each", into=None, added_by="each", mapped="each")
    await flow.store.add(world.partition, flow.id, [element])
    await flow.end("each")
    await flow.run("each[0]")
    await flow.run("b")
    await refused("a", "cannot be run anew: it (has made|was made)")
    await refused("each[0]", "was made while the workflow ran")
    assert (await flow.store.retry(world.partition, flow.id, only=[flow.ids["b"]]))[0]


async def test_the_signals_of_a_workflow_are_those_of_its_steps(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("ok", "a", signal="go", kind=SIGNAL_KIND))
    with pytest.raises(
        InvalidValue, match=r"signal: 'og' is waited for by no step .*, which waits for go"
    ):
        await flow.store.signal(world.partition, flow.id, "og", b"1", early=False)
    assert await flow.store.signal(world.partition, flow.id, "go", b"1", early=False) is not None


async def test_a_signal_that_comes_twice_does_not_answer_when_it_is_asked_for_again(
    world: World,
) -> None:
    """A double click would, weeks later."""
    flow = await draw(world)
    await flow.submit(flow.step("a", signal="go", kind=SIGNAL_KIND), flow.step("b", "a"))
    await flow.store.signal(world.partition, flow.id, "go", b"1", early=False)
    with pytest.raises(
        InvalidValue,
        match=r"signal: 'go' is waited for by no step any more: a has had it; to have it asked for"
        rf" again: foliot workflows retry {flow.id} --step a$",
    ):
        await flow.store.signal(world.partition, flow.id, "go", b"2", early=False)
    await fail(flow, "b")
    await flow.store.retry(world.partition, flow.id, only=[flow.ids["a"]])
    assert await flow.states() == {"a": "held", "b": "waiting"}


async def test_a_signal_that_comes_too_late_is_refused_unless_another_step_is_there_for_it(
    world: World,
) -> None:
    flow = await draw(world)
    expires: dict[str, Any] = {"signal": "go", "kind": SIGNAL_KIND, "more": More(expires_in=60)}
    await flow.submit(
        flow.step("a"),
        flow.step("ok", **expires),
        flow.step("then", "a", signal="go", kind=SIGNAL_KIND),
        policy="continue",
    )
    world.clock.advance(60)
    await world.store.admission.expire(world.partition, limit=10)
    assert await flow.store.signal(world.partition, flow.id, "go", b"1", early=False) is not None
    await flow.run("a")
    assert await flow.states() == {"a": "succeeded", "ok": "cancelled", "then": "succeeded"}
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("ok", **expires), policy="continue")
    world.clock.advance(60)
    await world.store.admission.expire(world.partition, limit=10)
    with pytest.raises(
        InvalidValue, match=rf"no step any more: ok has ended; .* foliot workflows retry {flow.id}$"
    ):
        await flow.store.signal(world.partition, flow.id, "go", b"1", early=False)


@pytest.mark.parametrize("end", [End.BURY, End.CANCEL, None])
async def test_a_step_that_was_changed_is_tried_again_as_it_was_then(
    world: World, end: End | None
) -> None:
    """Whether it has run, or was skipped. Twice, for what is changed once stays so."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a", payload=b"[1]", more=More(tags=("old",))))
    change = Change(
        payload=b"[2]", max_attempts=7, timeout=9.5, queue="far", lane=lane_of("far").number,
        priority=4, tags=("new",),
    )  # fmt: skip
    await world.store.jobs.change(world.partition, flow.ids["b"], change)
    for fence in (1, 2):
        if end is None:
            await fail(flow, "a")
        else:
            await flow.run("a") if fence == 1 else None
            [job] = await world.claim(flow.session, queues=["far"])
            assert job.fence == fence
            await world.finish(flow.session, Outcome(job.id, job.fence, end, flow=flow.id))
            await flow.settle()
        assert (await flow.get()).state is WorkflowState.FAILED
        await flow.store.retry(world.partition, flow.id)
    if end is None:
        await flow.run("a")
    [job] = await world.claim(flow.session, queues=["far"])
    assert (job.payload, job.max_attempts, job.timeout) == (b"[2]", 7, 9.5)
    assert (job.lane, job.priority, job.facts.tags) == (lane_of("far").number, 4, ("new",))
    assert (job.facts.extras.step, job.facts.extras.parents, job.flow) == ("b", True, flow.id)
    await world.finish(flow.session, Outcome(job.id, job.fence, End.SUCCEED, flow=flow.id))
    template = (await flow.steps())["b"].job_template
    assert template is not None
    assert (template.max_attempts, template.queue) == (5, "default")  # a rerun is as it was drawn


async def test_a_followed_job_whose_arguments_were_replaced_is_tried_again_with_these(
    world: World,
) -> None:
    session = await world.open_session()
    keyed = {"key": "k", "payload": b"[1]", "delay": 60.0}
    first = await world.submit(**keyed)
    _, home = await follow(world, first)
    requires = ("gpu",)
    lane = lane_of("default", requires).number
    other = {**keyed, "payload": b"[2]", "lane": lane, "more": More(requires=requires)}
    assert await world.submit(**other, key_mode="replace", max_attempts=2) == first
    world.clock.advance(1)
    await world.cancel(first)
    await world.store.workflows.retry(world.partition, home)
    seen = await world.get(first)
    assert (seen.payload, seen.max_attempts, seen.requires) == (b"[2]", 2, requires)
    cycle = await world.store.jobs.finish_and_claim(
        world.partition, session, shares=[Share(lane_of("default", requires), 1)], room=1
    )
    assert [(job.id, job.payload) for job in cycle.claimed] == [(first, b"[2]")]
