"""What JSON would quietly change, or no reader could hold. To find nothing of it costs next to nothing."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec

DEEPEST: Final = 64  # lists and objects inside each other

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_U: Final = ord("u")
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def check_json(value: Any, encoded: bytes) -> None:
    """Raises ValueError; `encoded` is what became of `value`."""
    if len(encoded) <= 2 * DEEPEST and _U not in encoded:
        return  # as most are: too short to be deep, and without null
    if _opens_many(encoded) and _is_deep(encoded):
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    # The encoder writes null for what JSON has no number for.
    if b"null" in encoded and _has_no_number(msgspec.to_builtins(value)):
        raise ValueError("it holds NaN or Infinity, which JSON does not have")


def _opens_many(encoded: bytes) -> bool:
    return encoded.count(b"[") + encoded.count(b"{") > DEEPEST


def _is_deep(encoded: bytes) -> bool:
    brackets = encoded.translate(_ALIKE, delete=_NO_BRACKETS)
    for _ in range(DEEPEST):
        brackets = brackets.replace(b"[]", b"")  # the innermost level of each branch
        if not brackets:
            return False
    # It is deep, or there are brackets in strings.
    deepest = depth = 0
    for byte in _STRING.sub(b"", encoded).translate(None, delete=_NO_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > DEEPEST


def _has_no_number(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(map(_has_no_number, value.values()))
        case list() | tuple() | set() | frozenset():
            return any(map(_has_no_number, value))
    return False
