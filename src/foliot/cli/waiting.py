"""Waiting for a job in a terminal: its progress, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import nullcontext, suppress
from typing import Final

import msgspec
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from foliot import commands
from foliot.cli.output import print_json, printable
from foliot.cli.stall import Stall
from foliot.cli.terminal import Screen
from foliot.clock import SystemClock
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import Attempt, Job, JobState
from foliot.store.port import Store

_FIRST_LOOK: Final = 0.02
_LAST_LOOK: Final = 0.25
_LATE: Final = 0.25  # seconds in which a worker has written what a job said before its end
_INTERRUPTED: Final = 130


class Wait:
    """Until the job has ended. What is shown on the way goes to stderr, the result to stdout."""

    def __init__(self, store: Store, id: JobId, *, json: bool) -> None:
        self._store = store
        self._id = id
        self._json = json
        self._screen = Screen(stderr=True)
        self._stall = Stall(store, SystemClock())
        self._stop = asyncio.Event()
        self._lines = 0  # of its log, that were shown
        self._failures = 0  # and of its failed attempts

    async def run(self) -> int:
        """0 if it succeeded, 1 if not, 130 if the wait was broken off."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        self._say(f"submitted {self._id}")
        job = await self._watch()
        if job is None:
            print(f"no longer waiting: the job goes on, {self._id}", file=sys.stderr)
            return _INTERRUPTED
        return await self._report(job)

    async def _watch(self) -> Job | None:
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[message]}"),
            console=self._screen,
            transient=True,
        )
        shown = self._screen.is_terminal and not self._json
        with bar if shown else nullcontext():
            task = bar.add_task("", total=1.0, message="")
            pause = _FIRST_LOOK
            while not self._stop.is_set():
                job = await self._look()
                if job is not None:
                    self._show(bar, task, job)
                    await self._say_more(job)
                    if job.state.final:
                        await self._say_last(job)
                        return job
                    await self._say_stall(job)
                await self._rest(pause)
                pause = min(pause * 1.5, _LAST_LOOK)
        return None

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _look(self) -> Job | None:
        """None while the store is away: it may come back, and the job is in it."""
        try:
            return await commands.get(self._store, self._id)
        except StoreUnavailable:
            return None

    def _show(self, bar: Progress, task: TaskID, job: Job) -> None:
        reason = f" ({job.reason})" if job.reason else ""
        attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
        progress = job.progress
        bar.update(
            task,
            description=printable(f"{job.kind} {job.state.value}{reason}{attempt}"),
            completed=0.0 if progress is None else progress.fraction,
            message="" if progress is None else printable(progress.message or ""),
        )

    async def _say_more(self, job: Job) -> None:
        """Lines of its log and failed attempts that are new."""
        if self._json:
            return
        lines = await commands.logs(self._store, self._id) if job.attempt else []
        for line in lines[self._lines :]:
            self._say(f"{line.level.lower()}: {line.message}")
        self._lines = len(lines)
        attempts = await self._store.jobs.attempts(self._id) if job.attempt else []
        for attempt in attempts[self._failures :]:
            self._say(f"attempt {attempt.attempt} {attempt.outcome}: {last_line(attempt)}")
        self._failures = len(attempts)

    async def _say_stall(self, job: Job) -> None:
        for line in [] if self._json else await self._stall.of_job(job):
            self._say(line)

    async def _say_last(self, job: Job) -> None:
        """Workers write lines beside the ends of jobs: the last ones may come after it."""
        if job.attempt and not self._json:
            await self._rest(_LATE)
            await self._say_more(job)

    async def _report(self, job: Job) -> int:
        succeeded = job.state is JobState.SUCCEEDED
        error = None if succeeded else await self._error(job)
        if self._json:
            result = None if job.result is None else msgspec.Raw(job.result)
            print_json(
                {"id": job.id, "state": job.state, "result": result, "error": error}
                | {"reason": job.reason, "attempt": job.attempt}
            )
        elif succeeded:
            print((job.result or b"null").decode())
        else:
            why = f": {error}" if error else ""
            print(f"error: job {job.id} is {job.state.value}{why}", file=sys.stderr)
        return 0 if succeeded else 1

    async def _error(self, job: Job) -> str | None:
        attempts = await self._store.jobs.attempts(job.id)
        if job.state is JobState.DEAD and attempts:
            return attempts[-1].error or job.reason
        return job.reason

    def _say(self, line: str) -> None:
        if not self._json:
            self._screen.say(printable(line))


def last_line(attempt: Attempt) -> str:
    """Of what it failed of."""
    lines = (attempt.error or "").strip().splitlines()
    return lines[-1] if lines else "no message"
