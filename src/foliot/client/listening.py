"""`@app.on("job.dead")`: functions that are told what happened, each time as a job of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from types import FunctionType
from typing import Any, Final, Literal, TypedDict

import msgspec

from foliot.checks import check_name, check_names
from foliot.client.function import JobFunction
from foliot.errors import InvalidValue
from foliot.model.definition import JobDefinition
from foliot.model.event import EVENTS, HOOK_PREFIX, HOOK_QUEUE, OF_KINDS, Listens, Told
from foliot.model.retry import RetryPolicy
from foliot.options import Names
from foliot.registry import check_hook, define
from foliot.shown import did_you_mean

Kind = str | JobFunction[..., Any, Any]
Kinds = list[Kind] | tuple[Kind, ...] | set[str] | frozenset[str]
_decode: Final = msgspec.json.Decoder(Told).decode
_MEANT: Final = {"job.failed": "job.dead"}  # by those who write what another name is nearer to


class HookOptions(TypedDict, total=False):
    """What `@app.on` takes besides the event: which ones, and the options of a job."""

    name: str  # if the function's own will not do
    kinds: Kinds
    queues: Names
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
    expires: float | timedelta | None
    tags: Names
    requires: Names


def check_event(event: object) -> str:
    if isinstance(event, str) and event in EVENTS:
        return event
    known = f"there are {', '.join(EVENTS)}"
    near = did_you_mean(_MEANT.get(event, event), EVENTS) if isinstance(event, str) else None
    hint = known if near is None else f"{near} {known}"
    raise InvalidValue("event", event, "is not an event", example='@app.on("job.dead")', hint=hint)


def define_hook(
    function: Callable[..., Any], event: str, prefix: str, options: dict[str, Any]
) -> JobDefinition:
    """Of the function, as the kind `on.job.dead.page_ops`."""
    check_hook("on", function, most=1, least=1, example="def page_ops(event: Event)")
    for name in options:
        if name not in HookOptions.__optional_keys__:
            hint = did_you_mean(name, HookOptions.__optional_keys__)
            example = '@app.on("job.dead", max_attempts=10)'
            raise InvalidValue("on", name, "is not an option of a hook", example=example, hint=hint)
    name = options.pop("name", getattr(function, "__name__", "hook"))
    check_name("name", name, example='@app.on("job.dead", name="page_ops")')
    listens = Listens(
        event,
        _chosen(event, "kinds", options.pop("kinds", None)),
        _chosen(event, "queues", options.pop("queues", None)),
    )
    kind = f"{HOOK_PREFIX}{event}.{prefix}{name}"
    definition = define(function, **{"queue": HOOK_QUEUE, **options, "kind": kind})
    # It takes an event, whatever it calls it.
    return msgspec.structs.replace(definition, arguments=Told, decode=_decode, listens=listens)


def _chosen(event: str, field: str, given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    example = f'{field}=["{"charge" if field == "kinds" else "mail"}"]'
    if event not in OF_KINDS:
        problem = f"cannot be chosen: {event} has none"
        raise InvalidValue(field, given, problem, example=f'@app.on("job.dead", {example})')
    one = _check_kind if field == "kinds" else check_name
    names = check_names(
        field, given, lambda name: one(field, name, example=example), example=example
    )
    if not names:
        raise InvalidValue(field, given, "names none, so nothing would be heard", example=example)
    return names


def _check_kind(field: str, one: object, *, example: str) -> str:
    if isinstance(one, FunctionType):
        problem = "is a function and no job, for which @app.job stands above it"
        hint = "of the jobs of hooks nobody is told, so that a hook cannot be chosen"
        raise InvalidValue(field, one, problem, example=example, hint=hint)
    kind = one.definition.kind if isinstance(one, JobFunction) else one
    name = check_name(field, kind, example=example)
    if name.startswith(HOOK_PREFIX):
        problem = "is a kind of hooks, and of their jobs nobody is told"
        raise InvalidValue(field, name, problem, example=example)
    return name
