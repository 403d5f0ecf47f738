"""The options that every command takes, and the settings that follow from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, Token

if TYPE_CHECKING:
    from foliot.config import Loaded


def _read_whole(_: type, tokens: Sequence[Token]) -> int:
    """Digits alone: the library's own reading would make 1 of 1.5. What is out of range, the command says."""
    text = tokens[0].value
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


_WHOLE = re.compile(r"[+-]?\d{1,1000}", re.ASCII)  # so many are read at once
# For every number that a command takes.
Whole = Annotated[int, Parameter(converter=_read_whole)]
OptionalWhole = Annotated[int | None, Parameter(converter=_read_whole)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every command: `def show(*, options: Options = DEFAULT_OPTIONS) -> int | None`."""

    url: str | None = None
    """The store: sqlite:///file.db or postgresql://… (else FOLIOT_URL)."""

    config: Path | None = None
    """The configuration file (else FOLIOT_CONFIG, else foliot.toml)."""

    json: Annotated[bool, Parameter(negative="")] = False
    """Print one JSON object instead of text."""

    def load(self, flags: dict[str, object] | None = None) -> Loaded:
        """The settings with --url and --config applied; `flags` as foliot.config.load takes them.

        What looks odd is said on stderr.
        """
        from foliot.config import load

        loaded = load(file=self.config, flags={"store.url": self.url, **(flags or {})})
        for warning in loaded.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        return loaded


DEFAULT_OPTIONS = Options()
