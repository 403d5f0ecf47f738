"""The tests notice when a hot function is wrong: each of its mutants makes some of them fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mutation.mutants import MUTANTS, TESTS, Mutant

ROOT = Path(__file__).parent.parent.parent
OFTEN = [mutant for mutant in MUTANTS if mutant.often]
RARELY = [mutant for mutant in MUTANTS if not mutant.often]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    return Path(shutil.copytree(ROOT / "src" / "foliot", tmp_path / "foliot"))


def _test(package: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run these tests on that copy."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--timeout",
            "30",
            *tests,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def _catch(package: Path, mutant: Mutant) -> None:
    mutant.put_into(package)
    done = _test(package, TESTS[mutant.file, mutant.name])
    assert done.returncode == 1, (
        f"nobody noticed {mutant}:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_what_a_mutant_changes_is_there(mutant: Mutant) -> None:
    assert mutant.find(ROOT / "src" / "foliot")


@pytest.mark.parametrize("mutant", OFTEN, ids=str)
def test_a_mutant_is_caught(package: Path, mutant: Mutant) -> None:
    _catch(package, mutant)


@pytest.mark.sim
@pytest.mark.parametrize("mutant", RARELY, ids=str)
def test_another_mutant_is_caught(package: Path, mutant: Mutant) -> None:
    _catch(package, mutant)


@pytest.mark.sim
@pytest.mark.parametrize("name", TESTS, ids=lambda name: name[1])
def test_without_a_mutant_they_pass(package: Path, name: tuple[str, str]) -> None:
    """And they test the copy, not what is installed."""
    done = _test(package, TESTS[name])
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_copy_is_what_is_tested(package: Path) -> None:
    (package / "ids.py").write_text("raise RuntimeError('the copy')")
    done = _test(package, ("tests/test_retry.py",))
    assert done.returncode != 0
    assert "the copy" in done.stdout + done.stderr


def test_five_functions_at_least_are_mutated() -> None:
    assert len({(mutant.file, mutant.name) for mutant in OFTEN}) >= 5
    assert {(mutant.file, mutant.name) for mutant in MUTANTS} == set(TESTS)
