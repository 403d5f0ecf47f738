"""Statements live in .sql files, under `-- name:` headings, with `:name` parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import msgspec

# The files that follow a job through its life, in this order.
JOB_FILES: Final = (
    "submit.sql",
    "change.sql",
    "claim.sql",
    "finish.sql",
    "cancel.sql",
    "admit.sql",
    "order.sql",
    "reap.sql",
    "read.sql",
)

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_SPACE = re.compile(r"\s+")


class Statement(msgspec.Struct, frozen=True):
    """One statement: as written, and with its parameters numbered in the order of `names`."""

    name: str
    text: str
    numbered: str
    names: tuple[str, ...]

    def bind(self, values: Mapping[str, object]) -> list[object]:
        return [values[name] for name in self.names]


def load_statements(package: str, *files_: str) -> dict[str, Statement]:
    """All statements of these .sql files of a package, by name."""
    found: dict[str, Statement] = {}
    for file in files_:
        text = files(package).joinpath("sql", file).read_text("utf-8")
        parts = _HEADING.split(text)[1:]
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"statement {name} is written twice in {package}")
            found[name] = parse_statement(name, body)
    return found


def compose(statement: Statement, conditions: Mapping[str, str]) -> Statement:
    """The statement with conditions in the places that are marked for them: {jobs}. What users write is never in a
    condition, only in the values of its parameters (filter_sql.py)."""
    text = statement.text
    for name, condition in conditions.items():
        text = text.replace(f"{{{name}}}", condition)
    return parse_statement(statement.name, text)


def parse_statement(name: str, body: str) -> Statement:
    text = _SPACE.sub(" ", _COMMENT.sub("", body)).strip().rstrip(";")
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    position = {name: f"${number}" for number, name in enumerate(names, 1)}
    numbered = _PARAMETER.sub(lambda match: position[match[1]], text)
    return Statement(name, text, numbered, names)
