"""What the pages show works: code is run as it stands, commands are typed as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foliot.testing.postgres import TemporaryPostgres
from foliot.when import parse
from support.installed import environment as clean_environment
from support.installed import install

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
ON_POSTGRES = {"exactly-once.md"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\w+\.(?:py|ini|toml))\n")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    for match in BLOCK.finditer(page.read_text("utf-8")):
        yield match[1], match[2]


def save(text: str, folder: Path) -> None:
    name = FILE_NAME.match(text)
    assert name, f"a block does not start with its file name: {text[:80]}"
    (folder / name[1]).write_text(text)
    if name[1].endswith(".py"):
        compile(text, name[1], "exec")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture
def store(page: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """Where a page's jobs are kept, unless it is the usual file."""
    if page.name not in ON_POSTGRES:
        return {}
    server: TemporaryPostgres = request.getfixturevalue("server")
    return {"FOLIOT_URL": server.url(tcp=True)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path, site: Path, tmp_path: Path, store: dict[str, str]
) -> None:
    bin = Path(sys.executable).parent
    environment = clean_environment(
        site, PATH=f"{bin}:{os.environ['PATH']}", PYTHONPATH=f"{tmp_path}:{site}"
    )
    environment.update(store)
    worker: subprocess.Popen[bytes] | None = None
    try:
        for language, text in blocks(page):
            if language in ("python", "ini") or (language == "toml" and FILE_NAME.match(text)):
                save(text, tmp_path)
            elif language == "console":
                for line in text.splitlines():
                    command = shlex.split(line.removeprefix("$ "))
                    if command[:2] == ["foliot", "worker"]:
                        stop(worker)
                        worker = subprocess.Popen(command, cwd=tmp_path, env=environment)
                        continue
                    done = subprocess.run(
                        command,
                        cwd=tmp_path,
                        env=environment,
                        capture_output=True,
                        timeout=60,
                        check=False,
                    )
                    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    finally:
        stop(worker)


def stop(worker: subprocess.Popen[bytes] | None) -> None:
    """As a reader would before the next one: two apps on one store hold each other's jobs for a while."""
    if worker is not None:
        worker.terminate()
        worker.wait(30)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [
        link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()
    ]
    assert not missing


def test_the_configuration_page_is_current() -> None:
    script = ROOT / "tools" / "configuration_page.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_the_picture_of_clock_changes_is_current() -> None:
    script = ROOT / "tools" / "clock_changes_picture.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_the_pictures_of_workflows_are_current() -> None:
    script = ROOT / "tools" / "workflow_pictures.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_the_picture_of_the_admission_door_is_current() -> None:
    script = ROOT / "tools" / "admission_door_picture.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_every_expression_in_the_table_is_read() -> None:
    text = (ROOT / "docs" / "schedules.md").read_text("utf-8")
    examples = re.findall(r"^\| [^|]*\| `([^`]+)` \|", text.split("## ")[1], re.MULTILINE)
    assert len(examples) > 30
    for example in examples:
        read = parse(example, now=1_790_000_000, seed="nightly")
        assert parse(read.english, timezone=read.timezone).timetable() is not None


def test_files_named_by_the_architecture_page_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    package = ROOT / "src" / "foliot"
    named = {
        name
        for name in re.findall(r"`([\w/]+\.(?:py|sql))`", text)
        if "/" in name or name == "commands.py"
    }
    places = {name: [ROOT / name, package / name] for name in named}
    assert named
    assert not [
        name for name, options in places.items() if not any(path.exists() for path in options)
    ]
