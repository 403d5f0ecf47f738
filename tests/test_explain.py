"""Why a job is not running: each case in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foliot.explain import explain
from foliot.explain_facts import MOST_AHEAD, Facts
from foliot.explain_gate import GateFacts
from foliot.ids import JobId, SessionId
from foliot.model.breaker import Breaker, State
from foliot.model.job import Attempt, Job, JobState, Progress
from foliot.model.limit import Limit
from foliot.model.search import Standing
from foliot.model.session import Session
from foliot.store.queueing import Queue

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
ID = JobId("0192f3a4-1111-7000-8000-000000000001")
OTHER = JobId("0192f3a4-1111-7000-8000-000000000000")
WORKER = SessionId("11111111-1111-4111-8111-111111111111")


def job(state: str, **changes: Any) -> Job:
    plain: dict[str, Any] = {
        "id": ID,
        "kind": "send",
        "state": JobState(state),
        "queue": "mail",
        "namespace": "default",
        "priority": 2,
        "attempt": 0,
        "losses": 0,
        "generation": 0,
        "fence": 0,
        "created_at": NOW,
        "run_at": NOW,
        "max_attempts": 5,
    }
    return Job(**{**plain, **changes})


def worker(**changes: Any) -> Session:
    plain: dict[str, Any] = {
        "id": WORKER,
        "host": "box",
        "pid": 42,
        "version": "1",
        "queues": (),
        "kinds": ("send",),
        "duties": True,
        "started_at": NOW,
        "beat_at": NOW,
        "expires_at": NOW + timedelta(seconds=15),
        "live": True,
        "executing": 0,
    }
    return Session(**{**plain, **changes})


PAUSED = Queue("mail", NOW, "ada@box", "the provider is down")
FAILURE = Attempt(3, 3, "failed", "no such address", None, WORKER, NOW, NOW)
soon = {"run_at": NOW + timedelta(minutes=4)}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"job": job("scheduled", **soon)},
            ["scheduled: due in 4m, at 2026-11-02 12:04:00Z"],
        ),
        (
            {"job": job("scheduled", attempt=3, **soon), "failure": FAILURE},
            ["attempt 3 of 5 failed; the next is due in 4m", "failed: no such address"],
        ),
        ({"job": job("scheduled", **soon), "queue": PAUSED}, ["due in 4m", "paused by ada@box"]),
        ({"job": job("scheduled")}, ["due since", "about to be made ready"]),
        (
            {"job": job("scheduled"), "sessions": [worker(duties=False)]},
            ["no live process does the scheduler's duties"],
        ),
        ({"job": job("waiting")}, ["parents have not ended"]),
        ({"job": job("held", reason="admission")}, ["about to be looked at"]),
        (
            {
                "job": job("held", reason="order", ordering_key="k"),
                "standing": Standing(0, [(OTHER, JobState.RUNNING), (OTHER, JobState.HELD)]),
            },
            [f"waits for job {OTHER} (running) of ordering key 'k': 2 jobs before it"],
        ),
        (
            {"job": job("held", reason="order", ordering_key="k")},
            ["the next of ordering key 'k', about to be made ready"],
        ),
        (
            {"job": job("held", reason="unknown_kind", kind="sent")},
            ["no live worker knows the kind 'sent'", "they know: send", "did you mean send?"],
        ),
        (
            {"job": job("held", reason="unknown_kind", kind="sent"), "sessions": []},
            ["no worker is alive now"],
        ),
        ({"job": job("held", reason="unknown_kind")}, ["knows the kind 'send' by now"]),
        (
            {"job": job("held", reason="unknown_kind", kind="on.job.dead.page")},
            [
                "no live worker knows the kind 'on.job.dead.page'",
                "foliot hooks remove on.job.dead.page",
            ],
        ),
        (
            {"job": job("held", reason="unfitting_payload", note="Expected `int`, got `str`")},
            ["does not fit the arguments of 'send'", "Expected `int`, got `str`"],
        ),
        ({"job": job("held", reason="breaker", note="stripe")}, ["held: breaker", "stripe"]),
        (
            {"job": job("ready"), "queue": PAUSED},
            ["ready: the queue 'mail' was paused by ada@box at 2026", "the provider is down"],
        ),
        ({"job": job("ready"), "sessions": []}, ["ready: no worker is alive; it waits for one"]),
        ({"job": job("ready"), "sessions": [worker(live=False)]}, ["ready: no worker is alive"]),
        (
            {"job": job("ready"), "sessions": [worker(queues=("other",))]},
            ["no live worker serves the queue 'mail'"],
        ),
        (
            {"job": job("ready", requires=("gpu",))},
            ["no live worker of the queue 'mail' has what it requires: gpu"],
        ),
        (
            {"job": job("ready"), "sessions": [worker(kinds=("other",))]},
            ["no live worker of the queue 'mail' knows the kind 'send'"],
        ),
        ({"job": job("ready", expires_at=NOW)}, ["expired at", "about to be cancelled"]),
        ({"job": job("ready")}, ["the next of its lane", "1 live worker of its queue"]),
        ({"job": job("ready"), "standing": Standing(7, [])}, ["7 jobs ahead"]),
        ({"job": job("ready"), "standing": Standing(1, [])}, ["ready: 1 job ahead"]),
        (
            {"job": job("ready"), "standing": Standing(MOST_AHEAD, [])},
            ["more than 10,000 jobs"],
        ),
        (
            {
                "job": job(
                    "running",
                    attempt=2,
                    session=WORKER,
                    started_at=NOW,
                    progress=Progress(0.4, "rows"),
                    cancel_requested=True,
                )
            },
            [
                "attempt 2 of 5 runs on box, process 42\n  since 2026-11-02 12:00:00Z",
                "40% done: rows",
                "asked to end",
            ],
        ),
        (
            {"job": job("running", attempt=1)},
            ["running: its worker is gone: it is about to be taken back"],
        ),
        (
            {"job": job("running", attempt=1), "sessions": []},
            ["running: its worker is gone\n", "no live process does the scheduler's duties; it"],
        ),
        (
            {"job": job("succeeded", attempt=1, finished_at=NOW, max_attempts=None)},
            ["attempt 1 succeeded at 2026-11-02 12:00:00Z"],
        ),
        (
            {
                "job": job("dead", attempt=5, finished_at=NOW, reason="timed_out"),
                "failure": FAILURE,
            },
            ["attempt 5 of 5 was the last", "timed_out", "foliot dead retry", "no such address"],
        ),
        (
            {"job": job("cancelled", reason="expired", finished_at=NOW)},
            ["cancelled: it had not started when it expired; ended at 2026-11-02 12:00:00Z"],
        ),
        (
            {"job": job("cancelled", reason="requested", finished_at=NOW)},
            ["cancelled: somebody asked for its end; ended at 2026-11-02 12:00:00Z, before it had"],
        ),
        (
            {
                "job": job("cancelled", reason="requested", attempt=1, finished_at=NOW),
                "failure": Attempt(1, 1, "killed", "no answer", None, WORKER, NOW, NOW),
            },
            ["cancelled: somebody asked for its end; attempt 1 of 5 was killed at 2026-11-02"],
        ),
        (
            {"job": job("cancelled", reason="requested", attempt=3), "failure": FAILURE},
            ["somebody asked for its end; ended\nlast failure: failed: no such address"],
        ),
        (
            {"job": job("cancelled", reason="handler", attempt=1, finished_at=NOW)},
            ["cancelled: its function ended it at 2026-11-02 12:00:00Z"],
        ),
        (
            {"job": job("cancelled", reason="sold out", attempt=1, finished_at=NOW)},
            ["cancelled: its function ended it at 2026-11-02 12:00:00Z: sold out"],
        ),
        ({"job": job("skipped", finished_at=NOW)}, ["skipped: ended at 2026", "a parent ended"]),
    ],
)
def test_a_job_is_explained(facts: dict[str, Any], said: list[str]) -> None:
    explanation = explain(Facts(**{"now": NOW, "sessions": [worker()], **facts}))
    assert explanation.state is facts["job"].state
    for words in said:
        assert words in str(explanation)
    assert f"{explanation.state}: {explanation.state}" not in str(explanation)


@pytest.mark.parametrize("facts", [{"queue": PAUSED}, {"sessions": []}])
def test_no_start_is_expected_while_something_stands_in_the_way(facts: dict[str, Any]) -> None:
    busy: dict[str, Any] = {"sessions": [worker()], "standing": Standing(1204, []), "pace": 310.0}
    said = str(explain(Facts(job=job("ready"), now=NOW, **busy)))
    assert "1,204 jobs ahead at about 310/s, expected start in 4s" in said
    said = str(explain(Facts(job=job("ready"), now=NOW, **{**busy, **facts})))
    assert "1,204 jobs ahead" in said
    assert "310/s" not in said and "expected" not in said


def test_what_lacks_before_a_job_is_due_has_not_begun_yet() -> None:
    due, *lacks = explain(Facts(job=job("scheduled", **soon), now=NOW)).reasons
    assert due.since == NOW
    duties = "no live process does the scheduler's duties"
    assert [(one.why, one.since) for one in lacks] == [(duties, None), ("no worker is alive", None)]


def test_a_retry_waits_since_the_attempt_before_it_failed() -> None:
    own = job("scheduled", attempt=3, created_at=NOW - timedelta(hours=2), **soon)
    assert explain(Facts(job=own, now=NOW, failure=FAILURE)).reasons[0].since == NOW


@pytest.mark.parametrize(
    "facts",
    [
        {
            "job": job("held", reason="order", ordering_key="k"),
            "standing": Standing(0, [(OTHER, JobState.RUNNING)]),
        },
        {"job": job("held", reason="unknown_kind", kind="sent")},
        {"job": job("held", reason="unknown_kind", kind="sent"), "sessions": []},
        {"job": job("held", reason="unfitting_payload")},
        {"job": job("ready", losses=1)},
    ],
)
def test_what_holds_a_job_says_since_when_and_until_what(facts: dict[str, Any]) -> None:
    for reason in explain(Facts(**{"now": NOW, "sessions": [worker()], **facts})).reasons:
        assert reason.since == NOW
        assert reason.change is not None


def limited(used: int, most: int, **changes: Any) -> GateFacts:
    holders = [JobId(f"holder-{number}") for number in range(min(used, 3))]
    limit = Limit(name="key:a", concurrency=most)
    return GateFacts(name="key:a", limit=limit, used=used, holders=holders, **changes)


def recovering() -> GateFacts:
    breaker = Breaker(name="stripe", state=State.RECOVERING, since=NOW.timestamp())
    limit = Limit(name="breaker:stripe", rate=10)
    return GateFacts(name="breaker:stripe", limit=limit, used=0, wait=0.1, breaker=breaker)


def first_line(**facts: Any) -> str:
    facts = {"sessions": [worker()], **facts}
    return str(explain(Facts(now=NOW, **facts))).splitlines()[0]


def gated(gate: GateFacts) -> list[str]:
    held = job("held", reason="limit", note="key:a")
    return str(explain(Facts(job=held, now=NOW, sessions=[worker()], gate=gate))).splitlines()


def test_nobody_has_to_end_where_nobody_runs() -> None:
    first, _, until = gated(limited(0, 0))
    assert first == "held: limit key:a is at 0/0"
    assert until == "  until foliot limits set key:a --concurrency 1"


def test_others_who_wait_for_a_limit_are_counted() -> None:
    first, _, until = gated(limited(1, 1, waiting=7))
    assert first == "held: limit key:a is at 1/1, held by job holder-0; 7 wait for it"
    assert until.startswith("  until its turn comes as they end, or: foliot limits set")
    many = limited(1, 1, waiting=MOST_AHEAD, at_least=True)
    assert gated(many)[0].endswith("; at least 10,000 wait for it")


def test_more_jobs_of_an_ordering_key_than_are_counted_are_more() -> None:
    held = job("held", reason="order", ordering_key="k")
    standing = Standing(0, [(OTHER, JobState.RUNNING)] * MOST_AHEAD)
    said = str(explain(Facts(job=held, now=NOW, standing=standing)))
    assert "of ordering key 'k': at least 10,000 jobs before it" in said


def test_all_who_hold_a_limit_are_counted_and_three_of_them_named() -> None:
    held = job("held", reason="limit", note="key:a")
    said = str(explain(Facts(job=held, now=NOW, sessions=[worker()], gate=limited(50, 50))))
    assert "50/50, held by jobs holder-0, holder-1, holder-2 and 47 more" in said
    assert "until one of them ends, or: foliot limits set key:a --concurrency 51" in said


def test_of_a_lowered_limit_enough_must_end() -> None:
    held = job("held", reason="limit", note="key:a")
    said = str(explain(Facts(job=held, now=NOW, sessions=[worker()], gate=limited(5, 1))))
    assert "until enough of them have ended, or: foliot limits set key:a --concurrency 6" in said


@pytest.mark.parametrize("gate", [limited(1, 1), limited(0, 1), recovering()])
def test_a_paused_queue_comes_before_whatever_else_a_job_waits_for(gate: GateFacts) -> None:
    held = job("held", reason="limit", note=gate.name)
    assert "was paused by ada@box" in first_line(job=held, queue=PAUSED, gate=gate)
    assert "paused" not in first_line(job=held, gate=gate)


def test_who_only_does_the_duties_of_a_scheduler_is_no_worker() -> None:
    alone = [worker(kinds=())]
    assert "no worker is alive" in first_line(job=job("ready"), sessions=alone)
    assert "live worker of its queue" not in str(
        explain(Facts(job=job("ready"), now=NOW, sessions=alone))
    )


def test_one_that_drains_is_not_made_up_for_by_one_that_does_not_know_the_kind() -> None:
    both = [worker(drain=True), worker(kinds=("other",))]
    assert "every worker that could run it is draining" in first_line(
        job=job("ready"), sessions=both
    )


def test_a_job_that_died_with_its_workers_says_so() -> None:
    lost = job("dead", attempt=3, losses=3, reason="worker_lost")
    assert first_line(job=lost) == "dead: 3 workers were lost while it ran, the last: worker_lost"


def test_what_was_lost_and_put_off_has_not_failed() -> None:
    later = job("scheduled", attempt=1, losses=1, **soon)
    assert "failed" not in first_line(job=later)


def test_a_key_that_cannot_be_named_alone_is_raised_by_its_pattern() -> None:
    """A star within a key is taken for one only at its end."""
    pattern = Limit(name="key:a*", concurrency=1)
    gate = GateFacts(name="key:a*b", limit=pattern, used=1, holders=[OTHER])
    assert (
        gated(gate)[2] == "  until one of them ends, or: foliot limits set 'key:a*' --concurrency 2"
    )
