"""The parent of worker processes."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, WorkerProcess, alive, all_gone, eventually


def test_a_process_that_is_killed_is_replaced(fleet: Fleet) -> None:
    parent = fleet.start("--processes", "2", supervised=True)
    eventually(lambda: len(parent.children()) == 2)
    for _ in range(3):
        victim = parent.children()[0]
        os.kill(victim, signal.SIGKILL)
        # Until its parent has waited for it, it is still a child.
        eventually(partial(_is_no_child, parent, victim))
        eventually(lambda: len(parent.children()) == 2)
    fleet.submit_quick(50)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert parent.log.count("signal SIGKILL") == 3
    assert parent.stop() == 0


def _is_no_child(parent: WorkerProcess, pid: int) -> bool:
    return pid not in parent.children()


def test_a_parent_that_is_killed_does_not_leave_its_processes_behind(fleet: Fleet) -> None:
    parent = fleet.start("--processes", "2", supervised=True)
    gate = fleet.gate("open")
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    children = parent.children()
    parent.kill()
    gate.touch()
    eventually(lambda: all_gone(children), timeout=15)
    # They stopped in good order: what ran has finished.
    fleet.check_all_succeeded()
    assert fleet.attempts(handle.id) == []


def test_an_interrupt_from_the_terminal_stops_in_good_order(fleet: Fleet) -> None:
    """Ctrl-C goes to every process of the terminal's group, not only to the parent."""
    parent = fleet.start("--processes", "2", supervised=True)
    gate = fleet.gate("open")
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    eventually(lambda: len(fleet.sessions()) == 2)
    os.killpg(parent.pid, signal.SIGINT)
    eventually(lambda: parent.log.count("stopping: ") == 2)
    gate.touch()
    assert parent.wait() == 0
    fleet.check_all_succeeded()
    assert fleet.attempts(handle.id) == []


@pytest.mark.parametrize(
    ("app", "words", "processes"),
    [
        ("acceptance.nothing:app", "there is no module", "1"),
        ("acceptance.jobs:nothing", "names no Foliot app", "1"),
        ("acceptance.jobs:write", "names no Foliot app", "2"),
        ("broken:app", "deliberately broken", "2"),
        ("empty:app", "has no jobs", "1"),
    ],
)
def test_an_app_that_cannot_be_loaded_ends_the_worker(
    fleet: Fleet, app: str, words: str, processes: str
) -> None:
    (fleet.folder / "broken.py").write_text("raise RuntimeError('deliberately broken')\n")
    (fleet.folder / "empty.py").write_text("from foliot import Foliot\napp = Foliot()\n")
    parent = fleet.start("--processes", processes, app=app, supervised=True)
    assert parent.wait(15) in (1, 2)
    assert words in parent.log
    assert "starting another" not in parent.log


def test_a_store_without_tables_ends_the_worker_with_a_hint(
    fleet: Fleet, server: TemporaryPostgres
) -> None:
    parent = fleet.start(url=server.url("postgres"), supervised=True)
    assert parent.wait(15) == 1
    assert "foliot db init" in parent.log
    assert "starting another" not in parent.log


@pytest.mark.parametrize("code", ["1", "2"])
def test_a_job_that_exits_with_a_code_of_ours_does_not_end_the_worker(
    fleet: Fleet, code: str
) -> None:
    parent = fleet.start(supervised=True)
    handle = fleet.submit(fleet.jobs.poison.submit(code))
    fleet.wait_for("start", job=handle.id)
    eventually(lambda: "starting another" in parent.log, what=fleet.logs)
    fleet.submit_quick(10)
    fleet.wait_until_done()
    assert parent.alive


def test_a_job_that_calls_exit_only_fails(fleet: Fleet) -> None:
    worker = fleet.start()
    handle = fleet.submit(fleet.jobs.leave.submit(2))
    fleet.submit_quick(5)
    fleet.wait_until_done()
    assert handle.status() == "dead"
    assert alive(worker.pid)


def test_a_process_whose_threads_are_all_stuck_is_replaced(fleet: Fleet) -> None:
    parent = fleet.start("--threads", "2", supervised=True)
    stuck = [fleet.submit(fleet.jobs.hang.submit(str(fleet.gate("never")))) for _ in range(2)]
    eventually(lambda: all(handle.status() == "dead" for handle in stuck))
    after = [fleet.submit(fleet.jobs.quick_sync.submit(number)) for number in range(5)]
    assert [handle.result(timeout=40) for handle in after] == list(range(5))
    assert "has stopped, starting another" in parent.log
    assert parent.stop() == 0
    assert {attempt.outcome for attempt in fleet.attempts(stuck[0].id)} == {"timed_out"}
