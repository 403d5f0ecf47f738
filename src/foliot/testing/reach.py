"""While a Harness is open, no app reaches a store but those that a Harness has taken over, and those in inline mode.

An app that the test forgot to name would write to its real store, and the test would pass or fail without a word of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from foliot.client.portal import Portal
from foliot.errors import FoliotError

Refusal = Callable[[], FoliotError]
_OPEN: Final[list[Refusal]] = []  # the last one opened is the one that the test speaks to


@contextmanager
def others_kept_out(refusal: Refusal) -> Iterator[None]:
    """In this block whoever reaches for another store is told so."""
    _OPEN.append(refusal)
    Portal.kept_out = _refuse
    try:
        yield
    finally:
        _OPEN.remove(refusal)
        Portal.kept_out = _refuse if _OPEN else None


def _refuse() -> FoliotError:
    return _OPEN[-1]()
