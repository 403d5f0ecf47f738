"""Workflows as code draws and follows them, on both kinds of store."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from client.conftest import run_in_thread
from foliot import (
    Foliot,
    FoliotError,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobState,
    NotRunning,
    ResultTimeout,
    UnknownWorkflow,
    WorkflowFailed,
    WorkflowState,
    current_job,
)
from foliot.client.workflow_handle import WorkflowHandle
from foliot.config import load
from foliot.ids import inner_id
from foliot.testing import Harness
from support.fleet import eventually

Start = Callable[[], None]


@pytest.fixture
def add(app: Foliot) -> Any:
    @app.job
    async def add(a: int, b: int = 1) -> int:
        return a + b

    return add


@pytest.fixture
def double(app: Foliot) -> Any:
    @app.job
    def double(number: int, by: int = 2) -> int:
        return number * by

    return double


@pytest.fixture
def total(app: Foliot) -> Any:
    @app.job
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    return total


@pytest.fixture
def fail(app: Foliot) -> Any:
    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no luck")

    return fail


@pytest.fixture
def tell(app: Foliot) -> Any:
    @app.job
    async def tell() -> list[str]:
        return [f"{one.name} {one.state} {one.result}" for one in current_job().parents]

    return tell


def test_what_was_drawn_is_submitted_at_the_end_of_the_block(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("sums") as flow:
        first = flow.add(add.prepare(1))
        second = flow.add(add.prepare(first.result, b=first.result), name="second")
        with pytest.raises(FoliotError, match="not been submitted"):
            _ = flow.id
    assert flow.result(timeout=20) == {"second": 4}
    assert flow.status() is WorkflowState.SUCCEEDED
    assert flow["add"].result() == 2 and second.handle.job().id == second.id
    assert [(step.name, step.state) for step in flow.steps()] == [
        ("add", JobState.SUCCEEDED),
        ("second", JobState.SUCCEEDED),
    ]
    again = app.get_workflow(flow.id)
    assert again["second"].result() == 4 and again.get().total == 2
    assert [one.id for one in app.workflows(name="sums", state="succeeded")] == [flow.id]


@pytest.mark.parametrize(
    ("name", "wrong", "problem"),
    [
        ("", {}, "workflow: ''"),
        ("a b", {}, 'for example app.workflow("extract")'),
        ("etl", {"policy": "failfast"}, "policy: 'failfast' is not fail_fast or continue"),
        ("etl", {"deadline": -1}, "deadline: -1"),
        ("etl", {"namespace": "a b"}, "namespace: 'a b'"),
        ("etl", {"key": ""}, "key: ''"),
    ],
)
def test_what_is_said_of_the_whole_is_checked_when_it_is_said(
    app: Foliot, name: str, wrong: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidValue, match=re.escape(problem)):
        app.workflow(name, **wrong)


def test_async_code_does_the_same(app: Foliot, add: Any, start_worker: Start) -> None:
    start_worker()

    async def main() -> None:
        async with app.workflow("sums") as flow:
            one = flow.add(add.prepare(1))
            flow.add(add.prepare(one.result), name="two")
        assert await flow.aresult(timeout=20) == {"two": 3}
        assert await flow.astatus() is WorkflowState.SUCCEEDED
        assert (await (await app.aget_workflow(flow.id)).astep("two")).id == flow["two"].id
        assert len(await flow.asteps()) == 2
        assert (await flow.agraph()).startswith("flowchart")
        assert [one.id for one in await app.aworkflows()] == [flow.id]

    asyncio.run(main())


def test_nothing_is_submitted_if_the_block_raises(app: Foliot, add: Any) -> None:
    def draw() -> None:
        with app.workflow("sums") as flow:
            flow.add(add.prepare(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        draw()
    assert app.workflows() == [] and app.jobs() == []


def test_a_step_sees_how_its_parents_ended(
    app: Foliot, add: Any, fail: Any, tell: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("told", policy="continue") as flow:
        parents = [flow.add(add.prepare(1)), flow.add(fail.prepare())]
        flow.add(tell.prepare(), after=parents, rule="all_done")
    with pytest.raises(WorkflowFailed, match="step fail is dead: ValueError: no luck") as caught:
        flow.result(timeout=20)
    assert caught.value.steps == ("fail",)
    assert flow["tell"].result() == ["add succeeded 2", "fail dead None"]


def test_a_map_over_a_result_makes_a_step_of_each_element(
    app: Foliot, double: Any, total: Any, tell: Any, start_worker: Start
) -> None:
    @app.job
    async def count(to: int) -> list[int]:
        return list(range(to))

    start_worker()
    with app.workflow("fan") as flow:
        numbers = flow.add(count.prepare(12))
        doubled = flow.map(double, over=numbers, by=3)
        flow.add(total.prepare(numbers=doubled.result))
        flow.add(tell.prepare(), after=[doubled])
    result = flow.result(timeout=20)
    assert result["total"] == 3 * sum(range(12))
    assert result["tell"] == [f"double succeeded {[3 * n for n in range(12)]}"]
    assert flow["double[11]"].result() == 33


@pytest.mark.parametrize("numbers", [[], [5], [5, 5, 6]])
def test_a_map_as_the_last_step_results_in_a_list(
    app: Foliot, double: Any, add: Any, start_worker: Start, numbers: list[int]
) -> None:
    @app.job
    async def same(numbers: list[int]) -> list[int]:
        return numbers

    start_worker()
    with app.workflow("fan") as flow:
        found = flow.add(same.prepare(numbers))
        flow.map(double, over=found.result, name="later")
        flow.map(double, over=numbers, name="known")
    doubled = [2 * number for number in numbers]
    assert flow.result(timeout=20) == {"later": doubled, "known": doubled}


def test_a_map_over_what_is_no_list_fails_at_once(
    app: Foliot, double: Any, add: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("fan") as flow:
        flow.map(double, over=flow.add(add.prepare(1)).result)
    with pytest.raises(WorkflowFailed, match="is not a list"):
        flow.result(timeout=20)


def test_a_part_of_a_result_that_is_not_there_fails_the_step_without_another_attempt(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job
    async def rows() -> dict[str, list[int]]:
        return {"rows": [7]}

    start_worker()
    with app.workflow("parts", policy="continue") as flow:
        found = flow.add(rows.prepare())
        flow.add(add.prepare(found.result["rows"][0]), name="there")
        flow.add(add.prepare(found.result["rows"][1]), name="gone")
        flow.add(add.prepare(found.result["rows"]), name="unfit")
    with pytest.raises(WorkflowFailed):
        flow.result(timeout=20)
    assert flow["there"].result() == 8
    assert "rows.rows.1" in str(flow["gone"].attempts()[0].error)
    assert len(flow["gone"].attempts()) == 1
    assert "input rows.rows: its result does not fit add: Expected `int`, got `array`" in str(
        flow["unfit"].attempts()[0].error
    )


def test_which_result_does_not_fit_is_named(app: Foliot, add: Any, start_worker: Start) -> None:
    @app.job(max_attempts=1)
    def join(first: list[int], second: dict[str, int]) -> None: ...

    start_worker()
    with app.workflow("parts", policy="continue") as flow:
        one, two = flow.add(add.prepare(1), name="one"), flow.add(add.prepare(1), name="two")
        flow.add(join.prepare([one.result], {"a": two.result["x"]}), name="part")
        flow.add(join.prepare([one.result], two.result), name="by-place")
        flow.add(join.prepare(cast(Any, [[one.result], two.result]), {}), name="unclear")
    with pytest.raises(WorkflowFailed):
        flow.result(timeout=20)
    errors = [str(flow[name].attempts()[0].error) for name in ("part", "by-place", "unclear")]
    assert "input two.x: there is no x in two, which is a number" in errors[0]
    assert "input two: its result does not fit join: Expected `object`, got `int`" in errors[1]
    assert "input unclear: the results of one, two do not fit join: Expected `int`" in errors[2]


def test_other_arguments_are_checked_when_they_are_written(app: Foliot, add: Any) -> None:
    flow = app.workflow("sums")
    one = flow.add(add.prepare(1))
    with pytest.raises(InvalidValue, match="Expected `int`"):
        add.prepare(one.result, b="three")
    with pytest.raises(InvalidValue, match="is no step of that workflow"):
        add.submit(one.result)
    with pytest.raises(InvalidValue, match="leaves no argument"):
        flow.map(add, over=[1], a=1, b=2)
    with pytest.raises(InvalidValue, match="Expected `int`"):
        flow.map(add, over=["one"])
    with pytest.raises(InvalidValue, match="neither a list nor a result"):
        flow.map(add, over="abc")
    with pytest.raises(InvalidValue, match=r"over has more elements than limits.steps, 50000"):
        flow.map(add, over=itertools.count())


def test_mistakes_in_a_graph_are_told_before_anything_is_stored(app: Foliot, add: Any) -> None:
    other = app.workflow("other")
    step = other.add(add.prepare(1))
    flow = app.workflow("sums")
    flow.add(add.prepare(1), name="a", after=["b"])
    flow.add(add.prepare(1), name="b", after=["a"])
    with pytest.raises(InvalidValue, match="a → b → a"):
        flow.submit()
    for wrong, problem in [
        (
            lambda: flow.add(add.prepare(1), name="a"),
            "is the name of another step of this workflow",
        ),
        (lambda: flow.add(add.prepare(1), after=[step]), "of another workflow"),
        (lambda: flow.add(add.prepare(1), after="a"), "is not a list of steps"),
        (lambda: flow.add(add.prepare(1), rule="all_failed"), "is none of"),
        (lambda: flow.add(add.options(key="k").prepare(1)), "give the workflow a key"),
        (lambda: flow.add(add), "is not a prepared call"),
        (lambda: flow.add(flow), "itself"),
        (lambda: app.workflow("no steps").submit(), "workflow"),
        (lambda: app.workflow("none").submit(), "at least one"),
        (lambda: flow.sleep(-1), "is not a number of seconds"),
    ]:
        with pytest.raises(InvalidValue, match=problem):
            wrong()  # type: ignore[no-untyped-call]
    assert app.workflows() == [] and app.jobs() == []


def test_names_count_up_from_the_kind(app: Foliot, add: Any) -> None:
    flow = app.workflow("sums")
    steps = [flow.add(add.prepare(1), name=name) for name in (None, "add-2", None)]
    steps += [flow.sleep(1), flow.sleep(1), flow.wait_for("approval")]
    names = [step.name for step in steps]
    assert names == ["add", "add-2", "add-3", "sleep", "sleep-2", "approval"]


def test_a_signal_ends_the_step_that_waits_for_it(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("approved") as flow:
        amount = flow.wait_for("approval", timeout=timedelta(hours=1))
        rest = flow.sleep(0.05, after=[amount])
        flow.add(add.prepare(amount.result["amount"]), after=[rest])
    late = r"workflow .* is still running after 1 s: step approval waits for the signal 'approval'$"
    with pytest.raises(ResultTimeout, match=late):
        flow.result(timeout=1)
    flow.signal("approval", {"amount": 41})
    assert flow.result(timeout=20) == {"add": 42}
    [slept] = [step for step in flow.steps() if step.name == rest.name]
    assert slept.started_at is not None and slept.finished_at is not None
    assert (slept.finished_at - slept.started_at).total_seconds() >= 0.05
    with pytest.raises(NotRunning):
        flow.signal("approval")


def test_a_signal_that_no_step_waits_for_is_refused_unless_it_is_early(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    with app.workflow("approved") as flow:
        flow.add(add.prepare(1), after=[flow.wait_for("approval")])
    with pytest.raises(
        InvalidValue, match=r"signal: 'aproval' is waited for by no .*, which waits for approval"
    ) as refused:
        flow.signal("aproval")
    assert refused.value.hint is not None and "did you mean approval?" in refused.value.hint
    flow.signal("later", 1, early=True)  # for a step that is added while it runs
    flow.signal("approval")
    start_worker()
    assert flow.result(timeout=20) == {"add": 2}


def test_a_signal_to_a_workflow_that_waits_for_none_is_refused(app: Foliot, add: Any) -> None:
    with app.workflow("plain") as flow:
        flow.add(add.prepare(1))
    with pytest.raises(InvalidValue, match="is waited for by no step of this workflow; to keep it"):
        flow.signal("go")


def test_a_signal_that_a_workflow_within_it_waits_for_is_refused_with_the_name_of_that(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    inner, middle = app.workflow("inner"), app.workflow("middle")
    inner.add(add.prepare(1), after=[inner.wait_for("go")])
    middle.add(inner)
    with app.workflow("outer") as outer:
        outer.add(middle)

    def held() -> WorkflowHandle:
        flow: WorkflowHandle = outer
        for name in ("middle", "inner"):
            eventually(lambda: flow[name].status() is JobState.HELD)  # noqa: B023
            flow = app.get_workflow(inner_id(flow[name].id))
        return flow

    waits = held()
    with pytest.raises(InvalidValue) as refused:
        outer.signal("go", 1)
    assert str(refused.value) == (
        "signal: 'go' is waited for by no step of this workflow;"
        f" inner within it does: foliot workflows signal {waits.id} go"
    )
    with pytest.raises(InvalidValue, match="by no step of this workflow; to keep it"):
        outer.signal("stop")
    waits.signal("go")
    assert outer.result(timeout=20) == {"middle": {"inner": {"add": 2}}}


def test_a_signal_that_does_not_come_in_time_is_a_failure(
    app: Foliot, tell: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("approved", policy="continue") as flow:
        approval = flow.wait_for("approval", timeout=0.2)
        flow.add(tell.prepare(), after=[approval], rule="any_failed")
    with pytest.raises(
        WorkflowFailed, match="approval is cancelled: the signal approval did not come in time"
    ):
        flow.result(timeout=20)
    assert flow["tell"].result() == ["approval cancelled None"]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_running_step_adds_others_before_what_comes_after_it(
    app: Foliot, add: Any, tell: Any, start_worker: Start, blocking: bool
) -> None:
    if blocking:

        @app.job(kind="grow")
        def grow() -> str | None:
            for number in range(3):
                current_job().flow.add(add.prepare(number))
            return current_job().step
    else:

        @app.job(kind="grow")
        async def grow() -> str | None:
            for number in range(3):
                await current_job().flow.aadd(add.prepare(number))
            return current_job().step

    start_worker()
    with app.workflow("growing") as flow:
        root = flow.add(grow.prepare())
        flow.add(tell.prepare(), after=[root])
    told = flow.result(timeout=20)["tell"]
    assert told == [
        "grow succeeded grow",
        "add succeeded 1",
        "add-2 succeeded 2",
        "add-3 succeeded 3",
    ]


def test_an_attempt_that_is_repeated_adds_nothing_twice(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=2)
    async def grow() -> None:
        first = await current_job().flow.aadd(add.prepare(1), name="one")
        second = await current_job().flow.aadd(add.prepare(current_job().attempt))
        assert (first.name, second.name) == ("one", "add")
        if current_job().attempt == 1:
            raise ValueError("once more")

    start_worker()
    with app.workflow("growing") as flow:
        flow.add(grow.prepare())
    assert flow.result(timeout=30) == {"one": 2, "add": 2}
    assert [step.name for step in flow.steps()] == ["grow", "one", "add"]


def test_steps_that_add_others_at_the_same_time_do_not_stop_each_other(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=1)
    async def crawl(page: int) -> int:
        flow = current_job().flow
        found = await asyncio.gather(*(flow.aadd(add.prepare(page)) for _ in range(2)))
        return len({step.id for step in found})

    start_worker()
    with app.workflow("crawl", policy="continue") as flow:
        flow.map(crawl, over=list(range(12)))
    eventually(lambda: flow.status().final)
    assert [flow[f"crawl[{n}]"].result() for n in range(12)] == [2] * 12
    assert len(flow.steps()) == 37


@pytest.mark.parametrize(
    ("steps", "edges", "grown", "mapped"),
    [
        (4, 99, "steps are 5, more than limits.steps, 4", "limits.steps leaves room for 1"),
        (99, 6, "edges are 7, more than limits.edges, 6", "edges are 8, more than limits.edges, 6"),
    ],
)
def test_a_workflow_that_runs_does_not_grow_past_the_limits(
    tmp_path: Path, steps: int, edges: int, grown: str, mapped: str
) -> None:
    flags = {"limits.steps": str(steps), "limits.edges": str(edges)}
    settings = load(flags={"store.url": f"sqlite:///{tmp_path}/foliot.db", **flags}).settings
    with Foliot(settings=settings) as app:

        @app.job(max_attempts=1)
        async def same(value: Any = None) -> Any:
            return value

        @app.job(max_attempts=1)
        async def grow() -> None:
            for _ in range(7):
                await current_job().flow.aadd(same.prepare())

        with app.workflow("grown") as one:
            one.add(grow.prepare())
        with app.workflow("mapped") as two:
            each = two.map(same, over=two.add(same.prepare([1, 2, 3])).result, name="each")
            two.add(same.prepare(each.result))
        stop = run_in_thread(app)
        try:
            with pytest.raises(WorkflowFailed, match=grown):
                one.result(timeout=20)
            with pytest.raises(WorkflowFailed, match=mapped):
                two.result(timeout=20)
        finally:
            stop()
        assert [step.name for step in two.steps()] == ["same", "each", "same-2"]


def test_a_blocking_add_has_no_place_on_the_event_loop(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=1)
    async def grow() -> None:
        current_job().flow.add(add.prepare(1))

    start_worker()
    with app.workflow("growing") as flow:
        flow.add(grow.prepare())
    with pytest.raises(WorkflowFailed, match="aadd"):
        flow.result(timeout=20)


def test_a_job_outside_of_workflows_has_no_flow(app: Foliot, start_worker: Start) -> None:
    @app.job(max_attempts=1)
    async def alone() -> list[Any]:
        assert current_job().parents == () and current_job().step is None
        return [current_job().flow]

    start_worker()
    with pytest.raises(JobFailed, match="not a step of a workflow"):
        alone.submit().result(timeout=20)


def test_a_workflow_can_be_a_step_of_another(
    app: Foliot, add: Any, tell: Any, start_worker: Start
) -> None:
    start_worker()
    inner = app.workflow("inner")
    inner.add(add.prepare(inner.add(add.prepare(1), name="first").result), name="last")
    with app.workflow("outer") as flow:
        for name in ("one", "two"):
            flow.add(inner, name=name)
        flow.add(tell.prepare(), after=["one", "two"])
    assert flow.result(timeout=20) == {
        "tell": ["one succeeded {'last': 3}", "two succeeded {'last': 3}"]
    }
    assert len(app.workflows(name="inner", state="succeeded")) == 2


def test_a_workflow_that_fails_is_a_step_that_fails_and_both_are_retried(
    app: Foliot, add: Any, start_worker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    ready: list[bool] = []

    @app.job(max_attempts=1)
    async def sometimes(number: int) -> int:
        if not ready:
            raise ValueError("not yet")
        return number

    start_worker()
    inner = app.workflow("inner")
    inner.add(sometimes.prepare(inner.add(add.prepare(1)).result))
    with app.workflow("outer") as flow:
        flow.add(inner)
    with pytest.raises(WorkflowFailed, match="not yet"):
        flow.result(timeout=20)
    [attempt] = flow["inner"].attempts()
    assert attempt.traceback is None
    [told] = [one.getMessage() for one in caplog.records if "foliot.workflow" in one.getMessage()]
    assert "is dead after 1 attempt: WorkflowFailed: workflow inner (" in told
    assert ") is failed: step sometimes is dead: ValueError: " in told
    assert "Traceback" not in told
    ready.append(True)
    assert flow.retry(by="ada") == [flow["inner"].id]
    assert flow.result(timeout=20) == {"inner": {"sometimes": 2}}
    [done] = app.workflows(name="inner")
    assert done.state is WorkflowState.SUCCEEDED and done.total == 2


def test_a_schedule_fires_a_workflow(app: Foliot, add: Any, start_worker: Start) -> None:
    start_worker()
    nightly = app.workflow("nightly")
    nightly.add(add.prepare(nightly.add(add.prepare(1)).result), name="last")
    handle = app.schedule("nightly", nightly, "every day at 2am", timezone="Europe/Berlin")
    job = handle.trigger()
    assert job is not None and job.result(timeout=20) == {"last": 3}
    nightly.submit()  # a draft is not used up by that
    assert nightly.result(timeout=20) == {"last": 3}
    keyed = app.workflow("keyed", key="once")
    keyed.add(add.prepare(1))
    with pytest.raises(InvalidValue, match="key"):
        app.schedule("keyed", keyed, "every day at 2am")


def test_the_failed_steps_are_retried_and_nothing_else(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    ran: list[str] = []

    @app.job(max_attempts=1)
    async def run(name: str) -> str:
        ran.append(name)
        if name == "b" and ran.count("b") == 1:
            raise ValueError(name)
        return name

    start_worker()
    with app.workflow("again") as flow:
        a = flow.add(run.prepare("a"), name="a")
        b = flow.add(run.prepare("b"), name="b", after=[a])
        flow.add(run.prepare("c"), name="c", after=[b])
    with pytest.raises(WorkflowFailed, match="step b is dead"):
        flow.result(timeout=20)
    assert flow["c"].status() is JobState.SKIPPED
    with pytest.raises(InvalidValue, match="was skipped: it has not failed"):
        flow.retry(["c"])
    with pytest.raises(InvalidValue, match="did you mean"):
        flow.retry(["bb"])
    assert flow.retry() == [flow["b"].id, flow["c"].id]
    assert flow.result(timeout=20) == {"c": "c"}
    assert ran == ["a", "b", "b", "c"]
    assert flow.retry() == []
    new = flow.rerun(by="ada")
    assert new.result(timeout=20) == {"c": "c"} and new.id != flow.id


def test_a_paused_workflow_starts_nothing_until_it_is_resumed(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    with app.workflow("sums") as flow:
        flow.add(add.prepare(1))
    flow.pause("until monday", by="ada")
    found = flow.get()
    assert (found.paused_by, found.note) == ("ada", "until monday")
    start_worker()
    with pytest.raises(ResultTimeout):
        flow.result(timeout=0.3)
    flow.resume()
    assert flow.result(timeout=20) == {"add": 2}
    for act in (flow.pause, flow.resume, flow.cancel):
        with pytest.raises(NotRunning, match="is succeeded"):
            act()


def test_a_cancelled_workflow_ends_all_its_steps(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    @app.job
    async def long() -> None:
        await asyncio.sleep(60)

    start_worker()
    inner = app.workflow("inner")
    inner.add(long.prepare())
    with app.workflow("long") as flow:
        flow.add(add.prepare(1), after=[flow.add(long.prepare())])
        flow.add(inner)
    eventually(lambda: flow["long"].status() is JobState.RUNNING)
    flow.cancel()
    with pytest.raises(WorkflowFailed, match="is cancelled: requested"):
        flow.result(timeout=20)
    with pytest.raises(JobCancelled):
        flow["long"].result(timeout=20)
    eventually(lambda: all(one.state.final for one in app.workflows()))


def test_a_key_stands_for_one_run_of_one_graph(app: Foliot, add: Any, start_worker: Start) -> None:
    def draw(number: int) -> Any:
        with app.workflow("daily", key="2026-11-18") as flow:
            flow.add(add.prepare(number))
        return flow

    start_worker()
    first, second = draw(1), draw(1)
    assert first.id == second.id and first["add"].id == second["add"].id
    assert second.result(timeout=20) == {"add": 2}
    with pytest.raises(InvalidValue, match="another graph"):
        draw(2)


def test_a_deadline_ends_the_whole(app: Foliot, add: Any, start_worker: Start) -> None:
    start_worker()
    with app.workflow("late", deadline=0.3) as flow:
        flow.add(add.prepare(1), after=[flow.wait_for("never")])
    with pytest.raises(WorkflowFailed, match="is failed: deadline"):
        flow.result(timeout=30)
    assert {step.name: step.reason for step in flow.steps()} == {
        "never": "deadline",
        "add": "deadline",
    }


def test_a_step_that_was_cancelled_before_the_deadline_was_not_ended_by_it(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("late", deadline=0.8, policy="continue") as flow:
        flow.wait_for("first")
        flow.wait_for("second")
    flow["first"].cancel()
    with pytest.raises(WorkflowFailed, match="is failed: deadline"):
        flow.result(timeout=30)
    assert {step.name: step.reason for step in flow.steps()} == {
        "first": "requested",
        "second": "deadline",
    }


def test_jobs_are_chained_without_a_workflow(
    app: Foliot, add: Any, tell: Any, fail: Any, start_worker: Start
) -> None:
    first = add.options(delay=0.2).submit(1)
    second = tell.options(after=[first]).submit()
    third = tell.options(after=[second.id, first]).submit()
    assert second.status() is JobState.WAITING
    start_worker()
    assert third.result(timeout=20)[0].startswith(second.id)
    assert second.result() == [f"{first.id} succeeded 2"]
    late = tell.options(after=[first]).submit()
    assert late.result(timeout=20) == [f"{first.id} succeeded 2"]
    failed = fail.submit()
    with pytest.raises(
        JobFailed, match=f"is skipped: {failed.id} is dead, and its rule is all_succeeded"
    ):
        tell.options(after=[failed]).submit().result(timeout=20)
    told = tell.options(after=[failed], rule="any_failed").submit()
    assert told.result(timeout=20) == [f"{failed.id} dead None"]
    assert app.workflows() == []


def test_a_job_that_waits_for_others_has_no_key(app: Foliot, add: Any) -> None:
    first = add.submit(1)
    for options, problem in [
        ({"after": [first], "key": "k"}, "together with key"),
        ({"after": [first], "idempotency_key": "k"}, "together with idempotency_key"),
        ({"after": first}, "is not a list of jobs"),
        ({"after": []}, "names no job"),
        ({"after": ["x"]}, "neither a handle nor"),
        ({"rule": "all_done"}, "needs after"),
        ({"after": [first], "rule": "never"}, "is none of"),
    ]:
        with pytest.raises(InvalidValue, match=problem):
            add.options(**options)
    with pytest.raises(InvalidValue, match="after is not one of the options of a step"):
        app.workflow("sums").add(add.options(after=[first]).prepare(1))


def test_an_unknown_workflow_is_said_to_be(app: Foliot, add: Any) -> None:
    id = app.ids.job()
    with pytest.raises(UnknownWorkflow, match=id):
        app.get_workflow(id)
    with pytest.raises(InvalidValue, match="is not a workflow's id"):
        app.get_workflow("etl")
    with app.workflow("sums") as flow:
        flow.add(add.prepare(1))
    with pytest.raises(InvalidValue, match="did you mean add"):
        flow["addd"]
    with pytest.raises(FoliotError, match="submitted already"):
        flow.add(add.prepare(1))
    with pytest.raises(FoliotError, match="submitted already"):
        flow.submit()


def test_a_job_that_is_taken_for_a_workflow_is_said_to_be_one(app: Foliot, add: Any) -> None:
    alone = add.submit(1)
    inner = app.workflow("inner")
    inner.add(add.prepare(1))
    with app.workflow("sums") as flow:
        flow.add(add.prepare(1))
        flow.add(inner)
    for id, said in {
        alone.id: f"see: foliot jobs show {alone.id}",
        flow["add"].id: f"it is a step of {flow.id}",
        flow["inner"].id: "it stands for ",
    }.items():
        with pytest.raises(UnknownWorkflow, match=f"{id} is a job, and no workflow; {said}"):
            app.get_workflow(id)


@pytest.mark.parametrize("form", ["mermaid", "svg", "text"])
def test_a_workflow_is_drawn(app: Foliot, add: Any, form: Any) -> None:
    with app.workflow("sums") as flow:
        flow.add(add.prepare(1), after=[flow.add(add.prepare(1), name="root")])
    picture = flow.graph(form)
    assert "root" in picture and "add" in picture
    with pytest.raises(InvalidValue, match="is not one of"):
        flow.graph("png")  # type: ignore[arg-type]


class TestByHand:
    """Where a test runs the jobs, or where they run when they are submitted."""

    @pytest.fixture
    def hand(self) -> Foliot:
        return Foliot("sqlite:///nowhere.db")

    def test_a_harness_runs_a_workflow(self, hand: Foliot) -> None:
        @hand.job
        def grow(number: int) -> int:
            current_job().flow.add(leaf.prepare(number))
            return number

        @hand.job
        def leaf(number: int) -> int:
            return number * 2

        with Harness(hand) as foliot, hand.workflow("grown") as flow:
            root = flow.add(grow.prepare(4))
            flow.map(leaf, over=[1, 2], name="known", after=[root])
            inner = hand.workflow("inner")
            inner.add(leaf.prepare(1))
            pause = flow.sleep(3600, after=[root])
            flow.add(inner, after=[pause])
            flow.submit()
            with pytest.raises(FoliotError, match="nobody runs jobs"):
                flow.result()
            foliot.run_until_idle(reraise=True)
            foliot.advance("2 hours", reraise=True)
            assert flow.result() == {"known": [2, 4], "inner": {"leaf": 2}}
            assert foliot.failures == []
            flow._id = None
            raise_nothing = flow.draft()
            assert raise_nothing.name == "grown"
            flow._steps_drawn.clear()
            flow.add(leaf.prepare(1))

    def test_inline_a_workflow_runs_when_it_is_submitted(self, hand: Foliot) -> None:
        @hand.job
        def leaf(number: int) -> int:
            return number * 2

        with hand.inline():
            with hand.workflow("now") as flow:
                one = flow.add(leaf.prepare(1), after=[flow.sleep(3600)])
                flow.map(leaf, over=flow.wait_for("list", after=[one]))
            assert flow.status() is WorkflowState.RUNNING
            flow.signal("list", [1, 2])
            assert flow.result() == {"leaf-2": [2, 4]}
            second = leaf.options(after=[leaf.submit(1)]).submit(3)
            assert second.result() == 6


def test_mistakes_of_drawing_say_what_to_write_instead(app: Foliot, add: Any) -> None:
    flow = app.workflow("wrong")
    first = flow.add(add.prepare(1), name="first")
    with pytest.raises(InvalidValue, match=r"<step first> is a step, .*pass its .result"):
        add.prepare(first)
    with pytest.raises(InvalidValue, match=r"name of another step of this workflow") as refused:
        flow.add(add.prepare(1), name="first")
    assert 'name="first-2"' in str(refused.value)
    flow.submit()
    with pytest.raises(InvalidValue, match=r"is no step of this workflow, which has first"):
        flow.step("x")
    flow.cancel()
    with pytest.raises(NotRunning) as ended:
        flow.pause()
    assert ended.value.hint == "it has ended, and cannot be paused"
