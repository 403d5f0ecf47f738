"""Which function runs which kind of job: used by clients to submit and by workers to run."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta
from types import FunctionType
from typing import Any, get_type_hints

import msgspec

from foliot.checks import (
    check_cancel_grace,
    check_errors,
    check_executor,
    check_expires_in,
    check_flag,
    check_limit_key,
    check_memory,
    check_name,
    check_requires,
    check_soft_timeout,
    check_tags,
    check_timeout,
    check_whole,
)
from foliot.errors import InvalidValue, UnknownKind
from foliot.model.breaker import Options
from foliot.model.definition import JobDefinition
from foliot.model.event import HOOK_PREFIX
from foliot.model.limit import Limit
from foliot.model.queue import QueueOptions
from foliot.model.retry import Exponential, Fixed, RetryPolicy
from foliot.model.workflow import BUILTIN_KINDS
from foliot.payload import check_json
from foliot.workflow_refs import HasResult, Ref, Unresolved, has_refs, held_refs

log = logging.getLogger("foliot.registry")


def _to_json(value: Any) -> Any:
    if isinstance(value, HasResult):
        raise TypeError(f"{value!r} is a step, and no value: pass its .result")
    if inspect.ismethod(value):
        raise TypeError(f"{value.__self__!r}.{value.__name__} is a method, and no value{_METHODS}")
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encode = msgspec.json.Encoder(enc_hook=_to_json).encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_METHODS = "; what a job's parents returned is in current_job().parents, or drawn as a workflow, step.result"
_PLAIN = (str, int, float, bool, bytes, type(None), tuple, frozenset)


class Hooks:
    """Functions of the user around the jobs, in the order they were given."""

    def __init__(self) -> None:
        self.startup: list[Callable[..., Any]] = []
        self.shutdown: list[Callable[..., Any]] = []
        self.middleware: list[Callable[..., Any]] = []


class Registry:
    """Definitions by kind. Two functions cannot share one."""

    def __init__(self) -> None:
        self._definitions: dict[str, JobDefinition] = {}
        self.hooks = Hooks()
        self.queues: dict[str, QueueOptions] = {}
        self.limits: dict[str, Limit] = {}
        self.breakers: dict[str, Options] = {}
        self.breaks_on: dict[str, tuple[type[BaseException], ...]] = {}  # by breaker

    def add(self, definition: JobDefinition) -> None:
        if definition.kind in BUILTIN_KINDS:
            raise InvalidValue(
                "kind", definition.kind, "is a kind of Foliot itself", example='kind="send_email"'
            )
        if definition.kind.startswith(HOOK_PREFIX) and definition.listens is None:
            raise InvalidValue(
                "kind",
                definition.kind,
                f"begins with {HOOK_PREFIX}, as only kinds of hooks do",
                example='@app.on("job.dead")',
            )
        known = self._definitions.get(definition.kind)
        if known is not None and place_of(known.function) != place_of(definition.function):
            raise InvalidValue(
                "kind",
                definition.kind,
                f"is the name of {place_of(known.function)} already and cannot be that of "
                f"{place_of(definition.function)} as well",
                example='@app.job(kind="another_name")'
                if definition.listens is None
                else f'@app.on("{definition.listens.event}", name="another_name")',
            )
        self._definitions[definition.kind] = definition

    def get(self, kind: str) -> JobDefinition | None:
        return self._definitions.get(kind)

    def find(self, kind: str) -> JobDefinition:
        definition = self._definitions.get(kind)
        if definition is None:
            raise UnknownKind(kind, known=self._definitions)
        return definition

    def with_breaker(self, definition: JobDefinition) -> JobDefinition:
        """With the errors that its breaker counts, where the app says which."""
        errors = self.breaks_on.get(definition.breaker or "")
        return (
            definition if errors is None else msgspec.structs.replace(definition, breaks_on=errors)
        )

    def __iter__(self) -> Iterator[JobDefinition]:
        return iter(self._definitions.values())

    def __len__(self) -> int:
        return len(self._definitions)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of the app."""
        return tuple(sorted(self._definitions))

    @property
    def runnable(self) -> tuple[str, ...]:
        """Those that a worker of the app can run: its own, and what workflows are made of."""
        return tuple(sorted((*self._definitions, *BUILTIN_KINDS)))


def define(
    function: Callable[..., Any],
    *,
    kind: str | None = None,
    queue: str = "default",
    priority: int = 2,
    max_attempts: int = 5,
    timeout: float | timedelta | None = None,
    soft_timeout: float | timedelta | None = None,
    cancel_grace: float | timedelta | None = None,
    retry: RetryPolicy | None = None,
    namespace: str = "default",
    expires: float | timedelta | None = None,
    tags: Collection[str] = (),
    requires: Collection[str] = (),
    no_retry: type[BaseException] | Iterable[type[BaseException]] = (),
    executor: str = "auto",
    memory: int | str | None = None,
    version: int = 1,
    ignore_result: bool = False,
    limit_key: str | None = None,
    breaker: str | None = None,
) -> JobDefinition:
    """A definition, with every value checked."""
    _check_function(function)
    kind = function.__name__ if kind is None else kind
    check_name("kind", kind, example='kind="send_email"')
    check_name("queue", queue, example='queue="mail"')
    check_whole("priority", priority, 0, 9, example="priority=2")
    check_whole("max_attempts", max_attempts, 1, 1000, example="max_attempts=5")
    check_name("namespace", namespace, example='namespace="shop"')
    check_whole("version", version, 1, 1_000_000, example="version=2")
    check_flag("ignore_result", ignore_result)
    if retry is not None and not isinstance(retry, Exponential | Fixed) and not callable(retry):
        raise InvalidValue(
            "retry", retry, "is not a retry policy", example="retry=Exponential(first=1)"
        )
    hints = _hints(function)
    try:
        arguments = _arguments(function, kind, hints)
        decode = msgspec.json.Decoder(arguments).decode
    except TypeError as error:
        raise InvalidValue(
            "function",
            place_of(function),
            f"has a parameter that cannot be stored as JSON: {error}",
        ) from error
    return JobDefinition(
        kind=kind,
        function=function,
        arguments=arguments,
        decode=decode,
        keyword_only=any(
            parameter.kind is parameter.KEYWORD_ONLY
            for parameter in inspect.signature(function).parameters.values()
        ),
        returns=hints.get("return", Any),
        is_async=inspect.iscoroutinefunction(function),
        queue=queue,
        priority=int(priority),
        max_attempts=max_attempts,
        timeout=None if timeout is None else check_timeout(timeout),
        soft_timeout=check_soft_timeout(timeout, soft_timeout),
        cancel_grace=check_cancel_grace(cancel_grace),
        retry=retry or Exponential(),
        namespace=namespace,
        expires=None if expires is None else check_expires_in(expires),
        tags=check_tags(tags),
        requires=check_requires(requires),
        no_retry=check_errors(no_retry),
        isolated=check_executor(executor),
        memory=check_memory(memory, executor),
        version=version,
        ignore_result=ignore_result,
        limit_key=None if limit_key is None else check_limit_key(limit_key),
        breaker=None if breaker is None else check_name("breaker", breaker, example='"stripe"'),
    )


def check_hook(
    name: str,
    function: Callable[..., Any],
    *,
    most: int,
    least: int = 0,
    example: str = "async def open_pool(state)",
) -> None:
    """A function that can be called with so many arguments, no fewer and no more."""
    if not callable(function):
        raise InvalidValue(name, function, "is not a function", example=example)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some of Python's own do not say
        raise InvalidValue(
            name, function, "does not say which arguments it takes", example=example
        ) from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p in positional]
    named = [p for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    if len(needed) > most or len(positional) < least or named:
        raise InvalidValue(name, place_of(function), "takes other arguments", example=example)


def _check_function(function: object) -> None:
    if not inspect.isroutine(function):
        raise InvalidValue(
            "function", function, "is not a function", example="@app.job above a def"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidValue(
            "function",
            place_of(function),
            "yields: a job returns one result",
            example="return rows",
        )


def bind(definition: JobDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The payload of a call: its arguments as a JSON object, checked against the annotations. What refers to results of
    steps is checked when these are there."""
    try:
        arguments = definition.arguments(*args, **kwargs)
        payload = _encode(arguments)
        check_json(arguments, payload)
        if has_refs(payload) and any(held_refs(arguments)):
            unresolved = Unresolved(payload)
            unresolved.refs = _check_others(arguments)
            return unresolved
        definition.decode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            f"{definition.kind}()",
            problem=f"cannot be called like this: {error}",
            hint=f"it takes {signature_of(definition.function)}",
        ) from error
    return payload


def _check_others(arguments: msgspec.Struct) -> dict[str, list[Ref]]:
    """The arguments that are known already. Returns the references in the others."""
    found = {}
    for field in msgspec.structs.fields(arguments):
        value = getattr(arguments, field.name)
        if refs := list(held_refs(value)):
            found[field.encode_name] = refs
            continue
        try:
            msgspec.json.decode(_encode(value), type=field.type)
        except ValueError as error:
            raise ValueError(f"{error} - at `$.{field.name}`") from None
    return found


def upgraded(definition: JobDefinition, payload: bytes, version: int) -> bytes:
    """A payload of an earlier version as the definition takes it now. Raises ValueError, or what an upgrade raises."""
    if version == definition.version:
        return payload
    check_version(definition, version)
    arguments = _decode_object(payload)
    for step in range(version, definition.version):
        arguments = definition.upgrades[step](arguments)
    return _encode(arguments)


def check_version(definition: JobDefinition, version: int) -> None:
    """Of a payload, whatever it holds: whether this code can take it. Raises ValueError."""
    if version > definition.version:
        raise ValueError(f"it has version {version}, newer than this one, {definition.version}")
    for step in range(version, definition.version):
        if step not in definition.upgrades:
            raise ValueError(f"nothing upgrades it from version {step} to {step + 1}")


def caller(definition: JobDefinition) -> Callable[[msgspec.Struct], Any]:
    """What calls the function with the arguments in a struct."""
    function, astuple = definition.function, msgspec.structs.astuple
    if definition.keyword_only:
        return lambda arguments: _call_by_name(function, arguments)
    return lambda arguments: function(*astuple(arguments))


def _call_by_name(function: Callable[..., Any], arguments: msgspec.Struct) -> Any:
    args, kwargs = [], {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[name] = getattr(arguments, name)
        else:
            args.append(getattr(arguments, name))
    return function(*args, **kwargs)


def place_of(function: object) -> str:
    """Where a function is written: module and name, which survive a reload of its module."""
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """As it is written, without the quotes of postponed annotations where they can be resolved."""
    try:
        return inspect.signature(function, eval_str=True)
    except NameError:
        return inspect.signature(function)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:  # an annotation that is only there for type checkers
        return {
            name: _resolve(function, name, annotation)
            for name, annotation in function.__annotations__.items()
        }


def _resolve(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    """One annotation by itself, so that one that cannot be resolved leaves the others their checks."""
    probe = FunctionType((lambda: None).__code__, getattr(function, "__globals__", {}))
    probe.__annotations__ = {name: annotation}
    try:
        return get_type_hints(probe, include_extras=True)[name]
    except NameError as error:
        log.warning("%s: %s is not checked: %s", place_of(function), name, error)
        return Any


def _arguments(
    function: Callable[..., Any], kind: str, hints: dict[str, Any]
) -> type[msgspec.Struct]:
    positional: list[Any] = []
    keyword: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidValue(
                "function",
                place_of(function),
                f"takes *{name}: a job's parameters must be named, so that they can be stored",
                example=f"def {function.__name__}(items: list[str])",
            )
        field: tuple[Any, ...] = (name, hints.get(name, Any))
        if parameter.default is not parameter.empty:
            field = (*field, _default(parameter.default))
        (keyword if parameter.kind is parameter.KEYWORD_ONLY else positional).append(field)
    options: dict[str, Any] = {"forbid_unknown_fields": True, "frozen": True}
    struct = msgspec.defstruct(kind_name(kind), positional, **options)
    if keyword:
        struct = msgspec.defstruct(
            kind_name(kind), keyword, bases=(struct,), kw_only=True, **options
        )
    return struct


def kind_name(kind: str) -> str:
    """A kind as a Python name, for messages of the struct that carries its arguments."""
    return re.sub(r"\W", "_", kind)


def _default(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else msgspec.field(default_factory=lambda: value)
