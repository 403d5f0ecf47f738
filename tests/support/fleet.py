"""Worker processes for tests: started, watched, stopped and killed; and what must be true of their jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from acceptance.jobs import LOG_VARIABLE, Event, Jobs
from foliot import JobState
from foliot.client.handle import Handle
from foliot.config import StoreSettings
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import Attempt, Job
from foliot.model.session import Session
from foliot.store.open import upgrade_store
from foliot.store.port import Store

T = TypeVar("T")

TESTS = Path(__file__).parent.parent
SOURCE = TESTS.parent / "src"  # of this copy, wherever another one may be installed
FOLIOT = (sys.executable, "-m", "foliot")
PATIENCE = 40.0
QUICKLY = {  # recovery in seconds, not in tens of them
    "worker.lease": "2s",
    "worker.beat": "500ms",
    "worker.poll": "100ms",
    "worker.grace": "10s",
    "scheduler.term": "1500ms",
    "scheduler.reap_every": "100ms",
    "store.connect_timeout": "2s",
}


def eventually(
    condition: Callable[[], T], *, timeout: float = PATIENCE, what: Callable[[], str] | None = None
) -> T:
    """Wait until it is true; a store that is away counts as not yet."""
    until = time.monotonic() + timeout
    last: object = None
    while time.monotonic() < until:
        try:
            if found := condition():
                return found
            last = found
        except StoreUnavailable as error:
            last = error
        time.sleep(0.02)
    raise AssertionError(f"still {last!r} after {timeout:g} s" + (f"\n{what()}" if what else ""))


class WorkerProcess:
    """One `foliot worker`. Supervised, it is the parent; otherwise the process that runs the jobs."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def stopped(self) -> bool:
        return state_of(self.pid) == "T"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """Returns when it has heard it."""
        self.signal(signal.SIGTERM)
        eventually(lambda: "stopping: " in self.log or not self.alive)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        return self.process.wait(timeout)

    def stop(self, timeout: float = PATIENCE) -> int:
        """In good order; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def children(self) -> list[int]:
        return children_of(self.pid)


class Fleet:
    """Worker processes on one store, the jobs submitted to it, and the log that the jobs write."""

    def __init__(self, url: str, folder: Path, **settings: str) -> None:
        self.url = url
        self.folder = folder
        self.settings = {**QUICKLY, **named(settings)}
        self.jobs = Jobs(url)
        self.app = "acceptance.jobs:app"  # what workers run, unless told otherwise
        self.submitted: list[JobId] = []
        self.workers: list[WorkerProcess] = []
        self._log = folder / "runs.jsonl"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            for pid in (*worker.children(), worker.pid) if worker.alive else ():
                kill(pid)
            worker.process.wait()
        self.jobs.app.close()

    def start(
        self,
        *flags: str,
        app: str | None = None,
        supervised: bool = False,
        url: str | None = None,
        path: Path | None = None,
        **settings: str,
    ) -> WorkerProcess:
        """Does not wait until it is up: what follows waits for what the worker does."""
        command = [*FOLIOT, "worker", app or self.app, *flags]
        if not supervised:
            command.append("--child")
        return self.launch(command, self.environment(url=url, path=path, **settings))

    def start_scheduler(
        self, *, url: str | None = None, path: Path | None = None, **settings: str
    ) -> WorkerProcess:
        """A process that only does duties. What is in `path` is imported before anything else."""
        environment = self.environment(url=url, path=path, **settings)
        return self.launch([*FOLIOT, "scheduler"], environment)

    def launch(
        self, command: Sequence[str], environment: dict[str, str] | None = None
    ) -> WorkerProcess:
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = WorkerProcess(command, environment or self.environment(), log)
        self.workers.append(worker)
        return worker

    def environment(
        self, *, url: str | None = None, path: Path | None = None, **settings: str
    ) -> dict[str, str]:
        """Of any process on this store."""
        chosen = {**self.settings, **named(settings), "store.url": url or self.url}
        places = [TESTS, SOURCE] if path is None else [path, TESTS, SOURCE]
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith("FOLIOT_")},
            **{f"FOLIOT_{key.upper().replace('.', '_')}": text for key, text in chosen.items()},
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            LOG_VARIABLE: str(self._log),
        }

    def scale(self, count: int, *, url: str | None = None) -> list[WorkerProcess]:
        return [self.start(url=url) for _ in range(count)]

    def replace(self, worker: WorkerProcess) -> WorkerProcess:
        worker.kill()
        return self.start()

    def submit(self, handle: Handle[T]) -> Handle[T]:
        """Remember what was submitted, for `check`."""
        self.submitted.append(handle.id)
        return handle

    def submit_quick(self, count: int) -> list[JobId]:
        calls = [self.jobs.quick.prepare(number) for number in range(count)]
        ids = [
            handle.id
            for start in range(0, count, 1000)
            for handle in self.jobs.app.submit_many(calls[start : start + 1000])
        ]
        self.submitted += ids
        return ids

    def gate(self, name: str) -> Path:
        return self.folder / f"gate-{name}"

    def events(self, event: str | None = None, *, job: str | None = None) -> list[Event]:
        if not self._log.exists():
            return []
        whole, _, _ = self._log.read_bytes().rpartition(b"\n")  # the last may be half written
        found = [msgspec.json.decode(line, type=Event) for line in whole.splitlines()]
        return [e for e in found if event in (None, e.event) and job in (None, e.job)]

    def wait_for(self, event: str, *, job: str | None = None, count: int = 1) -> Event:
        """The last of `count` such lines in the run log."""
        found = eventually(
            lambda: (some := self.events(event, job=job))[count - 1 :] and some,
            what=self.logs,
        )
        return found[count - 1]

    def started(self) -> int:
        """How many attempts have started so far."""
        return len(self.events("start"))

    def wait_for_starts(self, more: int = 1, *, than: int | None = None) -> None:
        """So many more than now, or than there were: what was submitted before may all have started by now."""
        aim = (self.started() if than is None else than) + more
        eventually(lambda: self.started() >= aim, what=self.logs)

    def wait_until_named(self, count: int) -> None:
        """The heartbeats name this many jobs as executing."""
        eventually(lambda: sum(s.executing for s in self.sessions() if s.live) >= count)

    def wait_for_session(self, worker: WorkerProcess) -> None:
        eventually(lambda: self._live(worker.pid), what=self.logs)

    def wait_until_done(self, timeout: float = PATIENCE) -> None:
        """Every submitted job has ended."""
        eventually(lambda: not self.unfinished(), timeout=timeout, what=self._unfinished_text)

    def unfinished(self) -> list[JobId]:
        counts = self.count()
        if not any(number for state, number in counts.items() if not state.final):
            return []
        ended = {job.id for job in self.ended()}
        return [id for id in self.submitted if id not in ended]

    def count(self) -> dict[JobState, int]:
        return self.ask(lambda store: store.jobs.count())

    def ended(self) -> list[Job]:
        return self.ask(lambda store: store.jobs.ended(self.submitted))

    def attempts(self, id: JobId) -> list[Attempt]:
        return self.ask(lambda store: store.jobs.attempts(id))

    def sessions(self) -> list[Session]:
        return self.ask(lambda store: store.sessions.all())

    def beat_has_seen_all(self) -> bool:
        """Whether every submitted job is claimed, and its session has beaten since."""
        beats = {session.id: session.beat_at for session in self.sessions()}
        jobs = [self.jobs.app.get(id).job() for id in self.submitted]
        return all(
            job.session in beats
            and job.started_at is not None
            and job.started_at < beats[job.session]
            for job in jobs
        )

    def ask(self, question: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        portal = self.jobs.app._portal

        async def asked() -> T:
            return await question(await portal.store())

        return portal.call(asked())

    def check(self) -> None:
        """No job is lost, none ended twice, none started twice without a recorded reason."""
        ended = self.ended()
        times = Counter(job.id for job in ended)
        assert not [id for id in self.submitted if id not in times], "lost, or not ended"
        assert not [id for id, number in times.items() if number > 1], "ended more than once"
        assert not [n for state, n in self.count().items() if n and not state.final], "left over"
        last: dict[str, Job] = {job.id: job for job in ended}
        starts: dict[str, list[int]] = defaultdict(list)
        for event in self.events("start"):
            starts[event.job].append(event.fence)
        for id, fences in starts.items():
            assert len(set(fences)) == len(fences), f"{id} started twice under one fence: {fences}"
            self._check_reasons(last[id], fences)
        never = [j.id for j in ended if j.state is JobState.SUCCEEDED and j.id not in starts]
        assert not never, f"succeeded without having run: {never}"

    def check_all_succeeded(self) -> None:
        self.check()
        others = [(job.id, job.state) for job in self.ended() if job.state != JobState.SUCCEEDED]
        assert not others, others

    def logs(self) -> str:
        return "\n".join(
            f"--- worker {number}, pid {worker.pid}\n{worker.log[-3000:]}"
            for number, worker in enumerate(self.workers)
        )

    def _check_reasons(self, job: Job, fences: list[int]) -> None:
        succeeded = job.state is JobState.SUCCEEDED
        assert not succeeded or job.fence in fences, f"{job.id}: fence {job.fence} never started"
        unexplained = set(fences) - ({job.fence} if succeeded else set())
        if unexplained and (unexplained := unexplained - self._explained(job)):
            raise AssertionError(
                f"{job.id} ({job.state}, fence {job.fence}, attempt {job.attempt}) started under"
                f" fences {sorted(fences)}, and nothing says why {sorted(unexplained)} ended\n"
                + "\n".join(map(str, self.events(job=job.id)))
                + f"\n{self._mentions(job.id)}"
            )

    def _mentions(self, id: str) -> str:
        lines = [(w.pid, line) for w in self.workers for line in w.log.splitlines() if id in line]
        return "\n".join(f"{pid}: {line}" for pid, line in lines)

    def _explained(self, job: Job) -> set[int]:
        recorded = {attempt.fence for attempt in self.attempts(job.id)}
        return recorded | ({job.fence} if job.state is JobState.CANCELLED else set())

    def _live(self, pid: int) -> bool:
        return any(session.pid == pid and session.live for session in self.sessions())

    def _unfinished_text(self) -> str:
        left = self.unfinished()
        shown = [self.jobs.app.get(id).job() for id in left[:3]]
        return f"{len(left)} unfinished, {self.count()}, first: {shown}\n{self.logs()}"


def named(settings: dict[str, str]) -> dict[str, str]:
    """worker_lease="2s" as worker.lease."""
    return {key.replace("_", ".", 1): text for key, text in settings.items()}


def create_schema(url: str, *, partitions: int) -> None:
    asyncio.run(upgrade_store(StoreSettings(url=url), partitions=partitions))


def children_of(pid: int) -> list[int]:
    """Also of its threads, and of its children."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(word) for word in listing.read_text().split()]
        except OSError:
            continue
        for child in direct:
            found += [child, *children_of(child)]
    return found


def alive(pid: int) -> bool:
    """A process that has ended and was not yet waited for is not alive."""
    return state_of(pid) not in "ZX"


def state_of(pid: int) -> str:
    """As the kernel calls it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def kill(pid: int) -> None:
    if alive(pid):
        os.kill(pid, signal.SIGKILL)


def all_gone(pids: Iterable[int]) -> bool:
    return not any(alive(pid) for pid in pids)
