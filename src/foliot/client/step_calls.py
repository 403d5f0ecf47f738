"""What may be drawn as a step: a call that was prepared, or a function for each element of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from foliot.client.function import JobFunction, Prepared
from foliot.errors import InvalidValue
from foliot.workflow_check import check_step_choices

Seconds = float | timedelta


def check_call(word: str, call: object) -> Prepared:
    if not isinstance(call, Prepared):
        raise InvalidValue(word, call, "is not a prepared call", example="add.prepare(1, 2)")
    check_step_choices(call.choices)
    return call


def check_function(given: object) -> None:
    example = "flow.map(scale, over=[1, 2], factor=3)"
    if isinstance(given, Prepared):
        kind = given.definition.kind
        problem = f"takes {kind} itself and its other arguments, not a prepared call"
        raise InvalidValue("flow.map()", problem=problem, example=example)
    if not isinstance(given, JobFunction):
        raise InvalidValue("flow.map()", given, "is not a job", example=example)


def first_free(function: JobFunction[..., Any, Any], given: Mapping[str, Any]) -> str:
    for name in function.definition.arguments.__struct_fields__:
        if name not in given:
            return name
    raise InvalidValue(
        "flow.map()",
        problem=f"leaves no argument of {function.definition.kind} for the element",
        example='item="url"',
    )


@contextmanager
def in_element(number: int, element: object, item: str) -> Iterator[None]:
    """Errors in here are about this element of a list, which is the argument `item` of each call."""
    try:
        yield
    except InvalidValue as error:
        place, cause = f"over[{number}]", error.__cause__
        if cause is None:
            raise InvalidValue(place, problem=error.problem, hint=error.hint) from None
        path = f"`$.{item}"
        why = str(cause).removesuffix(f" - at {path}`").replace(path, f"`{place}")
        raise InvalidValue(place, element, f"does not fit: {why}", hint=error.hint) from None


def seconds_of(value: Any) -> Any:
    """Whatever else it is, is refused where it is checked."""
    return value.total_seconds() if isinstance(value, timedelta) else value
