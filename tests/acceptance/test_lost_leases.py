"""A process that cannot extend its session stops by itself, and whatever it says afterwards is refused."""

from __future__ import annotations

import random
import time

import pytest

from acceptance.conftest import FleetMaker
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, eventually
from support.proxy import CuttingProxy


def test_a_late_finish_of_a_paused_worker_is_refused(any_fleet: Fleet) -> None:
    fleet = any_fleet
    gate = fleet.gate("open")
    sleeper = fleet.start()
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_until_named(1)
    sleeper.pause()
    other = fleet.start()
    fleet.wait_for("start", job=handle.id, count=2)
    gate.touch()
    assert handle.result(timeout=30) == 2
    sleeper.resume()
    # It goes on, with a new session, and takes new jobs.
    eventually(lambda: "the session is lost" in sleeper.log, what=fleet.logs)
    fleet.wait_for_session(sleeper)
    other.stop()
    fleet.submit_quick(10)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert {event.pid for event in fleet.events("start")[2:]} == {sleeper.pid}
    assert [(a.fence, a.outcome) for a in fleet.attempts(handle.id)] == [(1, "worker_lost")]
    [row] = [job for job in fleet.ended() if job.id == handle.id]
    assert (row.fence, row.result) == (2, b"2")


def test_a_paused_worker_does_not_start_what_it_had_claimed_before(fleet: Fleet) -> None:
    gate = fleet.gate("open")
    sleeper = fleet.start("--threads", "1", "--concurrency", "20")
    handles = [fleet.submit(fleet.jobs.gated_sync.submit(str(gate))) for _ in range(20)]
    fleet.wait_for("start")
    eventually(lambda: all(handle.status() == "running" for handle in handles))
    eventually(fleet.beat_has_seen_all)
    sleeper.pause()
    fleet.start("--threads", "20")
    fleet.wait_for("start", count=21)
    gate.touch()
    sleeper.resume()
    eventually(lambda: "the session is lost" in sleeper.log, what=fleet.logs)
    fleet.wait_until_done()
    fleet.wait_for_session(sleeper)
    assert len([event for event in fleet.events("start") if event.pid == sleeper.pid]) == 1
    fleet.check_all_succeeded()


@pytest.mark.parametrize("how", ["refused", "stalled"])
def test_a_worker_cut_from_its_store_stops_its_jobs_before_another_runs_them(
    server: TemporaryPostgres,
    database: str,
    make_fleet: FleetMaker,
    how: str,
) -> None:
    with CuttingProxy(str(server.directory), server.port) as proxy:
        fleet = make_fleet(server.url(database))
        gate = fleet.gate("open")
        cut_off = fleet.start(url=proxy.url(database))
        handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
        fleet.wait_until_named(1)
        proxy.refuse(True)
        if how == "stalled":
            proxy.stall(True)
        else:
            proxy.cut_all()
        other = fleet.start()
        stopped = fleet.wait_for("cancelled", job=handle.id)
        taken = fleet.wait_for("start", job=handle.id, count=2)
        assert stopped.pid == cut_off.pid
        assert stopped.at <= taken.at, "it ran in two places"
        gate.touch()
        assert handle.result(timeout=30) == 2
        other.stop()
        proxy.cut_all()
        proxy.stall(False)
        proxy.refuse(False)
        fleet.submit_quick(5)
        fleet.wait_until_done()
        fleet.check_all_succeeded()
        assert cut_off.alive


def test_a_worker_whose_event_loop_is_blocked_loses_its_jobs_and_says_so(fleet: Fleet) -> None:
    blocked = fleet.start()
    handle = fleet.submit(fleet.jobs.block.submit(4))
    fleet.wait_for("start", job=handle.id)
    other = fleet.start()
    assert handle.result(timeout=30) == 2
    fleet.wait_for("end", job=handle.id, count=2)
    eventually(lambda: "belongs to another attempt" in blocked.log or "lost" in blocked.log)
    assert "the event loop has been blocked" in blocked.log
    assert "block" in blocked.log.partition("the event loop has been blocked")[2]
    fleet.wait_for_session(blocked)
    other.stop()
    fleet.submit_quick(5)
    fleet.wait_until_done()
    fleet.check_all_succeeded()


@pytest.mark.chaos
def test_a_job_that_waits_long_in_a_worker_is_not_taken_for_timed_out(fleet: Fleet) -> None:
    """The store takes a job back ten seconds past its timeout; until it starts, its worker gives it back itself."""
    gate = fleet.gate("open")
    fleet.start("--threads", "1", "--concurrency", "20")
    blocking = fleet.submit(fleet.jobs.gated_sync.submit(str(gate)))
    fleet.wait_for("start", job=blocking.id)
    waiting = [fleet.submit(fleet.jobs.hasty_sync.submit(str(gate))) for _ in range(3)]
    eventually(lambda: all(handle.status() == "running" for handle in waiting))
    eventually(lambda: all(handle.job().fence >= 3 for handle in waiting), what=fleet.logs)
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert {job.attempt for job in fleet.ended()} == {1}
    assert len(fleet.events("start")) == 4


@pytest.mark.chaos
def test_pauses_of_about_a_lease_never_make_two_attempts_count(fleet: Fleet) -> None:
    chance = random.Random()
    workers = fleet.scale(2)
    for _ in range(25):
        fleet.submit_quick(50)
        naps = [fleet.jobs.nap.prepare(chance.random() * 2) for _ in range(5)]
        fleet.submitted += [handle.id for handle in fleet.jobs.app.submit_many(naps)]
        victim = chance.choice(workers)
        victim.pause()
        time.sleep(2 + chance.uniform(-0.2, 0.2))
        victim.resume()
    fleet.wait_until_done(90)
    fleet.check()
