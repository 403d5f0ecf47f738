"""The end of a program that has not closed its app: it says nothing, and does not take long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from foliot import Foliot
from support.installed import environment

SRC = Path(__file__).parent.parent.parent / "src"
BEGINNING = """
import atexit, sys, threading
from foliot import Foliot

app = Foliot(sys.argv[1])

@app.job
def add(a: int, b: int) -> int:
    return a + b
"""
USED_AFTERWARDS = """
with app:
    handle = add.submit(1, 2)
print(handle.status())
"""
# Nobody knows the app any more when the interpreter ends.
FORGOTTEN = """
def main() -> None:
    print(Foliot(sys.argv[1]).count("state:ready"))

main()
"""
WAITED_FOR = """
handle = add.submit(1, 2)
try:
    handle.result(timeout=0.1)
except TimeoutError:
    print("ready")
"""
STILL_WAITED_FOR = """
handle = add.submit(1, 2)
threading.Thread(target=handle.result, daemon=True).start()
print(handle.status())
"""
# Whoever has something to do at the end has registered it later, and comes first.
USED_AT_THE_END = """
atexit.register(lambda: print(add.submit(1, 2).status()))
app.count("state:ready")
"""


def _run(program: str, url: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + program, url],
        env=environment(SRC),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_program_that_does_not_close_its_app_ends_in_silence(app: Foliot) -> None:
    url = app.settings.store.url
    assert app.count("state:ready") == 0
    assert _run(FORGOTTEN, url) == (0, "0\n", "")
    for program in (USED_AFTERWARDS, WAITED_FOR, STILL_WAITED_FOR, USED_AT_THE_END):
        assert _run(program, url) == (0, "ready\n", "")
