"""What of workflows is kept, and for how long; and that they grow as long as they may, and no slower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from foliot.config import LimitSettings
from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId
from foliot.model.audit import Deed
from foliot.model.job import End, JobState
from foliot.model.workflow import MAP_KIND, NewStep, NewWorkflow, Rule
from foliot.store.postgres.workflows import PostgresTalk
from foliot.store.sqlite.workflows import SqliteTalk
from support.flows import Drawing, draw
from support.records import dump
from support.stores import World

pytestmark = pytest.mark.anyio
DAY = 86_400.0


async def follow(
    world: World, *after: JobId, limits: LimitSettings | None = None, **fields: Any
) -> tuple[JobId, JobId]:
    """The job that follows these, and its chain."""
    rule = fields.pop("rule", Rule.ALL_SUCCEEDED)
    job = world.new_job(**fields)
    chain = NewWorkflow(
        id=world.new_job().id, name="chain", steps=(), policy="continue", chain=True
    )
    step = NewStep(name=job.id, job=job, rule=rule, parents=after)
    home, _ = await world.store.workflows.follow(world.partition, step, chain, limits=limits)
    return job.id, home


def no_deeds(_: Sequence[str]) -> list[Deed]:
    return []


async def prune(world: World, *, keep: float) -> None:
    await world.store.upkeep.prune(keep=keep, limit=100)
    await world.store.workflows.prune(keep=keep, limit=100)


async def test_fences_go_on_after_a_dead_step_was_purged(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    for _ in range(2):
        await flow.claim()
        await flow.end("a", End.BURY)
        last = flow.claimed["a"].fence
        gone = await world.store.dead.purge(world.partition, [flow.ids["a"]], record=no_deeds)
        assert gone == [flow.ids["a"]]
        await flow.store.retry(world.partition, flow.id)
        await flow.claim()
        assert flow.claimed["a"].fence == last + 1
        await flow.end("a", End.RELEASE)
    assert (await world.get(flow.ids["a"])).generation == 2


async def test_fences_go_on_after_the_history_of_a_step_was_pruned(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"), policy="continue")
    await flow.claim()
    await flow.end("a", End.CANCEL)
    world.clock.advance(3 * DAY)
    await prune(world, keep=DAY)
    assert await world.store.jobs.get(flow.ids["a"]) is None
    await flow.store.retry(world.partition, flow.id)
    await flow.claim()
    assert flow.claimed["a"].fence == 2


async def test_what_a_job_comes_after_is_kept_until_it_has_run(world: World) -> None:
    session = await world.open_session()
    a = await world.submit()
    b, home = await follow(world, a)
    for result in (b"1", b"2"):
        [job] = await world.claim(session)
        await world.end(session, job, result=result, flow=job.flow)
    late, other = await follow(world, a, b, delay=10 * DAY)
    assert other != home
    world.clock.advance(9 * DAY)
    await prune(world, keep=DAY)
    later, _ = await follow(world, b, late)
    world.clock.advance(2 * DAY)
    await world.admit()
    session = await world.open_session()
    for id, results in ((late, [1, 2]), (later, [2, 3])):
        [job] = await world.claim(session)
        assert job.id == id
        found = await world.store.workflows.parents(world.partition, [job])
        assert [parent.result for parent in found[id]] == results
        await world.end(session, job, result=b"3", flow=job.flow)
    world.clock.advance(2 * DAY)
    await prune(world, keep=DAY)
    assert await world.store.workflows.get(home) is None
    assert await world.store.workflows.get(other) is None


async def test_what_a_chain_comes_after_is_kept_when_it_becomes_part_of_another(
    world: World,
) -> None:
    session = await world.open_session()
    homes, lates = [], []
    for _ in range(2):
        before, home = await follow(world, await world.submit())
        for result in (b"1", b"2"):
            [job] = await world.claim(session)
            await world.end(session, job, result=result, flow=job.flow)
        homes.append(home)
        lates.append((await follow(world, before, delay=10 * DAY))[0])
    await follow(world, *lates)
    for days in (
        4,
        5,
        2,
    ):  # more than one round: what had become part of another was gone after the first
        await prune(world, keep=DAY)
        world.clock.advance(days * DAY)
    await world.admit()
    session = await world.open_session()
    claimed = await world.claim(session)
    found = await world.store.workflows.parents(world.partition, claimed)
    assert {id: [one.result for one in above] for id, above in found.items()} == {
        late: [2] for late in lates
    }
    for job in claimed:
        await world.end(session, job, flow=job.flow)
    [job] = await world.claim(session)
    await world.end(session, job, flow=job.flow)
    for _ in range(3):
        world.clock.advance(2 * DAY)
        await prune(world, keep=DAY)
    assert [await world.store.workflows.get(home) for home in homes] == [None, None]


async def test_a_workflow_is_not_tried_again_while_it_is_being_cancelled(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.claim()
    await flow.store.cancel(world.partition, flow.id)
    with pytest.raises(NotRunning, match="is being cancelled: retry it when it has ended"):
        await flow.store.retry(world.partition, flow.id)
    await flow.end("a", End.CANCEL)
    ids, _ = await flow.store.retry(world.partition, flow.id)
    assert ids == [flow.ids["a"], flow.ids["b"]]


async def test_a_job_does_not_join_a_workflow_that_is_being_cancelled(world: World) -> None:
    """It would not run there by any rule, and outside of it, once that has ended, it may."""
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.claim()
    await flow.store.cancel(world.partition, flow.id)
    with pytest.raises(NotRunning, match="is being cancelled: submit it when it has ended"):
        await follow(world, flow.ids["a"], rule=Rule.ALL_DONE)
    await flow.end("a", End.CANCEL)
    id, home = await follow(world, flow.ids["a"], rule=Rule.ALL_DONE)
    assert home != flow.id
    assert await world.state(id) is JobState.READY


async def test_a_chain_does_not_grow_past_the_limits(world: World) -> None:
    limits = LimitSettings(steps=4, edges=100)
    id = await world.submit()
    for _ in range(3):
        id, home = await follow(world, id, limits=limits)
    with pytest.raises(InvalidValue, match=r"a chain of 5 steps, more than limits.steps, 4"):
        await follow(world, id, limits=limits)
    with pytest.raises(InvalidValue, match=r"a chain of 4 edges, more than limits.edges, 3"):
        await follow(world, id, limits=LimitSettings(steps=100, edges=3))
    assert len(await world.store.workflows.steps(home)) == 4


async def test_one_success_of_a_map_is_that_of_an_element(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("each", kind=MAP_KIND),
        flow.step("first", "each", rule=Rule.ANY_SUCCEEDED),
        flow.step("none", kind=MAP_KIND),
        flow.step("never", "none", rule=Rule.ANY_SUCCEEDED),
    )
    await flow.claim()
    elements = [
        flow.step(f"each[{n}]", "each", into=None, added_by="each", mapped="each") for n in range(3)
    ]
    await flow.store.add(world.partition, flow.id, elements)
    await flow.end("none")
    await flow.end("each")
    added = flow.step("added", "each", rule=Rule.ANY_SUCCEEDED)
    await flow.store.add(world.partition, flow.id, [added])
    states = await flow.states()
    assert (states["first"], states["added"], states["never"]) == ("waiting", "waiting", "skipped")
    assert await flow.claim() == {f"each[{n}]" for n in range(3)}
    await flow.end("each[1]")
    assert await flow.claim() == {"first", "added"}


async def count_rows(
    flow: Drawing, names: Sequence[str], patch: pytest.MonkeyPatch, **fields: Any
) -> int:
    """What the store was asked for, to add these one by one."""
    read = 0
    for talk in (PostgresTalk, SqliteTalk):
        right = talk.ask

        async def ask(self: Any, name: str, /, *, right: Any = right, **values: Any) -> Any:
            nonlocal read
            found = await right(self, name, **values)
            read += len(found)
            return found

        patch.setattr(talk, "ask", ask)
    job = flow.claimed["a"]
    by = (flow.session, job.id, job.fence)
    for name in names:
        step = flow.step(name, "a", added_by="a", **fields)
        await flow.store.add(flow.world.partition, flow.id, [step], by=by)
    patch.undo()
    return read


async def parents_of(flow: Drawing, name: str) -> set[str]:
    steps = await flow.steps()
    names = {step.job: step.name for step in steps.values()}
    return {names[id] for id in steps[name].parents}


@pytest.mark.parametrize("into", [None, ("end",)])
async def test_to_add_a_step_takes_as_much_in_a_large_workflow_as_in_a_small_one(
    world: World, monkeypatch: pytest.MonkeyPatch, into: Sequence[str] | None
) -> None:
    """Before all that waits for the step that adds it, or before some of that."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("end", "a"), flow.step("other", "a"))
    await flow.claim()
    first = await count_rows(flow, ["x", "y"], monkeypatch, into=into)
    await count_rows(flow, [f"s{n}" for n in range(30)], monkeypatch, into=into)
    assert await count_rows(flow, ["z", "zz"], monkeypatch, into=into) == first
    assert ("z" in await parents_of(flow, "other")) is (into is None)


async def widest(world: World) -> int:
    """How long the longest row is that is about workflows: each write of one writes all of it."""
    found = await dump(world)
    return max(
        len(str(row))
        for rows in found.values()
        for row in rows
        if "workflow" in row or "chain" in row
    )


async def follow_ended(world: World, parent: JobId, times: int) -> None:
    """So many jobs, each of which has ended when the next one comes."""
    session = await world.open_session()
    for _ in range(times):
        await follow(world, parent)
        [job] = await world.claim(session)
        await world.end(session, job, flow=job.flow)


async def test_no_row_grows_with_the_jobs_that_follow_one_that_has_ended(world: World) -> None:
    session = await world.open_session()
    parent = await world.run(session)
    await world.end(session, parent)
    await follow_ended(world, parent.id, 2)
    before = await widest(world)
    await follow_ended(world, parent.id, 10)
    assert await widest(world) == before


async def test_no_row_grows_with_the_jobs_that_follow_one_that_lives(world: World) -> None:
    session = await world.open_session()
    parent = await world.submit()
    ids = [(await follow(world, parent))[0] for _ in range(2)]
    before = await widest(world)
    ids += [(await follow(world, parent))[0] for _ in range(8)]
    assert await widest(world) == before
    [job] = await world.claim(session)
    [flow] = (await world.store.workflows.linked(world.partition, [job.id])).values()
    await world.end(session, job, flow=flow)
    assert {job.id for job in await world.claim(session)} == {*ids}


async def test_no_row_grows_with_the_steps_that_are_added_one_by_one(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("end", "a"))
    await flow.claim()
    names = [f"s{n}" for n in range(12)]
    for number, name in enumerate(names):
        if number == 2:
            before = await widest(world)
        step = flow.step(name, "a", added_by="a", into=None)
        await flow.store.add(world.partition, flow.id, [step])
    after = await widest(world)
    assert after <= before + len("11") - len("1"), "but for numbers"
    steps = await flow.steps()
    assert steps["end"].parents == tuple(flow.ids[name] for name in ["a", *names])
    assert set(steps["a"].children) == {flow.ids[name] for name in ["end", *names]}
    around = await flow.store.around(flow.ids["end"], most=100)
    assert [step.name for step in around.parents] == ["a", *names]
    children = await flow.store.children(flow.ids["a"], most=100)
    assert [step.name for step in children] == ["end", *names]
    await flow.end("a")
    await flow.run(*names)
    assert await flow.claim() == {"end"}
    job = flow.claimed["end"]
    found = (await flow.store.parents(world.partition, [job]))[job.id]
    assert [parent.name for parent in found] == ["a", *names]


async def test_what_workflows_have_to_do_with_others_is_forgotten_with_them(world: World) -> None:
    session = await world.open_session()
    parent = await world.run(session)
    await world.end(session, parent)
    await follow_ended(world, parent.id, 3)
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("end", "a"))
    await flow.claim()
    step = flow.step("s", "a", added_by="a", into=None)
    await flow.store.add(world.partition, flow.id, [step])
    await flow.end("a")
    await flow.run("s")
    await flow.run("end")
    kept = await dump(world)
    assert (len(kept["followers"]), len(kept["links"])) == (2, 2)
    for _ in range(2):
        world.clock.advance(2 * DAY)
        await prune(world, keep=DAY)
    kept = await dump(world)
    assert [kept[name] for name in ("workflows", "steps", "links", "followers")] == [[]] * 4


async def test_what_is_forgotten_in_one_transaction_is_bounded_by_its_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workflows may be large, and where nothing else is written meanwhile sessions would be lost."""
    for _ in range(5):
        flow = await draw(world)
        await flow.submit(*(flow.step(name) for name in "abc"))
        await flow.store.cancel(world.partition, flow.id)
    world.clock.advance(2 * DAY)
    workflows: Any = world.store.workflows
    way = "transact" if world.place.engine == "sqlite" else "converse"
    transact, times = getattr(workflows._connections, way), 0

    async def counted(*asked: Any, **given: Any) -> Any:
        nonlocal times
        times += 1
        return await transact(*asked, **given)

    monkeypatch.setattr(workflows._connections, way, counted)
    assert await workflows.prune(keep=DAY, limit=6) == 5
    assert times == 3 + world.store.partitions, "two, two, one; and a look that finds nothing"
