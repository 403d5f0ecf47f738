"""The worker's line to its guard, which kills its children's process groups when the worker is gone."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Final

_PROGRAM: Final = Path(__file__).parent.parent / "guard.py"


class Guardian:
    """One guard for all workers of the process, started with the first child."""

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def watch(self, group: int) -> None:
        self._groups.add(group)
        if self._guard is None or self._guard.poll() is not None:
            self._start()
        else:
            self._tell(group)

    def forget(self, group: int) -> None:
        self._groups.discard(group)
        self._tell(-group)

    def _start(self) -> None:
        self._guard = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        for group in self._groups:
            self._tell(group)

    def _tell(self, group: int) -> None:
        """Without a guard the children still watch for their worker's end themselves."""
        if self._guard is None or self._guard.stdin is None:
            return
        with contextlib.suppress(OSError):
            self._guard.stdin.write(b"%d\n" % group)
            self._guard.stdin.flush()


GUARDIAN: Final = Guardian()
