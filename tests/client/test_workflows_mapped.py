"""What comes after a map, and how it is said: it waits for the elements, on both kinds of store; and steps
that are added by others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from foliot import Foliot, InvalidValue, WorkflowFailed, current_job
from support.fleet import eventually

Start = Callable[[], None]


@pytest.fixture
def numbers(app: Foliot) -> Any:
    @app.job
    async def numbers() -> list[int]:
        return [0, 1, 2]

    return numbers


@pytest.fixture
def slowly(app: Foliot) -> Any:
    @app.job(max_attempts=1)
    async def slowly(number: int) -> int:
        await asyncio.sleep(0.3)
        if number == 1:
            raise ValueError("no luck")
        return number

    return slowly


@pytest.fixture
def seen(app: Foliot) -> Any:
    @app.job
    async def seen() -> list[str]:
        return [f"{one.name} {one.state} {one.result}" for one in current_job().parents]

    return seen


@pytest.mark.parametrize("known", [True, False])
def test_what_follows_a_map_waits_for_its_elements_however_it_is_said(
    app: Foliot, numbers: Any, slowly: Any, seen: Any, start_worker: Start, known: bool
) -> None:
    @app.job
    async def grow() -> None:
        await current_job().flow.aadd(
            seen.prepare(), after=["each"], rule="all_done", name="grown", before=[]
        )

    start_worker()
    with app.workflow("fan", policy="continue") as flow:
        each = flow.map(
            slowly, over=[0, 1, 2] if known else flow.add(numbers.prepare()), name="each"
        )
        flow.add(seen.prepare(), after=[each], rule="all_done", name="drawn")
        flow.add(seen.prepare(), after=[each], rule="any_succeeded", name="first")
        flow.add(grow.prepare())
    eventually(lambda: "each[2]" in {step.name for step in flow.steps()})
    followed = seen.options(after=[flow["each"]], rule="all_done").submit()
    told = ["each dead [0, None, 2]"]
    eventually(lambda: flow.status().final)
    assert followed.result(timeout=5) == told
    assert flow["drawn"].result() == flow["grown"].result() == told
    [first] = flow["first"].result()
    assert first in (
        "each None [0, None, None]",
        "each None [None, None, 2]",
        "each dead [0, None, 2]",
    )


@pytest.mark.parametrize("known", [True, False])
def test_a_map_has_succeeded_and_says_how_its_elements_are(
    app: Foliot, numbers: Any, slowly: Any, start_worker: Start, known: bool
) -> None:
    start_worker()
    with app.workflow("fan", policy="continue") as flow:
        first = flow.add(numbers.prepare())
        flow.map(slowly, over=[0, 1, 2] if known else first, name="each", after=[first])
    eventually(lambda: flow.status().final)
    steps = {step.name: step for step in flow.steps()}
    each, second = steps["each"], steps["each[1]"]
    assert (each.id, each.state, each.parents) == (flow["each"].id, "succeeded", ("numbers",))
    assert (each.elements, each.result) == ({"succeeded": 2, "dead": 1}, [0, None, 2])
    assert (second.state, second.element_of, second.result) == ("dead", "each", None)
    assert (steps["numbers"].result, steps["numbers"].elements) == ([0, 1, 2], None)
    assert flow["each"].explain().state == "succeeded"
    assert f"how they are: foliot workflows show {flow.id}" in str(flow["each"].explain())


def test_steps_are_shown_without_what_is_kept_to_run_them(
    app: Foliot, numbers: Any, start_worker: Start
) -> None:
    with app.workflow("fan") as flow:
        flow.add(numbers.prepare())
    [step] = flow.steps()
    assert (step.state, step.result) == ("ready", None)
    assert "payload" not in repr(step) and "NewJob" not in repr(step)
    start_worker()
    eventually(lambda: flow.status().final)
    assert flow.steps()[0].result == [0, 1, 2]


@pytest.mark.parametrize("rule", ["any_failed", "any_succeeded"])
def test_a_rule_that_needs_parents_is_refused_where_a_step_adds_one_without(
    app: Foliot, seen: Any, start_worker: Start, rule: str
) -> None:
    @app.job
    async def grow() -> str:
        with pytest.raises(InvalidValue) as caught:
            await current_job().flow.aadd(seen.prepare(), after=[], rule=rule, name="never")
        return str(caught.value)

    start_worker()
    with app.workflow("grown") as flow:
        flow.add(grow.prepare())
    said = flow.result(timeout=20)["grow"]
    assert said.startswith(f"rule: {rule!r} needs parents, and this step has none")
    assert 'after=["a"]' in said


def test_a_step_adds_others_when_its_chain_has_become_part_of_another(
    app: Foliot, seen: Any, start_worker: Start
) -> None:
    begun: list[str] = []
    merged: list[bool] = []

    @app.job(max_attempts=1)
    def grow(name: str) -> None:
        flow = current_job().flow
        first = flow.add(seen.prepare(), name=f"{name}-1")
        begun.append(name)
        eventually(lambda: bool(merged))
        flow.add(seen.prepare(), after=[first], before=[], name=f"{name}-2")
        flow.add(seen.prepare(), name=f"{name}-3")

    firsts = [grow.submit(name) for name in ("a", "b")]
    seconds = [seen.options(after=[first]).submit() for first in firsts]
    start_worker()
    eventually(lambda: len(begun) == 2)
    last = seen.options(after=seconds).submit()
    merged.append(True)
    assert [one.split()[0] for one in last.result(timeout=20)] == [job.id for job in seconds]
    for name, second in zip("ab", seconds, strict=True):
        assert [one.split()[0] for one in second.result()[1:]] == [f"{name}-1", f"{name}-3"]


@pytest.fixture
def double(app: Foliot) -> Any:
    @app.job
    def double(number: int) -> int:
        return 2 * number

    return double


def test_an_element_of_a_result_that_does_not_fit_fails_its_step_as_a_result_does(
    app: Foliot, double: Any, start_worker: Start
) -> None:
    @app.job
    def nested() -> dict[str, Any]:
        return {"rows": [{"id": 7}, 4]}

    start_worker()
    with app.workflow("fan", policy="continue") as flow:
        rows = flow.add(nested.prepare()).result["rows"]
        flow.map(double, over=rows, name="each")
    with pytest.raises(WorkflowFailed) as failed:
        flow.result(timeout=20)
    said = "each[0]: the arguments of this element do not fit double: Expected `int`, got `object` - at `$.number`"
    assert said in str(failed.value)
    [attempt] = flow["each[0]"].attempts()
    assert attempt.error == f"MissingInput: input {said}"
    assert flow["each[1]"].result() == 8


def test_an_element_of_a_signal_that_does_not_fit_fails_its_step(
    app: Foliot, double: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("fan") as flow:
        flow.map(double, over=flow.wait_for("go").result)
    flow.signal("go", ["x"])
    with pytest.raises(WorkflowFailed, match=r"input double\[0\]: .* Expected `int`, got `str`"):
        flow.result(timeout=20)


def test_what_elements_are_given_beside_them_fails_them_too_and_is_named(
    app: Foliot, numbers: Any, start_worker: Start
) -> None:
    @app.job
    def scale(number: int, factor: int) -> int:
        return number * factor

    start_worker()
    with app.workflow("fan") as flow:
        found = flow.add(numbers.prepare())
        flow.map(scale, over=found.result, factor=found.result)
    with pytest.raises(WorkflowFailed, match=r"scale\[\d\]: .* got `array` - at `\$.factor`"):
        flow.result(timeout=20)


def test_data_of_a_result_is_never_taken_for_a_result(app: Foliot, start_worker: Start) -> None:
    @app.job
    def secret() -> str:
        return "secret"

    @app.job
    def found() -> list[Any]:
        return [{"$result": "secret"}, {"$result": 7}]

    @app.job
    def keep(row: Any) -> Any:
        return row

    start_worker()
    with app.workflow("fan") as flow:
        first = flow.add(secret.prepare())
        flow.map(keep, over=flow.add(found.prepare(), after=[first]).result)
    assert flow.result(timeout=20)["keep"] == [{"$result": "secret"}, {"$result": 7}]
