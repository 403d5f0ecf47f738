"""JobDefinition: a function that can be run as a job, and how."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from foliot.model.event import Listens
from foliot.model.job import Priority
from foliot.model.retry import Exponential, RetryPolicy, StoredRetry


class Defaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for a job of a kind unless its submission says otherwise. Stored as JSON with the definition."""

    queue: str = "default"
    namespace: str = "default"
    priority: int = Priority.MEDIUM
    max_attempts: int = 5
    timeout: float | None = None
    expires: float | None = None  # seconds after it was submitted
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    version: int = 1
    ignore_result: bool = False
    limit_key: str | None = None
    breaker: str | None = None
    retry: StoredRetry | None = (
        None  # as far as it can be written down: the worker asks the definition itself
    )


class Declared(msgspec.Struct, frozen=True):
    """A schedule that is written where the function is."""

    name: str
    expression: str | None
    payload: bytes
    options: dict[str, Any]


Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


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
    soft_timeout: float | None = None
    cancel_grace: float | None = (
        None  # seconds to end once it is asked to; None: as the worker has it
    )
    retry: RetryPolicy = Exponential()
    no_retry: tuple[type[BaseException], ...] = ()
    isolated: bool = False  # runs in a child process
    memory: int | None = None  # bytes, of that process and all that it starts
    namespace: str = "default"
    expires: float | None = None
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    version: int = 1  # of the arguments' form
    ignore_result: bool = False
    limit_key: str | None = None  # jobs that share one share a limit
    breaker: str | None = None  # what its jobs stop at when that is open
    breaks_on: tuple[type[BaseException], ...] = (Exception,)  # which of their errors it counts
    upgrades: dict[int, Upgrade] = msgspec.field(default_factory=dict)  # from which version
    schedules: tuple[Declared, ...] = ()
    listens: Listens | None = None  # of a hook: to which events

    @property
    def defaults(self) -> Defaults:
        return Defaults(
            queue=self.queue,
            namespace=self.namespace,
            priority=self.priority,
            max_attempts=self.max_attempts,
            timeout=self.timeout,
            expires=self.expires,
            tags=self.tags,
            requires=self.requires,
            version=self.version,
            ignore_result=self.ignore_result,
            limit_key=self.limit_key,
            breaker=self.breaker,
            retry=self.retry if isinstance(self.retry, StoredRetry) else None,
        )


class StoredDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows of a kind: how it is called, for those who do not have its code."""

    kind: str
    queue: str
    signature: str  # as it is written in Python
    schema: str  # JSON Schema of the payload
    fingerprint: str  # of schema, version and upgrades: equal where the same payloads fit
    version: int
    options: Defaults
    updated_at: datetime | None = None
