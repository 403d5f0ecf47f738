"""What a signal is to bring: an example of its payload, by what the steps that use it take."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from foliot.model.workflow import MAP_KIND, Step
from foliot.workflow_refs import MARK, Path, find_refs, has_refs

Schema = Mapping[str, Any]

_UNKNOWN: Final = "…"
_DEEPEST: Final = 4  # objects within each other: a type may hold itself
_BY_TYPE: Final = {"integer": 1, "number": 1.5, "string": "text", "boolean": True, "null": None}


def payload_option(signal: str, users: Sequence[Step], schema_of: Callable[[str], Schema]) -> str:
    """The option of the command that sends it: none, if no step that comes after it takes the result as an argument.
    `schema_of` tells that of the arguments of a kind, as far as it is known."""
    example = None
    for step in users:
        for path, value in _uses(step, signal, schema_of):
            example = _put(example, path, value)
    if example is None:
        return ""
    text = _UNKNOWN if example == _UNKNOWN else msgspec.json.encode(example).decode()
    return f" --payload {text if text == _UNKNOWN else shlex.quote(text)}"


def _uses(step: Step, name: str, schema_of: Callable[[str], Schema]) -> Iterator[tuple[Path, Any]]:
    """Which parts of the result it takes, and what could stand there."""
    raw = b"" if step.job_template is None else step.job_template.payload
    if not has_refs(raw):
        return
    payload = msgspec.json.decode(raw)
    if step.kind != MAP_KIND:
        schema = schema_of(step.kind)
        yield from _found(payload, schema, schema.get("$defs", {}), name)
        return
    whole, item = schema_of(payload["job"]["kind"]), payload["item"]
    defs = whole.get("$defs", {})
    arguments = _follow(whole, defs)
    yield from _found(payload.get("payload"), arguments, defs, name)
    over = {"type": "array", "items": _inside(arguments, item)}
    yield from _found(payload.get("over"), over, defs, name)


def _found(value: Any, schema: Schema, defs: Schema, name: str) -> Iterator[tuple[Path, Any]]:
    schema = _follow(schema, defs)
    match value:
        case dict() if MARK in value:
            for step, path in find_refs(value):
                if step == name:
                    yield path, _example(schema, defs)
        case dict():
            for key, one in value.items():
                yield from _found(one, _inside(schema, key), defs, name)
        case list():
            items = schema.get("items")
            for one in value:
                yield from _found(one, items if isinstance(items, dict) else {}, defs, name)


def _inside(schema: Schema, key: str) -> Schema:
    found = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _follow(schema: Schema, defs: Schema) -> Schema:
    """What it stands for; of several types, the first that is not null."""
    if "$ref" in schema:
        return _follow(defs.get(schema["$ref"].rpartition("/")[2], {}), defs)
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _follow(choices[0], defs) if choices else schema


def _example(schema: Schema, defs: Schema, depth: int = 0) -> Any:
    schema = _follow(schema, defs)
    if depth > _DEEPEST:
        return _UNKNOWN
    if "const" in schema or schema.get("enum"):
        return schema.get("const", schema.get("enum", (None,))[0])
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            return [_example(items, defs, depth + 1) if isinstance(items, dict) else _UNKNOWN]
        case "object":
            names = schema.get("required") or list(schema.get("properties", {})) or ["name"]
            return {name: _example(_inside(schema, name), defs, depth + 1) for name in names}
        case str() as name:
            return _BY_TYPE.get(name, _UNKNOWN)
    return _UNKNOWN


def _put(known: Any, path: Sequence[str | int], value: Any) -> Any:
    """An example with this value at this place, and all that it had before."""
    if not path:
        both = isinstance(known, dict) and isinstance(value, dict)
        return {**value, **known} if both else value if known in (None, _UNKNOWN) else known
    part, *rest = path
    if isinstance(part, int) or part.isdecimal():
        return [_put(known[0] if isinstance(known, list) else None, rest, value)]
    there = known if isinstance(known, dict) else {}
    return {**there, part: _put(there.get(part), rest, value)}
