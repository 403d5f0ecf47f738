"""Completion: what a shell offers is what the commands take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foliot.cli.main import COMMANDS, GROUPS

FOLIOT = str(Path(sys.executable).parent / "foliot")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "foliot.bash"
    path.write_text(subprocess.check_output([FOLIOT, "completion", "bash"], text=True))
    return path


def complete(script: Path, line: str) -> set[str]:
    """What bash would offer for the last word of a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"""
        source '{script}'
        function_name=$(complete -p foliot | sed -E 's/.*-F ([^ ]+).*/\\1/')
        COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
        COMP_LINE='{line}'; COMP_POINT={len(line)}
        "$function_name" foliot '{words[-1]}' '{words[-2]}'
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    answer = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    return {word.strip() for word in answer.stdout.split()}


def test_every_command_is_offered(script: Path) -> None:
    offered = complete(script, "foliot ")
    assert {path.partition(" ")[0] for path in COMMANDS} <= offered


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_of_a_group_is_offered(script: Path, group: str) -> None:
    below = {path.partition(" ")[2] for path in COMMANDS if path.startswith(f"{group} ")}
    assert below <= complete(script, f"foliot {group} ")


def test_a_beginning_is_completed(script: Path) -> None:
    assert complete(script, "foliot db up") == {"upgrade"}
    assert complete(script, "foliot queues pause mail --no") == {"--note"}


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_offers_its_options_though_it_is_loaded_late(script: Path, path: str) -> None:
    assert {"--url", "--json"} <= complete(script, f"foliot {path} --")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_with_every_command_in_it(shell: str) -> None:
    answer = subprocess.check_output([FOLIOT, "completion", shell], text=True)
    for path in COMMANDS:
        assert path.rpartition(" ")[2] in answer
    assert "note" in answer
