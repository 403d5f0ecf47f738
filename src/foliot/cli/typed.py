"""What is wrong with what was typed, in the words of who typed it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Sequence
from itertools import pairwise

from cyclopts import App

from foliot.errors import InvalidValue

# As code gives arguments: concurrency=5, or rate="100/minute", burst=10
_ARGUMENT = re.compile(r'(?<![\w.])(\w+)=(?:"([^"]*)"|([\w./:+-]+))(?:(,)(?= \w+=))?')
_NEGATIVE = re.compile(r"-[\d.]")


def message_of(error: InvalidValue, app: App, tokens: Sequence[str]) -> str:
    """With its example as options, where the command has them."""
    if error.example is None or "=" not in error.example:
        return error.message
    _, (*_, command), _ = app.parse_commands(list(tokens))
    options = {name for one in command.assemble_argument_collection() for name in one.names}
    typed = _as_options(error.example, options)
    return error.message.replace(f"for example {error.example}", f"for example {typed}")


def negative_value(message: str, tokens: Sequence[str]) -> tuple[str, str] | None:
    """Of an option that is said to have no argument, and has one that looks like another option: what is wrong, and
    how it would be read."""
    for option, value in pairwise(tokens):
        if f" {option} requires an argument" in message and _NEGATIVE.match(value):
            return (
                f"{option}: {value[:80]!r} looks like another option",
                f"if it is meant: {option}={value[:80]}",
            )
    return None


def _as_options(example: str, options: Container[str]) -> str:
    def one(found: re.Match[str]) -> str:
        option = f"--{found[1].replace('_', '-')}"
        if option not in options:
            return found[0]
        return f"{option} {shlex.quote(found[2] or found[3])}"

    return _ARGUMENT.sub(one, example)
