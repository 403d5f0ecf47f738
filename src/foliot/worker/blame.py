"""What a failed attempt says of the service that it called: whether that is to blame, and when to come back."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

from foliot.clock import SystemClock
from foliot.errors import MissingInput, Retry, SoftTimeout
from foliot.model.definition import JobDefinition


def blames_service(error: BaseException, definition: JobDefinition, *, late: bool) -> bool:
    """What is not to be retried is the job's own fault, and who raises Retry only asks to be called again. What took
    too long always counts."""
    if isinstance(error, (Retry, MissingInput, *definition.no_retry)):
        return False
    counted: tuple[type[BaseException], ...] = (SoftTimeout, *definition.breaks_on)
    if isinstance(error, BaseExceptionGroup):
        return late or error.subgroup(counted) is not None
    return late or isinstance(error, counted)


def retry_after(error: BaseException) -> float | None:
    """Seconds: of its attribute `retry_after`, or of the header of its response."""
    try:
        told = getattr(error, "retry_after", None)
        if told is None:
            headers = getattr(getattr(error, "response", None), "headers", None)
            told = None if headers is None else headers.get("Retry-After")
        return None if told is None else _seconds(told)
    except Exception:  # noqa: BLE001 - whatever an exception of others does when it is asked
        return None


def _seconds(told: object) -> float | None:
    """A number, or text as in the header: a number or a date."""
    if isinstance(told, str):
        seconds = float(told) if told.strip().isdigit() else _until(told)
    elif isinstance(told, int | float) and not isinstance(told, bool):
        seconds = float(told)
    else:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


def _until(date: str) -> float:
    """A service names a date of the wall clock, whatever clock jobs are run by."""
    at = parsedate_to_datetime(date)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return (at - SystemClock().now()).total_seconds()
