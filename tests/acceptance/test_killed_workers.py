"""kill -9 of a worker, in every phase of a job: nothing is lost, and every second start has a reason."""

from __future__ import annotations

import random

from acceptance.conftest import FleetMaker
from foliot import JobState
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, eventually
from support.proxy import CuttingProxy


def test_an_idle_worker_that_is_killed_leaves_nothing_behind(fleet: Fleet) -> None:
    idle = fleet.start()
    fleet.wait_for_session(idle)
    idle.kill()
    fleet.start()
    fleet.submit_quick(20)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    # The dead one's session is forgotten, or at least not alive.
    eventually(lambda: not fleet._live(idle.pid))


def test_a_job_whose_worker_is_killed_runs_again_with_a_record(any_fleet: Fleet) -> None:
    fleet = any_fleet
    gate = fleet.gate("open")
    first = fleet.start()
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    fleet.wait_until_named(1)
    first.kill()
    fleet.start()
    fleet.wait_for("start", job=handle.id, count=2)
    gate.touch()
    assert handle.result(timeout=30) == 2
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    [lost] = fleet.attempts(handle.id)
    assert (lost.attempt, lost.outcome) == (1, "worker_lost")
    assert handle.job().losses == 1


def test_a_sync_job_whose_worker_is_killed_runs_again_with_a_record(fleet: Fleet) -> None:
    gate = fleet.gate("open")
    first = fleet.start()
    handle = fleet.submit(fleet.jobs.gated_sync.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    fleet.wait_until_named(1)
    first.kill()
    gate.touch()
    fleet.start()
    assert handle.result(timeout=30) == 2
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_a_worker_killed_between_the_end_of_the_handler_and_the_commit(
    server: TemporaryPostgres, database: str, make_fleet: FleetMaker
) -> None:
    with CuttingProxy(str(server.directory), server.port) as proxy:
        fleet = make_fleet(server.url(database))
        gate = fleet.gate("open")
        worker = fleet.start(url=proxy.url(database))
        handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
        fleet.wait_until_named(1)
        proxy.stall(True)
        gate.touch()
        fleet.wait_for("end", job=handle.id)
        worker.kill()
        proxy.cut_all()
        assert handle.status() is JobState.RUNNING
        fleet.start()
        assert handle.result(timeout=30) == 2
        fleet.wait_until_done()
        fleet.check_all_succeeded()
        assert len(fleet.events("end", job=handle.id)) == 2


def test_a_job_that_waited_at_the_last_beat_and_started_after_it_has_a_record(
    make_fleet: FleetMaker,
) -> None:
    """The heartbeat named it as waiting; the worker was killed after it had started, before the next beat."""
    fleet = make_fleet(worker_lease="4s", worker_beat="1300ms")
    first = fleet.start("--threads", "1", "--concurrency", "10")
    gates = [fleet.gate(str(number)) for number in range(2)]
    handles = [fleet.submit(fleet.jobs.gated_sync.submit(str(gate))) for gate in gates]
    fleet.wait_for("start", job=handles[0].id)
    eventually(fleet.beat_has_seen_all)
    gates[0].touch()
    fleet.wait_for("start", job=handles[1].id)
    first.kill()
    gates[1].touch()
    fleet.start()
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_workers_killed_at_random_moments_lose_nothing(make_fleet: FleetMaker) -> None:
    # Innocent jobs may be hit more than once here: that is no reason to bury them.
    fleet = make_fleet(worker_loss_limit="1000")
    kill_at_random(fleet, rounds=12, jobs=6000)


def test_workers_on_one_file_killed_at_random_moments_lose_nothing(
    make_fleet: FleetMaker, sqlite_url: str
) -> None:
    kill_at_random(make_fleet(sqlite_url, worker_loss_limit="1000"), rounds=8, jobs=3000)


def kill_at_random(fleet: Fleet, *, rounds: int, jobs: int) -> None:
    chance = random.Random()
    workers = fleet.scale(2)
    for _ in range(rounds):
        before = fleet.started()
        fleet.submit_quick(jobs // rounds)
        naps = [fleet.jobs.nap.prepare(chance.random() * 0.3) for _ in range(10)]
        fleet.submitted += [handle.id for handle in fleet.jobs.app.submit_many(naps)]
        fleet.wait_for_starts(than=before)
        victim = chance.randrange(len(workers))
        workers[victim] = fleet.replace(workers[victim])
    fleet.wait_until_done(90)
    fleet.check_all_succeeded()
