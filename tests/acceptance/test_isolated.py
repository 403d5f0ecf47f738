"""Workers with child processes that are killed, and workers that leave by themselves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foliot import JobState, commands
from foliot.model.session import Session
from support.fleet import Fleet, all_gone, eventually
from worker.isolated import Isolated

APP = "worker.isolated:app"


@contextmanager
def isolated(fleet: Fleet) -> Iterator[Isolated]:
    jobs = Isolated(fleet.url)
    yield jobs
    jobs.app.close()


def pids(note: Path) -> list[int]:
    text = eventually(lambda: note.read_text() if note.exists() else "")
    return [int(word) for word in text.split()]


@pytest.fixture
def fleet(any_fleet: Fleet) -> Fleet:
    """On each kind of store, all of this."""
    return any_fleet


def test_a_killed_worker_leaves_no_process_behind(fleet: Fleet) -> None:
    """Neither its children, nor what these have started, even where a job never lets go of the interpreter."""
    with isolated(fleet) as jobs:
        check_a_killed_worker(fleet, jobs)


def check_a_killed_worker(fleet: Fleet, jobs: Isolated) -> None:
    worker = fleet.start(app=APP)
    first, second = fleet.gate("first"), fleet.gate("second")
    handles = [jobs.sleep_long.submit(str(first)), jobs.hold.submit(str(second))]
    left = [*pids(first), *pids(second)]
    first.unlink()
    second.unlink()
    worker.kill()
    eventually(lambda: all_gone(left), timeout=10)
    fleet.start(app=APP, worker_cancel_grace="200ms")
    for note in (first, second):
        pids(note)  # they run again
    for handle in handles:
        assert handle.attempts()[0].outcome == "worker_lost"
        handle.cancel()
    eventually(lambda: all(handle.status() is JobState.CANCELLED for handle in handles))
    assert [handle.attempts()[-1].outcome for handle in handles] == ["killed"] * 2


def test_a_recycled_worker_finishes_what_it_runs_while_the_next_is_at_work(
    fleet: Fleet,
) -> None:
    parent = fleet.start(app="acceptance.jobs:app", supervised=True, worker_recycle_jobs="20")
    gate = fleet.gate("open")
    slow = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    first = fleet.wait_for("start", job=slow.id).pid
    fleet.submit_quick(40)
    eventually(lambda: "is recycled, starting another" in parent.log, what=fleet.logs)
    fleet.submit_quick(5)
    eventually(lambda: {e.pid for e in fleet.events("start")} - {first}, what=fleet.logs)
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert fleet.events("end", job=slow.id)[0].pid == first, "it was not interrupted"
    assert not fleet.attempts(slow.id)
    assert parent.stop() == 0


def test_a_drained_worker_finishes_what_it_runs_and_is_not_started_again(fleet: Fleet) -> None:
    parent = fleet.start("--processes", "2", supervised=True)
    gate = fleet.gate("open")
    slow = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    pid = fleet.wait_for("start", job=slow.id).pid
    eventually(lambda: len(live(fleet)) == 2)
    [chosen] = [session for session in live(fleet) if session.pid == pid]
    [told] = fleet.ask(lambda store: commands.drain(store, [chosen.id[:13]]))
    assert told.id == chosen.id
    eventually(lambda: "told to drain" in parent.log, what=fleet.logs)
    [seen] = [session for session in live(fleet) if session.pid == pid]
    assert (seen.drain, seen.health, seen.executing) == (True, "draining", 1)
    fleet.submit_quick(5)
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    eventually(lambda: len(live(fleet)) == 1)
    assert "starting another" not in parent.log
    fleet.ask(lambda store: commands.drain(store, [f"{seen.host}"]))
    assert parent.wait() == 0, "all of its processes have been drained"


def live(fleet: Fleet) -> list[Session]:
    return fleet.ask(commands.workers)


def test_a_blocked_event_loop_is_named_in_the_registry(fleet: Fleet) -> None:
    fleet.start(worker_lease="8s", worker_beat="200ms")
    eventually(lambda: live(fleet))
    [before] = live(fleet)
    assert (before.health, before.note, before.concurrency) == ("well", None, 100)
    fleet.submit(fleet.jobs.block.submit(2.0))
    fleet.wait_for("start")
    sick = eventually(lambda: [s for s in live(fleet) if s.health == "sick"])
    note = sick[0].note
    assert note is not None and "the event loop is blocked for " in note, note
    assert "jobs.py" in note and note.endswith(" in block"), note
    eventually(lambda: live(fleet)[0].health == "well")
    moved = live(fleet)[0].moved_at
    assert moved is not None and (before.moved_at is None or moved > before.moved_at)


def test_a_worker_whose_threads_are_stuck_says_so(fleet: Fleet) -> None:
    fleet.start("--threads", "4")
    fleet.submit(fleet.jobs.hang.submit(str(gate := fleet.gate("open"))))
    sick = eventually(lambda: [s for s in live(fleet) if s.note is not None])
    assert sick[0].note == "threads stuck in jobs whose attempts have ended: 1"
    gate.touch()
    eventually(lambda: live(fleet)[0].health == "well")


def test_a_start_up_function_that_fails_stops_the_worker(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from acceptance.jobs import Jobs\n"
        "app = Jobs().app\n"
        "@app.on_startup\n"
        "def connect(state):\n"
        "    raise ConnectionError('no route')\n"
    )
    parent = fleet.start(app="broken:app", supervised=True)
    assert parent.wait() == 1
    assert "the start-up function broken.connect failed: ConnectionError: no route" in parent.log


def test_whoever_stops_all_processes_at_once_does_not_kill_the_jobs(
    fleet: Fleet,
) -> None:
    """As systemd does with a service: the worker knows how long its jobs may take."""
    worker = fleet.start(app=APP)
    note = fleet.gate("note")
    with isolated(fleet) as jobs:
        handle = jobs.sleep_long.submit(str(note), seconds=1.0)
        child, other = pids(note)
        for pid in (child, worker.pid, other):
            os.kill(pid, signal.SIGTERM)
        assert worker.wait() == 0
        assert handle.status() is JobState.SUCCEEDED
