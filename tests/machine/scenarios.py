"""Short stories about a store, each of which a known kind of bug would spoil. They act; they judge nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from foliot.client import portal as portal_module
from foliot.client.portal import Portal
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.definition import JobDefinition
from foliot.model.job import End, NewJob, Outcome
from foliot.store.open import open_store
from foliot.store.port import Store
from foliot.worker.run import failure
from machine.history import Submit
from machine.lab import LOSS_LIMIT, Lab
from machine.stage import Stage


class Scene(msgspec.Struct, frozen=True):
    lab: Lab
    stage: Stage

    def advance(self, seconds: float) -> None:
        self.stage.clock.advance(seconds)

    def new_job(self, after: float | None = None, **fields: object) -> NewJob:
        if after is not None:
            fields["run_at"] = self.stage.clock.now() + timedelta(seconds=after)
        return self.lab.new_job(0, **fields)


Scenario = Callable[[Scene], Coroutine[Any, Any, None]]


async def an_outcome_is_sent_twice(scene: Scene) -> None:
    """The same session claims a job again after giving it back; then the first outcome comes once more."""
    lab = scene.lab
    await lab.submit(scene.new_job())
    session = await lab.open()
    for first in await lab.claim(session):
        await lab.finish(session, first, End.RELEASE)
        second = await lab.claim(session)
        await lab.finish(session, first)
        for job in second:
            await lab.finish(session, job)
            await lab.finish(session, job)


async def a_zombie_finishes(scene: Scene) -> None:
    """Its session expired and its job was given to another; or somebody sends outcomes under a wrong name."""
    lab = scene.lab
    await lab.submit(scene.new_job())
    zombie, other = await lab.open(), await lab.open(lease=1000)
    for job in await lab.claim(zombie):
        await lab.finish(other, job)
        scene.advance(31)
        await lab.find_and_reap()
        await lab.claim(other)
        await lab.finish(zombie, job)


async def a_session_wakes_up_late(scene: Scene) -> None:
    """A reaper has looked; before it acts, the lost session beats once more."""
    lab = scene.lab
    await lab.submit(scene.new_job())
    late, other = await lab.open(), await lab.open(lease=1000)
    await lab.claim(late)
    scene.advance(31)
    lost = await lab.store.jobs.find_lost()
    lab.extend(late)
    await lab.reap(lost.get(0, []))
    await lab.claim(other)


async def a_job_is_given_back(scene: Scene) -> None:
    lab = scene.lab
    await lab.submit(scene.new_job())
    session = await lab.open()
    for job in await lab.claim(session):
        await lab.finish(session, job, End.RELEASE)
    await lab.claim(session)


async def two_claim_one_after_the_other(scene: Scene) -> None:
    lab = scene.lab
    await lab.submit(scene.new_job())
    for _ in range(2):
        await lab.claim(await lab.open())


async def a_submission_is_answered(scene: Scene) -> None:
    """What others see when it is answered is what a crash would leave."""
    await scene.lab.submit(scene.new_job())


async def a_reply_is_lost(scene: Scene) -> None:
    """The client sends its job again."""
    lab, stage = scene.lab, scene.stage
    job = scene.new_job()
    portal = Portal(Settings(store=stage.place.settings), clock=stage.clock, ids=stage.ids)

    async def open_careless(*arguments: object, **options: object) -> Store:
        return _lose_first_reply(
            await open_store(stage.place.settings, clock=stage.clock, ids=stage.ids)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portal_module, "open_store", open_careless)
        began = lab.begin()
        ids = await asyncio.to_thread(portal.submit([job]).result)
        lab.record(Submit(lab.moment(*began), (job,), tuple(ids)))
        portal.close()


def _lose_first_reply(store: Store) -> Store:
    submit = store.jobs.submit
    lost: list[object] = []

    async def lose(*arguments: Any, **options: Any) -> list[JobId]:
        answer = await submit(*arguments, **options)
        if lost:
            return answer
        lost.append(answer)
        raise StoreUnavailable("the reply was lost", unknown=True)

    store.jobs.submit = lose  # type: ignore[method-assign]
    return store


async def a_job_outlives_its_deadline(scene: Scene) -> None:
    """Every time; its worker lives."""
    lab = scene.lab
    await lab.submit(scene.new_job(max_attempts=2, timeout=5.0))
    session = await lab.open(lease=1000)
    for _ in range(4):
        await lab.claim(session)
        scene.advance(16)
        await lab.find_and_reap()


async def a_job_kills_its_worker(scene: Scene) -> None:
    """Every time."""
    lab = scene.lab
    await lab.submit(scene.new_job(max_attempts=2))
    for _ in range(LOSS_LIMIT + 2):
        session = await lab.open()
        claimed = await lab.claim(session)
        lab.extend(session, [job.id for job in claimed])
        scene.advance(31)
        await lab.find_and_reap()


async def a_job_fails(scene: Scene) -> None:
    """Every time; a worker decides what becomes of it."""
    lab = scene.lab
    await lab.submit(scene.new_job(max_attempts=2))
    session = await lab.open(lease=10_000)
    definition = JobDefinition(
        kind="echo", function=print, arguments=msgspec.Struct, decode=msgspec.json.decode
    )
    for _ in range(4):
        for job in await lab.claim(session):
            error = ValueError("no")
            outcome = failure(job, definition, error, ids=scene.stage.ids, loss_limit=LOSS_LIMIT)
            await lab.cycle(session, outcome)
        scene.advance(1000)
        await lab.admit()


async def a_session_is_forgotten(scene: Scene) -> None:
    """Expired sessions are pruned before anybody has reaped."""
    lab = scene.lab
    await lab.submit(scene.new_job())
    await lab.claim(await lab.open())
    scene.advance(31)
    await lab.prune_sessions()
    await lab.find_and_reap()
    session = await lab.open()
    for job in await lab.claim(session):
        await lab.finish(session, job)
    lab.rest()


async def two_processes_on_one_host(scene: Scene) -> None:
    """The second looks for claims whose reply was lost, and gives back what it does not hold."""
    lab = scene.lab
    await lab.submit(scene.new_job())
    first = await lab.open()
    await lab.claim(first, process="first")
    second = await lab.open()
    for row in await lab.store.jobs.running(second):
        await lab.cycle(second, Outcome(row.id, row.fence, End.RELEASE), process="second")
    await lab.claim(second, process="second")


async def a_job_is_due_later(scene: Scene) -> None:
    """So is its second attempt."""
    lab = scene.lab
    await lab.submit(scene.new_job(after=60))
    session = await lab.open(lease=1000)
    await lab.admit()
    await lab.claim(session)
    scene.advance(60)
    await lab.admit()
    for job in await lab.claim(session):
        await lab.finish(session, job, End.RETRY, delay=20.0)
    await lab.admit()
    await lab.claim(session)


async def a_queue_is_paused(scene: Scene) -> None:
    lab = scene.lab
    await lab.submit(scene.new_job())
    await lab.pause("default")
    await lab.claim(await lab.open())


async def jobs_are_cancelled(scene: Scene) -> None:
    """Ready, scheduled, and running, where the attempt then fails."""
    lab = scene.lab
    session = await lab.open()
    running = scene.new_job()
    await lab.submit(running)
    claimed = await lab.claim(session)
    ready, scheduled = scene.new_job(), scene.new_job(after=5)
    await lab.submit(ready, scheduled)
    await lab.cancel(ready.id, scheduled.id, running.id)
    for job in claimed:
        await lab.finish(session, job, End.RETRY)
    scene.advance(6)
    await lab.admit()
    await lab.claim(session)


async def an_ended_job_is_cancelled(scene: Scene) -> None:
    lab = scene.lab
    job = scene.new_job()
    await lab.submit(job)
    session = await lab.open()
    for claimed in await lab.claim(session):
        await lab.finish(session, claimed)
    await lab.cancel(job.id)


async def history_is_pruned(scene: Scene) -> None:
    """After a job died and another succeeded."""
    lab = scene.lab
    await lab.submit(scene.new_job(), scene.new_job())
    session = await lab.open()
    claimed = await lab.claim(session)
    for job, end in zip(claimed, (End.BURY, End.SUCCEED), strict=False):
        await lab.finish(session, job, end)
    scene.advance(40 * 86_400)
    await lab.prune(keep=86_400)


async def a_low_priority_comes_first(scene: Scene) -> None:
    lab = scene.lab
    for priority in (3, 1, 2):
        await lab.submit(scene.new_job(priority=priority))
    session = await lab.open()
    await lab.claim(session, 1)
    await lab.claim(session, 1)


async def an_older_one_comes_last(scene: Scene) -> None:
    lab = scene.lab
    for after in (-5, -10, -1):
        await lab.submit(scene.new_job(after=after))
    session = await lab.open()
    await lab.claim(session, 1)
    await lab.claim(session, 1)


async def jobs_are_counted(scene: Scene) -> None:
    lab = scene.lab
    await lab.submit(scene.new_job(), scene.new_job(after=5))
    session = await lab.open()
    for job in await lab.claim(session, 1):
        await lab.finish(session, job)
    await lab.count()


async def a_key_is_used_twice(scene: Scene) -> None:
    lab = scene.lab
    await lab.submit(scene.new_job(key="a"))
    await lab.submit(scene.new_job(key="a"))
