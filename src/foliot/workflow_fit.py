"""Whether what a file gives a step fits the arguments of its kind, as far as that is known before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from foliot.errors import InvalidValue
from foliot.model.definition import StoredDefinition
from foliot.schema import check_fit
from foliot.shown import did_you_mean, named
from foliot.workflow_check import ref_names
from foliot.workflow_refs import near_ref


def check_payload(known: StoredDefinition, payload: Mapping[str, Any], item: object) -> None:
    """As far as it is known: what is a result will be checked by the worker."""
    later = {name for name, value in payload.items() if ref_names(value)}
    checked = dict(payload)
    if isinstance(item, str) and item not in checked:
        later.add(item)
        checked[item] = None
    try:
        check_fit(_lenient(known, later) if later else known, checked)
    except InvalidValue as error:
        if (hint := near_ref(error.value)) is None:
            raise
        raise InvalidValue(error.field, error.value, error.problem, hint=hint) from None


def check_item(known: StoredDefinition, item: str) -> None:
    told = _arguments(msgspec.json.decode(known.schema))
    names = list(told.get("properties", {}))
    if item not in names and told.get("additionalProperties") is False:
        problem = f"is no argument of {known.kind}, which has {named(names) or 'none'}"
        raise InvalidValue("item", item, problem, hint=did_you_mean(item, names))


def check_elements(
    known: StoredDefinition, payload: Mapping[str, Any], over: Sequence[Any], item: str
) -> None:
    for number, element in enumerate(over):
        try:
            check_payload(known, {**payload, item: element}, None)
        except InvalidValue as error:
            inside = error.field.removeprefix(f"payload.{item}")
            if not inside:
                place = f"over[{number}]"
                raise InvalidValue(place, element, error.problem, hint=error.hint) from None
            place = f"over[{number}]{inside}"
            given: dict[str, Any] = {} if error.value is None else {"value": error.value}
            raise InvalidValue(place, problem=error.problem, hint=error.hint, **given) from None


def first_free(known: StoredDefinition, payload: Mapping[str, Any]) -> str:
    """The argument that takes the element, as in code: the first that is not given. Those that a call must have come
    first, and in order; the schema has the others by the alphabet."""
    told = _arguments(msgspec.json.decode(known.schema))
    free: list[str] = [name for name in told.get("properties", {}) if name not in payload]
    needed: list[str] = [name for name in told.get("required", ()) if name in free]
    if needed or len(free) == 1:
        return (needed or free)[0]
    if free:
        raise InvalidValue(
            "item", problem=f"is missing: {' or '.join(free)}", example=f'item="{free[0]}"'
        )
    problem = f"leaves no argument of {known.kind} for the element"
    raise InvalidValue("over", problem=problem, example='item="url"')


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """They are an object, in the schema of a kind."""
    if "$ref" in schema:
        schema = schema.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    return schema


def _lenient(known: StoredDefinition, later: set[str]) -> StoredDefinition:
    """Whatever these arguments are, they fit."""
    schema: dict[str, Any] = msgspec.json.decode(known.schema)
    properties = _arguments(schema).get("properties", {})
    properties.update({name: {} for name in later if name in properties})
    return msgspec.structs.replace(known, schema=msgspec.json.encode(schema).decode())
