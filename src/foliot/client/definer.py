"""`@app.job` and `@jobs.job`: what can be said of a job where its function is written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

import msgspec

from foliot.checks import check_option
from foliot.client.declaring import Schedules, declare
from foliot.client.function import JobFunction
from foliot.client.listening import HookOptions, check_event, define_hook
from foliot.model.definition import JobDefinition
from foliot.model.event import Event, EventName
from foliot.model.retry import RetryPolicy
from foliot.options import Names
from foliot.registry import define

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[[Event], Any])


class JobOptions(TypedDict, total=False):
    """What `@app.job` takes."""

    kind: str
    queue: str
    priority: int
    max_attempts: int
    timeout: float | timedelta | None
    soft_timeout: float | timedelta | None
    cancel_grace: float | timedelta | None
    retry: RetryPolicy | None
    no_retry: type[BaseException] | Iterable[type[BaseException]]
    executor: Literal["auto", "process"]
    memory: int | str | None
    namespace: str
    expires: float | timedelta | None
    tags: Names
    requires: Names
    version: int
    ignore_result: bool
    limit_key: str | None
    breaker: str | None
    schedule: Schedules | None


class Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R, R]: ...


class Definer:
    """Whatever jobs can be defined in."""

    _prefix = ""  # goes before every name that is given here

    @overload
    def job(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def job(self, function: Callable[P, R], /) -> JobFunction[P, R, R]: ...

    @overload
    def job(self, **options: Unpack[JobOptions]) -> Decorator: ...

    def job(self, *functions: Any, **options: Any) -> Any:
        """Make a function a job: `@app.job`, or `@app.job(queue="mail", max_attempts=3)`. With a `schedule`, an
        expression or a dict with more, workers make it one when they start."""

        for name in options:
            check_option("job", name, JobOptions.__optional_keys__)

        def register(function: Callable[..., Any]) -> JobFunction[..., Any, Any]:
            own = {name: value for name, value in options.items() if name != "schedule"}
            definition = define(function, **self._complete(function, own))
            schedules = declare(definition, options.get("schedule"))
            return self._add(msgspec.structs.replace(definition, schedules=schedules))

        return register(*functions) if functions else register

    def on(self, event: EventName, **options: Unpack[HookOptions]) -> Callable[[H], H]:
        """Have a function told what happened: `@app.on("job.dead", kinds=["charge"])`. It takes the Event, and is run
        by a worker as a job of its own, with the options of one; the events of one job come in order, each at least
        once. Workers have it listen when they start."""
        name = check_event(event)

        def register(function: H) -> H:
            self._add(define_hook(function, name, self._prefix, dict(options)))
            return function

        return register

    def _complete(self, function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
        """The options with what holds for all jobs that are defined here."""
        return options

    def _add(self, definition: JobDefinition) -> JobFunction[..., Any, Any]:
        raise NotImplementedError
