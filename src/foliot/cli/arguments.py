"""The arguments of a job, as they are typed: name=value, or a payload in JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from foliot.errors import InvalidValue
from foliot.schema import read_payload
from foliot.store.port import Store
from foliot.units import show_size


def read_arguments(payload: str | None, fields: tuple[str, ...], largest: int) -> dict[str, Any]:
    """The payload that was given as a whole. What is read from elsewhere is read once, and first."""
    if payload is None:
        return {}
    if fields:
        raise InvalidValue(
            "payload",
            problem="cannot be given together with fields",
            example="foliot submit send_email to=ada@example.org",
        )
    return read_payload(read_value(payload, largest))


def read_value(payload: str, largest: int) -> str | bytes:
    """JSON as it was typed, or of stdin (-) or a file (@file)."""
    if payload != "-" and not payload.startswith("@"):
        return payload
    try:
        raw = _read_stdin(largest + 1) if payload == "-" else _read_file(payload[1:], largest + 1)
    except OSError as error:
        raise InvalidValue("payload", payload, f"cannot be read: {error.strerror}") from None
    if len(raw) > largest:
        raise InvalidValue(
            "payload", payload, f"has more bytes than limits.payload, {show_size(largest)}"
        )
    return raw


def _read_file(path: str, most: int) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(most)


def _read_stdin(most: int) -> bytes:
    if sys.stdin is None:
        raise InvalidValue("payload", "-", "cannot be read: standard input is closed")
    if sys.stdin.isatty():
        print("reading the payload, JSON; end it with Ctrl-D", file=sys.stderr)
    return sys.stdin.buffer.read(most)


async def type_fields(store: Store, kind: str, fields: tuple[str, ...]) -> dict[str, Any]:
    """name=value as the kind's schema reads it."""
    known = await store.definitions.get(kind)
    schema: dict[str, Any] = {} if known is None else msgspec.json.decode(known.schema)
    properties = _properties(schema)
    found: dict[str, Any] = {}
    for field in fields:
        name, mark, text = field.partition("=")
        if not mark or not name:
            raise InvalidValue("field", field, "is not name=value", example="to=ada@example.org")
        if name in found:
            raise InvalidValue("field", name, "is given twice")
        found[name] = text if _is_text(properties.get(name, {})) else _json_or_text(text)
    return found


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        schema = schema.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    properties: dict[str, Any] = schema.get("properties", {})
    return properties


def _is_text(schema: dict[str, Any]) -> bool:
    """Whether nothing but text, or null, fits."""
    kinds = {one.get("type") for one in schema.get("anyOf", [schema])}
    return "string" in kinds and kinds <= {"string", "null"}


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
