"""Rows about workflows that run: large ones, results that are not there, and what is done to them on the way."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client.conftest import run_in_thread
from corpus.conftest import PRODUCE
from corpus.rows import row
from foliot import (
    Foliot,
    FoliotError,
    JobState,
    NotRunning,
    WorkflowFailed,
    WorkflowState,
    current_job,
)
from foliot.client.workflow import Flow
from foliot.errors import InvalidValue
from foliot.model.audit import Entry
from foliot.model.job import End
from support.flows import draw
from support.stores import World

MANY = 10_000
RUNS: Counter[tuple[str, str | None]] = Counter()  # by workflow and step
GATES: dict[str, threading.Event] = {}


def count() -> None:
    RUNS[current_job().flow.id, current_job().step] += 1


async def pass_gate(gate: str) -> None:
    while not GATES[gate].is_set():  # noqa: ASYNC110 - set by another thread
        await asyncio.sleep(0.005)


async def echo(value: Any = None) -> Any:
    count()
    return value


async def produce(what: str) -> Any:
    return PRODUCE[what]()


async def total(numbers: list[int]) -> int:
    count()
    return sum(numbers)


async def parents() -> list[str]:
    count()
    return [f"{one.name} {one.state}" for one in current_job().parents]


async def wait(gate: str, fails: bool = False) -> str:
    count()
    await pass_gate(gate)
    if fails:
        raise ValueError("no luck")
    return gate


async def lucky(gate: str) -> None:
    """Not before the gate is open."""
    count()
    if not GATES[gate].is_set():
        raise ValueError("no luck")


class Steps:
    """The jobs of an app with a worker."""

    def __init__(self, app: Foliot) -> None:
        self.app = app
        once = app.job(max_attempts=1)
        self.echo, self.produce, self.total = once(echo), once(produce), once(total)
        self.parents, self.wait, self.lucky = once(parents), once(wait), once(lucky)

        @once
        async def grow(count: int, gate: str) -> None:
            await pass_gate(gate)
            for number in range(count):
                await current_job().flow.aadd(self.echo.prepare(number))

        self.grow = grow


def new_gate(*, is_open: bool = False) -> str:
    name = f"gate-{len(GATES)}"
    GATES[name] = threading.Event()
    if is_open:
        GATES[name].set()
    return name


def ran(flow: Flow, name: str) -> int:
    return RUNS[flow.id, name]


@pytest.fixture(scope="module")
def steps(any_url: str) -> Iterator[Steps]:
    with Foliot(any_url) as app:
        steps = Steps(app)
        stop = run_in_thread(app)
        try:
            yield steps
        finally:
            for gate in GATES.values():
                gate.set()
            stop()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def states(flow: Flow) -> dict[str, str]:
    return {step.name: step.state.value for step in flow.steps()}


def error_of(flow: Flow, step: str) -> str:
    [attempt] = flow[step].attempts()
    return str(attempt.error)


@row("G02", "G19")
def test_one_step_is_a_workflow_and_the_join_of_a_diamond_runs_once(steps: Steps) -> None:
    with steps.app.workflow("one") as one:
        one.add(steps.echo.prepare(1))
    assert one.result(timeout=30) == {"echo": 1}
    with steps.app.workflow("diamond") as flow:
        root = flow.add(steps.echo.prepare(), name="root")
        sides = [flow.add(steps.echo.prepare(), name=name, after=[root]) for name in "ab"]
        flow.add(steps.parents.prepare(), name="join", after=sides)
    assert flow.result(timeout=30) == {"join": ["a succeeded", "b succeeded"]}
    assert ran(flow, "join") == 1


@row("G17", "G18")
def test_ten_thousand_steps_fan_out_and_in_and_the_join_runs_once(steps: Steps) -> None:
    with steps.app.workflow("wide") as flow:
        root = flow.add(steps.echo.prepare(), name="root")
        many = [flow.add(steps.echo.prepare(n), name=f"s{n}", after=[root]) for n in range(MANY)]
        flow.add(steps.parents.prepare(), name="join", after=many)
    assert flow.result(timeout=100)["join"] == [f"s{n} succeeded" for n in range(MANY)]
    assert ran(flow, "join") == 1
    with steps.app.workflow("mapped") as mapped:
        each = mapped.map(steps.echo, over=mapped.add(steps.echo.prepare([1] * MANY)).result)
        mapped.add(steps.total.prepare(each.result))
    assert mapped.result(timeout=100) == {"total": MANY}
    assert ran(mapped, "total") == 1


@row("G31")
def test_a_part_of_a_result_that_is_not_there_fails_the_step_with_its_path(steps: Steps) -> None:
    with steps.app.workflow("parts", policy="continue") as flow:
        found = flow.add(steps.echo.prepare({"rows": [{"id": 7}]}), name="found")
        flow.add(steps.echo.prepare(found.result["rows"][0]["id"]), name="there")
        flow.add(steps.echo.prepare(found.result["rows"][0]["ident"]), name="gone")
        flow.add(steps.echo.prepare(found.result["rows"][1]), name="short")
    with pytest.raises(WorkflowFailed) as failed:
        flow.result(timeout=30)
    assert failed.value.steps == ("gone", "short")
    assert flow["there"].result() == 7
    assert "there is no ident in found.rows.0, which is an object of 1" in error_of(flow, "gone")
    assert "there is no 1 in found.rows, which is a list of 1" in error_of(flow, "short")


@row("G33", "G35")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "too_large",
            "produce() cannot be stored: it has 300002 bytes, more than limits.result, 262144",
        ),
        ("circle", "holds itself"),
        ("nan", "holds NaN or Infinity"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_its_step_and_no_other_sees_it(
    steps: Steps, what: str, said: str
) -> None:
    with steps.app.workflow("kept") as flow:
        found = flow.add(steps.produce.prepare(what))
        flow.add(steps.echo.prepare(found.result))
        flow.add(steps.parents.prepare(), after=[found], rule="any_failed")
    with pytest.raises(WorkflowFailed, match="step produce is dead"):
        flow.result(timeout=30)
    assert said in error_of(flow, "produce")
    assert states(flow) == {"produce": "dead", "echo": "skipped", "parents": "succeeded"}
    assert flow["parents"].result() == ["produce dead"]


@row("G37")
def test_a_map_over_nothing_is_done_and_its_join_runs_by_its_rule(steps: Steps) -> None:
    with steps.app.workflow("nothing") as flow:
        none = flow.add(steps.echo.prepare([]), name="none")
        later = flow.map(steps.echo, over=none.result, name="later")
        known = flow.map(steps.echo, over=[], name="known")
        flow.add(steps.total.prepare(later.result), after=[known])
        flow.add(steps.echo.prepare(), name="never", after=[later], rule="any_failed")
    assert flow.result(timeout=30) == {"total": 0}
    assert states(flow) == {
        **dict.fromkeys(("none", "later", "known", "total"), "succeeded"),
        "never": "skipped",
    }


@row("G38")
def test_a_map_over_too_many_fails_with_the_limit_and_makes_none(steps: Steps) -> None:
    with steps.app.workflow("too-many") as flow:
        found = flow.add(steps.echo.prepare([0] * 60_000), name="found")
        flow.map(steps.echo, over=found.result, name="each")
    with pytest.raises(WorkflowFailed, match="map_too_large: each is over 60000 elements"):
        flow.result(timeout=30)
    assert "limits.steps leaves room for 49998" in error_of(flow, "each")
    assert states(flow) == {"found": "succeeded", "each": "dead"}
    with pytest.raises(InvalidValue, match=r"over has more elements than limits.steps, 50000"):
        steps.app.workflow("too-many").map(steps.echo, over=[0] * 1_000_000)


@row("G39")
def test_elements_are_told_apart_by_their_place(steps: Steps) -> None:
    elements: list[Any] = [
        1,
        1,
        1.0,
        True,
        None,
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        "é",
        "e\u0301",
        [],
        [],
    ]
    with steps.app.workflow("equal") as flow:
        flow.map(steps.echo, over=flow.add(steps.echo.prepare(elements)).result, name="later")
        flow.map(steps.echo, over=elements, name="known")
    assert flow.result(timeout=30) == {"later": elements, "known": elements}
    names = [f"{each}[{n}]" for each in ("later", "known") for n in range(len(elements))]
    assert [ran(flow, name) for name in names] == [1] * len(names)


@row("G50", "G51")
def test_one_key_is_one_run_of_one_graph(steps: Steps) -> None:
    key = steps.app.ids.job()

    def submit(number: int) -> Flow:
        with steps.app.workflow("daily", key=key) as flow:
            flow.add(steps.echo.prepare(number))
        return flow

    first, second = submit(1), submit(1)
    assert first.id == second.id
    assert second.result(timeout=30) == {"echo": 1}
    with pytest.raises(InvalidValue, match="belongs to a run of daily with another graph") as error:
        submit(2)
    assert error.value.field == "key" and error.value.hint is not None
    assert submit(1).result(timeout=1) == {"echo": 1}
    assert (ran(first, "echo"), len(steps.app.workflows(name="daily"))) == (1, 1)


@row("G55", "G61")
def test_a_run_keeps_what_it_was_submitted_with_and_so_does_its_rerun(any_url: str) -> None:
    """Where the definition is another by the time a step runs."""
    with Foliot(any_url) as old, Foliot(any_url) as new:

        @old.job(kind="changing", max_attempts=3, queue="old")
        async def first(number: int) -> None: ...

        @new.job(kind="changing", max_attempts=1, queue="new")
        async def second(number: int) -> None:
            raise ValueError("never")

        with old.workflow("changed") as flow:
            flow.add(first.prepare(1), after=[flow.add(first.prepare(2), name="root")])
        again = new.get_workflow(flow.id).rerun(by="ada")
        for one in (flow, again):
            jobs = [one[name].job() for name in ("root", "changing")]
            assert [(job.max_attempts, job.queue) for job in jobs] == [(3, "old")] * 2
        with new.workflow("changed") as latest:
            latest.add(second.prepare(1))
        assert latest["changing"].job().max_attempts == 1
        for one in (flow, again, latest):
            one.cancel()


@row("G57")
def test_a_cancel_before_steps_are_added_leaves_none_and_one_after_it_ends_all(
    steps: Steps,
) -> None:
    gate = new_gate()
    with steps.app.workflow("before") as before:
        before.add(steps.grow.prepare(5, gate))
    until(lambda: before["grow"].status() is JobState.RUNNING)
    before.cancel()
    GATES[gate].set()
    until(lambda: before.status().final)
    assert states(before) == {"grow": "cancelled"}
    gate = new_gate()
    with steps.app.workflow("after") as after:
        after.map(steps.wait, over=after.add(steps.echo.prepare([gate] * 5)).result)
    until(lambda: ran(after, "wait[4]") == 1)
    after.cancel()
    until(lambda: after.status().final)
    assert states(after) == {
        "echo": "succeeded",
        "wait": "succeeded",
        **{f"wait[{n}]": "cancelled" for n in range(5)},
    }


@row("G57")
def test_a_cancel_in_the_middle_of_a_fan_out_finds_all_its_steps_or_none(steps: Steps) -> None:
    chance = random.Random()
    for _ in range(20):
        with steps.app.workflow("middle") as flow:
            flow.map(steps.echo, over=flow.add(steps.echo.prepare([0] * 300), name="root").result)
        time.sleep(chance.random() * 0.05)
        try:
            flow.cancel()
        except NotRunning:
            assert flow.status() is WorkflowState.SUCCEEDED
        until(lambda one=flow: one.status().final)  # type: ignore[misc]
        found = states(flow)
        assert len(found) in (2, 302)
        assert {*found.values()} <= {"succeeded", "cancelled", "skipped"}


@row("G58")
def test_to_cancel_twice_is_to_cancel_and_what_has_ended_is_not_cancelled(steps: Steps) -> None:
    gate = new_gate()
    with steps.app.workflow("twice") as flow:
        flow.add(steps.wait.prepare(gate))
    until(lambda: ran(flow, "wait") == 1)
    # The step is asked to end, and may have done so by the time that the answer is there.
    assert flow.cancel() in {WorkflowState.RUNNING, WorkflowState.CANCELLED}
    until(lambda: flow.status().final)
    assert states(flow) == {"wait": "cancelled"}
    assert flow.cancel() is WorkflowState.CANCELLED
    with steps.app.workflow("done") as done:
        done.add(steps.echo.prepare(1))
    done.result(timeout=30)
    with pytest.raises(NotRunning, match="is succeeded"):
        done.cancel()
    assert done.result(timeout=1) == {"echo": 1}


@row("G59")
def test_a_failed_step_is_retried_after_the_end_and_what_follows_is_decided_anew(
    steps: Steps,
) -> None:
    first, second = new_gate(), new_gate()
    with steps.app.workflow("again", policy="continue") as flow:
        a = flow.add(steps.lucky.prepare(first), name="a")
        b = flow.add(steps.lucky.prepare(second), name="b")
        flow.add(steps.parents.prepare(), name="told", after=[a, b], rule="any_failed")
        flow.add(steps.parents.prepare(), name="below", after=[a])
    with pytest.raises(WorkflowFailed):
        flow.result(timeout=30)
    ended = {"a": "dead", "b": "dead", "told": "succeeded", "below": "skipped"}
    assert states(flow) == ended
    with pytest.raises(InvalidValue, match="step: 'below' was skipped: it has not failed"):
        flow.retry(["below"])
    GATES[first].set()
    assert flow.retry(["a"], by="ada") == [flow["a"].id, flow["below"].id]
    with pytest.raises(WorkflowFailed, match="step b is dead"):
        flow.result(timeout=30)
    assert states(flow) == {**ended, "a": "succeeded", "below": "succeeded"}
    GATES[second].set()
    assert flow.retry(by="grace") == [flow["b"].id]
    assert flow.result(timeout=30)["below"] == ["a succeeded"]
    assert [ran(flow, name) for name in ended] == [2, 2, 1, 1]
    assert deeds(steps.app, flow) == [("grace", "retry", {}), ("ada", "retry", {"only": ["a"]})]


def deeds(app: Foliot, flow: Flow) -> list[tuple[str, str, Any]]:
    """What people did to it, as it is written down; the last first."""

    async def read() -> list[Entry]:
        return await (await app._portal.store()).audit.list(target=flow.id)

    return [(entry.actor, entry.action, entry.detail) for entry in app._portal.call(read())]


@row("G65")
def test_a_hundred_running_siblings_are_told_to_stop_and_the_run_ends_with_them(
    steps: Steps,
) -> None:
    gate = new_gate()
    with steps.app.workflow("hundred") as flow:
        names = [flow.add(steps.wait.prepare(gate), name=f"s{n}").name for n in range(99)]
        flow.add(steps.echo.prepare(), name="later", after=names)
        fails = new_gate()
        flow.add(steps.wait.prepare(fails, True), name="bad")
    until(lambda: sum(ran(flow, name) for name in [*names, "bad"]) == 100)
    GATES[fails].set()
    with pytest.raises(WorkflowFailed, match="step bad is dead: ValueError: no luck"):
        flow.result(timeout=30)
    assert states(flow) == {
        **dict.fromkeys(names, "cancelled"),
        "bad": "dead",
        "later": "skipped",
    }


@row("G70")
def test_two_workflows_are_not_inside_each_other_and_copies_come_to_an_end(steps: Steps) -> None:
    one, two = steps.app.workflow("one"), steps.app.workflow("two")
    one.add(steps.echo.prepare(1))
    two.add(steps.echo.prepare(2))
    one.add(two)
    with pytest.raises(FoliotError, match="two is a step of one already; add to it before"):
        two.add(one)
    one.add(two)
    assert two.submit().result(timeout=30) == {"echo": 2}
    assert one.submit().result(timeout=30) == {
        "echo": 1,
        "two": {"echo": 2},
        "two-2": {"echo": 2},
    }


@row("G62", "G63")
@pytest.mark.anyio
async def test_a_parent_that_ends_late_or_twice_is_refused_and_starts_no_second_child(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("parent"), flow.step("child", "parent"))
    await flow.claim()
    zombie, late = flow.session, flow.outcome("parent", End.SUCCEED, result=b'"late"')
    world.expire()
    await world.reap(zombie)
    flow.session = await world.open_session()
    await flow.run("parent", result=b'"first"')
    for session in (zombie, flow.session):
        assert await world.finish(session, late) == [flow.ids["parent"]]
    twice = flow.outcome("parent", End.BURY)
    assert await world.finish(flow.session, twice) == [flow.ids["parent"]]
    await flow.run("child")
    found = await flow.steps()
    assert (found["parent"].result, found["child"].state) == (b'"first"', JobState.SUCCEEDED)
    assert (await flow.get()).state is WorkflowState.SUCCEEDED
    assert await flow.claim() == set()
