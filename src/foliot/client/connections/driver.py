"""What a driver is asked for. Drivers are known by the names of their modules: none of them is imported here."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from foliot.errors import FoliotError, InvalidValue
from foliot.store.guest import Answer
from foliot.store.sql import Statement

Values = Mapping[str, object]

IN_ERROR = 3  # libpq's PQTRANS_INERROR, as both psycopgs report it
_FAILED = "25P02"
_ARRAY = re.compile(r"(\$\d+)::(\w+\[\])")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Driver(Protocol):
    """One connection. `waits`: what it runs is awaited."""

    engine: str  # postgres or sqlite
    waits: bool

    @property
    def known_as(self) -> object | None:
        """What stays the same while it leads to the same place, if it can be remembered weakly."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether several statements will commit together."""
        ...

    def check(self) -> None:
        """Raises where it is plain that nothing can be run now."""
        ...

    def run(self, statement: Statement, values: Values) -> Answer | Awaitable[Answer]: ...

    def after_commit(self, call: Callable[[], None]) -> None:
        """Have it called then, where the driver can; a hint that may be lost."""
        ...


def module_of(name: str) -> Any:
    """Of a driver whose connection is here: so it has been imported."""
    return sys.modules[name]


def tuples(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


@lru_cache(maxsize=64)
def percent_style(statement: Statement) -> str:
    """With %(name)s."""
    return _PARAMETER.sub(r"%(\1)s", statement.text.replace("%", "%%"))


@lru_cache(maxsize=64)
def strict_style(statement: Statement) -> str:
    """With $1, for drivers that look up the type of each: arrays are told as text, which is what they are given."""
    return _ARRAY.sub(r"\1::text::\2", statement.numbered)


def closed() -> InvalidValue:
    return InvalidValue("connection", problem="is closed", hint="submit before you close it")


def failed() -> FoliotError:
    return FoliotError(
        "nothing can be submitted: the transaction of this connection has failed",
        hint="roll it back and begin again",
    )


def has_failed(error: BaseException) -> bool:
    """Whether an error of any driver says that the transaction it was raised in had failed before."""
    for one in (error, getattr(error, "orig", None), error.__cause__):
        state = getattr(one, "sqlstate", None) or getattr(one, "pgcode", None)
        if state == _FAILED:
            return True
    return False
