"""What a worker tells of its attempts to breakers, and what it does not start."""

from __future__ import annotations

import logging

import pytest

from foliot.errors import StoreUnavailable
from foliot.ids import SessionId
from foliot.model.breaker import Options, State
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, Outcome
from foliot.store.port import Wake
from foliot.worker.breakers import Breakers, News
from support.stores import World

pytestmark = pytest.mark.anyio
STRIPE = More(extras=Extras(breaker="stripe"))


class Desk:
    """The breakers of a worker that has claimed some jobs."""

    def __init__(self, world: World, session: SessionId, **options: float) -> None:
        self.world = world
        self.session = session
        self.heard: list[Wake] = []
        declared = {"stripe": Options(**options)}  # type: ignore[arg-type]
        self.breakers = Breakers(
            world.store,
            declared,
            kinds={"later": "stripe"},
            clock=world.clock,
            announce=self.heard.append,
        )

    async def claim(self, count: int = 1) -> list[ClaimedJob]:
        return await self.world.claim(self.session, count)

    def start(self, job: ClaimedJob) -> Outcome | None:
        return self.breakers.stop(job, self.world.clock.monotonic())

    def fail(self, *jobs: ClaimedJob) -> None:
        assert [self.start(job) for job in jobs] == [None] * len(jobs)
        for job in jobs:
            self.breakers.see(Outcome(job.id, job.fence, End.RETRY, breaks=True, error="boom"))

    async def state(self) -> State:
        [found] = await self.world.store.breakers.all(most=1)
        return found.breaker.state


@pytest.fixture
async def desk(world: World) -> Desk:
    return Desk(world, await world.open_session())


async def test_what_was_claimed_before_it_opened_is_held_and_what_comes_later_starts(
    desk: Desk, world: World
) -> None:
    await world.submit_many(7, more=STRIPE)
    await world.submit()
    *failing, waiting, plain = [*await desk.claim(6), *(await desk.claim(8))[1:]]
    asked = world.clock.monotonic()
    world.clock.advance(1)
    desk.fail(*failing[:5])
    await desk.breakers.tell()
    assert await desk.state() is State.OPEN
    assert desk.heard == [Wake(due=True)]
    held = desk.breakers.stop(waiting, asked)
    assert held is not None
    assert (held.end, held.reason, held.error) == (End.HOLD, "limit", "breaker:stripe")
    assert desk.breakers.stop(plain, asked) is None
    assert await world.finish(desk.session, held) == []
    job = await world.get(waiting.id)
    assert (job.state, job.attempt) == (JobState.HELD, 0)
    world.clock.advance(1)
    assert desk.breakers.stop(waiting, world.clock.monotonic()) is None


async def test_what_was_submitted_before_its_kind_had_one_counts_and_is_held_until_it_is_closed(
    desk: Desk, world: World
) -> None:
    """No claim asks it at the gate: it is held once, and with that it is one of those that are asked."""
    ids = await world.submit_many(7, kind="later")
    desk.fail(*await desk.claim(5))
    await desk.breakers.tell()
    assert await desk.state() is State.OPEN
    world.clock.advance(1)
    [job] = await desk.claim(1)
    held = desk.start(job)
    assert held is not None
    assert (held.end, held.reason, held.error) == (End.HOLD, "limit", "breaker:stripe")
    assert await world.finish(desk.session, held) == []
    world.clock.advance(40)
    await world.store.breakers.tick()
    await world.store.limits.tend(world.partition, "", limit=100)
    probe, other = sorted(await desk.claim(9), key=lambda one: one.id)
    assert (probe.id, other.id) == (ids[5], ids[6])
    assert desk.start(probe) is None
    assert desk.start(other) is not None
    desk.breakers.see(Outcome(probe.id, probe.fence))
    await desk.breakers.tell()
    assert await desk.state() is State.RECOVERING
    world.clock.advance(600)
    assert desk.start(other) is None, "nobody has told of it for long"


async def test_a_service_that_is_back_is_good_news(
    desk: Desk, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.submit(more=STRIPE)
    await world.store.breakers.open("stripe", seconds=1, note=None, by=None)
    world.clock.advance(1)
    await world.store.breakers.tick()
    [probe] = await desk.claim()
    assert desk.start(probe) is None
    desk.breakers.see(Outcome(probe.id, probe.fence))
    await desk.breakers.tell()
    told = [one for one in caplog.records if one.name == "foliot.worker"]
    assert [(one.levelname, one.getMessage()) for one in told] == [
        ("INFO", "breaker.closed stripe")
    ]


async def test_until_it_is_known_what_a_failed_probe_does_no_other_starts(
    desk: Desk, world: World
) -> None:
    await world.store.breakers.declare("stripe", Options(probes=2))
    await world.submit_many(2, more=STRIPE)
    await world.store.breakers.open("stripe", seconds=1, note=None, by=None)
    world.clock.advance(1)
    await world.store.breakers.tick()
    first, second = await desk.claim(2)
    desk.fail(first)
    assert desk.start(second) is not None
    await desk.breakers.tell()
    assert await desk.state() is State.OPEN


async def test_healthy_traffic_tells_nothing(desk: Desk, world: World) -> None:
    await world.submit_many(3, more=STRIPE)
    for job in await desk.claim(3):
        assert desk.start(job) is None
        desk.breakers.see(Outcome(job.id, job.fence))
    await desk.breakers.tell()
    assert await world.store.breakers.all(most=1) == []


async def test_what_ended_otherwise_tells_nothing(desk: Desk, world: World) -> None:
    await world.submit_many(3, more=STRIPE)
    for job, end in zip(await desk.claim(3), (End.RETRY, End.CANCEL, End.RELEASE), strict=True):
        assert desk.start(job) is None
        desk.breakers.see(Outcome(job.id, job.fence, end))
    await desk.breakers.tell()
    assert await world.store.breakers.all(most=1) == []


async def test_what_could_not_be_told_is_told_later(desk: Desk, world: World) -> None:
    await world.submit_many(5, more=STRIPE)
    jobs = await desk.claim(5)
    away = await world.another_store()
    await away.close()
    here, desk.breakers._store = desk.breakers._store, away
    desk.fail(*jobs)
    with pytest.raises(StoreUnavailable):
        await desk.breakers.tell()
    desk.breakers._store = here
    await desk.breakers.tell()
    assert await desk.state() is State.OPEN


async def test_what_began_in_an_earlier_half_open_phase_or_while_it_recovered_is_no_probe(
    desk: Desk, world: World
) -> None:
    await world.store.breakers.declare("stripe", Options(release=100.0))
    await world.submit_many(20, more=STRIPE)
    await world.store.breakers.open("stripe", seconds=1, note=None, by=None)
    world.clock.advance(1)
    await world.store.breakers.tick()
    [probe] = await desk.claim()
    assert desk.start(probe) is None
    desk.breakers.see(Outcome(probe.id, probe.fence))
    await desk.breakers.tell()
    assert await desk.state() is State.RECOVERING
    *failing, late, later = await desk.claim(7)
    assert [job.gates for job in (late, later)] == [("breaker:stripe",)] * 2
    assert [desk.start(job) for job in (late, later)] == [None, None]
    desk.fail(*failing)
    await desk.breakers.tell()
    assert await desk.state() is State.OPEN
    world.clock.advance(60)
    await world.store.breakers.tick()
    assert await desk.state() is State.HALF_OPEN
    desk.breakers.see(Outcome(late.id, late.fence, End.RETRY, breaks=True, error="timed out"))
    desk.breakers.see(Outcome(later.id, later.fence))
    await desk.breakers.tell()
    assert await desk.state() is State.HALF_OPEN
    await world.store.limits.tend(world.partition, "", limit=100)
    [probe] = await desk.claim()
    desk.fail(probe)
    await desk.breakers.tell()
    assert await desk.state() is State.OPEN


def test_successes_that_could_not_be_told_count_with_the_failures() -> None:
    news, older = News(), News(successes={1.0: 95}, failures=5)
    news.put_back(older)
    report = news.report(2.0, 60.0)
    assert sum(one.successes for one in report.tallies) == 95
    assert sum(one.failures for one in report.tallies) == 5
