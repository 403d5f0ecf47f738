"""SIGTERM: what runs may finish, what has not started goes back untouched, and a second one ends at once."""

from __future__ import annotations

import signal
import time
from functools import partial

import pytest

from acceptance.conftest import FleetMaker
from foliot import JobState
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, all_gone, eventually


@pytest.mark.parametrize("kind", ["gated", "gated_sync"])
def test_running_jobs_finish_and_nothing_new_is_claimed(fleet: Fleet, kind: str) -> None:
    gate = fleet.gate("open")
    worker = fleet.start()
    handle = fleet.submit(getattr(fleet.jobs, kind).submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    worker.ask_to_stop()
    late = fleet.submit(fleet.jobs.quick.submit(1))
    time.sleep(0.5)  # longer than it takes to be claimed
    assert late.status() is JobState.READY
    gate.touch()
    assert worker.wait() == 0
    assert handle.status() is JobState.SUCCEEDED
    assert late.status() is JobState.READY
    assert not fleet.sessions()
    fleet.start()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert fleet.attempts(handle.id) == []


def test_jobs_that_were_claimed_and_not_started_go_back_untouched(any_fleet: Fleet) -> None:
    fleet = any_fleet
    gate = fleet.gate("open")
    worker = fleet.start("--threads", "1", "--concurrency", "20")
    handles = [fleet.submit(fleet.jobs.gated_sync.submit(str(gate))) for _ in range(20)]
    started = fleet.wait_for("start").job
    eventually(lambda: all(handle.status() is JobState.RUNNING for handle in handles))
    worker.signal(signal.SIGTERM)
    waiting = [handle for handle in handles if handle.id != started]
    eventually(lambda: all(handle.status() is JobState.READY for handle in waiting))
    assert {handle.job().attempt for handle in waiting} == {0}
    gate.touch()
    assert worker.wait() == 0
    fleet.start()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert {job.attempt for job in fleet.ended()} == {1}
    assert len(fleet.events("start")) == 20


@pytest.mark.parametrize("kind", ["gated", "gated_sync", "stubborn"])
def test_a_job_that_outlasts_the_grace_period_goes_back_with_a_reason(
    fleet: Fleet, kind: str
) -> None:
    gate = fleet.gate("open")
    worker = fleet.start("--grace", "200ms")
    handle = fleet.submit(getattr(fleet.jobs, kind).submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    assert worker.stop() == 0
    fleet.start()
    fleet.wait_for("start", job=handle.id, count=2)
    gate.touch()
    assert handle.result(timeout=30) == 2
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert [attempt.outcome for attempt in fleet.attempts(handle.id)] == ["interrupted"]
    assert handle.job().attempt == 1, "a deployment is no fault of the job"


def test_stopping_under_load_leaves_nothing_running(fleet: Fleet) -> None:
    for _ in range(5):
        worker = fleet.start("--grace", "0s")
        fleet.submit_quick(1500)
        fleet.wait_for_starts()
        assert worker.stop() == 0
        assert fleet.count().get(JobState.RUNNING, 0) == 0, worker.log
        assert not fleet.sessions()
    fleet.start()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert not [job for job in fleet.ended() if job.losses]


@pytest.mark.parametrize("supervised", [False, True])
def test_a_second_signal_ends_at_once(fleet: Fleet, supervised: bool) -> None:
    gate = fleet.gate("open")
    worker = fleet.start(supervised=supervised)
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    process = fleet.wait_for("start", job=handle.id).pid
    worker.ask_to_stop()
    assert worker.alive
    time.sleep(0.1)  # closer together they count as one
    worker.signal(signal.SIGTERM)
    assert worker.wait(5) not in (0, None)
    eventually(lambda: all_gone([process]))
    fleet.start()
    fleet.wait_for("start", job=handle.id, count=2)
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_a_signal_that_comes_twice_at_once_is_one(fleet: Fleet) -> None:
    """A process manager may tell the process and its group."""
    gate = fleet.gate("open")
    worker = fleet.start(supervised=True)
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGTERM)
    eventually(lambda: "stopping: " in worker.log)
    gate.touch()
    assert worker.wait(20) == 0
    fleet.check_all_succeeded()


def test_a_signal_while_it_starts_leaves_nothing_behind(fleet: Fleet) -> None:
    for delay in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        worker = fleet.start(supervised=True)
        time.sleep(delay)  # any moment of its start
        children = worker.children()
        assert worker.stop() in (0, -signal.SIGTERM)
        eventually(partial(all_gone, children))
    eventually(lambda: not [session for session in fleet.sessions() if session.live])


def test_a_stop_is_not_held_up_by_a_store_that_is_away(
    make_fleet: FleetMaker, own_server: TemporaryPostgres
) -> None:
    fleet = make_fleet(own_server.url("jobs"))
    worker = fleet.start()
    fleet.wait_for_session(worker)
    fleet.submit(fleet.jobs.nap.submit(0.5))
    fleet.wait_for("start")
    own_server.stop("immediate")
    assert worker.stop(20) == 0
    own_server.start()
    fleet.start()
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_a_worker_that_stops_hands_its_duties_over_at_once(make_fleet: FleetMaker) -> None:
    fleet = make_fleet(scheduler_term="60s")
    first = fleet.start()
    handle = fleet.submit(fleet.jobs.quick.options(delay=0.2).submit(1))
    assert handle.result(timeout=30) == 1
    second = fleet.start()
    fleet.wait_for_session(second)
    gate = fleet.gate("open")
    held = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    runner = fleet.wait_for("start", job=held.id).pid
    assert runner in (first.pid, second.pid)
    first.signal(signal.SIGTERM)
    later = fleet.submit(fleet.jobs.quick.options(delay=0.5).submit(2))
    gate.touch()
    assert first.wait() == 0
    # The other looks at the leases every third of a term: start one that looks now.
    fleet.start()
    assert later.result(timeout=30) == 2
    fleet.wait_until_done()
    fleet.check_all_succeeded()
