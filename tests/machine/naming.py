"""Invariants by their names, and how one says that it is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from machine.history import Event
from machine.past import Past

Invariant = Callable[[Event, Past], None]
INVARIANTS: Final[dict[str, Invariant]] = {}


class InvariantBroken(AssertionError):
    def __init__(self, name: str, details: str) -> None:
        super().__init__(f"{name}: {details}")
        self.name = name
        self.details = details


class Named:
    """Registers an invariant and gives it the way to say that it is broken."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, invariant: Invariant) -> Invariant:
        INVARIANTS[self.name] = invariant
        return invariant

    def expect(self, holds: object, details: str) -> None:
        if not holds:
            raise InvariantBroken(self.name, details)
