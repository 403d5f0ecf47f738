"""Workflows: a step starts in the transaction that ends the last parent it waited for, once, or is skipped there."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from foliot.model.job import End, JobState, More, Outcome
from foliot.model.lane import lane_of
from foliot.model.workflow import Rule, WorkflowState, count, decide
from foliot.store.port import Share
from support.flows import draw, ready
from support.stores import World

pytestmark = pytest.mark.anyio
LANE = lane_of("default").number


async def test_a_whole_graph_is_submitted_and_only_its_roots_are_ready(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b", "a", delay=60),
        flow.step("c", delay=60),
        flow.step("d", "b", "c"),
        namespace="n",
        deadline=3600,
        fingerprint="f",
    )
    assert await flow.states() == {
        "a": "ready",
        "b": "waiting",
        "c": "scheduled",
        "d": "waiting",
    }
    seen = await flow.get()
    assert (seen.name, seen.namespace, seen.state) == ("etl", "n", WorkflowState.RUNNING)
    assert (seen.total, seen.remaining, seen.failed) == (4, 4, 0)
    assert (seen.created_at, seen.deadline_at) == (world.clock.now(), world.after(3600))
    assert (seen.policy, seen.fingerprint, seen.chain) == ("fail_fast", "f", False)
    steps = await flow.steps()
    assert [step.number for step in steps.values()] == [0, 1, 2, 3]
    assert steps["d"].parents == (flow.ids["b"], flow.ids["c"])
    assert steps["a"].children == (flow.ids["b"],)
    assert steps["b"].job_template is not None
    assert (steps["b"].kind, steps["b"].job_template.delay) == ("echo", 60)


async def test_the_same_workflow_sent_again_is_not_stored_again(world: World) -> None:
    flow = await draw(world)
    workflow = flow.workflow(flow.step("a"), flow.step("b", "a"))
    assert await world.store.workflows.submit(world.partition, workflow)
    assert not await world.store.workflows.submit(world.partition, workflow)
    await flow.run("a")
    await flow.run("b")
    assert not await world.store.workflows.submit(world.partition, workflow)
    assert (await flow.get()).state is WorkflowState.SUCCEEDED
    assert await world.count() == {JobState.SUCCEEDED: 2}


async def test_a_graph_that_cannot_be_stored_leaves_nothing(world: World) -> None:
    flow = await draw(world)
    twice = [flow.step("a"), flow.step("a")]
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the database says
        await flow.submit(*twice)
    assert await world.store.workflows.get(flow.id) is None
    assert await world.count() == {}


async def test_a_join_starts_once_after_its_last_parent(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"), flow.step("c"), flow.step("d", "a", "b", "c"))
    assert await flow.claim() == {"a", "b", "c"}
    assert (await flow.end("a")).advance.lanes == ()
    assert (await flow.end("b")).advance.lanes == ()
    cycle = await flow.end("c")
    assert cycle.advance.lanes == ready(1, LANE)
    assert cycle.advance.more == ()
    assert await flow.claim() == {"d"}
    assert await flow.claim() == set()
    assert (await flow.end("d")).advance.ended == (flow.id,)
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_parents_that_end_together_start_a_join_in_the_same_commit(world: World) -> None:
    flow = await draw(world)
    await flow.submit(*(flow.step(name) for name in "abc"), flow.step("d", "a", "b", "c"))
    await flow.claim()
    cycle = await world.store.jobs.finish_and_claim(
        world.partition,
        flow.session,
        outcomes=[flow.outcome(name, End.SUCCEED) for name in "abc"],
        shares=[Share(lane_of("default"), 10)],
        room=10,
    )
    assert [job.id for job in cycle.claimed] == [flow.ids["d"]]
    assert cycle.claimed[0].flow == flow.id


async def test_parents_that_end_beside_each_other_start_a_join_once(world: World) -> None:
    flow = await draw(world)
    names = [f"p{n}" for n in range(8)]
    await flow.submit(*(flow.step(name) for name in names), flow.step("d", *names))
    await flow.claim()
    cycles = await asyncio.gather(*(flow.end(name) for name in names))
    assert sum(len(cycle.advance.lanes) for cycle in cycles) == 1
    assert await flow.claim() == {"d"}
    assert (await world.get(flow.ids["d"])).fence == 1


async def test_an_outcome_that_came_too_late_tells_no_child(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.claim()
    late = flow.outcome("a", End.SUCCEED, result=b'"late"')
    await flow.end("a", End.RELEASE)
    await flow.claim()
    assert await world.finish(flow.session, late) == [flow.ids["a"]]
    assert await flow.states() == {"a": "running", "b": "waiting"}


async def test_a_step_is_told_what_its_parents_returned(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b"),
        flow.step("c", "b", "a", rule=Rule.ALL_DONE),
        policy="continue",
    )
    await flow.claim()
    await flow.end("a", result=b'{"rows":[1]}')
    await flow.end("b", End.BURY, error="x")
    await flow.claim()
    job = flow.claimed["c"]
    assert job.facts.workflow == flow.id
    assert job.facts.extras.step == "c" and job.facts.extras.parents
    found = await world.store.workflows.parents(world.partition, [job])
    b, a = found[job.id]
    assert (a.id, a.name, a.state, a.result) == (
        flow.ids["a"],
        "a",
        JobState.SUCCEEDED,
        {"rows": [1]},
    )
    assert (b.name, b.state, b.raw) == ("b", JobState.DEAD, None)


async def test_a_delay_and_an_expiry_count_from_when_a_step_may_run(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("b", "a", delay=60, more=More(expires_in=100)),
        flow.step("c", "a", more=More(expires_in=30)),
    )
    world.clock.advance(1000)
    assert await world.store.admission.expire(world.partition, limit=10) == 0
    await flow.claim()
    cycle = await flow.end("a")
    assert sorted(cycle.advance.lanes) == [(LANE, JobState.READY), (LANE, JobState.SCHEDULED)]
    assert await flow.states() == {"a": "succeeded", "b": "scheduled", "c": "ready"}
    assert (await world.get(flow.ids["b"])).run_at == world.after(60)
    world.clock.advance(31)
    assert await world.store.admission.expire(world.partition, limit=10) == 1
    world.clock.advance(30)
    await world.admit()
    assert await flow.states() == {"a": "succeeded", "b": "ready", "c": "cancelled"}


ENDS = {"s": End.SUCCEED, "f": End.BURY, "c": End.CANCEL}
STATES = {"s": JobState.SUCCEEDED, "f": JobState.DEAD, "c": JobState.CANCELLED}


@pytest.mark.parametrize("rule", list(Rule))
async def test_a_rule_decides_after_each_end_of_a_parent(world: World, rule: Rule) -> None:
    for ends in itertools.product("sfc", repeat=2):
        flow = await draw(world)
        await flow.submit(
            flow.step("a"), flow.step("b"), flow.step("x", "a", "b", rule=rule), policy="continue"
        )
        await flow.claim()
        known: list[JobState | None] = [None, None]
        for place, (name, end) in enumerate(zip("ab", ends, strict=True)):
            await flow.end(name, ENDS[end])
            known[place] = STATES[end]
            said = {"run": "ready", "skip": "skipped", "wait": "waiting"}
            seen = (await flow.states())["x"]
            if seen != "ready":  # once it may run it is not asked again
                assert seen == said[decide(rule, count(known))], (rule, ends, name)
            else:
                assert decide(rule, count([*known[: place + 1], None][:2])) == "run"
        await world.cancel(flow.ids["x"])
        assert (await flow.get()).state.final


async def test_a_skipped_parent_is_neither_a_success_nor_a_failure(world: World) -> None:
    flow = await draw(world)
    rules = {rule.value: rule for rule in Rule}
    await flow.submit(
        flow.step("a"),
        flow.step("s", "a", rule=Rule.ANY_FAILED),
        *(flow.step(name, "s", rule=rule) for name, rule in rules.items()),
    )
    await flow.run("a")
    states = await flow.states()
    assert {name for name in rules if states[name] == "ready"} == {"all_done", "none_failed"}
    assert {name for name in rules if states[name] == "skipped"} == {
        "all_succeeded",
        "any_succeeded",
        "any_failed",
    }


async def test_skips_go_on_down_to_the_end(world: World) -> None:
    flow = await draw(world)
    names = [f"s{n}" for n in range(120)]  # deeper than one transaction goes
    steps = [flow.step("a"), flow.step("s0", "a")]
    steps += [flow.step(name, before) for before, name in itertools.pairwise(names)]
    await flow.submit(*steps, flow.step("last", "s119", rule=Rule.ALL_DONE), policy="continue")
    await flow.claim()
    cycle = await flow.end("a", End.BURY)
    assert cycle.advance.more == (flow.id,)
    assert await flow.stuck()
    await flow.settle()
    states = await flow.states()
    assert {states[name] for name in names} == {"skipped"}
    assert (await world.get(flow.ids["s7"])).reason == "parents"
    await flow.run("last")
    seen = await flow.get()
    assert (seen.state, seen.failed, seen.remaining) == (WorkflowState.FAILED, 1, 0)


async def test_a_failure_stops_what_has_not_begun_and_asks_running_steps_to_end(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("r"),
        flow.step("after_r", "r"),
        flow.step("later", delay=60),
        flow.step("clean", "r", "later", rule=Rule.ALL_DONE),
        flow.step("report", "a", rule=Rule.ANY_FAILED),
    )
    await flow.claim()
    cycle = await flow.end("a", End.BURY)
    assert cycle.advance.more == (flow.id,)
    await flow.settle()
    assert await flow.states() == {
        "a": "dead",
        "r": "running",
        "after_r": "skipped",
        "later": "skipped",
        "clean": "waiting",
        "report": "ready",
    }
    assert (await world.get(flow.ids["later"])).reason == "fail_fast"
    [running] = await world.store.jobs.running(flow.session)
    assert (running.id, running.cancel_requested) == (flow.ids["r"], True)
    await flow.end("r", End.CANCEL)
    await flow.run("report", "clean")
    seen = await flow.get()
    assert (seen.state, seen.failed) == (WorkflowState.FAILED, 2)


async def test_a_failure_stops_nothing_where_the_policy_is_to_continue(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"), flow.step("c", "b"), policy="continue")
    await flow.claim()
    assert (await flow.end("a", End.BURY)).advance.more == ()
    assert not await flow.stuck()
    await flow.end("b")
    await flow.run("c")
    assert (await flow.get()).state is WorkflowState.FAILED


async def test_a_retried_attempt_is_no_end(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.run("a", end=End.RETRY, delay=5)
    assert await flow.states() == {"a": "scheduled", "b": "waiting"}
    world.clock.advance(5)
    await world.admit()
    await flow.run("a")
    await flow.run("b")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_step_that_is_asked_to_end_and_held_ends_for_its_workflow_too(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a", rule=Rule.ALL_DONE))
    await flow.claim()
    await world.cancel(flow.ids["a"])
    await flow.end("a", End.HOLD, reason="unknown_kind")
    assert await flow.states() == {"a": "cancelled", "b": "ready"}


@pytest.mark.parametrize("end", [End.RETRY, End.BURY, End.RELEASE, End.SUCCEED])
async def test_a_step_that_was_asked_to_end_tells_how_it_ended(world: World, end: End) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a", rule=Rule.ALL_DONE))
    await flow.claim()
    await world.cancel(flow.ids["a"])
    await flow.end("a", end, delay=5)
    ended = "succeeded" if end is End.SUCCEED else "cancelled"
    assert await flow.states() == {"a": ended, "b": "ready"}


async def test_a_cancelled_step_tells_its_children(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a", delay=60), flow.step("b", "a", rule=Rule.ANY_FAILED))
    assert await world.cancel(flow.ids["a"]) == {flow.ids["a"]: JobState.SCHEDULED}
    assert await flow.states() == {"a": "cancelled", "b": "ready"}


async def test_children_of_a_step_whose_workers_were_lost_are_skipped(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), flow.step("c", "b", rule=Rule.ALL_DONE))
    await flow.claim()
    world.clock.advance(1)
    world.beat(flow.session, flow.ids["a"])
    world.expire()
    reaped = await world.reap(flow.session, loss_limit=1)
    assert reaped.dead == 1
    assert reaped.advance.lanes == ready(1, LANE)
    assert await flow.states() == {"a": "dead", "b": "skipped", "c": "ready"}


async def test_a_step_that_is_taken_back_is_no_end(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.claim()
    world.clock.advance(1)
    world.beat(flow.session, flow.ids["a"])
    world.expire()
    assert (await world.reap(flow.session)).lost == 1
    assert await flow.states() == {"a": "ready", "b": "waiting"}


async def test_steps_and_plain_jobs_end_in_one_transaction(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    plain = await world.run(flow.session, queue="other")
    await flow.claim()
    cycle = await world.store.jobs.finish_and_claim(
        world.partition,
        flow.session,
        outcomes=[flow.outcome("a", End.SUCCEED), Outcome(plain.id, plain.fence, End.BURY)],
    )
    assert (cycle.refused, cycle.advance.lanes) == ([], ready(1, LANE))
    assert await world.state(plain.id) is JobState.DEAD
