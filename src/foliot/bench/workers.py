"""The real thing: `foliot worker` in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from foliot.bench.jobs import QUEUE
from foliot.config import ALIASES, WorkerSettings, environment_name
from foliot.errors import FoliotError

TARGET = "foliot.bench.jobs:app"
_PATIENCE = 60.0  # seconds to stop in


class Workers:
    """Runs while the block runs. `url` and the rest of the settings go by the environment, not by the command line,
    where everybody could read a password."""

    def __init__(self, url: str, settings: WorkerSettings, *, log: Path) -> None:
        self._log = log
        self._command = [
            *(sys.executable, "-m", "foliot", "worker", TARGET, "--queues", QUEUE),
            *("--processes", str(settings.processes)),
            *("--concurrency", str(settings.concurrency)),
            *("--threads", str(settings.threads)),
        ]
        names = {environment_name("store.url"), *ALIASES}
        inherited = {k: v for k, v in os.environ.items() if k not in names}  # noqa: TID251 - handed on, not read
        self._environment = {**inherited, "FOLIOT_URL": url}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                self._command, env=self._environment, stdout=log, stderr=log
            )
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.terminate()  # the second time ends its children at once
            process.wait()

    def check(self) -> None:
        """Raises if they have ended by themselves."""
        if self._process is not None and self._process.poll() is not None:
            raise FoliotError(f"the workers ended, exit code {self._process.returncode}{self.said}")

    @property
    def said(self) -> str:
        """The end of their log."""
        lines = self._log.read_text(errors="replace").splitlines()[-20:]
        return "; their log ends:\n" + "\n".join(lines) if lines else ""
