"""The options that every command takes, and the settings that follow from them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from foliot.config import Loaded


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
