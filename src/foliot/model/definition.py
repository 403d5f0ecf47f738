"""JobDefinition: a function that can be run as a job, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from foliot.model.job import ClaimedJob, Priority
from foliot.model.retry import Exponential, RetryPolicy


class JobDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """`arguments` is a struct type with the function's parameters as fields: it binds, checks and encodes them."""

    kind: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    decode: Callable[[bytes], Any]
    keyword_only: bool = False
    returns: Any = Any
    is_async: bool = False
    queue: str = "default"
    priority: int = Priority.MEDIUM
    max_attempts: int = 5
    timeout: float | None = None
    retry: RetryPolicy = Exponential()

    def wait(self, job: ClaimedJob, up_to: Callable[[float], float]) -> float:
        """The wait before the next attempt, in seconds; `up_to` draws from zero to a bound."""
        return self.retry.wait(max(1, job.attempt - job.losses), up_to)
