"""Sizes: how large the table of live jobs is at a moment."""

from __future__ import annotations

import msgspec


class Sizes(msgspec.Struct, frozen=True):
    bytes: int | None  # with its indexes; None where the store cannot tell
    live_rows: int | None
    dead_rows: int | None  # not yet vacuumed; SQLite has none
