"""What a store answers to something that was said in a transaction without waiting for it."""

from __future__ import annotations

from typing import Any

Rows = list[tuple[Any, ...]]


class Reply:
    """There with the answer to the next question, or when the transaction has committed."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows | None = None) -> None:
        self._rows = rows

    def come(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def rows(self) -> Rows:
        if self._rows is None:
            raise AssertionError("nobody has listened for this reply yet")
        return self._rows
