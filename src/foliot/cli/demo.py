"""`foliot demo`: real workers on a SQLite file of their own, and their jobs live in the terminal."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Self

import msgspec
from rich.console import ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table
from foliot.cli.sections import Column, Section, render
from foliot.cli.terminal import Screen
from foliot.client.app import Foliot
from foliot.client.handle import Handle
from foliot.client.workflow import Flow
from foliot.clock import SystemClock
from foliot.config import load
from foliot.demo import jobs as shop
from foliot.drawing.boxes import MARKS
from foliot.errors import FoliotError, InvalidValue
from foliot.model.job import Job, JobState
from foliot.model.schedule import Answer, Schedule
from foliot.model.workflow import Workflow, WorkflowState
from foliot.store.open import upgrade_store
from foliot.workflow_view import StepView

_SHOWN = 13
_COLOURS = {
    JobState.SCHEDULED: "cyan",
    JobState.READY: "yellow",
    JobState.RUNNING: "bold magenta",
    JobState.SUCCEEDED: "green",
    JobState.DEAD: "bold red",
    JobState.CANCELLED: "bright_black",
    JobState.HELD: "yellow",
}
_COLUMNS = (
    Column("job", rank=1),
    Column("kind", rank=2),
    Column("state"),
    Column("attempt", right=True),
    Column("after", right=True),
    Column("what"),
)
_TIMES = (
    Column("schedule", rank=1),
    Column("when"),
    Column("fired", right=True),
    Column("last", rank=2),
    Column("late", right=True),
)
_FLOWS = (
    Column("workflow", rank=1),
    Column("state"),
    Column("steps", right=True),
    Column("how far it is"),
)
_SCHEDULES = ("count-stock", "newsletter")  # the first is declared by the code of the jobs
_LONGEST_CYCLE = 60.0


def demo(*, seconds: float | None = None, options: Options = DEFAULT_OPTIONS) -> int:
    """Run sample jobs, schedules and a workflow on SQLite, and watch them live.

    Parameters
    ----------
    seconds
        Stop so many seconds after the first job has started; without a terminal it stops after one
        full cycle anyway.
    """
    if seconds is not None and not 0 < seconds <= 86_400:
        raise InvalidValue("seconds", seconds, "is not from 0 to 86400", example="--seconds 20")
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _end)
    with tempfile.TemporaryDirectory(prefix="foliot-demo-") as directory:
        url = options.url or f"sqlite:///{directory}/foliot.db"
        settings = load(flags={"store.url": url}).settings
        asyncio.run(upgrade_store(settings.store))
        with (
            Foliot(settings=settings) as app,
            _Workers(url, Path(directory) / "worker.log") as workers,
        ):
            return _Demo(app, workers, options, seconds).run()


def _end(number: int, _: object) -> NoReturn:
    """The terminal was closed, for example: the workers have a session of their own and would go on for ever."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)


class _Workers:
    """Two worker processes under their supervisor, as anybody would start them."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "foliot", "worker", "foliot.demo.jobs:app"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [*command, "--url", self._url, "--processes", "2", "--grace", "2s"],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def check(self) -> None:
        if self._process.poll() is not None:
            raise FoliotError(f"the workers ended: {self._log.read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Seen(msgspec.Struct):
    """One submitted job and what we last knew of it."""

    handle: Handle[Any]
    what: str
    job: Job | None = None

    @property
    def over(self) -> bool:
        return self.job is not None and self.job.state.final


class _Demo:
    def __init__(
        self, app: Foliot, workers: _Workers, options: Options, seconds: float | None
    ) -> None:
        self._app = app
        self._workers = workers
        self._options = options
        self._clock = SystemClock()
        self._seconds = seconds
        self._until: float | None = None  # not before the workers are there: that takes its time
        self._seen: list[_Seen] = []
        self._ended: Counter[JobState] = Counter()
        self._cycles = 0
        self._to_cancel: _Seen | None = None
        self._times: dict[str, tuple[str, ...]] = {}  # what is shown of each schedule
        self._flow: Flow | None = None
        self._flow_row: tuple[str, ...] = ()  # what is shown of it
        self._flows: Counter[WorkflowState] = Counter()  # that have ended

    def run(self) -> int:
        mail = shop.send_email.prepare("everybody@example.org", "News")
        self._app.schedule("newsletter", mail, "every 3 seconds", tags=["demo"])
        console = Screen()
        live = console.is_terminal and not self._options.json
        try:
            if live:
                with Live(console=console, auto_refresh=False) as display:
                    self._cycle_until_told(
                        lambda: display.update(self._screen(console.size), refresh=True)
                    )
            else:
                self._cycle(lambda: None)
        except KeyboardInterrupt:
            pass
        for schedule in self._schedules():  # the store may be one that stays
            self._app.get_schedule(schedule.name).delete()
        self._summary(console)
        return 0

    def _cycle_until_told(self, show: Callable[[], None]) -> None:
        while not self._time_is_up():
            self._cycle(show)

    def _cycle(self, show: Callable[[], None]) -> None:
        """Submit a little of everything, and watch until all of it has ended."""
        self._cycles += 1
        started = self._clock.monotonic()
        for prepared, what in self._orders():
            self._seen.append(_Seen(self._app.submit(prepared), what))
            if what.startswith("endless"):
                self._to_cancel = self._seen[-1]
        self._flow = self._order_parcels(self._cycles * 100)
        while not self._time_is_up():
            self._look()
            show()
            if self._all_over():
                break
            if self._clock.monotonic() - started > _LONGEST_CYCLE:
                raise FoliotError("the demo's jobs did not end within a minute")
            asyncio.run(self._clock.sleep(0.1))
        self._seen = self._seen[-200:]

    def _orders(self) -> Iterator[tuple[Any, str]]:
        number = self._cycles * 100
        for person in ("ada", "grace", "edsger", "barbara", "donald", "radia"):
            subject = f"Order {number} is on its way"
            yield shop.send_email.prepare(f"{person}@example.org", subject), f"mail to {person}"
        for picture in ("clock.png", "train.png", "foliot.png"):
            yield shop.make_thumbnail.prepare(picture), f"thumbnail of {picture}"
        yield shop.charge_card.prepare(number), "payment that works on the third attempt"
        yield shop.charge_expired_card.prepare(number), "payment that never works"
        later = shop.daily_report.options(delay=1.5)
        yield later.prepare("2026-11-18"), "report, due in 1.5 s"
        yield shop.endless_export.prepare(), "endless export, cancelled when it runs"

    def _order_parcels(self, order: int) -> Flow:
        with self._app.workflow("parcels") as flow:
            items = flow.add(shop.pick.prepare(order))
            parcels = flow.map(shop.pack, over=items.result)
            flow.add(shop.ship.prepare(parcels=parcels.result))
        return flow

    def _look(self) -> None:
        self._workers.check()
        for seen in [seen for seen in self._seen if not seen.over]:
            job = seen.job = seen.handle.job()
            if self._until is None and self._seconds is not None and job.attempt:
                self._until = self._clock.monotonic() + self._seconds
            if job.state.final:
                self._ended[job.state] += 1
            elif seen is self._to_cancel and job.state is JobState.RUNNING:
                seen.handle.cancel()
                self._to_cancel = None
        if self._flow is not None:
            workflow = self._flow.get()
            self._flow_row = _flow_row(workflow, self._flow.steps())
            if workflow.state.final:
                self._flows[workflow.state] += 1
                self._flow = None
        for schedule in self._schedules():
            fires = self._app.get_schedule(schedule.name).fires()
            jobs = [answer for answer in fires if answer.started_at is not None]
            self._times[schedule.name] = _times_row(schedule, len(fires), jobs[-1:])

    def _schedules(self) -> Iterator[Schedule]:
        """Those that are there: the workers make theirs when they start."""
        for name in _SCHEDULES:
            yield from self._app.schedules(name=name)

    def _all_over(self) -> bool:
        """All jobs and the workflow have ended, and every schedule has fired."""
        fired = all(name in self._times and self._times[name][-1] for name in _SCHEDULES)
        return fired and self._flow is None and all(seen.over for seen in self._seen)

    def _screen(self, size: ConsoleDimensions) -> Group:
        shown = self._seen[-_SHOWN:]
        section = Section(_COLUMNS, [_row(s) for s in shown], styles=[_style(s) for s in shown])
        lines = [Text("Foliot: jobs on SQLite, two worker processes", "bold"), Text()]
        times = Section(_TIMES, list(self._times.values()))
        flows = Section(_FLOWS, [self._flow_row])
        room = size.height - 10 - len(self._times)
        lines += render(section, min(len(shown), room), size.width)
        lines += [Text(), *render(flows, 1, size.width)]
        lines += [Text(), *render(times, len(self._times), size.width)]
        counts = "   ".join(
            f"{number} {state.value}" for state, number in sorted(self._ended.items())
        )
        lines += [Text(), Text(f"ended so far: {counts or 'nothing yet'}   (Ctrl-C ends)")]
        for line in lines:
            line.truncate(size.width, overflow="ellipsis")
        return Group(*lines)

    def _summary(self, console: Screen) -> None:
        ended = {state.value: number for state, number in sorted(self._ended.items())}
        if self._options.json:
            fired = {name: int(row[2]) for name, row in self._times.items()}
            told = {"cycles": self._cycles, "ended": ended, "fired": fired}
            print_json({**told, "workflows": self._flows})
            return
        if not console.is_terminal:
            print_table([column.header for column in _COLUMNS], [_row(seen) for seen in self._seen])
            print()
            print_table([column.header for column in _FLOWS], [self._flow_row])
            print()
            print_table([column.header for column in _TIMES], list(self._times.values()))
            print()
        words = ", ".join(f"{number} {state}" for state, number in ended.items())
        print(f"{self._cycles} cycle{'s' if self._cycles != 1 else ''}: {words or 'nothing ended'}")

    def _time_is_up(self) -> bool:
        return self._until is not None and self._clock.monotonic() >= self._until


def _row(seen: _Seen) -> tuple[str, ...]:
    job = seen.job
    if job is None:
        return (seen.handle.id[-8:], "", "submitted", "", "", seen.what)
    reason = f" ({job.reason})" if job.reason and job.state is not JobState.SUCCEEDED else ""
    state = f"{job.state.value}{reason}"
    return (job.id[-8:], job.kind, state, str(job.attempt), _after(job), seen.what)


def _flow_row(workflow: Workflow, steps: list[StepView]) -> tuple[str, ...]:
    done = f"{workflow.total - workflow.remaining} of {workflow.total}"
    way = " → ".join(_flow_part(step) for step in steps if step.element_of is None)
    return (workflow.name, workflow.state.value, done, way)


def _flow_part(step: StepView) -> str:
    """Of a map, how the elements are: the first of them that has not succeeded."""
    states = list(step.elements or [step.state])
    state = next((one for one in states if one is not JobState.SUCCEEDED), states[0])
    count = f" × {sum(step.elements.values())}" if step.elements else ""
    return f"{MARKS[state]} {step.name}{count}"


def _times_row(schedule: Schedule, count: int, last: list[Answer]) -> tuple[str, ...]:
    row = (schedule.name, schedule.rules.expression, str(count))
    for answer in last:
        assert answer.started_at is not None
        late = (answer.started_at - answer.nominal).total_seconds()
        return (*row, f"{answer.nominal:%H:%M:%S}", f"{late * 1000:.0f} ms")
    return (*row, "", "")


def _style(seen: _Seen) -> str:
    return "" if seen.job is None else _COLOURS.get(seen.job.state, "")


def _after(job: Job) -> str:
    """From submission to the start of its last attempt, and to its end."""
    if job.finished_at is None:
        return ""
    return f"{(job.finished_at - job.created_at).total_seconds():.2f} s"
