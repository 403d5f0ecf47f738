"""`foliot config show`: every value, and where it came from."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from foliot.config import SETTINGS

FOLIOT = str(Path(sys.executable).parent / "foliot")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("FOLIOT_")}


def show(
    folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FOLIOT, "config", "show", *arguments],
        cwd=folder,
        env=CLEAN | (env or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_setting_has_a_line_with_its_value_and_its_source(tmp_path: Path) -> None:
    (tmp_path / "foliot.toml").write_text('[worker]\nlease = "30s"\n')
    answer = show(tmp_path, env={"FOLIOT_LOG_LEVEL": "debug"})
    assert answer.returncode == 0
    assert answer.stderr == ""
    lines = {line.split()[0]: line.split()[1:3] for line in answer.stdout.splitlines()[1:]}
    assert list(lines) == list(SETTINGS)
    assert lines["worker.lease"] == ["30s", "foliot.toml:2"]
    assert lines["log.level"] == ["debug", "FOLIOT_LOG_LEVEL"]
    assert lines["limits.payload"] == ["256KiB", "default"]


def test_json_has_plain_values(tmp_path: Path) -> None:
    answer = show(tmp_path, "--json", "--url", "sqlite:///other.db")
    values = json.loads(answer.stdout)
    assert list(values) == list(SETTINGS)
    assert values["store.url"]["value"] == "sqlite:///other.db"
    assert values["store.url"]["source"] == "--url"
    assert values["worker.lease"]["value"] == 15
    assert values["worker.queues"]["value"] == []


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_password_is_not_shown(tmp_path: Path, form: list[str]) -> None:
    answer = show(tmp_path, *form, env={"FOLIOT_URL": "postgresql://me:s3cret@db/jobs"})
    assert answer.returncode == 0
    assert "postgresql://me:***@db/jobs" in answer.stdout
    assert "s3cret" not in answer.stdout + answer.stderr


def test_another_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[worker]\nthreads = 5\n")
    assert "other.toml:2" in show(tmp_path, "--config", "other.toml").stdout
    assert "other.toml:2" in show(tmp_path, env={"FOLIOT_CONFIG": "other.toml"}).stdout


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[worker]\nlease = 5x\n", "error: foliot.toml:2:10 is not TOML"),
        ('[worker]\nlease = "5x"\n', "error: worker.lease: '5x' is not a duration"),
        ("[worker]\nlaese = 5\n", "error: worker.laese is not a setting (foliot.toml:2)"),
    ],
)
def test_a_bad_file_is_refused_as_configuration(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "foliot.toml").write_text(text)
    answer = show(tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith(error)


def test_a_missing_named_file_is_refused(tmp_path: Path) -> None:
    answer = show(tmp_path, "--config", "gone.toml")
    assert answer.returncode == 2
    assert "'gone.toml' cannot be read" in answer.stderr


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    answer = subprocess.run(
        [FOLIOT.encode(), b"config", b"show", b"--url", b"sqlite:///\xff.db"],
        cwd=tmp_path,
        env=CLEAN,
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 2
    assert b"cannot be printed" in answer.stderr


@pytest.mark.parametrize("columns", ["", "0", "1", "40", "200"])
def test_on_a_terminal_of_any_width_nothing_is_cut_off(tmp_path: Path, columns: str) -> None:
    ours, theirs = pty.openpty()
    env = CLEAN | {"COLUMNS": columns, "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(
        [FOLIOT, "config", "show"], cwd=tmp_path, env=env, stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # the other side was closed
            pass
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert b"\x1b[3" not in shown
    assert "…" not in shown.decode()
