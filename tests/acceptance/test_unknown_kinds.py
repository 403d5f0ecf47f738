"""A job that no worker knows is kept, visible, until one does."""

from __future__ import annotations

from acceptance.conftest import FleetMaker
from acceptance.jobs import Jobs
from foliot import JobState
from foliot.ids import JobId
from support.fleet import Fleet, eventually

KNOWING = "acceptance.jobs:knowing"


def submit_strange(fleet: Fleet, count: int) -> list[JobId]:
    jobs = Jobs(fleet.url, stranger=True)
    with jobs.app:
        ids = [handle.id for handle in jobs.app.submit_many([jobs.strange.prepare(1)] * count)]
    fleet.submitted += ids
    return ids


def test_it_is_held_and_runs_when_a_worker_that_knows_it_starts(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.start()
    [id] = submit_strange(fleet, 1)
    handle = fleet.jobs.app.get(id)
    eventually(lambda: handle.status() is JobState.HELD)
    assert handle.job().reason == "unknown_kind"
    assert handle.job().attempt == 0
    fleet.submit_quick(5)
    fleet.start(app=KNOWING)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert handle.job().attempt == 1


def test_it_runs_although_workers_that_do_not_know_it_claim_it_too(
    make_fleet: FleetMaker,
) -> None:
    """Old and new versions together, as in every deployment."""
    fleet = make_fleet()
    workers = [fleet.start(app=KNOWING), fleet.start(), fleet.start()]
    for worker in workers:
        fleet.wait_for_session(worker)
    for _ in range(10):
        submit_strange(fleet, 5)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert {event.pid for event in fleet.events("start")} == {workers[0].pid}
