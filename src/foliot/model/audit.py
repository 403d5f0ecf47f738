"""Who did what by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Deed(msgspec.Struct, frozen=True):
    """An entry that is to be written. `target` is a job's id, a queue's name, or the filter of an act on many."""

    id: str
    actor: str
    action: str
    target: str
    detail: dict[str, Any] = {}


class Entry(msgspec.Struct, frozen=True):
    id: str
    at: datetime
    actor: str
    action: str
    target: str
    detail: dict[str, Any]
