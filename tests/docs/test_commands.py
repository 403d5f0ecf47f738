"""Commands on the pages: every one is on the page on the command line, and whatever is typed anywhere exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from foliot.cli.main import COMMANDS, main

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "cli.md"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
TYPED = re.compile(r"^(?:\$ )?foliot ([a-z].*?)(?: +#.*)?$", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def typed(*pages: Path) -> Iterator[tuple[str, str]]:
    """Each command line of these pages, and which command it is."""
    for line in [line for page in pages for line in TYPED.findall(page.read_text("utf-8"))]:
        words = line.split()
        path = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        yield path, line


def test_every_command_has_an_example() -> None:
    assert {path for path, _ in typed(PAGE)} == set(COMMANDS)


@pytest.mark.parametrize(("path", "line"), sorted(set(typed(*PAGES))))
def test_what_is_typed_on_a_page_exists(
    path: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert not [option for option in OPTION.findall(line) if f"{option} " not in shown]
