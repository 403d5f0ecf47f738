"""Workflows that are tried again, on both kinds of store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from foliot import Foliot, InvalidValue, JobState, WorkflowFailed, WorkflowState, current_job
from support.fleet import eventually

Start = Callable[[], None]


def test_what_waits_for_elements_that_were_skipped_runs_after_a_retry(
    app: Foliot, start_worker: Start
) -> None:
    """Elements of a map come after its join in the order of submission: they are added when it runs."""
    good: list[bool] = []

    @app.job
    async def count(to: int) -> list[int]:
        return list(range(to))

    @app.job(max_attempts=1)
    async def halve(number: int) -> int:
        if not good:
            raise ValueError(number)
        return number // 2

    @app.job
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    start_worker()
    with app.workflow("fan") as flow:
        numbers = flow.add(count.prepare(300))  # more than are run at once: most are skipped
        halved = flow.map(halve, over=numbers.result)
        flow.add(total.prepare(numbers=halved.result))
    with pytest.raises(WorkflowFailed):
        flow.result(timeout=20)
    good.append(True)
    assert len(flow.retry()) == 301
    assert flow.result(timeout=20) == {"total": sum(number // 2 for number in range(300))}


def test_what_comes_after_a_workflow_that_was_late_runs_when_it_is_tried_again(
    app: Foliot, start_worker: Start
) -> None:
    """All of it has succeeded, only too late: nothing of it has to run once more, and it would be late for ever."""
    gate, ran = threading.Event(), []

    @app.job
    def slow() -> str:
        ran.append(1)
        gate.wait(30)
        return "slow"

    @app.job
    def last() -> str:
        return "last"

    start_worker()
    inner = app.workflow("inner", deadline=0.5)
    inner.add(slow.prepare())
    with app.workflow("outer") as flow:
        flow.add(last.prepare(), after=[flow.add(inner)])
    eventually(lambda: any(one.cancel_requested for one in app.workflows(name="inner")))
    gate.set()
    with pytest.raises(WorkflowFailed):
        flow.result(timeout=20)
    [late] = app.workflows(name="inner")
    assert (late.state, late.reason) == (WorkflowState.FAILED, "deadline")
    assert set(flow.retry()) == {flow["inner"].id, flow["last"].id}
    assert flow.result(timeout=20) == {"last": "last"}
    assert flow["inner"].result() == {"slow": "slow"}
    assert app.get_workflow(late.id).status() is WorkflowState.SUCCEEDED
    assert (app.get_workflow(late.id).retry(), len(ran)) == ([], 1)


def test_async_code_steers_a_workflow(app: Foliot, start_worker: Start) -> None:
    good: list[bool] = []

    @app.job(max_attempts=1)
    async def sometimes(number: int) -> int:
        if not good:
            raise ValueError(number)
        return number

    start_worker()

    async def main() -> None:
        flow = app.workflow("steered")
        flow.add(sometimes.prepare(flow.wait_for("go").result))
        await flow.asubmit()
        await flow.apause("until monday", by="ada")
        assert (await flow.aget()).note == "until monday"
        await flow.aresume(by="ada")
        await flow.asignal("go", 21)
        with pytest.raises(WorkflowFailed, match="ValueError: 21"):
            await flow.aresult(timeout=20)
        assert "✗ sometimes dead: ValueError: 21" in await flow.agraph("text")
        good.append(True)
        assert await flow.aretry(["sometimes"], by="ada") == [flow["sometimes"].id]
        assert await flow.aresult(timeout=20) == {"sometimes": 21}
        new = await flow.arerun(by="ada")
        assert new.id != flow.id and await new.acancel() is WorkflowState.CANCELLED
        with pytest.raises(WorkflowFailed, match="is cancelled: requested"):
            await new.aresult(timeout=20)
        with pytest.raises(InvalidValue, match="is not a list of steps"):
            await flow.aretry("sometimes")

    asyncio.run(main())


def test_a_pause_goes_into_the_workflows_that_are_steps(app: Foliot, start_worker: Start) -> None:
    ran: list[str] = []
    gate = threading.Event()

    @app.job
    def go(name: str) -> None:
        ran.append(name)
        gate.wait(20)

    start_worker()
    inner = app.workflow("inner")
    inner.add(go.prepare("two"), name="two", after=[inner.add(go.prepare("one"), name="one")])
    with app.workflow("outer") as outer:
        outer.add(inner)
    eventually(lambda: ran == ["one"])
    outer.pause("lunch", by="ada")
    [within] = app.workflows(name="inner")
    assert (within.paused_by, within.note) == ("ada", "lunch")
    gate.set()
    flow = app.get_workflow(within.id)
    eventually(lambda: flow["two"].status() is JobState.HELD)
    assert ran == ["one"]
    outer.resume()
    outer.result(timeout=20)
    assert ran == ["one", "two"]


def test_a_rerun_is_what_was_submitted_first(app: Foliot, start_worker: Start) -> None:
    """With its maps, its options and its inner workflows; without what steps added, and without its key."""

    @app.job
    async def grow(number: int) -> list[int]:
        await current_job().flow.aadd(leaf.prepare(number), name="grown")
        return list(range(number))

    @app.job
    async def leaf(number: int) -> int:
        return number

    start_worker()
    inner = app.workflow("inner")
    inner.add(leaf.prepare(7))
    with app.workflow("whole", key="monday", deadline=3600) as flow:
        numbers = flow.add(grow.prepare(3))
        each = flow.map(leaf.options(tags=["each"]), over=numbers.result, name="each")
        flow.add(inner, after=[each, flow.sleep(0.01)])
    assert flow.result(timeout=20) == {"inner": {"leaf": 7}}
    new = flow.rerun()
    assert new.result(timeout=20) == {"inner": {"leaf": 7}}
    assert {step.name for step in new.steps()} == {step.name for step in flow.steps()}
    assert new["each[2]"].job().tags == ("each",)
    assert new.get().deadline_at is not None and app.workflows(name="whole")[0].id == new.id


def test_the_reason_of_a_pause_stays_until_another_is_given(app: Foliot) -> None:
    with app.workflow("sums") as flow:
        flow.wait_for("go")
    said = []
    for note, by in [("the disk is full", "ada"), (None, "bob"), ("lunch", "cyd")]:
        flow.pause(note, by=by)
        said.append((flow.get().note, flow.get().paused_by))
    assert said == [("the disk is full", "ada"), ("the disk is full", "ada"), ("lunch", "cyd")]
    flow.cancel()
    flow.retry()
    for _ in range(2):
        flow.pause(by="bob")
        assert (flow.get().note, flow.get().paused_by) == (None, "bob"), "of this pause"
        flow.resume()
