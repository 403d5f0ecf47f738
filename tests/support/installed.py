"""Foliot as an installation has it: a folder like site-packages, with what pytest looks for in it."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def install(site: Path) -> Path:
    """The package, its entry points and the list of its files."""
    shutil.copytree(ROOT / "src" / "foliot", site / "foliot")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = site / "foliot-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: foliot\nVersion: 0\n")
    points = project["entry-points"]["pytest11"]
    lines = ["[pytest11]", *(f"{name} = {target}" for name, target in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    files = [path.relative_to(site) for path in site.rglob("*") if path.is_file()]
    (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return site


def environment(site: Path, **variables: str) -> dict[str, str]:
    """Of a process that finds the installation, and nothing of the tests that run it."""
    ours = ("FOLIOT", "PYTEST", "PYTHONPATH")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "PYTHONPATH": str(site), **variables}
