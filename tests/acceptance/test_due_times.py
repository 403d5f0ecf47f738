"""Nothing starts early, and what is due runs, also when the process that looked after it dies."""

from __future__ import annotations

import time
from datetime import datetime

from acceptance.conftest import FleetMaker
from support.fleet import Fleet, eventually


def test_nothing_starts_early_and_all_of_it_starts(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.scale(2)
    calls = [fleet.jobs.quick.options(delay=0.2 + 1.8 * n / 200).prepare(n) for n in range(200)]
    fleet.submitted += [handle.id for handle in fleet.jobs.app.submit_many(calls)]
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    check_times(fleet, latest=5)


def test_what_is_due_runs_although_the_lease_holder_was_killed(fleet: Fleet) -> None:
    holder = fleet.start()
    first = fleet.submit(fleet.jobs.quick.options(delay=0.1).submit(0))
    assert first.result(timeout=30) == 0
    fleet.start()
    calls = [fleet.jobs.quick.options(delay=0.5 + n / 100).prepare(n) for n in range(100)]
    fleet.submitted += [handle.id for handle in fleet.jobs.app.submit_many(calls)]
    holder.kill()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    check_times(fleet, latest=10)


def check_times(fleet: Fleet, *, latest: float) -> None:
    due: dict[str, float] = {job.id: job.run_at.timestamp() for job in fleet.ended()}
    offset = store_clock_ahead(fleet)
    for event in fleet.events("start"):
        late = event.wall + offset - due[event.job]
        assert late >= 0, f"{event.job} started {-late:.4f} s early"
        assert late < latest, f"{event.job} started {late:.1f} s late"
    for job in fleet.ended():
        assert job.started_at is not None and job.started_at >= job.run_at


def store_clock_ahead(fleet: Fleet) -> float:
    """Store and tests share a machine; it is asked all the same."""
    grade = fleet.ask(lambda store: store.upkeep.grade())
    return max(0.0, -grade.clock_offset) + 0.001


def test_a_job_far_ahead_stays_where_it_is(fleet: Fleet) -> None:
    fleet.start()
    handle = fleet.jobs.quick.options(delay=3600).submit(1)
    near = fleet.submit(fleet.jobs.quick.options(delay=0.3).submit(2))
    began = time.monotonic()
    assert near.result(timeout=30) == 2
    assert time.monotonic() - began >= 0.3
    eventually(lambda: handle.status() == "scheduled")
    assert not fleet.events("start", job=handle.id)


def test_what_is_due_starts_at_its_time_and_not_at_the_next_poll(make_fleet: FleetMaker) -> None:
    """Between two polls, five seconds apart, a job becomes due, and so do the times of a schedule."""
    fleet = make_fleet(worker_poll="5s")
    fleet.start()
    assert fleet.jobs.quick.submit(0).result(timeout=30) == 0
    schedule = fleet.jobs.app.schedule("each", fleet.jobs.quick.prepare(1), "* * * * * *")
    for _ in range(3):
        handle = fleet.submit(fleet.jobs.quick.options(delay=1).submit(2))
        assert handle.result(timeout=30) == 2
    delays = [late(job.started_at, job.run_at) for job in fleet.ended()]
    fires = [late(one.started_at, one.nominal) for one in schedule.fires() if one.started_at]
    assert len(fires) >= 2
    for some in (delays, fires):
        assert min(some) >= 0
        assert min(some) < 0.1, "none was on time"
        assert max(some) < 2, "one has waited for a poll"


def late(started_at: datetime | None, due: datetime) -> float:
    assert started_at is not None
    return (started_at - due).total_seconds()
