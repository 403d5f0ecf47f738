"""Log lines and progress: kept in order, under the fence of their attempt, and forgotten in time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foliot.ids import JobId
from foliot.model.job import End, Outcome, Progress
from foliot.model.note import NewLine, NewProgress
from support.stores import World

pytestmark = pytest.mark.anyio


def line(world: World, job: JobId, fence: int, number: int, message: str = "said") -> NewLine:
    return NewLine(job, fence, number, fence, world.clock.now(), "info", "shop", message)


async def test_lines_come_back_in_order_with_all_that_was_said(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    said = ['"quoted" \\ {braced}', "two\nlines", "ünïcödé", ""]
    lines = [line(world, job.id, 1, number, text) for number, text in enumerate(said, 1)]
    await world.store.logs.write(world.partition, list(reversed(lines)))
    found = await world.store.logs.all(job.id)
    assert [one.message for one in found] == said
    assert {(one.attempt, one.at, one.level, one.logger) for one in found} == {
        (1, world.clock.now(), "info", "shop")
    }


async def test_the_same_lines_sent_again_change_nothing(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    for _ in range(2):
        await world.store.logs.write(world.partition, [line(world, job.id, 1, 1)])
    await world.store.logs.write(world.partition, [line(world, job.id, 1, 1, "changed")])
    assert [one.message for one in await world.store.logs.all(job.id)] == ["said"]


async def test_late_lines_of_an_attempt_stay_with_it(world: World) -> None:
    """Also after its job has ended, and after the next attempt has said something."""
    session = await world.open_session()
    job = await world.run(session)
    await world.store.logs.write(world.partition, [line(world, job.id, 2, 1, "second")])
    await world.finish(session, world.outcome(job, End.SUCCEED))
    await world.store.logs.write(world.partition, [line(world, job.id, 1, 1, "first")])
    found = await world.store.logs.all(job.id)
    assert [(one.attempt, one.message) for one in found] == [(1, "first"), (2, "second")]


async def test_progress_is_that_of_the_running_attempt_alone(world: World) -> None:
    session, other = await world.open_session(), await world.open_session()
    job = await world.run(session)

    async def say(fraction: float, *, fence: int = job.fence, by: str = session) -> Progress | None:
        told = NewProgress(job.id, fence, fraction, 'half "way"')
        await world.store.logs.set_progress(world.partition, by, [told])  # type: ignore[arg-type]
        return (await world.get(job.id)).progress

    assert await say(0.5) == Progress(0.5, 'half "way"')
    assert await say(0.6, fence=job.fence - 1) == Progress(0.5, 'half "way"')
    assert await say(0.7, by=other) == Progress(0.5, 'half "way"')
    await world.finish(session, world.outcome(job, End.RETRY))
    assert (await world.get(job.id)).progress is None, "the next attempt begins anew"
    assert await say(0.8) is None


async def test_old_lines_are_forgotten_in_batches(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    old = [line(world, job.id, 1, number) for number in range(1, 8)]
    await world.store.logs.write(world.partition, old)
    world.clock.advance(timedelta(days=2).total_seconds())
    await world.store.logs.write(world.partition, [line(world, job.id, 1, 9, "young")])
    assert await world.store.logs.prune(keep=86_400, limit=3) == 7
    assert await world.store.logs.prune(keep=86_400, limit=3) == 0
    assert [one.message for one in await world.store.logs.all(job.id)] == ["young"]


async def test_a_held_job_keeps_the_note_of_its_hold(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    hold = Outcome(job.id, job.fence, End.HOLD, reason="unfitting_payload", error="abc: no field")
    assert await world.finish(session, hold) == []
    seen = await world.get(job.id)
    assert (seen.reason, seen.note, seen.attempt) == ("unfitting_payload", "no field", 0)


async def test_a_session_is_drained_once_it_is_told(world: World) -> None:
    session, other = await world.open_session(), await world.open_session()
    heart = world.store.sessions.heart(session, lease=60)
    try:
        first = heart.extend([])
        assert first is not None and not first.drain
        assert await world.store.sessions.drain([session]) == [session]
        second = heart.extend([])
        assert second is not None and second.drain
    finally:
        heart.close()
    found = {one.id: one.drain for one in await world.store.sessions.all()}
    assert found == {session: True, other: False}
    world.clock.advance(1000)
    assert await world.store.sessions.drain([other]) == [], "it is lost"
