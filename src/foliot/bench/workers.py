"""The real thing: `foliot worker` and `foliot scheduler` in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from foliot.bench.jobs import QUEUE
from foliot.bench.probe_sqlite import path_of
from foliot.bench.sizes import resident_bytes
from foliot.config import ALIASES, WorkerSettings, environment_name
from foliot.errors import FoliotError

TARGET = "foliot.bench.jobs:app"
_PATIENCE = 60.0  # seconds to stop in


class Program:
    """Runs while the block runs. `url` and the rest of the settings go by the environment, not by the command line,
    where everybody could read a password."""

    name = "the program"

    def __init__(
        self, arguments: Sequence[str], url: str, *, log: Path, directory: Path | None = None
    ) -> None:
        self._log = log
        self._directory = directory
        self._command = [sys.executable, "-m", "foliot", *arguments]
        names = {environment_name("store.url"), *ALIASES}
        inherited = {k: v for k, v in os.environ.items() if k not in names}  # noqa: TID251 - handed on, not read
        self._environment = {**inherited, "FOLIOT_URL": _absolute(url)}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                self._command, env=self._environment, stdout=log, stderr=log, cwd=self._directory
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
        """Raises if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise FoliotError(f"{self.name} ended, exit code {self._process.returncode}{self.said}")

    @property
    def resident_bytes(self) -> int | None:
        return None if self._process is None else resident_bytes(self._process.pid)

    @property
    def said(self) -> str:
        """The end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-20:]
        return "; the log ends:\n" + "\n".join(lines) if lines else ""


class Workers(Program):
    name = "the workers"

    def __init__(
        self,
        url: str,
        settings: WorkerSettings,
        *,
        log: Path,
        directory: Path | None = None,
        target: str | None = None,
    ) -> None:
        arguments = [
            *("worker", target or TARGET, "--queues", QUEUE),
            *("--processes", str(settings.processes)),
            *("--concurrency", str(settings.concurrency)),
            *("--threads", str(settings.threads)),
        ]
        super().__init__(arguments, url, log=log, directory=directory)


class Scheduler(Program):
    name = "the scheduler"

    def __init__(self, url: str, *, log: Path) -> None:
        super().__init__(["scheduler"], url, log=log)


def _absolute(url: str) -> str:
    """A file is named from where the bench runs."""
    return f"sqlite:///{path_of(url)}" if url.startswith("sqlite:") else url
