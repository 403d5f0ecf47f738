"""The page on the command line: every command is there, and everything it names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from foliot.cli.main import COMMANDS, main

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"
TYPED = re.compile(r"^\$ foliot (.+)$", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def typed() -> Iterator[tuple[str, str]]:
    """Each command line of the page, and which command it is."""
    for line in TYPED.findall(PAGE.read_text("utf-8")):
        words = line.split()
        path = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        yield path, line


def test_every_command_has_an_example() -> None:
    assert {path for path, _ in typed()} == set(COMMANDS)


@pytest.mark.parametrize(("path", "line"), list(typed()))
def test_what_is_typed_on_the_page_exists(
    path: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert not [option for option in OPTION.findall(line) if f"{option} " not in shown]
