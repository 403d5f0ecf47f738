"""Hooks in the tests of other projects: they run with everything else."""

from __future__ import annotations

import pytest

from foliot import Event, Fixed, Foliot, JobState, current_job
from foliot.testing import Harness


@pytest.fixture
def heard(foliot_app: Foliot) -> list[str]:
    """What a hook was told, for all that can happen here."""
    told: list[str] = []

    def hook(event: Event) -> None:
        told.append(f"{event.name} {event.kind or event.data.get('workflow')}")

    for event in ("job.succeeded", "job.dead", "job.cancelled", "schedule.missed"):
        foliot_app.on(event)(hook)
    for event in ("workflow.succeeded", "workflow.failed"):
        foliot_app.on(event)(hook)  # type: ignore[arg-type]
    return told


def test_hooks_run_until_nothing_is_left(
    foliot: Harness, foliot_app: Foliot, heard: list[str]
) -> None:
    @foliot_app.job
    def fine() -> None: ...

    @foliot_app.job(max_attempts=2, retry=Fixed(60))
    def broken() -> None:
        raise ValueError

    fine.submit()
    broken.submit()
    assert foliot.run_until_idle() == 3
    assert heard == ["job.succeeded fine"]
    assert foliot.advance("1 minute") == 2
    assert heard == ["job.succeeded fine", "job.dead broken"]
    assert [job.state for job in foliot.jobs("on.job.dead.hook")] == [JobState.SUCCEEDED]
    assert foliot.run_until_idle() == 0


def test_what_ends_without_running_is_told_too(
    foliot: Harness, foliot_app: Foliot, heard: list[str]
) -> None:
    @foliot_app.job
    def never() -> None: ...

    foliot.run_until_idle()  # whoever listens is known from the first run on
    never.options(delay=60).submit().cancel()
    never.options(delay=60, expires=90).submit()
    foliot.clock.advance(100)
    assert foliot.run_until_idle() == 2
    assert heard == ["job.cancelled never", "job.cancelled never"]


def test_workflows_and_missed_schedules_are_told(
    foliot: Harness, foliot_app: Foliot, heard: list[str]
) -> None:
    @foliot_app.job
    def step() -> None: ...

    with foliot_app.workflow("import") as flow:
        flow.add(step.prepare(), name="a")
    foliot.run_until_idle()
    assert set(heard) == {"job.succeeded step", "workflow.succeeded import"}
    heard.clear()
    foliot_app.schedule("often", step.prepare(), "every 1 hour", misfire="skip")
    foliot.clock.advance(3 * 3600)
    foliot.run_until_idle()
    assert heard == ["schedule.missed step"]


def test_a_hook_that_fails_is_a_job_that_fails(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def fine() -> None: ...

    @foliot_app.on("job.succeeded", retry=Fixed(10), max_attempts=2)
    async def fail(event: Event) -> None:
        raise RuntimeError(f"attempt {current_job().attempt}")

    fine.submit()
    foliot.run_until_idle()
    [failure] = foliot.failures
    assert str(failure.error) == "attempt 1"
    foliot.advance(10)
    [dead] = foliot.dead  # and nobody is told of that: else it would never end
    assert dead.kind == "on.job.succeeded.fail"


def test_a_hook_is_told_the_events_of_a_job_in_their_order_and_keeps_no_other_waiting(
    foliot: Harness, foliot_app: Foliot
) -> None:
    told: list[tuple[str, int]] = []
    error = "first"

    @foliot_app.job(max_attempts=1)
    def unsteady() -> None:
        raise ValueError(error)

    @foliot_app.on("job.dead", retry=Fixed(600))
    def slow(event: Event) -> None:
        attempt = current_job().attempt
        told.append((event.data["error"], attempt))
        if attempt == 1:
            raise RuntimeError("not yet")

    @foliot_app.on("job.dead")
    def quick(event: Event) -> None:
        told.append(("quick", current_job().attempt))

    handle = unsteady.submit()
    foliot.run_until_idle()
    error = "second"
    handle.retry()
    foliot.run_until_idle()
    assert sorted(told) == [("ValueError: first", 1), ("quick", 1), ("quick", 1)]
    del told[:]
    foliot.advance("10 minutes")
    assert told == [("ValueError: first", 2), ("ValueError: second", 1)]


def test_a_function_that_listens_to_several_events_hears_of_each_job_in_order(
    foliot: Harness, foliot_app: Foliot
) -> None:
    told: list[str] = []
    broken = True

    @foliot_app.job(max_attempts=1)
    def unsteady() -> None:
        if broken:
            raise ValueError

    @foliot_app.on("job.dead", retry=Fixed(600))
    @foliot_app.on("job.succeeded")
    def write(event: Event) -> None:
        if event.name == "job.dead" and current_job().attempt == 1:
            raise RuntimeError("not yet")
        told.append(event.name)

    handle = unsteady.submit()
    foliot.run_until_idle()
    broken = False
    handle.retry()
    foliot.run_until_idle()
    assert told == []
    foliot.advance("10 minutes")
    assert told == ["job.dead", "job.succeeded"]


def test_inline_they_run_with_the_job(foliot_app: Foliot, heard: list[str]) -> None:
    @foliot_app.job
    def fine() -> int:
        return 1

    with foliot_app.inline():
        assert fine.submit().result() == 1
    assert heard == ["job.succeeded fine"]
