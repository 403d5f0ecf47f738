"""Why a step of a workflow is not running: each case in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foliot.explain import explain
from foliot.explain_facts import Facts
from foliot.explain_step import facts_among
from foliot.ids import JobId, SessionId, inner_id
from foliot.model.job import Attempt, Job, JobState
from foliot.model.workflow import Rule, Step, Workflow, WorkflowState

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FLOW = JobId("01a1eec5-800d-7994-8000-006174ab789f")
OWN = JobId("01a1eec5-800d-7994-8000-000000000000")
INNER = inner_id(OWN)
KILLED = Attempt(1, 1, "killed", "no answer", None, SessionId("x"), NOW, NOW)


def job(state: str, **changes: Any) -> Job:
    plain: dict[str, Any] = {"kind": "load", "queue": "default", "namespace": "default"}
    numbers = dict.fromkeys(("priority", "attempt", "losses", "generation", "fence"), 0)
    times = {"created_at": NOW, "run_at": NOW}
    fields = {**plain, **numbers, **times, "workflow": FLOW, **changes}
    return Job(id=OWN, state=JobState(state), **fields)


def workflow(**changes: Any) -> Workflow:
    plain: dict[str, Any] = {
        "id": FLOW,
        "name": "etl",
        "namespace": "default",
        "state": WorkflowState.RUNNING,
        "policy": "fail_fast",
        "total": 6,
        "remaining": 2,
        "failed": 0,
        "created_at": NOW,
    }
    return Workflow(**{**plain, **changes})


def step(job: str, state: str, number: int, **changes: Any) -> Step:
    plain = {"name": job, "kind": job, "rule": Rule.ALL_SUCCEEDED}
    ended = NOW + timedelta(seconds=number) if JobState(state).final else None
    fields: dict[str, Any] = {**plain, "finished_at": ended, **changes}
    return Step(job=JobId(job), number=number, state=JobState(state), **fields)


def told(
    own: Job,
    *parents: str,
    flow: dict[str, Any] | None = None,
    inner: Any = None,
    now: datetime = NOW,
    **changes: Any,
) -> list[str]:
    """Of a step called load, whose parents are in these states."""
    above = [step(f"p{number}", state, number) for number, state in enumerate(parents, 1)]
    changes = {"name": "load", "parents": tuple(one.job for one in above), **changes}
    this = step(OWN, own.state, 0, reason=own.reason, **changes)
    facts = facts_among(workflow(**(flow or {})), this, [this, *above])
    failure = KILLED if own.attempt and own.state is JobState.CANCELLED else None
    found = Facts(job=own, now=now, flow=facts, inner=inner, failure=failure)
    return str(explain(found)).splitlines()


HOME = f"step load of etl: foliot workflows show {FLOW}"
SINCE = "  since 2026-11-18 12:00:00Z"
PARENTS = "  until they have ended"


@pytest.mark.parametrize(
    ("rule", "until"),
    [
        (Rule.ALL_SUCCEEDED, "they have ended"),
        (Rule.ALL_DONE, "they have ended"),
        (Rule.NONE_FAILED, "they have ended"),
        (Rule.ANY_SUCCEEDED, "one of them succeeds, or all have ended"),
        (Rule.ANY_FAILED, "one of them fails, or all have ended"),
    ],
)
def test_a_step_waits_as_long_as_its_rule_says(rule: Rule, until: str) -> None:
    """As `decide` decides it: one that goes by any of its parents does not wait for the last."""
    lines = told(job("waiting"), "skipped", "running", "ready", rule=rule)
    assert f"  until {until}" in lines


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            told(job("waiting"), "succeeded", "running", "succeeded", "dead", "ready"),
            [
                "waiting: 3 of its 5 parents have ended, not yet: p2 (running), p5 (ready)",
                SINCE,
                PARENTS,
                "ended: p1 (succeeded), p3 (succeeded), p4 (dead)",
                HOME,
            ],
        ),
        (
            told(job("waiting"), "running", rule=Rule.ALL_DONE),
            [
                "waiting: its parent has not ended: p1 (running)",
                SINCE,
                PARENTS,
                "its rule is all_done",
                HOME,
            ],
        ),
        (
            told(job("waiting"), *["waiting"] * 13, flow={"paused_at": NOW, "paused_by": "ada"}),
            [
                "waiting: 0 of its 13 parents have ended, not yet: "
                + "".join(f"p{number} (waiting), " for number in range(1, 11))
                + "and 3 more",
                SINCE,
                PARENTS,
                "workflow etl was paused by ada at 2026-11-18 12:00:00Z",
                SINCE,
                f"  until foliot workflows resume {FLOW}",
                HOME,
            ],
        ),
        (
            told(job("waiting"), "succeeded", now=LATER),
            [
                "waiting: no live process does the scheduler's duties; it waits for one",
                "  since 2026-11-18 12:00:01Z",
                "  until a worker starts, or: foliot scheduler",
                "its parents have ended",
                "  since 2026-11-18 12:00:01Z",
                HOME,
            ],
        ),
        (
            told(job("waiting"), "running", flow={"chain": True}),
            ["waiting: its parent has not ended: p1 (running)", SINCE, PARENTS],
        ),
        (
            told(job("held", reason="signal", expires_at=LATER), signal="approval"),
            [
                "held: waits for the signal 'approval'",
                SINCE,
                f"  until it comes: foliot workflows signal {FLOW} approval",
                "it is cancelled at 2026-11-18 13:00:00Z, unless it comes",
                HOME,
            ],
        ),
        (
            told(
                job("held", reason="paused"),
                flow={"paused_at": NOW, "paused_by": "ada", "note": "until monday"},
            ),
            [
                "held: workflow etl was paused by ada at 2026-11-18 12:00:00Z: until monday",
                SINCE,
                f"  until foliot workflows resume {FLOW}",
                HOME,
            ],
        ),
        (
            told(job("held", reason="paused")),
            ["held: its workflow was paused, and is about to go on", SINCE, HOME],
        ),
        (
            told(job("held", reason="workflow"), inner=workflow(id=INNER, name="inner")),
            [
                f"held: it stands for workflow inner, {INNER}, which is running: 4 of 6 steps done",
                SINCE,
                f"  until it has ended; see: foliot workflows show {INNER}",
                HOME,
            ],
        ),
        (
            told(job("held", reason="workflow")),
            [f"held: it stands for workflow {INNER}, which runs", SINCE, HOME],
        ),
        (
            told(job("dead", attempt=1, reason="failed", finished_at=NOW)),
            [
                "dead: attempt 1 was the last at 2026-11-18 12:00:00Z: failed",
                f"try it again with: foliot workflows retry {FLOW} --step load",
                HOME,
            ],
        ),
        (
            told(job("skipped", reason="parents"), "succeeded", "dead", "skipped"),
            ["skipped: ended: p2 is dead, and 1 more, and its rule is all_succeeded", HOME],
        ),
        (
            told(job("skipped", reason="parents"), "skipped", "dead", rule=Rule.NONE_FAILED),
            ["skipped: ended: p2 is dead, and its rule is none_failed", HOME],
        ),
        (
            told(job("skipped", reason="parents"), "succeeded", rule=Rule.ANY_FAILED),
            ["skipped: ended: no parent failed, and its rule is any_failed", HOME],
        ),
        (
            told(job("skipped", reason="parents"), "dead", rule=Rule.ANY_SUCCEEDED),
            ["skipped: ended: no parent succeeded, and its rule is any_succeeded", HOME],
        ),
        (
            told(job("skipped", reason="fail_fast"), "cancelled", "dead"),
            ["skipped: ended: step p1 is cancelled, and the policy is fail_fast", HOME],
        ),
        (
            told(job("cancelled", reason="requested", attempt=1), "dead"),
            ["cancelled: step p1 is dead, and the policy is fail_fast; attempt 1 was killed", HOME],
        ),
        (
            told(job("cancelled", reason="requested"), flow={"cancel_requested": True}),
            ["cancelled: its workflow was cancelled; ended, before it had started", HOME],
        ),
        (
            told(
                job("cancelled", reason="requested"),
                flow={"cancel_requested": True, "reason": "deadline"},
            ),
            ["cancelled: the deadline of its workflow passed; ended, before it had started", HOME],
        ),
        (
            told(job("cancelled", reason="requested"), "dead", flow={"policy": "continue"}),
            ["cancelled: somebody asked for its end; ended, before it had started", HOME],
        ),
        (
            told(job("cancelled", reason="expired", finished_at=NOW), signal="approval"),
            [
                "cancelled: the signal 'approval' did not come in time; ended at 2026-11-18 12:00:00Z",
                HOME,
            ],
        ),
    ],
)
def test_a_step_is_explained(said: list[str], expected: list[str]) -> None:
    assert said == expected


def test_the_job_of_a_schedule_stands_for_a_workflow_and_is_no_step() -> None:
    own = job("held", reason="workflow", workflow=None, kind="foliot.workflow")
    inner = workflow(id=INNER, name="nightly", paused_at=NOW, note="moving house")
    assert str(explain(Facts(job=own, now=NOW, inner=inner))).splitlines() == [
        f"held: it stands for workflow nightly, {INNER}, which is running: 4 of 6 steps done",
        SINCE,
        f"  until it has ended; see: foliot workflows show {INNER}",
        "workflow nightly was paused at 2026-11-18 12:00:00Z: moving house",
        SINCE,
        f"  until foliot workflows resume {INNER}",
    ]


def test_a_pause_that_holds_a_parent_comes_before_the_wait_for_it() -> None:
    own = job("waiting")
    above = step("p1", "held", 1, reason="paused"), step("p2", "running", 2)
    this = step(OWN, "waiting", 0, name="load", parents=("p1", "p2"))
    paused = workflow(paused_at=LATER, paused_by="ada", note="lunch")
    facts = facts_among(paused, this, [this, *above])
    first, second = explain(Facts(job=own, now=LATER, flow=facts)).reasons
    assert first.why == "workflow etl was paused by ada at 2026-11-18 13:00:00Z: lunch"
    assert (first.since, first.change) == (LATER, f"foliot workflows resume {FLOW}")
    assert second.why == "0 of its 2 parents have ended, not yet: p1 (held), p2 (running)"


@pytest.mark.parametrize(
    "own",
    [
        job("held", reason="signal"),
        job("waiting"),
        job("scheduled", run_at=LATER),
        job("ready"),
        job("running", attempt=1),
    ],
)
def test_a_step_that_has_not_ended_says_when_the_deadline_of_its_workflow_is(own: Job) -> None:
    deadline = {"deadline_at": LATER}
    line = "its workflow is cancelled at 2026-11-18 13:00:00Z, unless it has ended by then"
    said = told(own, "running", flow=deadline, signal="go")
    assert said[-2:] == [line, HOME]
    assert line not in told(own, "running", signal="go")
    asked = told(own, "running", flow={**deadline, "cancel_requested": True}, signal="go")
    assert line not in asked, "it has been already"


def test_a_step_of_a_workflow_whose_deadline_has_passed_says_so_first() -> None:
    over = told(job("held", reason="signal"), flow={"deadline_at": NOW}, signal="go", now=LATER)
    assert over[:4] == [
        "held: no live process does the scheduler's duties; it waits for one",
        SINCE,
        "  until a worker starts, or: foliot scheduler",
        "the deadline of its workflow passed at 2026-11-18 12:00:00Z",
    ]


def test_a_step_that_has_ended_says_no_deadline() -> None:
    assert told(job("succeeded", attempt=1), flow={"deadline_at": LATER}) == [
        "succeeded: attempt 1 succeeded",
        HOME,
    ]
