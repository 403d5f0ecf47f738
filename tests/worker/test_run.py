"""What a function did, as one outcome."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from foliot.errors import Cancel, Retry
from foliot.ids import Ids
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.model.retry import Fixed
from foliot.registry import define
from foliot.testing.clock import ManualClock
from foliot.worker.invoke import Unfitting
from foliot.worker.run import Interrupted, Lost, Requested, TimedOut, failure, report

LOSS_LIMIT = 3


@pytest.fixture
def job(clock: ManualClock) -> ClaimedJob:
    id = Ids(clock=clock, seed=1).job()
    return ClaimedJob(id, 4, "work", b"{}", 2, 5, 0, None, linked=False)


def _end(job: ClaimedJob, error: BaseException, **changes: Any) -> Outcome:
    def work() -> None: ...

    definition = define(work, retry=Fixed(7))
    changed = msgspec.structs.replace(job, **changes)
    outcome = failure(changed, definition, error, ids=Ids(seed=1), loss_limit=LOSS_LIMIT)
    assert (outcome.id, outcome.fence) == (job.id, job.fence)
    return outcome


@pytest.mark.parametrize(
    ("error", "end", "reason"),
    [
        (ValueError("no"), End.RETRY, "failed"),
        (TimedOut("late"), End.RETRY, "timed_out"),
        (Retry(), End.RETRY, "failed"),
        (Requested(), End.RETRY, "cancelled"),  # the store knows that no other attempt follows
        (Cancel("enough"), End.CANCEL, "enough"),
        (Cancel(), End.CANCEL, "handler"),
        (Interrupted("stopped"), End.RETRY, "interrupted"),
        (Lost("died"), End.RETRY, "worker_lost"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_each_way_to_end_has_its_outcome(
    job: ClaimedJob, error: BaseException, end: End, reason: str
) -> None:
    outcome = _end(job, error)
    assert (outcome.end, outcome.reason) == (end, reason)


def test_of_a_payload_that_does_not_fit_the_log_says_what_people_can_read(
    job: ClaimedJob, caplog: pytest.LogCaptureFixture
) -> None:
    report(job, _end(job, Unfitting("ValidationError: no field 'to'")))
    assert caplog.messages == [
        f"job {job.id} (work) is held: its payload does not fit: ValidationError: no field 'to'"
    ]


@pytest.mark.parametrize("error", [ValueError("no"), TimedOut("late"), Retry(after=1)])
def test_the_last_attempt_that_fails_is_the_end(job: ClaimedJob, error: BaseException) -> None:
    assert _end(job, error, attempt=4).end is End.RETRY
    assert _end(job, error, attempt=5).end is End.BURY
    assert _end(job, error, attempt=6, losses=2).end is End.RETRY, "losses are not attempts"
    assert _end(job, error, attempt=7, losses=2).end is End.BURY


def test_interruptions_and_requests_are_not_attempts(job: ClaimedJob) -> None:
    assert _end(job, Interrupted("stopped"), attempt=5).end is End.RETRY
    assert _end(job, Requested(), attempt=5).end is End.RETRY


def test_losses_have_a_limit_of_their_own(job: ClaimedJob) -> None:
    assert _end(job, Lost("died"), losses=1).end is End.RETRY
    outcome = _end(job, Lost("died"), losses=2)
    assert (outcome.end, outcome.reason) == (End.BURY, "worker_lost")


def test_the_next_attempt_waits_as_the_policy_or_the_handler_says(job: ClaimedJob) -> None:
    assert _end(job, ValueError()).delay == 7
    assert _end(job, Retry()).delay == 7
    assert _end(job, Retry(after=30)).delay == 30
    assert _end(job, Retry(after=0)).delay == 0
    assert _end(job, Interrupted("stopped")).delay == 0
    assert _end(job, Lost("died")).delay == 0


def test_the_wait_goes_by_how_often_it_failed_and_losses_are_no_failures(job: ClaimedJob) -> None:
    def work() -> None: ...

    told: list[int] = []

    def say(failures: int, _error: BaseException) -> float:
        told.append(failures)
        return 1.0

    definition = define(work, retry=say)
    for attempt, losses in ((1, 0), (3, 0), (3, 1), (1, 1)):
        ended = msgspec.structs.replace(job, attempt=attempt, losses=losses)
        failure(ended, definition, ValueError(), ids=Ids(seed=1), loss_limit=LOSS_LIMIT)
    assert told == [1, 3, 2, 1]


def test_error_and_traceback_are_kept(job: ClaimedJob) -> None:
    try:
        raise ValueError("no\0thing")
    except ValueError as error:
        outcome = _end(job, error)
    assert outcome.error == "ValueError: no\\0thing"
    assert outcome.traceback is not None
    assert "test_error_and_traceback_are_kept" in outcome.traceback
