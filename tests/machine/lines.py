"""Short stories about jobs that wait for each other or for their turns, and about the dead that live again."""

from __future__ import annotations

from foliot.model.job import End, More
from machine.lab import IN_TURNS
from machine.scenarios import Scene


async def jobs_share_a_key(scene: Scene) -> None:
    """They are submitted together, and run one after the other."""
    lab = scene.lab
    more = More(ordering_key="a")
    await lab.submit(*(scene.new_job(more=more) for _ in range(3)))
    await lab.look()
    session = await lab.open()
    for _ in range(3):
        for job in await lab.claim(session):
            await lab.finish(session, job)


async def the_first_of_a_key_fails(scene: Scene) -> None:
    """The others wait until it has had its second attempt."""
    lab = scene.lab
    more = More(ordering_key="a")
    await lab.submit(*(scene.new_job(more=more) for _ in range(2)))
    await lab.look()
    session = await lab.open(lease=1000)
    for job in await lab.claim(session):
        await lab.finish(session, job, End.RETRY, delay=20.0)
    await lab.walk()
    for job in await lab.claim(session):
        await lab.finish(session, job)
    scene.advance(20)
    await lab.admit()
    for _ in range(2):
        for job in await lab.claim(session):
            await lab.finish(session, job)


async def the_first_of_a_key_is_cancelled(scene: Scene) -> None:
    """Nobody tells the next, so somebody must look."""
    lab = scene.lab
    more = More(ordering_key="a")
    first, second = (scene.new_job(more=more) for _ in range(2))
    await lab.submit(first, second)
    await lab.look()
    await lab.cancel(first.id)
    await lab.walk()
    session = await lab.open()
    for job in await lab.claim(session):
        await lab.finish(session, job)
    lab.rest()


async def a_light_key_comes_after_a_heavy_one(scene: Scene) -> None:
    """Which had its turns first, and comes with more and more."""
    lab = scene.lab
    await lab.serve_in_turns()
    session = await lab.open()
    for key, count in (("heavy", 5), ("light", 3), ("heavy", 5)):
        more = More(fair_key=key)
        await lab.submit(*(scene.new_job(queue=IN_TURNS, more=more) for _ in range(count)))
        await lab.look()
    for _ in range(13):
        await lab.claim(session, 1, queues=(IN_TURNS,))


async def a_dead_job_is_retried(scene: Scene) -> None:
    """And runs again, beside one that somebody else retries at the same time."""
    lab = scene.lab
    job = scene.new_job(max_attempts=1)
    await lab.submit(job)
    session = await lab.open()
    for claimed in await lab.claim(session):
        await lab.finish(session, claimed, End.BURY)
    await lab.retry(job.id)
    await lab.retry(job.id)
    for claimed in await lab.claim(session):
        await lab.finish(session, claimed)
