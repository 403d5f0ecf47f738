"""What a store must do with definitions; part of the contract in port.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foliot.model.definition import StoredDefinition


class Definitions(Protocol):
    """What apps have announced: for those without their code."""

    async def put(self, definitions: Sequence[StoredDefinition]) -> None:
        """The last one of a kind counts. Kinds that are not named stay."""
        ...

    async def all(self) -> list[StoredDefinition]:
        """By kind. Only reads."""
        ...

    async def get(self, kind: str) -> StoredDefinition | None: ...
