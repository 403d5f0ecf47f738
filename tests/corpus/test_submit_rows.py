"""`foliot submit`: payloads from everywhere, options that contradict each other; and submitting twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from client.conftest import run_in_thread
from corpus.conftest import Foliot_
from corpus.rows import row
from foliot import Foliot, JobState
from foliot.errors import FoliotError


@pytest.fixture
def shop(app: Foliot) -> Foliot:
    """An app that a worker has announced."""

    @app.job
    def sell(item: str = "", count: int = 1) -> None: ...

    stop = run_in_thread(app)
    try:
        sell.submit().result(timeout=30)
    finally:
        stop()
    return app


def _submit(
    shop: Foliot, *arguments: str, stdin: bytes | None = b"", close: bool = False
) -> tuple[int, str, str]:
    """In a process of its own, with this on its standard input."""
    command = [sys.executable, "-m", "foliot", "submit", "sell", "--url", shop.settings.store.url]
    line = [*command, *arguments]
    if close:
        line = ["/bin/sh", "-c", 'exec "$0" "$@" <&-', *line]
    done = subprocess.run(line, input=stdin, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@row("L06", "L07", "L10", "L13")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "2027-01-31T09:00Z", "--in", "10m"], "cannot be given together"),
        (["--priority", "abc"], "is not high, medium, low or a number from 0 to 9"),
        (["--priority", "1.5"], "from 0 to 9"),
        (["--priority", "1e3"], "from 0 to 9"),
        (["--queue", ""], "queue: '' is not 1 to 200 letters"),
        (["--at", "2027-01-31T09:00"], "has no time zone"),
        (["--at", "tomorrow"], "is not a moment"),
        (["--in=-5m"], "is negative"),
        (["--in", "1x"], "is not a duration"),
        (["--max-attempts", "1.5"], "is not a whole number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_are_refused(
    shop: Foliot, foliot: Foliot_, arguments: list[str], said: str
) -> None:
    answer = foliot("submit", "sell", *arguments, "--url", shop.settings.store.url)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


@row("L11")
def test_a_value_may_begin_with_a_dash(shop: Foliot, foliot: Foliot_) -> None:
    answer = foliot("submit", "sell", "--url", shop.settings.store.url, "--", "item=-x", "count=-1")
    assert answer.code == 0, answer.err
    assert shop.get(answer.out.strip()).job().payload == b'{"item":"-x","count":-1}'


@row("L17", "L18", "L19")
def test_files_that_cannot_be_read(shop: Foliot, foliot: Foliot_, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "large.json").write_text('{"item":"' + "x" * 300_000 + '"}')
    (tmp_path / "closed.json").touch(mode=0o000)
    said = {
        "missing.json": "No such file",
        "folder": "Is a directory",
        "large.json": "limits.payload",
    }
    if not os.access(tmp_path / "closed.json", os.R_OK):  # nothing is closed to root
        said["closed.json"] = "Permission denied"
    for name, problem in said.items():
        answer = foliot("submit", "sell", "--payload", f"@{name}", "--url", shop.settings.store.url)
        assert (answer.code, answer.out) == (2, "")
        assert f"@{name}" in answer.err
        assert problem in answer.err


@row("L21", "L22", "L23")
def test_standard_input_that_is_empty_closed_binary_or_endless(shop: Foliot) -> None:
    for stdin in (
        b"",
        b"\xff\xfe\x00",
        b"[1]",
        b"7",
        b'{"item":',
        b'{"item":"' + b"x" * 10_000_000,
    ):
        code, out, err = _submit(shop, "--payload", "-", stdin=stdin)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert "Traceback" not in err
    code, _, err = _submit(shop, "--payload", "-", stdin=None, close=True)
    assert (code, "standard input is closed" in err) == (2, True)
    assert _submit(shop, "--payload", "-", stdin=b'{"item":"x"}')[0] == 0


@row("A62", "A63")
def test_submitted_again_under_one_idempotency_key(app: Foliot) -> None:
    @app.job
    def work(n: int) -> None: ...

    once = work.options(idempotency_key="request-42")
    first = once.submit(1)
    assert once.submit(1).id == first.id
    with pytest.raises(FoliotError, match="request-42"):
        once.submit(2)
    assert first.status() is JobState.READY
