"""Restarting a process when the code it runs has changed.

The parent watches the times of the project's files and runs the program in a child. When something has changed, the
child is asked to stop, finishes or gives back what it runs, and a new one is started. A child that does not come up,
say for a syntax error, has shown why; then the parent waits for the next change.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from foliot.clock import Clock

_LOOK_EVERY: Final = 0.5  # seconds
_MOST_FILES: Final = 10_000
_NOT_OURS: Final = {"node_modules", "site-packages", "__pycache__"}
_AT_ONCE: Final = 130

Times = dict[str, tuple[int, int]]


class Reloader:
    """Runs `command` again whenever a file under `roots` has changed, until it is told to stop."""

    def __init__(self, command: Sequence[str], roots: Sequence[Path], *, clock: Clock) -> None:
        self._command = command
        self._roots = roots
        self._clock = clock
        self._told = 0
        self._stop = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._hear)
        seen = file_times(self._roots)
        say(f"watching {', '.join(str(root) for root in self._roots)} ({len(seen)} files)")
        while not self._stop.is_set():
            seen = await self._run_once(seen)
        return _AT_ONCE if self._told > 1 else 0

    async def _run_once(self, seen: Times) -> Times:
        """One child, until it is to be replaced. Returns the times that the next one starts from."""
        child, line = await self._start()
        with line:
            ended = asyncio.create_task(child.wait())
            changed = asyncio.create_task(self._change(seen))
            stop = asyncio.create_task(self._stop.wait())
            await asyncio.wait([ended, changed, stop], return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and ended.result() != 0 and not stop.done() and not changed.done():
                say(f"it has ended with exit code {ended.result()}: waiting for a change")
                await asyncio.wait([changed, stop], return_when=asyncio.FIRST_COMPLETED)
            if changed.done() and not stop.done():
                say(f"{changed.result()} has changed: starting anew")
                self._end()
            await ended
            for task in (changed, stop):
                task.cancel()
        return file_times(self._roots)

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            # A group of its own: Ctrl-C goes to the whole group, and would reach it twice.
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                "--parent",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        if self._stop.is_set():
            self._end()
        return self._child, ours

    async def _change(self, seen: Times) -> str:
        """The name of a file that is new, gone or different."""
        while True:
            await self._clock.sleep(_LOOK_EVERY)
            now = await asyncio.to_thread(file_times, self._roots)
            for path in {**seen, **now}:
                if seen.get(path) != now.get(path):
                    return path

    def _hear(self) -> None:
        self._told += 1
        self._stop.set()
        self._end()

    def _end(self) -> None:
        """Asked the first time, killed the second."""
        if self._child is not None and self._child.returncode is None:
            with suppress(ProcessLookupError):
                if self._told > 1:
                    os.killpg(self._child.pid, signal.SIGKILL)
                else:
                    self._child.terminate()


def file_times(roots: Sequence[Path]) -> Times:
    """When each Python file, and each foliot.toml, was written last, and how long it is."""
    found: Times = {}
    for root in roots:
        for entry in _files(str(root)):
            with suppress(OSError):  # gone in between
                told = entry.stat()
                found[entry.path] = (told.st_mtime_ns, told.st_size)
            if len(found) >= _MOST_FILES:
                return found
    return found


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return  # a virtual environment: other people's code
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _NOT_OURS:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        elif entry.name.endswith(".py") or entry.name == "foliot.toml":
            yield entry


def project_of(app: str | None) -> list[Path]:
    """The folders to watch: the current one, and where the app is, if that is elsewhere."""
    here = Path.cwd()
    name = (app or "").partition(":")[0]
    if name.endswith(".py"):
        there = Path(name).resolve().parent
    elif not name or (place := _place_of(name.partition(".")[0])) is None:
        return [here]
    else:
        there = place
    return [here] if there.is_relative_to(here) else [here, there]


def _place_of(package: str) -> Path | None:
    """The folder of a package, or of a module that stands alone, without importing it."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve().parent


def say(line: str) -> None:
    print(f"foliot up: {line}", file=sys.stderr, flush=True)
