"""Numbered migrations: what there is, what has been applied, what is missing. Adapters apply them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files

import msgspec

from foliot.errors import SchemaError, SchemaMissing, SchemaNewer, SchemaOutdated


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return sha256(self.text.encode()).hexdigest()


def load_migrations(package: str) -> list[Migration]:
    """The migrations that an adapter ships, in order."""
    found = []
    for file in files(package).joinpath("sql", "migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def pending(shipped: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """What is still to be applied. `applied` gives the checksum under each number."""
    newest = shipped[-1].number
    if applied and max(applied) > newest:
        raise SchemaNewer(max(applied), newest)
    for migration in altered(shipped, applied):
        raise SchemaError(
            f"migration {migration.number} ({migration.name}) in the store is not the one that is shipped",
            hint="the store was made by an unreleased version; make a new one, or restore the file",
        )
    return [migration for migration in shipped if migration.number not in applied]


def altered(shipped: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """Those that the store has in another form."""
    return [one for one in shipped if applied.get(one.number, one.checksum) != one.checksum]


def check(shipped: Sequence[Migration], applied: Mapping[int, str]) -> int:
    """The schema's version, if it is the one this code needs."""
    if not applied:
        raise SchemaMissing
    if pending(shipped, applied):
        raise SchemaOutdated(max(applied), shipped[-1].number)
    return max(applied)


class Schema(msgspec.Struct, frozen=True):
    """What a store has and what this code needs."""

    version: int | None
    needed: int
    partitions: int | None
    altered: tuple[int, ...] = ()  # numbers of migrations that are not the ones that are shipped

    @property
    def current(self) -> bool:
        return self.version == self.needed and not self.altered


def read(
    shipped: Sequence[Migration], applied: Mapping[int, str], partitions: int | None
) -> Schema:
    numbers = tuple(one.number for one in altered(shipped, applied))
    return Schema(max(applied, default=None), shipped[-1].number, partitions, numbers)
