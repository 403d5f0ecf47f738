"""Invoke: from a claimed job to the call of its function, the same in every executor.

The payload is brought up to the definition's version and decoded; what cannot be never becomes an attempt. Then the
function is called, inside the middleware of its colour: `async def` ones around async functions, the others around
sync ones, the first that was given outermost.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from foliot.builtin import BUILTINS, Builtin
from foliot.errors import MissingInput, SoftTimeout
from foliot.model.definition import JobDefinition
from foliot.model.job import ClaimedJob
from foliot.registry import Registry, caller, check_version, upgraded
from foliot.worker.context import CurrentJob
from foliot.workflow_refs import Path, find_refs, resolve

_ARGUMENT = re.compile(r"at `\$\.(\w+)")  # in what msgspec says of a payload that does not fit

# Of an async function, a coroutine.
Invoke = Callable[[CurrentJob, ClaimedJob], Any]
_Inner = Callable[[CurrentJob, Any], Any]


class Unfitting(Exception):
    """The payload does not fit the definition, so the function was not called."""


class SoftCancel(SoftTimeout, asyncio.CancelledError):
    """A soft timeout as a task sees it: task groups and the like put things in order as for any other cancel."""


SoftCancel.__name__ = SoftTimeout.__name__  # what users catch, and read in their history


class Recipe(msgspec.Struct, frozen=True):
    """A definition, and how its function is called."""

    definition: JobDefinition
    invoke: Invoke
    soft_timeout: float | None = None


def recipes(registry: Registry) -> dict[str, Recipe]:
    """Of the app's kinds, and of those that every worker knows; the latter without middleware."""
    around = registry.hooks.middleware
    all_ = [registry.with_breaker(one) for one in registry]
    own = {one.kind: Recipe(one, invoker(one, around), one.soft_timeout) for one in all_}
    return {**own, **{one.definition.kind: Recipe(one.definition, _plant(one)) for one in BUILTINS}}


def _plant(builtin: Builtin) -> Invoke:
    fit, run = fitter(builtin.definition), builtin.run
    return lambda current, job: run(current, fit(job))


def invoker(definition: JobDefinition, middleware: list[Callable[..., Any]]) -> Invoke:
    mine = [one for one in middleware if inspect.iscoroutinefunction(one) is definition.is_async]
    if not mine:
        return _plain(definition)
    fit, call = fitter(definition), caller(definition)
    inner: _Inner = lambda _, arguments: call(arguments)  # noqa: E731 - the innermost of several alike
    for one in reversed(mine):
        inner = _around(one, inner)
    return lambda current, job: inner(current, fit(job))


def _plain(definition: JobDefinition) -> Invoke:
    """Without middleware, as few calls as can be: most jobs pay for nothing else."""
    fit, function, astuple = fitter(definition), definition.function, msgspec.structs.astuple
    if definition.keyword_only:
        call = caller(definition)
        return lambda _, job: call(fit(job))
    return lambda _, job: function(*astuple(fit(job)))


def fitter(definition: JobDefinition) -> Callable[[ClaimedJob], Any]:
    """What makes arguments of a job's payload. Raises Unfitting, or MissingInput: a parent has no such result."""
    decode, version = definition.decode, definition.version

    def fit(job: ClaimedJob) -> Any:
        try:
            if version == 1 and job.more is None:
                return decode(job.payload)
            extras = job.facts.extras
            if not (extras.refs or extras.of_result):
                return decode(upgraded(definition, job.payload, extras.version))
            check_version(definition, extras.version)  # no result is to blame for that
            return (_fit_results if extras.refs else _fit_element)(definition, job)
        except MissingInput:
            raise
        except Exception as error:
            raise Unfitting(f"{type(error).__name__}: {error}") from error

    return fit


def _fit_results(definition: JobDefinition, job: ClaimedJob) -> Any:
    """No other version of the function makes a parent's result another one: what does not fit has failed."""
    payload = resolve(job.payload, job.parents)
    try:
        return definition.decode(upgraded(definition, payload, job.facts.extras.version))
    except Exception as error:
        refs = _refs_at(job.payload, str(error))
        if len(refs) == 1:
            step, path = refs[0]
            raise MissingInput(
                step, path, f"its result does not fit {job.kind}: {error}"
            ) from error
        names = ", ".join(dict.fromkeys(step for step, _ in refs))
        problem = f"the results of {names} do not fit {job.kind}: {error}"
        raise MissingInput(job.facts.extras.step or job.kind, (), problem) from error


def _fit_element(definition: JobDefinition, job: ClaimedJob) -> Any:
    """Of a map over a result: what does not fit has failed, as where a result is referred to."""
    extras = job.facts.extras
    try:
        return definition.decode(upgraded(definition, job.payload, extras.version))
    except Exception as error:
        problem = f"the arguments of this element do not fit {job.kind}: {error}"
        raise MissingInput(extras.step or job.kind, (), problem) from error


def _refs_at(payload: bytes, error: str) -> list[tuple[str, Path]]:
    """Those that stood where the error is: in one argument, if it names one."""
    arguments = msgspec.json.decode(payload)
    place = _ARGUMENT.search(error)
    return find_refs(arguments.get(place[1]) if place else None) or find_refs(arguments)


class Interruptible:
    """Awaits a coroutine, into which an exception can be thrown wherever it waits."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None

    def throw(self, error: BaseException) -> None:
        """Called on the event loop."""
        if self._task is not None:
            self._error = error
            self._task.cancel()

    def __await__(self) -> Generator[Any, Any, Any]:
        self._task = asyncio.current_task()
        step, value = self._coroutine.send, None
        while True:
            try:
                awaited = step(value)
            except StopIteration as done:
                return done.value
            try:
                value = yield awaited
                step = self._coroutine.send
            except BaseException as error:  # noqa: BLE001 - handed on, all of it
                value, step = self._instead_of(error), self._coroutine.throw

    def _instead_of(self, error: BaseException) -> BaseException:
        if self._error is None or not isinstance(error, asyncio.CancelledError):
            return error
        own, self._error = self._error, None
        if self._task is not None:
            self._task.uncancel()
        return own


def _around(one: Callable[..., Any], inner: _Inner) -> _Inner:
    def call(current: CurrentJob, arguments: Any) -> Any:
        return one(current, lambda: inner(current, arguments))

    return call
