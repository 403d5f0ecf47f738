"""Each example in a folder of its own, with Foliot installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.installed import ROOT, install


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        skipped = shutil.ignore_patterns("__pycache__", "*.db", "*.sqlite3")
        return Path(shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=skipped))

    return copy
