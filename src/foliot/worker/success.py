"""What a function results in, as the store keeps it."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from foliot.model.job import ClaimedJob, Outcome, Span
from foliot.payload import check_json

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
    encoded = _encode(result)
    if len(encoded) > limit:
        raise ValueError(f"the result has {len(encoded)} bytes, more than limits.result, {limit}")
    try:
        check_json(result, encoded)
    except ValueError as error:
        raise ValueError(f"the result cannot be kept: {error}") from None
    return Outcome(job.id, job.fence, result=encoded, last=job.last_attempt, span=span)
