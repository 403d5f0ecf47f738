"""Slips in drawing a workflow: refused where they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from foliot import Fixed, Foliot, FoliotError, InvalidValue, current_job

Start = Callable[[], None]


@pytest.fixture
def add(app: Foliot) -> Any:
    @app.job
    async def add(a: int, b: int = 1) -> int:
        return a + b

    return add


@pytest.fixture
def total(app: Foliot) -> Any:
    @app.job
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    return total


def test_a_result_is_for_its_own_workflow(app: Foliot, add: Any, total: Any) -> None:
    """In a loop the last turn's step is easily meant, and this workflow has one of the same name."""
    last, flow = app.workflow("day"), app.workflow("day")
    other = last.add(add.prepare(1))
    flow.add(add.prepare(500))
    for wrong in [
        lambda: flow.add(add.prepare(other.result)),
        lambda: flow.add(add.prepare(other.result["rows"][0].at("id"))),
        lambda: flow.add(total.prepare([1, other.result])),
        lambda: flow.map(add, over=other.result),
        lambda: flow.map(add, over=other),
        lambda: flow.map(add, over=[1, other.result]),
        lambda: flow.map(add, over=[1], b=other.result),
    ]:
        with pytest.raises(InvalidValue, match="reference: 'add' is a step of another workflow"):
            wrong()  # type: ignore[no-untyped-call]


def test_a_result_within_an_object_is_for_its_own_workflow_too(app: Foliot) -> None:
    @dataclass
    class Page:
        rows: Any

    @app.job
    def read(page: Any) -> int:
        return int(page["rows"])

    last, flow = app.workflow("day"), app.workflow("day")
    other = last.add(read.prepare(Page(1)))
    flow.add(read.prepare(Page(2)))
    with pytest.raises(InvalidValue, match="is a step of another workflow"):
        flow.add(read.prepare(Page(other.result)))
    last.add(read.prepare(Page(other.result)))


def test_a_running_step_adds_none_that_refers_to_another_workflow(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    mine = app.workflow("mine")
    own = mine.add(add.prepare(1))
    other = app.workflow("other").add(add.prepare(1))

    @app.job(max_attempts=1)
    def more() -> list[str]:
        said = []
        for wrong in [
            lambda: current_job().flow.add(add.prepare(other.result)),
            lambda: current_job().flow.add(add.prepare(1), after=[other]),
        ]:
            with pytest.raises(InvalidValue) as refused:
                wrong()  # type: ignore[no-untyped-call]
            said.append(str(refused.value))
        current_job().flow.add(add.prepare(own.result, b=5), name="after-all")
        return said

    mine.add(more.prepare(), after=[own])
    mine.submit()
    start_worker()
    assert mine.result(timeout=20) == {"after-all": 7}
    assert mine["more"].result() == [
        "reference: 'add' is a step of another workflow",
        "after: <step add> is a step of another workflow",
    ]


def test_options_that_are_not_for_steps_are_refused_where_a_running_step_adds_one(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=1)
    def more() -> list[str]:
        said = []
        wrong: list[dict[str, Any]] = [
            {"after": [current_job().id]},
            {"after": [current_job().id], "rule": "all_done"},
            {"connection": "mine"},
            {"key": "k"},
        ]
        for options in wrong:
            with pytest.raises(InvalidValue) as refused:
                current_job().flow.add(add.options(**options).prepare(1))
            said.append(str(refused.value).partition(";")[0])
        return said

    start_worker()
    with app.workflow("mine") as flow:
        flow.add(more.prepare())
    assert flow.result(timeout=20)["more"] == [
        "after is not one of the options of a step",
        "after is not one of the options of a step",
        "connection: 'mine' is not for a step",
        "key: 'k' is not for a step",
    ]


def test_a_call_with_a_connection_is_no_step_and_a_key_is_not_the_answer(
    app: Foliot, add: Any
) -> None:
    flow = app.workflow("mine")
    with pytest.raises(InvalidValue, match="is not for a step; a workflow is stored in a trans"):
        flow.add(add.options(connection="mine").prepare(1))


def test_a_workflow_that_became_a_step_is_as_it_was_then(app: Foliot, add: Any) -> None:
    """What is added to it later would not run, and nobody would know."""
    outer, inner = app.workflow("outer"), app.workflow("inner")
    inner.add(add.prepare(1))
    outer.add(inner)
    for wrong in [
        lambda: inner.add(add.prepare(2)),
        lambda: inner.map(add, over=[1]),
        lambda: inner.sleep(1),
        lambda: inner.add(outer),
    ]:
        with pytest.raises(
            FoliotError, match=r"^inner is a step of outer already; add to it before$"
        ):
            wrong()  # type: ignore[no-untyped-call]
    outer.add(inner)  # once more, as it is
    assert [step.name for step in outer.draft().steps] == ["inner", "inner-2"]


def test_a_workflow_that_a_schedule_took_is_as_it_was_then(app: Foliot, add: Any) -> None:
    draft = app.workflow("etl")
    draft.add(add.prepare(1))
    app.schedule("nightly", draft, "every day at 2am")
    app.schedule("weekly", draft, "every monday at 2am")
    with pytest.raises(FoliotError, match=r"^etl is what a schedule fires already; add to it"):
        draft.add(add.prepare(2))
    draft.submit()


def test_a_workflow_that_was_submitted_is_no_step_and_nothing_to_fire(
    app: Foliot, add: Any
) -> None:
    """It would run a second time, and nobody has said so."""
    with app.workflow("sums") as flow:
        flow.add(add.prepare(1))
    outer = app.workflow("outer")
    later: Any = app.get_workflow(flow.id)
    for wrong in [
        lambda: outer.add(flow),
        lambda: outer.add(later),
        lambda: app.schedule("nightly", flow, "every day at 2am"),
        lambda: app.schedule("nightly", later, "every day at 2am"),
        lambda: app.draft("nightly", flow, "every day at 2am"),
    ]:
        with pytest.raises(FoliotError) as refused:
            wrong()  # type: ignore[no-untyped-call]
        said = str(refused.value)
        assert f"submitted already, as {flow.id}" in said and "would run again" in said, said
        assert 'flow = app.workflow("' in said and "without a with block and submit()" in said
    assert outer.draft().steps == () and app.schedules() == []


def test_a_workflow_is_nothing_that_a_job_comes_after(app: Foliot, add: Any) -> None:
    with app.workflow("sums") as flow:
        flow.add(add.prepare(1))
    for workflow in (flow, flow.id, app.get_workflow(flow.id)):
        with pytest.raises(FoliotError) as refused:
            add.options(after=[workflow]).submit(1)
        said = f'{flow.id} is a workflow, and no job; its steps are jobs: flow["load"] in code'
        assert str(refused.value).startswith(said), refused.value
        assert f"foliot workflows show {flow.id}" in str(refused.value)


def test_an_element_of_a_map_that_does_not_fit_is_named(app: Foliot, add: Any) -> None:
    flow = app.workflow("sums")
    with pytest.raises(InvalidValue) as refused:
        flow.map(add, over=[1, "b"])
    assert str(refused.value).startswith("over[1]: 'b' does not fit: Expected `int`, got `str`;")
    with pytest.raises(InvalidValue, match=r"^over\[0\]: nan does not fit: "):
        flow.map(add, over=[float("nan")])


def test_a_name_that_another_step_has_is_refused(app: Foliot, add: Any) -> None:
    flow = app.workflow("sums")
    flow.add(add.prepare(1), name="a")
    with pytest.raises(InvalidValue) as refused:
        flow.add(add.prepare(2), name="a")
    assert str(refused.value) == (
        "name: 'a' is the name of another step of this workflow, for example name=\"a-2\""
    )


def test_a_block_submits_by_itself(app: Foliot, add: Any) -> None:
    def draw() -> None:
        with app.workflow("sums") as flow:
            flow.add(add.prepare(1))
            flow.submit()

    with pytest.raises(FoliotError, match=r"submitted already, .*; the end of the with block"):
        draw()

    async def adraw() -> None:
        async with app.workflow("sums") as flow:
            flow.add(add.prepare(1))
            await flow.asubmit()

    with pytest.raises(FoliotError, match=r"submitted already, .*; the end of the with block"):
        asyncio.run(adraw())


def test_a_map_takes_the_function_and_not_a_call_of_it(app: Foliot, add: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        app.workflow("sums").map(add.prepare(1), over=[1])
    assert str(refused.value) == (
        "flow.map() takes add itself and its other arguments, not a prepared call,"
        " for example flow.map(scale, over=[1, 2], factor=3)"
    )


def test_the_method_of_a_handle_is_no_argument(app: Foliot, add: Any) -> None:
    first = add.submit(1)
    with pytest.raises(InvalidValue, match=r"Handle\(.*\)\.result is a method, .*\.parents"):
        add.options(after=[first]).submit(first.result)


def test_a_workflow_without_steps_is_told_what_code_adds_to_it(app: Foliot) -> None:
    @app.job
    def extract() -> None: ...

    with pytest.raises(InvalidValue) as caught, app.workflow("etl") as flow:
        pass
    assert caught.value.example is not None
    eval(caught.value.example, {"flow": flow, "extract": extract})
    assert flow.submit().get().total == 1


def test_a_workflow_that_is_submitted_again_says_which_it_is_and_what_to_do(
    app: Foliot, add: Any
) -> None:
    """Nobody wants to add a step to it."""
    flow = app.workflow("sums")
    flow.add(add.prepare(1))
    flow.submit()
    said = (
        f"workflow sums was submitted already, as {flow.id};"
        " draw another by app.workflow(…), or have all of this one run again: flow.rerun()"
    )
    with pytest.raises(FoliotError) as refused:
        flow.submit()
    assert str(refused.value) == said
    with pytest.raises(FoliotError) as refused:
        asyncio.run(flow.asubmit())
    assert str(refused.value) == said
    with pytest.raises(FoliotError, match=r"current_job\(\)\.flow\.add"):
        flow.add(add.prepare(2))


def test_a_running_step_adds_jobs_and_says_how_to_get_the_rest(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=1)
    def more() -> list[str]:
        flow, said = current_job().flow, []
        inner: Any = app.workflow("inner")
        for wrong in [
            lambda: flow.map(add, over=[1, 2]),
            lambda: flow.wait_for("go", timeout=5),
            lambda: flow.sleep(5),
            lambda: flow.add(inner),
        ]:
            with pytest.raises(FoliotError) as refused:
                wrong()  # type: ignore[no-untyped-call]
            said.append(str(refused.value))
        return said

    start_worker()
    with app.workflow("mine") as flow:
        flow.add(more.prepare())
    said = [one.partition("; ") for one in flow.result(timeout=20)["more"]]
    assert [problem for problem, *_ in said] == [
        "flow.map() is for drawing: a running step adds jobs only",
        "flow.wait_for() is for drawing: a running step adds jobs only",
        "flow.sleep() is for drawing: a running step adds jobs only",
        "flow.add(): <workflow inner, 0 steps> is a workflow, and a running step adds jobs only",
    ]
    assert [hint for *_, hint in said] == [
        "for one in rows: current_job().flow.add(load.prepare(one)), or draw a map over what this step returns",
        "draw the wait for the signal before, or submit a workflow of its own: app.workflow(…)",
        "current_job().flow.add(load.options(delay=60).prepare(…))",
        "draw it as a step before; its own submit() runs it beside this workflow",
    ]


def test_data_that_looks_like_a_reference_is_none_in_code(
    app: Foliot, add: Any, total: Any
) -> None:
    """It may be somebody else's, and would be given the result of any step that it names."""

    @app.job
    def keep(row: Any, more: Any = None) -> Any:
        return row

    flow = app.workflow("day")
    one = flow.add(add.prepare(1), name="one")
    data = {"rows": [{"$result": "one"}]}
    for wrong, argument in [
        (lambda: flow.add(keep.prepare(data)), "row"),
        (lambda: flow.add(keep.prepare(one.result, data)), "more"),
        (lambda: flow.add(keep.prepare([one.result, {"$result": "one"}])), "row"),
        (lambda: flow.add(keep.prepare({"$result": 7})), "row"),
        (lambda: flow.add(keep.prepare(1, msgspec.Raw(b'{"\\u0024result":"one"}'))), "more"),
        (lambda: flow.map(keep, over=[1, {"$result": "one"}]), "row"),
        (lambda: flow.map(keep, over=[1], more=data), "more"),
        (lambda: flow.map(keep, over=one.result, more=data), "more"),
    ]:
        with pytest.raises(InvalidValue) as refused:
            wrong()  # type: ignore[no-untyped-call]
        assert refused.value.field == f"argument {argument} of keep()"
        assert "$result" in str(refused.value) and "step.result" in str(refused.value)
    flow.add(keep.prepare([one.result, {"a": one.result["x"]}], one.result))
    flow.map(keep, over=[one.result, 1], more={"a": one.result})
    keep.submit(data)


def test_a_running_step_adds_none_with_data_that_looks_like_a_reference(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job
    def keep(row: Any) -> Any:
        return row

    @app.job(max_attempts=1)
    def more() -> str:
        with pytest.raises(InvalidValue) as refused:
            current_job().flow.add(keep.prepare({"$result": "one"}))
        return str(refused.value)

    start_worker()
    with app.workflow("mine") as flow:
        flow.add(more.prepare(), after=[flow.add(add.prepare(1), name="one")])
    assert flow.result(timeout=20)["more"].startswith(
        "argument row of keep(): {'$result': 'one'} has the key $result,"
    )


def test_a_workflow_that_a_running_step_submits_by_its_own_id_runs_once(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=2)
    def more() -> str:
        own = app.workflow("own", key=current_job().id)
        own.map(add, over=[1, 2])
        own.submit()
        if current_job().attempt == 1:
            raise ConnectionError
        return own.id

    start_worker()
    with app.workflow("mine") as flow:
        flow.add(more.options(retry=Fixed(0)).prepare())
    id = flow.result(timeout=20)["more"]
    assert [own.id for own in app.workflows(name="own")] == [id]
    assert app.get_workflow(id).result(timeout=20) == {"add": [2, 3]}


def test_a_result_within_an_object_of_attrs_is_one(app: Foliot, add: Any) -> None:
    attr = pytest.importorskip("attr")
    page = attr.make_class("Page", ["rows"])

    @app.job
    def read(page: Any) -> int:
        return int(page["rows"])

    last, flow = app.workflow("day"), app.workflow("day")
    flow.add(read.prepare(page(flow.add(add.prepare(1)).result)))
    assert flow.draft().steps[-1].payload == {"page": {"rows": {"$result": "add"}}}
    with pytest.raises(InvalidValue, match="is a step of another workflow"):
        last.add(read.prepare(page(flow.add(add.prepare(1)).result)))
