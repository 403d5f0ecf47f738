"""After a failure that says nothing, the same is sent again: what has happened must not happen twice."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from foliot.client import portal as portal_module
from foliot.client.portal import Portal
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import End, NewJob, Outcome
from foliot.store.open import open_store
from foliot.store.port import Store
from machine.history import Submit
from machine.invariants import Checker
from machine.lab import Lab
from machine.stage import Stage, Stages

ENGINES = ["sqlite", "postgres"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_resent_job_that_has_ended_stands_for_itself(engine: str, stages: Stages) -> None:
    stage = stages(engine)
    lab = new_lab(stage)

    async def story() -> None:
        first, second = lab.new_job(key="a"), lab.new_job(key="a")
        await lab.submit(first, reply=False)
        session = await lab.open()
        for job in await lab.claim(session):
            await lab.finish(session, job)
        await lab.submit(second)
        # The one that has its key now is another job, with other arguments and another result.
        assert await lab.submit(first, resend=True) == [first.id]

    stage.loop.run(story())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("error", [StoreUnavailable("the server is restarting"), ValueError("no")])
def test_a_batch_of_which_half_was_stored_is_not_run_twice(
    engine: str, error: Exception, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails between two partitions; the job of the first has run when it is sent again."""
    stage = stages(engine, 8)
    lab = new_lab(stage)
    jobs = [lab.new_job(0), lab.new_job(7)]

    async def open_shaky(*arguments: object, **options: object) -> Store:
        store = await open_store(stage.place.settings, clock=stage.clock, ids=stage.ids)
        return fail_between(store, lab, error)

    monkeypatch.setattr(portal_module, "open_store", open_shaky)
    portal = Portal(Settings(store=stage.place.settings), clock=stage.clock, ids=stage.ids)
    lab.submit_in_vain(*jobs)
    began = lab.begin()
    # Two callers whose jobs go together, as under load.
    group: list[tuple[list[NewJob], Future[list[JobId]]]] = [([job], Future()) for job in jobs]
    try:
        portal.call(portal._plain.send(group))  # type: ignore[arg-type]
    finally:
        portal.close()
    ids = [id for _, done in group for id in done.result()]
    lab.record(Submit(lab.moment(*began), tuple(jobs), tuple(ids)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("end", [End.SUCCEED, End.RETRY, End.BURY, End.RELEASE])
@pytest.mark.parametrize("stale_first", [True, False])
def test_a_late_outcome_sent_with_the_right_one_does_not_spoil_it(
    engine: str, end: End, stale_first: bool, stages: Stages
) -> None:
    """A release whose reply was lost is sent again together with the next attempt's own outcome."""
    stage = stages(engine)
    lab = new_lab(stage)

    async def story() -> None:
        await lab.submit(lab.new_job())
        session = await lab.open()
        [first] = await lab.claim(session)
        await lab.finish(session, first, End.RELEASE)
        [second] = await lab.claim(session)
        pair = [Outcome(first.id, first.fence, end), Outcome(second.id, second.fence, end)]
        await stage.store.jobs.finish_and_claim(
            0, session, outcomes=pair if stale_first else pair[::-1]
        )
        assert await stage.store.jobs.running(session) == []

    stage.loop.run(story())


def new_lab(stage: Stage) -> Lab:
    return Lab(stage.store, stage.reader, stage.ids, stage.clock.now, checker=Checker())


def fail_between(store: Store, lab: Lab, error: Exception) -> Store:
    """After the first partition somebody runs its job, and the second fails once."""
    submit = store.jobs.submit
    failed: list[int] = []

    async def shaky(partition: int, jobs: list[NewJob], **options: Any) -> list[JobId]:
        if partition == 0 or failed:
            return await submit(partition, jobs, **options)
        failed.append(partition)
        lab.store = store
        session = await lab.open()
        for job in await lab.claim(session):
            await lab.finish(session, job)
        raise error

    store.jobs.submit = shaky  # type: ignore[method-assign,assignment]
    return store
