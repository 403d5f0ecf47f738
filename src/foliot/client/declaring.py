"""`@app.job(schedule=…)`: schedules that are written where the function is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foliot.errors import InvalidValue
from foliot.model.definition import Declared, JobDefinition
from foliot.options import template_of
from foliot.registry import bind
from foliot.schedule_draft import check_declared
from foliot.schedule_options import ScheduleOptions, check_schedule_name

_EXAMPLE = 'schedule={"expression": "every weekday at 9am", "timezone": "Europe/Berlin"}'


class DeclaredSchedule(ScheduleOptions, total=False):
    """More than an expression. `name`: that of the kind, unless it says otherwise; `arguments`: what the function is
    called with."""

    name: str
    expression: str
    arguments: dict[str, Any]


Schedules = str | DeclaredSchedule | Sequence[str | DeclaredSchedule]


def declare(definition: JobDefinition, given: Schedules | None) -> tuple[Declared, ...]:
    """All that is declared of a function, checked: what counts from now cannot be."""
    if given is None:
        return ()
    several = [given] if isinstance(given, str | dict) else given
    if not isinstance(several, list | tuple):
        problem = "is not an expression, a dict or a list of these"
        raise InvalidValue("schedule", given, problem, example=_EXAMPLE)
    declared = tuple(_declare(definition, one) for one in several)
    names = [one.name for one in declared]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue(
                "schedule", name, "is the name of two schedules", example='{"name": "another", …}'
            )
    return declared


def _declare(definition: JobDefinition, given: object) -> Declared:
    said: dict[str, Any] = {"expression": given} if isinstance(given, str) else {}
    if isinstance(given, dict):
        said = dict(given)
    elif not isinstance(given, str):
        problem = "is neither an expression nor a dict"
        raise InvalidValue("schedule", given, problem, example=_EXAMPLE)
    name = check_schedule_name(said.pop("name", definition.kind))
    expression, arguments = said.pop("expression", None), said.pop("arguments", {})
    if not isinstance(arguments, dict):
        raise InvalidValue("arguments", arguments, "is not a dict", example='{"to": "a"}')
    payload = bind(definition, (), arguments)
    template = template_of(definition.kind, definition.defaults)
    check_declared(name, template, expression, said)
    return Declared(name, expression, payload, said)
