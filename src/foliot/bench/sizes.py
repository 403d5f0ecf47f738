"""Sizes: how large the table of live jobs is at a moment, or a process."""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec


class Sizes(msgspec.Struct, frozen=True):
    bytes: int | None  # with its indexes; None where the store cannot tell
    live_rows: int | None
    dead_rows: int | None  # not yet vacuumed; SQLite has none


def resident_bytes(process: int) -> int | None:
    """Memory that a process has in use now; None where the system does not tell."""
    status = Path(f"/proc/{process}/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else None
