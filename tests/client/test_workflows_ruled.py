"""What lets steps run and with which options, to the end, with a worker; on both kinds of store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from foliot import (
    Fixed,
    Foliot,
    InvalidValue,
    JobState,
    Priority,
    WorkflowFailed,
    WorkflowState,
    current_job,
)
from support.fleet import eventually
from support.stores import make_sqlite

Start = Callable[[], None]
ENDS = ("succeeded", "failed", "skipped")
RUNS: dict[str, Callable[[list[str]], bool]] = {  # which ends of two parents let a step run
    "all_succeeded": lambda ends: ends == ["succeeded", "succeeded"],
    "all_done": lambda ends: True,
    "any_succeeded": lambda ends: "succeeded" in ends,
    "any_failed": lambda ends: "failed" in ends,
    "none_failed": lambda ends: "failed" not in ends,
}


@pytest.fixture
def fine(app: Foliot) -> Any:
    @app.job
    async def fine() -> str:
        return "fine"

    return fine


@pytest.fixture
def fail(app: Foliot) -> Any:
    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no luck")

    return fail


def test_each_rule_lets_a_step_run_after_the_ends_that_it_names(
    app: Foliot, fine: Any, fail: Any, start_worker: Start
) -> None:
    """All rules, after all pairs of ends, in one workflow."""
    start_worker()
    expected = {}
    with app.workflow("rules", policy="continue") as flow:
        good, bad = flow.add(fine.prepare()), flow.add(fail.prepare())
        parents = {"succeeded": good, "failed": bad}
        parents["skipped"] = flow.add(fine.prepare(), after=[bad], name="skipped")
        for one in ENDS:
            for other in ENDS:
                twin = flow.add(
                    (fail if other == "failed" else fine).prepare(),
                    after=[bad] if other == "skipped" else [],
                    name=f"{one}-{other}",
                )
                for rule, runs in RUNS.items():
                    name = f"{one}-{other}-{rule}"
                    flow.add(fine.prepare(), after=[parents[one], twin], rule=rule, name=name)
                    expected[name] = "succeeded" if runs([one, other]) else "skipped"
    eventually(lambda: flow.status().final)
    found = {step.name: str(step.state) for step in flow.steps()}
    assert {name: found[name] for name in expected} == expected


def test_one_that_wants_any_does_not_wait_for_the_others(
    app: Foliot, fine: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("race") as flow:
        slow = flow.wait_for("never")
        flow.add(fine.prepare(), after=[slow, flow.add(fine.prepare())], rule="any_succeeded")
    assert flow["fine-2"].result(timeout=20) == "fine"
    assert flow.status() is WorkflowState.RUNNING
    flow.cancel()


@pytest.mark.parametrize("policy", ["fail_fast", "continue"])
def test_a_failure_ends_the_rest_or_not(
    app: Foliot, fine: Any, fail: Any, start_worker: Start, policy: Any
) -> None:
    @app.job
    async def long() -> None:
        await asyncio.sleep(0.5 if policy == "continue" else 60)

    start_worker()
    with app.workflow("mixed", policy=policy) as flow:
        running = flow.add(long.prepare())
        failed = flow.add(fail.prepare(), after=[flow.sleep(0.2)])
        flow.add(fine.prepare(), after=[running], name="next")
        flow.add(fine.prepare(), after=[failed], rule="any_failed", name="complain")
        flow.add(fine.prepare(), after=[running, failed], rule="all_done", name="tidy")
    with pytest.raises(WorkflowFailed, match="no luck"):
        flow.result(timeout=20)
    found = {step.name: str(step.state) for step in flow.steps()}
    stopped = policy == "fail_fast"
    assert found == {
        "long": "cancelled" if stopped else "succeeded",
        "sleep": "succeeded",
        "fail": "dead",
        "next": "skipped" if stopped else "succeeded",
        "complain": "succeeded",
        "tidy": "succeeded",
    }


def test_a_map_runs_although_one_that_waits_for_it_has_ended_or_begun(
    app: Foliot, fine: Any, fail: Any, start_worker: Start
) -> None:
    @app.job(max_attempts=1)
    async def grow() -> None:
        await current_job().flow.aadd(fine.prepare(), name="grown")

    start_worker()
    with app.workflow("late", policy="continue") as flow:
        bad, good = flow.add(fail.prepare()), flow.add(fine.prepare(), name="good")
        rest = flow.sleep(0.3)
        many = flow.add(numbers_of(app).prepare(), after=[rest])
        each = flow.map(fine_of(app), over=many.result, name="each")
        grown = flow.add(grow.prepare(), after=[rest])
        flow.add(fine.prepare(), after=[bad, each], name="ruled_out")
        flow.add(fine.prepare(), after=[good, each, grown], rule="any_succeeded", name="first")
        flow.add(fine.prepare(), after=[each], name="last")
    eventually(lambda: flow.status().final)
    found = {step.name: str(step.state) for step in flow.steps()}
    assert (found.pop("fail"), found.pop("ruled_out")) == ("dead", "skipped")
    assert {"each[0]", "each[1]", "grown"} < set(found)
    assert set(found.values()) == {"succeeded"}


def numbers_of(app: Foliot) -> Any:
    @app.job
    async def numbers() -> list[int]:
        return [1, 2]

    return numbers


def test_a_map_that_is_there_for_failures_runs_its_elements(
    app: Foliot, fail: Any, start_worker: Start
) -> None:
    """Of a list that is known, and of one that is not."""
    start_worker()
    with app.workflow("complain") as flow:
        many = flow.add(numbers_of(app).prepare())
        bad = flow.add(fail.prepare(), after=[many])
        tell = fine_of(app)
        flow.map(tell, over=[1, 2], after=[bad], rule="any_failed", name="known")
        flow.map(tell, over=many.result, after=[bad], rule="all_done", name="later")
        flow.map(tell, over=[1, 2], after=[many, bad], name="stopped")
    eventually(lambda: flow.status().final)
    found = {step.name: str(step.state) for step in flow.steps()}
    for name in ("known", "later"):
        assert [found[f"{name}[{n}]"] for n in range(2)] == ["succeeded", "succeeded"]
    assert found["stopped"] == found["stopped[0]"] == "skipped"


def test_options_of_a_step_are_those_of_a_job(app: Foliot, start_worker: Start) -> None:
    @app.job
    async def work(times: int) -> int:
        if current_job().attempt < times:
            raise ValueError(times)
        return current_job().attempt

    @app.job(timeout=0.1, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    start_worker()
    started = time.time()
    with app.workflow("chosen", policy="continue") as flow:
        first = flow.add(work.prepare(1), name="first")
        chosen = work.options(
            queue="other",
            priority=Priority.HIGH,
            tags=["nightly"],
            max_attempts=3,
            retry=Fixed(0.01),
            delay=0.3,
            timeout=30,
        )
        flow.add(chosen.prepare(3), after=[first], name="chosen")
        flow.add(slow.prepare(), name="slow")
    with pytest.raises(WorkflowFailed, match="slow is dead"):
        flow.result(timeout=20)
    assert flow["chosen"].result() == 3
    job = flow["chosen"].job()
    assert (job.queue, job.priority, job.tags) == ("other", Priority.HIGH, ("nightly",))
    assert job.started_at is not None and job.started_at.timestamp() >= started + 0.3
    assert [one.outcome for one in flow["slow"].attempts()] == ["timed_out"]


def test_a_schedule_fires_a_workflow_at_its_time(
    app: Foliot, fine: Any, start_worker: Start
) -> None:
    start_worker()
    tick = app.workflow("tick")
    tick.add(fine.prepare(), after=[tick.wait_for("go")])
    app.schedule("tick", tick, "every second", overlap="skip")
    eventually(lambda: app.workflows(name="tick"))
    eventually(lambda: any(fire.job is None for fire in app.get_schedule("tick").fires()))
    [run] = app.workflows(
        name="tick"
    )  # the second time was skipped, as the first run had not ended
    app.get_schedule("tick").pause()
    assert run.waiter is not None
    before = datetime.now(UTC)
    app.get_workflow(run.id).signal("go")
    assert app.get(run.waiter).result(timeout=20) == {"fine": "fine"}
    [told] = [fire for fire in app.get_schedule("tick").fires() if fire.job == run.waiter]
    assert told.started_at is not None
    assert told.started_at < before, "the workflow ended later, and that is not late"


def test_a_step_that_stands_for_a_workflow_took_as_long_as_that(
    app: Foliot, start_worker: Start
) -> None:
    start_worker()
    inner = app.workflow("inner")
    inner.sleep(0.5)
    with app.workflow("outer") as flow:
        flow.add(inner)
    flow.result(timeout=20)
    [step] = flow.steps()
    assert step.started_at is not None and step.finished_at is not None
    assert (step.finished_at - step.started_at).total_seconds() >= 0.5


def test_a_draft_is_drawn_before_it_is_submitted(app: Foliot, fine: Any) -> None:
    flow = app.workflow("draft")
    with pytest.raises(InvalidValue, match="at least one"):
        flow.graph()
    flow.add(fine.prepare(), after=[flow.map(fine_of(app), over=[1, 2, 3], name="each")])
    text = flow.graph("text")
    assert text.startswith("draft   not submitted · 5 steps\n")
    assert "│ ◌ each × 3 ├──▶│ ◌ fine" in text
    assert "not submitted" in flow.graph() and "not submitted" in flow.graph("svg")
    assert flow.graph("svg") == flow.graph("svg")
    assert app.workflows() == []
    flow.submit()
    assert "not submitted" not in flow.graph("text") and flow["fine"].status() is JobState.WAITING


def test_what_is_no_step_no_job_or_no_payload_is_refused(app: Foliot, fine: Any) -> None:
    flow = app.workflow("wrong")
    step = flow.add(fine.prepare())
    assert (repr(step), repr(flow)) == ("<step fine>", "<workflow wrong, 1 steps>")
    big = app.workflow("big")
    big.map(fine_of(app), over=[10**15] * 20_000)
    for wrong, problem in [
        (lambda: flow.map(cast(Any, len), over=[1]), "is not a job"),
        (lambda: flow.add(fine.prepare(), after=cast(Any, [1])), "after: 1 is not a step"),
        (lambda: app.schedule("big", big, "every day at 2am"), "more than limits.payload"),
        (lambda: app.workflows(state="done"), "state: 'done' is none of running, succeeded"),
        (lambda: app.workflow("a b").graph(), "workflow: 'a b' is not 1 to 200 letters"),
    ]:
        with pytest.raises(InvalidValue, match=problem):
            wrong()  # type: ignore[no-untyped-call]
    flow.submit()
    for payload, problem in [
        (object(), "payload of go: .* cannot be stored as JSON"),
        (float("nan"), "cannot be stored as JSON"),
        ("x" * 300_000, "more than limits.payload"),
    ]:
        with pytest.raises(InvalidValue, match=problem):
            flow.signal("go", payload)
    assert repr(app.get_workflow(flow.id)) == f"WorkflowHandle('{flow.id}')"


def fine_of(app: Foliot) -> Any:
    @app.job
    async def of(number: int) -> int:
        return number

    return of


def test_ordering_keys_of_steps_need_one_partition(tmp_path: Path) -> None:
    """Jobs of one key would be in several, and run at once."""
    with Foliot(asyncio.run(make_sqlite(tmp_path, partitions=4))) as app:

        @app.job
        async def pay() -> None: ...

        ordered, said = pay.options(ordering_key="account-7"), "several partitions"
        flow = app.workflow("payments")
        flow.add(ordered.prepare(), name="pay")
        with pytest.raises(InvalidValue, match=f"of step pay cannot be kept .* {said}"):
            flow.submit()
        first = pay.submit()
        with pytest.raises(InvalidValue, match=said):
            ordered.options(after=[first]).submit()
        assert app.workflows() == []


def test_the_last_step_has_a_result_although_one_is_there_for_its_failure(
    app: Foliot, fine: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("w") as flow:
        load = flow.add(fine.prepare(), name="load")
        flow.add(fine.prepare(), after=[load], rule="any_failed", name="complain")
    assert flow.result(timeout=30) == {"load": "fine"}


def test_behind_a_step_that_was_skipped_others_follow(
    app: Foliot, fine: Any, start_worker: Start
) -> None:
    start_worker()
    with app.workflow("w") as flow:
        first = flow.add(fine.prepare(), name="first")
        skipped = flow.add(fine.prepare(), after=[first], rule="any_failed", name="skipped")
        flow.add(fine.prepare(), after=[skipped], rule="all_done", name="last")
    assert flow.result(timeout=30) == {"last": "fine"}
