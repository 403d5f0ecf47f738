"""From what a function did to one Outcome. The only place that interprets how a job's function ends."""

from __future__ import annotations

import logging
import traceback
from typing import Final

from foliot.builtin import Awaiting
from foliot.errors import (
    Cancel,
    FoliotError,
    MissingInput,
    Retry,
    SoftTimeout,
    StoreUnavailable,
)
from foliot.ids import Ids
from foliot.model.definition import JobDefinition
from foliot.model.job import STOPPED, UNFITTING, ClaimedJob, End, Outcome, readable_note
from foliot.model.retry import Exponential, Fixed, ask
from foliot.model.workflow import HELD_FOR_WORKFLOW, WORKFLOW_KIND
from foliot.schema import stored_definition
from foliot.worker.blame import blames_service, retry_after
from foliot.worker.invoke import Unfitting

log = logging.getLogger("foliot.job")
_PAUSE: Final = 1.0  # seconds, where the retry policy is not asked, or cannot be
_LONGEST_NOTE: Final = 1_000
_LONGEST_ERROR: Final = 4_000
_LONGEST_TRACEBACK: Final = 20_000


class Interrupted(Exception):
    """The worker is stopping and the job's time to finish is over."""


class TimedOut(Exception):
    """The job ran longer than its timeout."""


class Requested(Exception):
    """Somebody asked for the job's end. `how` it came: cancelled, killed, or abandoned to run on unheeded."""

    def __init__(self, how: str = "cancelled", error: str = "it was asked to end, and did") -> None:
        super().__init__(error)
        self.how = how


class MemoryExceeded(Exception):
    """The job's process used more memory than it may."""


class Lost(Exception):
    """The process that ran the job died."""


class Elsewhere(Exception):
    """What went wrong in another process, as text."""

    def __init__(self, error: str, traceback: str | None) -> None:
        super().__init__(error)
        self.error = error
        self.traceback = traceback


def settled(job: ClaimedJob, error: BaseException | None = None) -> Outcome:
    """Of a job that its own transaction has ended: what its function did afterwards is only written down."""
    if error is not None:
        text, trace = describe(error)
        log.error("job %s (%s) failed after its transaction: %s\n%s", job.id, job.kind, text, trace)
    return Outcome(job.id, job.fence, settled=True)


def failure(
    job: ClaimedJob,
    definition: JobDefinition,
    error: BaseException,
    *,
    ids: Ids,
    loss_limit: int,
) -> Outcome:
    match error:
        case Awaiting():
            return Outcome(
                job.id, job.fence, End.HOLD, reason=HELD_FOR_WORKFLOW, awaits=error.workflow
            )
        case Requested():
            # The store knows that the job was asked to end: no other attempt follows, whatever this says.
            return _again(job, error.how, str(error), delay=0)
        case Cancel():
            return Outcome(job.id, job.fence, End.CANCEL, reason=reason_of(error))
        case Unfitting():
            note = clean(f"{stored_definition(definition).fingerprint}: {error}", _LONGEST_NOTE)
            return Outcome(job.id, job.fence, End.HOLD, reason=UNFITTING, error=note)
        case Interrupted():
            return _again(job, "interrupted", str(error), delay=0)
        case StoreUnavailable(crossed=True):
            # It was undone for others that wanted the same rows, which is no fault of the job.
            return _again(job, "interrupted", str(error), delay=ids.up_to(_PAUSE))
        case Lost():
            end = End.BURY if job.losses + 1 >= loss_limit else End.RETRY
            return Outcome(job.id, job.fence, end, reason="worker_lost", error=clean(str(error)))
    return _retried(job, definition, error, ids)


def _retried(job: ClaimedJob, definition: JobDefinition, error: BaseException, ids: Ids) -> Outcome:
    text, trace = describe(error)
    if job.kind == WORKFLOW_KIND and isinstance(error, FoliotError):
        trace = None  # it says which workflow and which step; what stands above it is Foliot's own
    delay = None if job.last_attempt else wait(job, definition, error, ids=ids)
    reason = _reason(error)
    end = End.BURY if delay is None else End.RETRY
    if delay is None and not job.last_attempt and reason == "failed":
        reason = "not_retried"
    breaks = (
        (definition.breaker or job.facts.extras.breaker) is not None
        and not isinstance(error, MemoryExceeded | Elsewhere)
        and blames_service(error, definition, late=isinstance(error, TimedOut))
    )
    return Outcome(
        job.id,
        job.fence,
        end,
        delay=delay or 0.0,
        reason=reason,
        error=text,
        traceback=trace,
        breaks=breaks,
        retry_after=retry_after(error) if breaks else None,
    )


def wait(
    job: ClaimedJob, definition: JobDefinition, error: BaseException, *, ids: Ids
) -> float | None:
    """Seconds before the next attempt; None: not again."""
    if isinstance(error, Retry) and error.after is not None:
        return error.after
    if not isinstance(error, Retry) and isinstance(error, definition.no_retry):
        return None
    if isinstance(error, MissingInput):
        return None  # what its parents resulted in stays as it is
    failures = max(1, job.attempt - job.losses)
    policy = job.facts.extras.retry or definition.retry
    if isinstance(policy, Exponential | Fixed):
        return policy.wait(failures, ids.up_to)
    try:
        return ask(policy, failures, error)
    except Exception as second:  # noqa: BLE001 - a wrong answer must not cost the job its next attempt
        log.warning("the retry function of %s: %s", definition.kind, describe(second)[0])
        return Exponential().wait(failures, ids.up_to)


def _reason(error: BaseException) -> str:
    match error:
        case TimedOut() | SoftTimeout():
            return "timed_out"
        case MemoryExceeded():
            return "memory_exceeded"
        case BaseExceptionGroup() if error.subgroup(SoftTimeout) is not None:
            return "timed_out"
    return "failed"


def undescribed(job: ClaimedJob, error: BaseException, second: BaseException) -> Outcome:
    """What failed with `error`, and then once more when that was to be described."""
    text = clean(f"{type(error).__name__}, and {type(second).__name__} when it was described")
    end = End.BURY if job.last_attempt else End.RETRY
    return Outcome(job.id, job.fence, end, delay=_PAUSE, reason="failed", error=text)


def reason_of(error: Cancel) -> str:
    return clean(str(error.reason or "handler"), 200)


def report(job: ClaimedJob, outcome: Outcome) -> None:
    """A line in the worker's log for an attempt that failed."""
    if outcome.end is End.HOLD and outcome.reason == HELD_FOR_WORKFLOW:
        log.debug("job %s waits for workflow %s", job.id, outcome.awaits)
    elif outcome.end is End.HOLD:
        note = readable_note(outcome.reason, outcome.error)
        log.warning("job %s (%s) is held: its payload does not fit: %s", job.id, job.kind, note)
    elif outcome.reason in STOPPED:
        log.info("job %s (%s) is %s: %s", job.id, job.kind, outcome.reason, outcome.error)
    elif outcome.end is End.RETRY:
        log.warning(
            "job %s (%s) %s, attempt %d, again in %.1f s: %s",
            job.id,
            job.kind,
            outcome.reason,
            job.attempt,
            outcome.delay,
            outcome.error,
        )
    elif outcome.end is End.BURY:
        log.error(
            "job %s (%s) is dead after %d %s: %s%s",
            job.id,
            job.kind,
            job.attempt,
            "attempt" if job.attempt == 1 else "attempts",
            outcome.error,
            f"\n{outcome.traceback}" if outcome.traceback else "",
        )


def describe(error: BaseException) -> tuple[str, str | None]:
    """Text and traceback, whatever the exception does when it is asked for them."""
    if isinstance(error, Elsewhere):
        return error.error, error.traceback
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - a broken __str__ must not cost the attempt its record
        text = type(error).__name__
    try:
        trace = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001
        trace = None
    return clean(text), None if trace is None else clean(trace, _LONGEST_TRACEBACK)


def clean(text: str, longest: int = _LONGEST_ERROR) -> str:
    """Text that every store can keep; of a long one, the end."""
    if len(text) > longest:
        text = f"[{len(text) - longest} characters cut] {text[-longest:]}"
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _again(job: ClaimedJob, reason: str, error: str, *, delay: float) -> Outcome:
    return Outcome(job.id, job.fence, End.RETRY, delay=delay, reason=reason, error=clean(error))
