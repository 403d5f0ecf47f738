"""Cancel is durable, whatever the state of the job."""

from __future__ import annotations

import pytest

from foliot import JobState
from foliot.errors import JobCancelled
from support.fleet import Fleet, eventually


def test_a_scheduled_and_a_ready_job_are_cancelled_at_once(any_fleet: Fleet) -> None:
    fleet = any_fleet
    scheduled = fleet.submit(fleet.jobs.quick.options(delay=0.5).submit(1))
    ready = fleet.submit(fleet.jobs.quick.submit(2))
    assert [scheduled.cancel(), ready.cancel()] == [JobState.CANCELLED] * 2
    assert [scheduled.status(), ready.status()] == [JobState.CANCELLED] * 2
    fleet.start()
    marker = fleet.submit(fleet.jobs.quick.options(delay=1).submit(3))
    assert marker.result(timeout=30) == 3
    fleet.check()
    assert {event.job for event in fleet.events("start")} == {marker.id}


def test_a_running_async_job_is_cancelled(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.start()
    handle = fleet.submit(fleet.jobs.gated.submit(str(fleet.gate("never"))))
    fleet.wait_for("start", job=handle.id)
    assert handle.cancel() is JobState.RUNNING
    fleet.wait_for("cancelled", job=handle.id)
    with pytest.raises(JobCancelled):
        handle.result(timeout=30)
    assert handle.status() is JobState.CANCELLED
    fleet.wait_until_done()
    fleet.check()


def test_a_running_sync_job_is_told(fleet: Fleet) -> None:
    fleet.start()
    handle = fleet.submit(fleet.jobs.gated_sync.submit(str(fleet.gate("never"))))
    fleet.wait_for("start", job=handle.id)
    assert handle.cancel() is JobState.RUNNING
    fleet.wait_for("cancelled", job=handle.id)
    eventually(lambda: handle.status() is JobState.CANCELLED)
    fleet.check()


def test_a_job_that_waits_in_a_worker_is_cancelled_before_it_starts(fleet: Fleet) -> None:
    gate = fleet.gate("open")
    fleet.start("--threads", "1", "--concurrency", "10")
    handles = [fleet.submit(fleet.jobs.gated_sync.submit(str(gate))) for _ in range(2)]
    fleet.wait_for("start", job=handles[0].id)
    eventually(lambda: handles[1].status() is JobState.RUNNING)
    handles[1].cancel()
    eventually(lambda: handles[1].status() is JobState.CANCELLED)
    gate.touch()
    fleet.wait_until_done()
    fleet.check()
    assert len(fleet.events("start")) == 1


def test_a_cancel_outlives_the_worker_that_should_have_heard_it(fleet: Fleet) -> None:
    worker = fleet.start()
    handle = fleet.submit(fleet.jobs.gated.submit(str(fleet.gate("never"))))
    fleet.wait_for("start", job=handle.id)
    worker.pause()
    assert handle.cancel() is JobState.RUNNING
    worker.kill()
    fleet.start()
    eventually(lambda: handle.status() is JobState.CANCELLED)
    fleet.wait_until_done()
    fleet.check()
    assert len(fleet.events("start")) == 1


def test_a_cancelled_job_that_will_not_stop_may_still_succeed(fleet: Fleet) -> None:
    fleet.start()
    gate = fleet.gate("open")
    handle = fleet.submit(fleet.jobs.stubborn.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    handle.cancel()
    fleet.wait_for("cancelled", job=handle.id)
    gate.touch()
    eventually(lambda: handle.status().final)
    assert handle.status() is JobState.SUCCEEDED
    fleet.check()
