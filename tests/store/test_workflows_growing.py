"""Workflows that grow while they run: the steps that are added to them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from foliot.config import LimitSettings
from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId
from foliot.model.job import End
from foliot.model.lane import lane_of
from foliot.model.workflow import MAP_KIND, AddedStep, NewStep, Rule, WorkflowState
from support.flows import Drawing, draw, ready
from support.stores import World

pytestmark = pytest.mark.anyio
LANE = lane_of("default").number


async def add(flow: Drawing, *steps: NewStep, by: str | None = None) -> list[JobId]:
    job = None if by is None else flow.claimed[by]
    told = None if job is None else (flow.session, job.id, job.fence)
    added, _ = await flow.store.add(flow.world.partition, flow.id, steps, by=told)
    return [one.id for one in added]


async def test_what_waits_for_a_step_waits_for_those_that_it_adds(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("each"), flow.step("sum", "each"))
    await flow.claim()
    added = [
        flow.step(f"each[{n}]", "each", into=["sum"], added_by="each", payload=b"[%d]" % n)
        for n in range(3)
    ]
    assert await add(flow, *added, by="each") == [step.job.id for step in added]
    seen = await flow.get()
    assert (seen.total, seen.remaining) == (5, 5)
    await flow.end("each")
    assert (await flow.states())["sum"] == "waiting"
    assert await flow.claim() == {"each[0]", "each[1]", "each[2]"}
    await flow.end("each[1]")
    await flow.end("each[0]")
    assert (await flow.end("each[2]", result=b"2")).advance.lanes == ready(1, LANE)
    assert await flow.claim() == {"sum"}
    job = flow.claimed["sum"]
    found = (await flow.store.parents(world.partition, [job]))[job.id]
    assert [parent.name for parent in found] == ["each", "each[0]", "each[1]", "each[2]"]
    await flow.end("sum")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


@pytest.mark.parametrize("place", ["postgres-1"], indirect=True)
async def test_ten_thousand_steps_are_added_before_the_server_loses_patience(
    world: World,
) -> None:
    """What is worked out between two statements takes less time than a transaction may be idle."""
    flow = await draw(world)
    await flow.submit(flow.step("each"), flow.step("sum", "each"))
    await flow.claim()
    many = [flow.step(f"each[{n}]", "each", into=["sum"], added_by="each") for n in range(10_000)]
    assert len(await add(flow, *many, by="each")) == 10_000
    assert (await flow.get()).total == 10_002


async def test_a_second_attempt_that_adds_the_same_steps_gets_those_of_the_first(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("end", "a"))
    await flow.claim()

    def steps(count: int) -> list[NewStep]:
        first = flow.step("x", "a", into=["end"], added_by="a")
        more = [flow.step(f"y{n}", "x", into=["end"], added_by="a") for n in range(count)]
        return [first, *more]

    first = await add(flow, *steps(1), by="a")
    await flow.end("a", End.RELEASE)
    await flow.claim()
    again = await add(flow, *steps(2), by="a")
    assert again[:2] == first
    flow.ids |= {step.name: step.job for step in (await flow.steps()).values()}
    assert (await flow.get()).total == 5
    await flow.end("a")
    await flow.run("x")
    await flow.run("y0", "y1")
    await flow.run("end")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_what_has_begun_or_ended_does_not_wait_for_what_its_parent_adds(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("bad"),
        flow.step("good"),
        flow.step("each"),
        flow.step("ruled_out", "bad", "each"),
        flow.step("first", "good", "each", rule=Rule.ANY_SUCCEEDED),
        flow.step("sum", "each"),
        policy="continue",
    )
    await flow.claim()
    await flow.end("bad", End.BURY)
    await flow.end("good")
    element = flow.step("each[0]", "each", into=None, added_by="each", mapped="each")
    await add(flow, flow.step("own", "each", into=None, added_by="each"), by="each")
    await add(flow, element, by="each")
    children = {
        name: set(step.children) - {element.job.id, flow.ids["own"]}
        for name, step in (await flow.steps()).items()
    }
    assert children["each[0]"] == children["own"] == {flow.ids["sum"]}
    await flow.end("each")
    await flow.run("first", "each[0]", "own")
    await flow.run("sum")
    assert (await flow.get()).state is WorkflowState.FAILED
    assert (await flow.states())["ruled_out"] == "skipped"


@pytest.mark.parametrize("made", [False, True], ids=["before", "after"])
async def test_a_step_that_is_added_after_a_map_waits_for_its_elements(
    world: World, made: bool
) -> None:
    """Whoever adds it has looked at the workflow when there were none."""
    flow = await draw(world)
    await flow.submit(flow.step("each", kind=MAP_KIND), flow.step("other"))
    await flow.claim()
    total = flow.step("total", "each", added_by="other")
    elements = [
        flow.step(f"each[{n}]", "each", into=None, added_by="each", mapped="each") for n in range(2)
    ]
    if made:
        await add(flow, *elements, by="each")
        await add(flow, total, by="other")
    else:
        await add(flow, total, by="other")
        await add(flow, *elements, by="each")
    await flow.end("each")
    await flow.end("other")
    await flow.run("each[0]", "each[1]")
    await flow.run("total")
    found = await flow.store.parents(world.partition, [flow.claimed["total"]])
    names = [parent.name for parent in found[flow.ids["total"]]]
    assert names == ["each", "each[0]", "each[1]"]


async def test_steps_that_add_others_at_once_do_not_choose_the_same_names(world: World) -> None:
    flow = await draw(world)
    many = [f"page{n}" for n in range(6)]
    await flow.submit(*(flow.step(name) for name in many))
    await flow.claim()

    async def grow(by: str, besides: frozenset[str] = frozenset()) -> AddedStep:
        job = flow.claimed[by]
        step = msgspec.structs.replace(flow.step("check", by, added_by=by), besides=besides)
        [added], _ = await flow.store.add(
            world.partition, flow.id, [step], by=(flow.session, job.id, job.fence)
        )
        return added  # type: ignore[no-any-return]

    first = await asyncio.gather(*(grow(name) for name in many))
    names = {"check", *(f"check-{n}" for n in range(2, 7))}
    assert {one.name for one in first} == names
    steps = {step.job: step for step in (await flow.steps()).values()}
    assert all(steps[one.id].name == one.name for one in first)
    templates = [steps[one.id].job_template for one in first]
    assert {job.more.extras.step for job in templates} == names  # type: ignore[union-attr]
    # Another attempt of the same step has added it already; the same attempt adds another.
    assert await grow("page3") == first[3]
    assert (await grow("page3", frozenset({first[3].name}))).name == "check-7"


async def test_a_workflow_does_not_grow_past_its_limits_by_steps_that_add_one_each(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    limits = LimitSettings(steps=3, edges=3)
    named = [flow.step(name, "a") for name in ("x", "y")]
    told = await asyncio.gather(
        *(flow.store.add(world.partition, flow.id, [step], limits=limits) for step in named),
        return_exceptions=True,
    )
    [refused] = [one for one in told if isinstance(one, InvalidValue)]
    assert str(refused) == "steps are 4, more than limits.steps, 3"
    wide = [flow.step("z", "a", into=["b"])]
    with pytest.raises(InvalidValue, match="edges are 4, more than"):
        await flow.store.add(world.partition, flow.id, wide, limits=LimitSettings(steps=9, edges=3))


async def test_a_step_is_added_after_parents_that_have_ended(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"))
    await flow.claim()
    await flow.end("a")
    await add(flow, flow.step("now", "a"), flow.step("later", "a", "b"))
    assert await flow.states() == {
        "a": "succeeded",
        "b": "running",
        "now": "ready",
        "later": "waiting",
    }
    await flow.end("b")
    await flow.run("now", "later")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_step_that_its_parents_rule_out_is_skipped_as_it_is_added(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"), policy="continue")
    await flow.claim()
    await flow.end("a", End.BURY)
    await add(flow, flow.step("no", "a"), flow.step("nor", "no"), flow.step("yes", "b"))
    assert await flow.states() == {
        "a": "dead",
        "b": "running",
        "no": "skipped",
        "nor": "skipped",
        "yes": "waiting",
    }


async def test_what_is_added_to_a_paused_workflow_waits(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.claim()
    await flow.store.pause(world.partition, flow.id, note=None, by="me")
    await add(flow, flow.step("b"))
    assert await flow.states() == {"a": "running", "b": "held"}


async def test_a_zombie_adds_nothing(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.claim()
    zombie = flow.claimed["a"]
    await flow.end("a", End.RELEASE)
    await flow.claim()
    flow.claimed["a"] = zombie
    with pytest.raises(NotRunning):
        await add(flow, flow.step("b", "a"), by="a")
    assert set(await flow.states()) == {"a"}


async def test_nothing_is_added_to_what_has_ended_or_is_about_to(world: World) -> None:
    flow = await draw(world)
    with pytest.raises(NotRunning, match="unknown"):
        await add(flow, flow.step("x"))
    await flow.submit(flow.step("a"))
    await flow.claim()
    await flow.store.cancel(world.partition, flow.id)
    with pytest.raises(NotRunning, match="being cancelled"):
        await add(flow, flow.step("x"))
    await flow.end("a", End.CANCEL)
    with pytest.raises(NotRunning, match="cancelled"):
        await add(flow, flow.step("x"))


async def test_a_step_that_does_not_fit_in_is_refused_with_all_others(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    with pytest.raises(InvalidValue, match="is the name of another step"):
        await add(flow, flow.step("ok"), flow.step("a"))
    with pytest.raises(InvalidValue, match="is the name of another step"):
        await add(flow, flow.step("twice"), flow.step("twice"))
    flow.ids["a"] = (await flow.steps())["a"].job
    with pytest.raises(InvalidValue, match=r"^before: 'a' has begun already"):
        await add(flow, flow.step("x", into=["a"]))
    flow.ids["elsewhere"] = world.new_job().id
    with pytest.raises(InvalidValue, match=r"^before: .* is no step of this workflow"):
        await add(flow, flow.step("x", into=["elsewhere"]))
    with pytest.raises(InvalidValue, match=r"^after: .* is no step of this workflow"):
        await add(flow, flow.step("x", "elsewhere"))
    assert (await flow.get()).total == 2


async def test_no_step_is_added_that_would_wait_for_itself(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("root"), flow.step("a", "root"), flow.step("b", "a"))
    cycle = "^before would make steps wait for themselves"
    with pytest.raises(InvalidValue, match=cycle) as refused:
        await add(flow, flow.step("x", "b", into=["a"]))
    assert "a → b → x → a" in str(refused.value)
    flow.ids.pop("x")
    with pytest.raises(InvalidValue, match="would make steps wait for themselves"):
        await add(flow, flow.step("x", "b"), flow.step("y", "x", into=["a"]))
    assert (await flow.get()).total == 3
    await add(flow, flow.step("z", "root", into=["a", "b"]))
    await flow.run("root")
    await flow.run("z")
    await flow.run("a")
    await flow.run("b")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_no_step_that_a_step_adds_waits_for_itself_either(world: World) -> None:
    """Before what waits for the step that adds it, it may be; not after that as well, nor before another new one that
    it waits for."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), flow.step("c", "b"), flow.step("d", "c"))
    await flow.claim()
    cycle = "^before would make steps wait for themselves"
    for after, into in ((["a", "c"], ["b"]), (["a", "b"], ["b"]), (["d"], ["c"])):
        with pytest.raises(InvalidValue, match=cycle):
            await add(flow, flow.step("x", *after, into=into, added_by="a"), by="a")
    x = flow.step("x", "a", into=["b"], added_by="a")
    with pytest.raises(InvalidValue, match=cycle):
        await add(flow, x, flow.step("y", "x", "c", into=["b"], added_by="a"), by="a")
    round_ = flow.step("y", "x", into=["b", "x"], added_by="a")
    with pytest.raises(InvalidValue, match=cycle):
        await add(flow, x, round_, by="a")
    await add(flow, x, flow.step("y", "x", into=["b"], added_by="a"), by="a")
    await flow.end("a")
    for name in "xybcd":
        await flow.run(name)
    assert (await flow.get()).state is WorkflowState.SUCCEEDED
