"""From what a function did to one Outcome. The only place that interprets how a job's function ends."""

from __future__ import annotations

import inspect
import logging
import traceback
from typing import Any, Final

import msgspec

from foliot.errors import Cancel, Retry
from foliot.ids import Ids
from foliot.model.definition import JobDefinition
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.payload import check_json

log = logging.getLogger("foliot.job")
_encode = msgspec.json.Encoder().encode
_PAUSE: Final = 1.0  # seconds, where not even the retry policy could be asked
_LONGEST_ERROR: Final = 4_000
_LONGEST_TRACEBACK: Final = 20_000


class Interrupted(Exception):
    """The worker is stopping and the job's time to finish is over."""


class TimedOut(Exception):
    """The job ran longer than its timeout."""


class Requested(Exception):
    """Somebody asked for the job's end."""


class Lost(Exception):
    """The process that ran the job died."""


class Elsewhere(Exception):
    """What the job's function raised in another process, as text."""

    def __init__(self, error: str, traceback: str | None) -> None:
        super().__init__(error)
        self.error = error
        self.traceback = traceback


def success(job: ClaimedJob, result: Any, *, limit: int) -> Outcome:
    """A result that cannot be stored is a failure of the attempt; raises what is wrong with it."""
    if result is None:
        return Outcome(job.id, job.fence)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("it returned a coroutine: make the function async, or await it inside")
    encoded = _encode(result)
    if len(encoded) > limit:
        raise ValueError(f"the result has {len(encoded)} bytes, more than limits.result, {limit}")
    try:
        check_json(result, encoded)
    except ValueError as error:
        raise ValueError(f"the result cannot be kept: {error}") from None
    return Outcome(job.id, job.fence, result=encoded)


def failure(
    job: ClaimedJob,
    definition: JobDefinition,
    error: BaseException,
    *,
    ids: Ids,
    loss_limit: int,
) -> Outcome:
    match error:
        case Requested():
            return Outcome(job.id, job.fence, End.CANCEL, reason="requested")
        case Cancel():
            return Outcome(job.id, job.fence, End.CANCEL, reason=reason_of(error))
        case Interrupted():
            return _again(job, "interrupted", str(error), delay=0)
        case Lost() if job.losses + 1 >= loss_limit:
            return Outcome(
                job.id, job.fence, End.BURY, reason="worker_lost", error=clean(str(error))
            )
        case Lost():
            return _again(job, "worker_lost", str(error), delay=0)
    reason = "timed_out" if isinstance(error, TimedOut) else "failed"
    text, trace = describe(error)
    if job.last_attempt:
        return Outcome(job.id, job.fence, End.BURY, reason=reason, error=text, traceback=trace)
    delay = definition.wait(job, ids.up_to)
    if isinstance(error, Retry) and error.after is not None:
        delay = error.after
    return Outcome(
        job.id, job.fence, End.RETRY, delay=delay, reason=reason, error=text, traceback=trace
    )


def undescribed(job: ClaimedJob, error: BaseException, second: BaseException) -> Outcome:
    """What failed with `error`, and then once more when that was to be described."""
    text = clean(f"{type(error).__name__}, and {type(second).__name__} when it was described")
    end = End.BURY if job.last_attempt else End.RETRY
    return Outcome(job.id, job.fence, end, delay=_PAUSE, reason="failed", error=text)


def reason_of(error: Cancel) -> str:
    return clean(str(error.reason or "handler"), 200)


def report(job: ClaimedJob, outcome: Outcome) -> None:
    """A line in the worker's log for an attempt that failed."""
    if outcome.end is End.RETRY:
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
            "job %s (%s) is dead after %d attempts: %s\n%s",
            job.id,
            job.kind,
            job.attempt,
            outcome.error,
            outcome.traceback or "",
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
