"""The jobs of the bench on workers that neither count what they do nor ask whether anybody listens to it.

`foliot worker foliot.bench.bare:app`: what `foliot bench limits` compares real workers with, and nothing else may use.
An app is imported before its store is opened, so the statements are yet to be read.
"""

from __future__ import annotations

import re
from typing import Any, Final

from foliot.bench.jobs import app
from foliot.errors import FoliotError
from foliot.store import sql
from foliot.worker import service, tallies
from foliot.worker.context import Place

__all__ = ["app"]

_parse: Final = sql.parse_statement
# What writes to the outbox when jobs finish: a part of the statement, or one of several statements.
_TELLING: Final = re.compile(
    r", emitted AS \(.*\)(?= SELECT named)|INSERT INTO foliot_outbox [^;]*(?=;)"
)


def _untold(name: str, body: str) -> sql.Statement:
    statement = _parse(name, body)
    if name != "finish_jobs":
        return statement
    text, found = _TELLING.subn(
        lambda match: "" if match[0][0] == "," else "SELECT 1", statement.text
    )
    if found != 1:
        raise FoliotError(f"{name} has {found} parts that write to the outbox, not one")
    return _parse(name, text)


def _count_nothing(*_: object) -> None:
    pass


def _uncounted(*facts: Any, counts: bool) -> Place:  # noqa: ARG001 - it is what this leaves out
    return Place(*facts)


for where, what, other in (
    (sql, "parse_statement", _untold),
    (tallies.Tallies, "count", _count_nothing),
    (service, "Place", _uncounted),
):
    setattr(where, what, other)
