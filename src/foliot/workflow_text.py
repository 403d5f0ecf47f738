"""The text of a workflow in a file: read, and taken apart as TOML or JSON; what it says is for workflow_file.py."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from foliot.errors import InvalidValue

Format = Literal["json", "toml"]

EXAMPLE: Final = '{"name": "etl", "steps": [{"name": "extract", "kind": "extract"}]}'
_CONSTANTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
_NUMBERS: Final = re.compile(
    r'"""(?s:.*?)"""|"(?:[^"\\]|\\.)*"'  # JSON and TOML
    r"|'''(?s:.*?)'''|'[^'\n]*'|\#.*"  # TOML alone
    r"|(?<![\w.])([+-]?\d[\d_]*)(?![\w.])"
)
_SUFFIXES: Final[dict[str, Format]] = {".toml": "toml", ".json": "json"}
_LARGEST: Final = 64 << 20


def parse(text: str, *, format: Format | None = None) -> dict[str, Any]:
    """The tables of a text. Without a format, what begins with a brace is JSON."""
    if format is None:
        format = form_of(text)
    try:
        if format == "toml":
            return tomllib.loads(text.replace("\r\n", "\n"))
        told = json.loads(text, object_pairs_hook=_once, parse_constant=partial(_no_number, text))
    except InvalidValue:
        raise
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidValue("workflow", problem=f"is not {format.upper()}: {error}") from None
    except ValueError:  # a number of more digits than Python reads
        raise _too_long(text) from None
    except RecursionError:
        raise InvalidValue("workflow", problem="is nested too deeply") from None
    if not isinstance(told, dict):
        raise InvalidValue("workflow", told, "is not an object", example=EXAMPLE)
    return told


def read_file(path: Path) -> tuple[dict[str, Any], Format]:
    """The tables of a file, and how they are written there: as the suffix says, or else as the text looks."""
    text = read_text(path)
    named = _SUFFIXES.get(path.suffix.lower())
    format = named or form_of(text)
    try:
        return parse(text, format=format), format
    except InvalidValue as error:
        if named is not None:
            raise
        problem = f"cannot be read: {error.message}"
        hint = "a .toml or a .json file is expected"
        raise InvalidValue("file", str(path), problem, hint=hint) from None


def form_of(text: str) -> Format:
    return "json" if text.lstrip().startswith("{") else "toml"


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidValue("file", str(path), f"cannot be read: {reason}") from None
    if len(raw) > _LARGEST:
        raise InvalidValue("file", str(path), "is larger than 64MiB")
    if not raw.strip():
        raise InvalidValue("file", str(path), "is empty")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidValue("file", str(path), "is not UTF-8 text") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON has no rule for a key that is there twice, and nobody means it."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidValue("workflow", key, "is there twice in one object")
        found[key] = value
    return found


def _no_number(text: str, constant: str) -> None:
    """Its reader does not tell where it is; but it is the first that there is outside of a string."""
    place = next(found.start() for found in _CONSTANTS.finditer(text) if found[1])
    problem = f"is not a number that JSON has: {_place(text, place)}"
    raise InvalidValue("workflow", constant, problem)


def _too_long(text: str) -> InvalidValue:
    problem, most = "has a number that is too long", sys.get_int_max_str_digits()
    for found in _NUMBERS.finditer(text):
        digits = len((found[1] or "").strip("+-").replace("_", ""))
        if digits > most:
            problem += f", of {digits:,} digits: {_place(text, found.start(1))}"
            break
    return InvalidValue("workflow", problem=problem, hint="write it as text, in quotes")


def _place(text: str, place: int) -> str:
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    return f"line {line} column {column}"
