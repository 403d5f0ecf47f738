"""Every row of the matrix is accounted for."""

from __future__ import annotations

import re
from pathlib import Path

from corpus.rows import ROWS, VOID

_MARK = re.compile(r"^\s*@row\(([^)]*)\)|marks=row\(([^)]*)\)", re.MULTILINE)


def named_rows() -> set[str]:
    files = Path(__file__).parent.glob("test_*.py")
    found = [match for file in files for match in _MARK.findall(file.read_text(encoding="utf-8"))]
    return {name for pair in found for name in re.findall(r"[A-Z]\d\d", "".join(pair))}


def test_every_row_has_its_tests_or_a_reason() -> None:
    assert sorted(ROWS.keys() - named_rows()) == []


def test_no_test_names_a_row_that_is_not_there() -> None:
    assert sorted(named_rows() - ROWS.keys()) == []


def test_a_row_is_either_tested_or_void() -> None:
    assert sorted(ROWS.keys() & VOID.keys()) == []
    assert all(reason for _, reason in VOID.values())
