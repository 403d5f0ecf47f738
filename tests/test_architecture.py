"""Rules that no linter knows: sizes, names, docstrings, and who may import what."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "foliot"
MODULES = sorted(SOURCE.rglob("*.py"))
NAMES = [str(path.relative_to(SOURCE)) for path in MODULES]

LONGEST_FILE = 400
BANNED_PARTS = {"manager", "helper", "helpers", "util", "utils", "common", "base", "impl"}
ADAPTERS = ("foliot.store.sqlite", "foliot.store.postgres")
WHEN_MAY_IMPORT = {
    "foliot.when",
    "foliot.units",
    "foliot.errors",
    "foliot.shown",
    "msgspec",
    "dateutil",
}
MODEL_MAY_IMPORT = {"foliot.model", "foliot.ids", *WHEN_MAY_IMPORT}
MACHINE_PATH = re.compile(r"/(?:work|root|tmp|home/\w+|Users/\w+)/")

every_module = pytest.mark.parametrize("path", MODULES, ids=NAMES)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@every_module
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@every_module
def test_a_name_says_what_is_inside(path: Path) -> None:
    parts = re.split(r"[_./]", str(path.relative_to(SOURCE).with_suffix("")))
    assert not BANNED_PARTS & set(parts)


@every_module
def test_a_module_opens_by_saying_what_it_is_for(path: Path) -> None:
    assert (ast.get_docstring(tree_of(path)) or "").strip()


@every_module
def test_imports_stand_at_the_top(path: Path) -> None:
    """Except in the command line, which must answer at once, and where an adapter is picked."""
    if path.is_relative_to(SOURCE / "cli") or path == SOURCE / "store" / "open.py":
        return
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    inside = [node for node in ast.walk(tree_of(path)) if isinstance(node, functions)]
    assert not [name for function in inside for name in imports_of(function)]


@every_module
def test_only_the_opener_of_stores_imports_an_adapter(path: Path) -> None:
    if path == SOURCE / "store" / "open.py":
        return
    module = "foliot." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    others = [adapter for adapter in ADAPTERS if not is_within(module, adapter)]
    imported = list(imports_of(tree_of(path)))
    assert not [name for name in imported if any(is_within(name, other) for other in others)]


@pytest.mark.parametrize(
    "folder", [("model", MODEL_MAY_IMPORT), ("when", WHEN_MAY_IMPORT)], ids=lambda pair: pair[0]
)
def test_what_is_pure_imports_only_what_is_pure(folder: tuple[str, set[str]]) -> None:
    where, may_import = folder
    for path in (SOURCE / where).rglob("*.py"):
        for name in imports_of(tree_of(path)):
            allowed = name.partition(".")[0] in sys.stdlib_module_names
            assert allowed or any(is_within(name, package) for package in may_import), (path, name)


def test_no_file_speaks_of_the_machine_it_was_written_on() -> None:
    folders = ["src", "tests", "tools", "docs", "examples", ".ci"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]
    texts = [path for path in files if path.suffix not in {".pyc", ".png", ".db"}]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert not found
