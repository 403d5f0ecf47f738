"""What a function results in, as the store keeps it."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from foliot.model.job import ClaimedJob, Outcome, Span
from foliot.payload import check_json

_STORABLE = "what can be: numbers, text, lists, dicts, dataclasses, msgspec structs, enums, dates, UUID, bytes"
_encode = msgspec.json.Encoder().encode


def success(job: ClaimedJob, result: Any, limit: int, span: Span | None = None) -> Outcome:
    """A result that cannot be stored is a failure of the attempt; raises what is wrong with it."""
    if result is None:
        return Outcome(job.id, job.fence, span=span)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("it returned a coroutine: make the function async, or await it inside")
    if job.more is not None and job.facts.extras.ignore_result:
        return Outcome(job.id, job.fence, span=span)  # whatever it is: nobody will ask for it
    try:
        encoded = _encode(result)
        if len(encoded) > limit:
            raise ValueError(f"it has {len(encoded)} bytes, more than limits.result, {limit}")
        check_json(result, encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _unstorable(job, error) from None
    return Outcome(job.id, job.fence, result=encoded, last=job.last_attempt, span=span)


def _unstorable(job: ClaimedJob, error: Exception) -> Exception:
    """It is the result that is wrong, not what the function did: the error says so."""
    said = f"the result of {job.kind}() cannot be stored"
    if isinstance(error, RecursionError):
        return ValueError(f"{said}: it is nested too deeply, or holds itself")
    if isinstance(error, TypeError):
        return TypeError(f"{said}: {error}; {_STORABLE}")
    return ValueError(f"{said}: {error}")
