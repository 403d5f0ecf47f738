"""Why a step is not running, asked while its workflow is on its way; on both kinds of store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from foliot import Foliot, JobState, WorkflowFailed
from foliot.ids import inner_id
from support.fleet import eventually

Start = Callable[[], None]


@pytest.fixture
def gate(app: Foliot) -> Iterator[threading.Event]:
    """What holds the job `wait` up."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def add(app: Foliot) -> Any:
    @app.job
    async def add(a: int = 1, b: int = 1) -> int:
        return a + b

    return add


@pytest.fixture
def wait(app: Foliot, gate: threading.Event) -> Any:
    @app.job
    def wait() -> None:
        gate.wait(60)

    return wait


def test_a_step_says_which_of_its_parents_it_waits_for(
    app: Foliot, add: Any, wait: Any, gate: threading.Event, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("sums") as flow:
        parents = [flow.add(add.prepare(number), name=f"add-{number}") for number in range(1, 4)]
        parents += [flow.add(wait.prepare(), name=f"wait-{number}") for number in range(1, 3)]
        flow.add(add.prepare(), after=parents, name="total")
    eventually(lambda: flow["add-3"].status().final and flow["wait-2"].status() is JobState.RUNNING)
    eventually(lambda: flow["add-1"].status().final and flow["wait-1"].status() is JobState.RUNNING)
    explained = flow["total"].explain()
    assert explained.why == (
        "3 of its 5 parents have ended, not yet: wait-1 (running), wait-2 (running)"
    )
    assert explained.more == [
        "ended: add-1 (succeeded), add-2 (succeeded), add-3 (succeeded)",
        f"step total of sums: foliot workflows show {flow.id}",
    ]
    gate.set()
    assert flow.result(timeout=20) == {"total": 2}


def test_a_step_says_for_which_signal_it_is_held(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("payment") as flow:
        flow.add(add.prepare(), after=[flow.wait_for("approval", timeout=3600, name="asked")])
    explained = flow["asked"].explain()
    assert explained.why == "waits for the signal 'approval'"
    signal = f"foliot workflows signal {flow.id} approval"
    assert explained.reasons[0].change == f"it comes: {signal}"
    assert explained.more[0].startswith("it is cancelled at 20")
    flow.signal("approval")
    assert flow.result(timeout=20) == {"add": 2}


def test_a_step_says_what_the_signal_is_to_bring(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("payment") as flow:
        approval = flow.wait_for("approval")
        flow.add(add.prepare(approval.result["cents"], approval.result["fee"]))
    advice = f"""foliot workflows signal {flow.id} approval --payload '{{"cents":1,"fee":1}}'"""
    # A worker tells what kinds take when it starts.
    eventually(lambda: flow["approval"].explain().reasons[0].change == f"it comes: {advice}")


def test_a_step_says_who_paused_its_workflow_and_why(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    with app.workflow("sums") as flow:
        flow.add(add.prepare())
    flow.pause("until monday", by="ada")
    start_worker()
    explained = flow["add"].explain()
    assert explained.why.startswith("workflow sums was paused by ada at 20")
    assert explained.why.endswith("Z: until monday")
    flow.resume()
    assert flow.result(timeout=20) == {"add": 2}


def test_a_step_says_which_workflow_it_stands_for(
    app: Foliot, add: Any, start_worker: Start
) -> None:
    start_worker()
    inner = app.workflow("inner")
    inner.add(add.prepare(), after=[inner.wait_for("go")])
    with app.workflow("outer") as flow:
        flow.add(inner)
    eventually(lambda: flow["inner"].status() is JobState.HELD)
    id = inner_id(flow["inner"].id)
    explained = flow["inner"].explain()
    assert explained.why == (
        f"it stands for workflow inner, {id}, which is running: 0 of 2 steps done"
    )
    app.get_workflow(id).signal("go")
    assert flow.result(timeout=20) == {"inner": {"add": 2}}


def test_ends_that_others_brought_about_name_them(
    app: Foliot, add: Any, wait: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no luck")

    @app.job
    async def stop() -> None:
        await asyncio.sleep(60)

    start_worker()
    with app.workflow("fails") as flow:
        running = flow.add(stop.prepare())
        failed = flow.add(fail.prepare(), after=[flow.sleep(0.2)])
        flow.add(add.prepare(), after=[running], name="later")
        flow.add(add.prepare(), after=[failed], name="next")
    with pytest.raises(WorkflowFailed):
        flow.result(timeout=20)
    policy = "step fail is dead, and the policy is fail_fast"
    assert policy in flow["stop"].explain().why
    assert policy in flow["later"].explain().why
    assert (
        flow["next"].explain().why.endswith(("fail is dead, and its rule is all_succeeded", policy))
    )
    again = f"try it again with: foliot workflows retry {flow.id} --step fail"
    assert again in flow["fail"].explain().more


def test_a_job_that_follows_another_says_so(
    app: Foliot, add: Any, wait: Any, gate: threading.Event, start_worker: Start
) -> None:
    start_worker()
    first = wait.submit()
    second = add.options(after=[first]).submit()
    eventually(lambda: first.status() is JobState.RUNNING)
    explained = second.explain()
    assert (explained.why, explained.more) == (
        f"its parent has not ended: {first.id} (running)",
        [],
    )
    gate.set()
    assert second.result(timeout=20) == 2


def test_a_step_says_when_the_deadline_of_its_workflow_cancels_it(
    app: Foliot, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("dl", deadline=100) as flow:
        flow.wait_for("x")
    explained = flow["x"].explain()
    assert explained.why == "waits for the signal 'x'"
    assert explained.more[0].startswith("its workflow is cancelled at 20")
    assert explained.more[0].endswith("Z, unless it has ended by then")
    flow.signal("x")
    flow.result(timeout=20)
    assert not any("cancelled" in line for line in flow["x"].explain().more)


def test_a_step_whose_workflow_is_past_its_deadline_says_so_first(app: Foliot) -> None:
    """Nobody does the scheduler's duties."""
    with app.workflow("dl", deadline=0.2) as flow:
        flow.wait_for("x")
    eventually(lambda: len(flow["x"].explain().reasons) == 3)
    nobody, late, signal = (reason.why for reason in flow["x"].explain().reasons)
    assert nobody.startswith("no live process does the scheduler's duties")
    assert late.startswith("the deadline of its workflow passed at 20")
    assert signal == "waits for the signal 'x'"
