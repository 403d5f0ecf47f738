"""JSON Schema of payloads: made from a definition, and enough of a check for those who do not have its code.

The schemas are those that msgspec writes; what a schema says beyond the words known here is left to the worker, which
decodes the payload into the function's own types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from foliot.errors import InvalidValue
from foliot.model.definition import JobDefinition, StoredDefinition
from foliot.registry import signature_of
from foliot.shown import did_you_mean

Schema = Mapping[str, Any]

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
}
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class Misfit(Exception):
    """Where a value does not fit, and why: the end of a sentence that begins with the place, and the value if it is
    given: `value=`."""

    def __init__(self, place: str, problem: str, hint: str | None = None, **given: Any) -> None:
        super().__init__(f"{place} {problem}")
        self.place = place
        self.problem = problem
        self.hint = hint
        self.given = given


def stored_definition(definition: JobDefinition) -> StoredDefinition:
    """What a store keeps of it."""
    schema = _encode(_schema_of(definition.arguments))
    told = _encode([definition.version, sorted(definition.upgrades)]) + schema
    return StoredDefinition(
        kind=definition.kind,
        queue=definition.queue,
        signature=f"{definition.kind}{signature_of(definition.function)}",
        schema=schema.decode(),
        fingerprint=blake2b(told, digest_size=16).hexdigest(),
        version=definition.version,
        options=definition.defaults,
    )


def _schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    if (schema := _said(arguments)) is not None:
        return schema
    fields = msgspec.structs.fields(arguments)
    types = {field.name: field.type for field in fields if _said(field.type) is not None}
    schemas, defs = msgspec.json.schema_components(types.values(), ref_template="#/$defs/{name}")
    known = dict(zip(types, schemas, strict=True))
    return {
        "title": arguments.__name__,
        "type": "object",
        "properties": {field.name: known.get(field.name, {}) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
        "$defs": defs,
    }


def _said(type: object) -> dict[str, Any] | None:
    """None, if JSON Schema has no word for it."""
    try:
        return msgspec.json.schema(type)
    except (TypeError, NotImplementedError, RuntimeError):
        return None


def read_payload(given: object) -> dict[str, Any]:
    """A payload as people write it: JSON in text, or an object."""
    if isinstance(given, str | bytes):
        try:
            given = msgspec.json.decode(given)
        except (ValueError, RecursionError) as error:
            raise InvalidValue(
                "payload", given, f"is not JSON: {error}", example="""'{"to": "ada@example.org"}'"""
            ) from None
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise InvalidValue(
            "payload", given, "is not an object", example='{"to": "ada@example.org"}'
        )
    return given


def check_fit(known: StoredDefinition, payload: Mapping[str, Any]) -> None:
    """Raises InvalidValue with the argument that is missing, unknown or of the wrong type."""
    schema: Schema = msgspec.json.decode(known.schema)
    try:
        _check(payload, schema, schema.get("$defs", {}), "payload")
    except Misfit as misfit:
        hint = misfit.hint or f"it is called like this: {known.signature}"
        raise InvalidValue(
            misfit.place, problem=misfit.problem, hint=hint, **misfit.given
        ) from None


def _check(value: Any, schema: Schema, defs: Schema, place: str) -> None:
    if "$ref" in schema:
        _check(value, defs.get(schema["$ref"].rpartition("/")[2], {}), defs, place)
        return
    if "anyOf" in schema:
        _check_any(value, schema["anyOf"], defs, place)
        return
    _check_choice(value, schema, place)
    _check_type(value, schema.get("type"), place)
    match value:
        case dict():
            _check_object(value, schema, defs, place)
        case list():
            _check_array(value, schema, defs, place)
        case str():
            _check_string(value, schema, place)
        case int() | float():
            _check_number(value, schema, place)


def _check_choice(value: Any, schema: Schema, place: str) -> None:
    if "enum" in schema and value not in schema["enum"]:
        raise Misfit(place, f"is not one of {', '.join(map(str, schema['enum']))}", value=value)
    if "const" in schema and value != schema["const"]:
        raise Misfit(place, f"is not {schema['const']!r}", value=value)


def _check_type(value: Any, name: Any, place: str) -> None:
    if name is None:
        return
    names = [name] if isinstance(name, str) else name
    for one in names:
        fits = isinstance(value, _TYPES.get(one, object))
        if fits and not (isinstance(value, bool) and one in ("integer", "number")):
            return
    raise Misfit(place, f"is not of type {' or '.join(names)}", value=value)


def _check_any(value: Any, choices: list[Schema], defs: Schema, place: str) -> None:
    misfits = []
    for choice in choices:
        try:
            _check(value, choice, defs, place)
        except Misfit as misfit:
            misfits.append(misfit)
        else:
            return
    # The one that came furthest is the one that was meant.
    deepest = max(misfits, key=lambda misfit: len(misfit.place))
    if deepest.place == place:
        deepest = Misfit(place, " and ".join(misfit.problem for misfit in misfits), value=value)
    raise deepest


def _check_object(value: dict[str, Any], schema: Schema, defs: Schema, place: str) -> None:
    known: Schema = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    others = schema.get("additionalProperties", True)
    unknown = [name for name in value if known.get(name, others) is False]
    if missing or unknown:
        lacks = [f"lacks {', '.join(missing)}"] if missing else []
        has = [f"has {', '.join(unknown)}, which is not known"] if unknown else []
        hint = did_you_mean(unknown[0], missing or known) if unknown else None
        raise Misfit(place, " and ".join([*lacks, *has]), hint)
    for name, one in value.items():
        inside = known.get(name, others)
        if isinstance(inside, Mapping):
            _check(one, inside, defs, f"{place}.{name}")


def _check_array(value: list[Any], schema: Schema, defs: Schema, place: str) -> None:
    first: list[Schema] = schema.get("prefixItems", [])
    rest = schema.get("items", True)
    if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
        raise Misfit(place, f"has {len(value)} elements")
    for position, one in enumerate(value):
        inside = first[position] if position < len(first) else rest
        if isinstance(inside, Mapping):
            _check(one, inside, defs, f"{place}[{position}]")


def _check_number(value: float, schema: Schema, place: str) -> None:
    if value < schema.get("minimum", value) or value > schema.get("maximum", value):
        raise Misfit(place, "is out of bounds", value=value)
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if (low is not None and value <= low) or (high is not None and value >= high):
        raise Misfit(place, "is out of bounds", value=value)


def _check_string(value: str, schema: Schema, place: str) -> None:
    longest = schema.get("maxLength", len(value))
    if not schema.get("minLength", 0) <= len(value) <= longest:
        raise Misfit(place, f"has {len(value)} characters", value=value)
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Misfit(place, f"does not look like {schema['pattern']}", value=value)
