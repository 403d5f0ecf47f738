"""Examples in errors about a file, in the format that it has. They come as code has them: rule="all_done"."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import EllipsisType
from typing import Any, Final

from foliot.errors import InvalidValue
from foliot.workflow_text import Format

_MOMENT: Final = "2027-01-31T09:00+01:00"
_FOR_FILES: Final[dict[str, dict[str, Any]]] = {  # of fields that code gives no literals
    "retry": {"retry": {"type": "fixed", "seconds": 30}},
    "run_at": {"run_at": _MOMENT},
    "expires": {"expires": _MOMENT},
    "edges": {"name": "between", "sleep": 0, "after": ["a", "b"]},
}
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@contextmanager
def examples_in(format: Format) -> Iterator[None]:
    """Errors in here have theirs in this format."""
    try:
        yield
    except InvalidValue as error:
        if (was := error.example) is not None:
            error.example = written(was, format, field=error.field)
            error.message = error.message.replace(
                f"for example {was}", f"for example {error.example}"
            )
        raise


def written(example: str, format: Format, *, field: str = "") -> str:
    """As it is, if it says nothing that can be written so."""
    found = _read(example)
    if found is None:
        found = _FOR_FILES.get(field)
        if found is None:
            return example
        return _pairs(found, format)
    return _pairs(found, format) if isinstance(found, dict) else _value(found[0], format)


def _read(example: str) -> dict[str, Any] | list[Any] | None:
    """By their names, or the one without a name."""
    try:
        call = ast.parse(f"f({example})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.keywords and not call.args:
            return {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        return [ast.literal_eval(one) for one in call.args] if len(call.args) == 1 else None
    except (SyntaxError, ValueError):
        return None


def _pairs(found: dict[str, Any], format: Format) -> str:
    return ", ".join(_pair(key, value, format) for key, value in found.items())


def _pair(key: str, value: Any, format: Format) -> str:
    if format == "json":
        return f"{json.dumps(key)}: {_value(value, format)}"
    return f"{key if _BARE.fullmatch(key) else json.dumps(key)} = {_value(value, format)}"


def _value(value: Any, format: Format) -> str:
    match value:
        case dict():
            inside = _pairs(value, format)
            return f"{{{inside}}}" if format == "json" else f"{{ {inside} }}"
        case list() | tuple():
            return f"[{', '.join(_value(one, format) for one in value)}]"
        case set():
            return _value(sorted(value), format)
        case EllipsisType():
            return "…"
    return json.dumps(value, ensure_ascii=False)
