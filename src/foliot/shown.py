"""Values and names as errors may show them."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable
from datetime import datetime

_LONGEST_SHOWN = 80
_MOST_NAMED = 10
# Greedy up to the last "@": a password may hold unescaped "@" and "/" and must not leak even then.
_PASSWORD = re.compile(r"(://[^:/?#@\s]*:).*@", re.DOTALL)
_PASSWORD_PARAMETER = re.compile(r"((?:^|[?&\s;])\w*passw(?:or)?d\s*=\s*)[^&\s;]*", re.IGNORECASE)
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = _LONGEST_SHOWN


def redact(text: str) -> str:
    """The text with the passwords of any URL in it replaced."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))


def shown(value: object) -> str:
    """A value as an error may show it: short, and without passwords."""
    if isinstance(value, datetime):
        return str(value)
    if isinstance(value, str):
        value = redact(value[: _LONGEST_SHOWN * 10])
    try:
        return _short.repr(value)
    except ValueError:  # an int of more digits than Python prints
        return f"a huge {type(value).__name__}"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest of the known names, if one is near."""
    nearest = difflib.get_close_matches(name[:_LONGEST_SHOWN], list(known), n=1, cutoff=0.6)
    return f"did you mean {nearest[0]}?" if nearest else None


def near_or_all(kind: str, known: Iterable[str], *, announced: bool) -> str | None:
    """As above, of kinds of jobs; if none is near, with the first of all of them."""
    names = sorted(known)
    others = "; a worker that starts announces its own" if announced else ""
    return did_you_mean(kind, names) or (f"there are {named(names)}{others}" if names else None)


def named(names: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    all_ = list(names)
    more = "" if len(all_) <= _MOST_NAMED else f" and {len(all_) - _MOST_NAMED:,} more"
    return f"{', '.join(all_[:_MOST_NAMED])}{more}"


def first_of(name: str, more: int, *, or_more: bool = False) -> str:
    """One of them, and how many more there are."""
    others = f" and {more:,}{' or' if or_more else ''} more" if more else ""
    return f"{shown(name)}{others}"


def counted(count: int, what: str, *, or_more: bool = False) -> str:
    """1 job, 2 jobs, 10,000 or more jobs."""
    return f"{count:,}{' or more' if or_more else ''} {what}{'' if count == 1 else 's'}"
