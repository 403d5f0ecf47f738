"""A wrong argument is an error under mypy: one run over what it must refuse and what it must accept."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REFUSED, ACCEPTED = HERE / "refused.py", HERE / "accepted.py"
EXPECTED = re.compile(r"# error: (.*)$")
FOUND = re.compile(r"^.*?(\w+\.py):(\d+): error: (.*?)(?:  \[[\w-]+\])?$")

Place = tuple[str, int]


def check(*files: Path) -> dict[Place, list[str]]:
    """What mypy says of these files, with the project's own settings and its cache, which `make check` has filled."""
    options = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
    said, trouble, _ = api.run([*options, "--no-pretty", "--no-error-summary", *map(str, files)])
    assert not trouble, trouble
    found: dict[Place, list[str]] = {}
    for line in said.splitlines():
        if match := FOUND.match(line):
            found.setdefault((match[1], int(match[2])), []).append(match[3])
    return found


def test_mypy_refuses_each_mistake_on_its_line_and_nothing_else() -> None:
    """One test, because one run of mypy is enough for all."""
    lines = REFUSED.read_text("utf-8").splitlines()
    expected = {
        (REFUSED.name, number): match[1]
        for number, line in enumerate(lines, 1)
        if (match := EXPECTED.search(line))
    }
    found = check(REFUSED, ACCEPTED)
    assert len(expected) > 30
    assert not {place: said for place, said in found.items() if place not in expected}
    missed = {
        place: (text, found.get(place))
        for place, text in expected.items()
        if not any(text in said for said in found.get(place, ()))
    }
    assert not missed
