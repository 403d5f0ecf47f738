"""Breakers in the stores: what waits for one, who may try, at which rate the rest follows, and who said so."""

from __future__ import annotations

import asyncio

import pytest

from foliot.author import Author
from foliot.breaker_commands import close_breaker, open_breaker
from foliot.errors import FoliotError
from foliot.ids import JobId, SessionId
from foliot.model.breaker import Breaker, Options, Report, State, Tally
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, Outcome
from support.stores import World

pytestmark = pytest.mark.anyio
STRIPE = More(extras=Extras(breaker="stripe"))
GATE = "breaker:stripe"


def failures(number: int, **told: float) -> Report:
    return Report(tallies=(Tally(0.0, number, 0),), error="HTTPError: 503", **told)  # type: ignore[arg-type]


async def breaker(world: World) -> Breaker:
    [found] = await world.store.breakers.all(most=100)
    return found.breaker


async def open_it(world: World, **options: float) -> None:
    await world.store.breakers.declare("stripe", Options(**options))  # type: ignore[arg-type]
    shift = await world.store.breakers.report("stripe", failures(5))
    assert shift.after.state is State.OPEN


async def half_open(world: World, **options: float) -> None:
    await open_it(world, **options)
    world.clock.advance(30)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.HALF_OPEN


async def go_on(world: World) -> None:
    """What the duty would do for those who wait."""
    await world.store.limits.tend(world.partition, "", limit=100)


async def end(world: World, session: SessionId, job: ClaimedJob, how: End = End.SUCCEED) -> None:
    await world.end(session, job, how, gates=job.gates, delay=60.0, reason="failed")


async def state_of(world: World, id: JobId) -> tuple[JobState, str | None, int]:
    job = await world.get(id)
    return job.state, job.note, job.attempt


async def test_a_breaker_that_is_closed_is_no_limit(world: World) -> None:
    session = await world.open_session()
    await world.store.breakers.declare("stripe", Options())
    shift = await world.store.breakers.report("stripe", failures(4))
    assert (shift.after.state, shift.moved) == (State.CLOSED, False)
    assert await world.store.limits.all(most=10) == []
    await world.submit_many(3, more=STRIPE)
    assert [job.gates for job in await world.claim(session)] == [()] * 3


async def test_failures_of_several_processes_add_up(world: World) -> None:
    other = await world.another_store()
    await world.store.breakers.report("stripe", failures(3))
    world.clock.advance(10)
    shift = await other.breakers.report("stripe", failures(2))
    assert (shift.after.state, shift.after.reason) == (State.OPEN, "HTTPError: 503")
    assert shift.events == ("breaker.opened",)


async def test_behind_an_open_breaker_jobs_are_held_and_no_attempt_is_used_up(world: World) -> None:
    session = await world.open_session()
    ids = await world.submit_many(3, more=STRIPE)
    other = await world.submit()
    await open_it(world)
    assert [job.id for job in await world.claim(session)] == [other]
    assert [await state_of(world, id) for id in ids] == [(JobState.HELD, GATE, 0)] * 3
    await go_on(world)
    assert await world.claim(session) == []


async def test_another_process_that_knew_older_rules_claims_nothing_of_it(world: World) -> None:
    session, other = await world.open_session(), await world.another_store()
    await world.claim(session)
    await world.submit_many(3, more=STRIPE)
    shift = await other.breakers.report("stripe", failures(5))
    assert shift.moved
    assert await world.claim(session) == []


async def test_after_its_time_so_many_try_as_it_has_probes(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(5, more=STRIPE)
    await open_it(world, probes=2)
    assert await world.claim(session) == []
    world.clock.advance(29)
    assert (await world.store.breakers.tick()).wait == pytest.approx(1)
    world.clock.advance(1)
    [shift] = (await world.store.breakers.tick()).shifts
    assert shift.after.state is State.HALF_OPEN
    await go_on(world)
    tried = await world.claim(session)
    assert [job.gates for job in tried] == [(GATE,)] * 2
    await go_on(world)
    assert await world.claim(session) == []


async def test_what_was_claimed_before_it_opened_takes_no_place_of_those_that_try(
    world: World,
) -> None:
    """However long it runs: otherwise nobody could try while it does."""
    session = await world.open_session()
    await world.run(session, more=STRIPE)
    await world.submit_many(2, more=STRIPE)
    await half_open(world)
    await go_on(world)
    assert len(await world.claim(session)) == 1
    await go_on(world)
    assert await world.claim(session) == []


async def test_what_came_through_the_gate_earlier_gives_back_no_place_of_those_that_try(
    world: World,
) -> None:
    session = await world.open_session()
    await world.submit_many(9, more=STRIPE)
    await half_open(world, probes=2)
    slow, failed = await world.claim(session)
    await world.store.breakers.report("stripe", Report(failed=(0.0,)))
    await end(world, session, failed, End.RETRY)
    world.clock.advance(60)
    await world.store.breakers.tick()
    await go_on(world)
    assert len(await world.claim(session)) == 2
    await end(world, session, slow)
    assert await world.claim(session) == []
    await go_on(world)
    assert await world.claim(session) == []


async def test_after_one_that_tried_the_next_tries(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(3, more=STRIPE)
    await half_open(world, successes=3)
    for _ in range(3):
        await go_on(world)
        [probe] = await world.claim(session)
        await end(world, session, probe)
        shift = await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    assert shift.after.state is State.RECOVERING


async def test_a_probe_that_fails_opens_it_for_twice_as_long(world: World) -> None:
    await half_open(world)
    shift = await world.store.breakers.report("stripe", Report(failed=(0.0,), error="again"))
    assert (shift.after.state, shift.after.openings) == (State.OPEN, 2)
    assert shift.after.until == pytest.approx(world.clock.now().timestamp() + 60)


async def test_what_did_not_come_through_the_gate_says_nothing_of_a_half_open_one(
    world: World,
) -> None:
    await half_open(world)
    for told in (failures(9), Report(tallies=(Tally(0.0, 0, 9),))):
        shift = await world.store.breakers.report("stripe", told)
        assert shift.after.state is State.HALF_OPEN


async def test_a_probe_whose_worker_is_lost_leaves_its_place_to_the_next(world: World) -> None:
    session = await world.open_session()
    ids = await world.submit_many(2, more=STRIPE)
    await half_open(world)
    [first] = await world.claim(session)
    world.expire()
    await world.reap(session)
    await go_on(world)
    other = await world.open_session()
    again = [job.id for job in await world.claim(other)]
    assert len(again) == 1
    assert set(again) <= set(ids)
    assert (await world.get(first.id)).state in (JobState.READY, JobState.HELD, JobState.RUNNING)


async def test_those_who_waited_follow_at_a_rate(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(20, more=STRIPE)
    await half_open(world, release=2.0)
    [probe] = await world.claim(session)
    shift = await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    assert (shift.after.state, shift.events) == (State.RECOVERING, ("breaker.closed",))
    await end(world, session, probe)
    started = 0
    for _ in range(16):
        await go_on(world)
        started += len(await world.claim(session))
        world.clock.advance(0.25)
    assert started == 8  # two a second


async def test_the_rate_doubles_while_nothing_fails(world: World) -> None:
    await world.submit_many(20, more=STRIPE)
    await half_open(world, release=2.0)
    session = await world.open_session()
    await world.claim(session)
    await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    await world.claim(session)
    await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    world.clock.advance(10)
    await world.store.breakers.tick()
    [standing] = await world.store.limits.all(most=100)
    assert standing.limit.rate == 4.0


async def test_when_nobody_waits_any_more_it_is_closed_and_no_limit(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(2, more=STRIPE)
    await half_open(world)
    [probe] = await world.claim(session)
    await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    assert (await world.store.breakers.tick()).wait is not None
    assert (await breaker(world)).state is State.RECOVERING
    world.clock.advance(1)
    await end(world, session, probe)
    await go_on(world)
    [second] = await world.claim(session)
    ticked = await world.store.breakers.tick()
    assert (await breaker(world)).state is State.CLOSED
    assert ticked.wait is None
    assert await world.store.limits.all(most=10) == []
    await end(world, session, second)


async def test_while_nobody_claims_it_neither_closes_nor_lets_more_through(world: World) -> None:
    """Those who waited are asked again, and are ready: that is not to have started."""
    session = await world.open_session()
    await world.submit_many(40, more=STRIPE)
    await half_open(world, release=10.0)
    [probe] = await world.claim(session)
    await end(world, session, probe)
    await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    for _ in range(100):
        await go_on(world)
        world.clock.advance(0.5)
        await world.store.breakers.tick()
    found = await breaker(world)
    assert (found.state, found.rate) == (State.RECOVERING, 10.0)
    assert len(await world.claim(session)) == 1


async def test_one_that_is_half_open_stays_so_while_nobody_claims(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(2, more=STRIPE)
    await open_it(world)
    await world.claim(session)
    world.clock.advance(30)
    await world.store.breakers.tick()
    for _ in range(3):
        await go_on(world)
    world.clock.advance(601)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.HALF_OPEN
    assert len(await world.claim(session)) == 1


async def test_one_that_is_half_open_stays_so_while_its_only_try_runs(world: World) -> None:
    """Nobody else is there: else it were told to be closed in the middle of an outage."""
    session = await world.open_session()
    await half_open(world, open_for=5, longest=10)
    probe = await world.run(session, more=STRIPE)
    for _ in range(3):
        world.clock.advance(11)
        await world.store.breakers.tick()
        assert (await breaker(world)).state is State.HALF_OPEN
    shift = await world.store.breakers.report("stripe", Report(failed=(33.0,), error="timed out"))
    assert (shift.after.state, shift.events) == (State.OPEN, ())
    await end(world, session, probe, End.RETRY)


async def test_a_try_that_hangs_keeps_the_others_out_for_the_longest_only(world: World) -> None:
    session = await world.open_session()
    await half_open(world, open_for=5, longest=10)
    await world.submit_many(2, more=STRIPE)
    assert len(await world.claim(session)) == 1
    await go_on(world)
    assert await world.claim(session) == []
    world.clock.advance(10)
    await world.store.breakers.tick()
    await go_on(world)
    assert len(await world.claim(session)) == 1


@pytest.mark.parametrize("how", ["it ended", "its worker was lost", "it began before"])
async def test_one_that_is_half_open_is_closed_when_nobody_tries_any_more(
    world: World, how: str
) -> None:
    session = await world.open_session()
    early = [await world.run(session, more=STRIPE)] if how == "it began before" else []
    await half_open(world, open_for=5, longest=10)
    if not early:
        probe = await world.run(session, more=STRIPE)
        world.clock.advance(9)
        if how == "it ended":
            await end(world, session, probe, End.CANCEL)
        else:
            world.expire()
            await world.reap(session)
            assert await world.state(probe.id) is not JobState.RUNNING
    await world.submit_many(2, queue="other")
    other = await world.open_session()
    assert len(await world.claim(other, queues=["other"])) == 2, "they call something else"
    for _ in range(2):
        world.clock.advance(11)
        await world.store.breakers.tick()
    assert (await breaker(world)).state is State.CLOSED


async def test_what_was_let_through_and_claimed_after_it_closed_waits_for_nothing(
    world: World,
) -> None:
    session = await world.open_session()
    await world.submit_many(2, more=STRIPE)
    await half_open(world)
    await world.claim(session)
    await world.store.breakers.close("stripe", note=None, by=None)
    await go_on(world)
    world.clock.advance(1)
    [job] = await world.claim(session)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.CLOSED
    assert (await world.get(job.id)).note is None
    assert [found.waiting for found in await world.store.breakers.all(most=9)] == [0]


@pytest.mark.parametrize("when", ["while it is open", "while they may go on"])
async def test_one_that_recovers_does_not_wait_for_those_of_a_paused_queue(
    world: World, when: str
) -> None:
    session = await world.open_session()
    ids = await world.submit_many(3, more=STRIPE)
    await open_it(world)
    await world.claim(session)
    await world.store.breakers.close("stripe", note=None, by=None)
    if when == "while they may go on":
        await go_on(world)
        assert await world.state(ids[0]) is JobState.READY
    await world.store.queues.pause("default", by=None, note="lunch")
    other = await world.submit(queue="other", more=STRIPE)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.CLOSED
    assert [one.waiting for one in await world.store.breakers.all(most=9)] == [3]
    assert [job.id for job in await world.claim(session, queues=["other"])] == [other]
    await world.store.queues.resume("default")
    await go_on(world)
    assert len(await world.claim(session)) == 3


async def test_one_that_recovers_waits_for_nobody_for_ever(world: World) -> None:
    """There may be no worker for them."""
    session = await world.open_session()
    await world.submit_many(3, more=STRIPE)
    await open_it(world)
    await world.claim(session)
    await world.store.breakers.close("stripe", note=None, by=None)
    world.clock.advance(599)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.RECOVERING
    world.clock.advance(1)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.CLOSED


async def test_failures_while_it_recovers_open_it_again(world: World) -> None:
    await half_open(world)
    await world.store.breakers.report("stripe", Report(succeeded=(0.0,)))
    shift = await world.store.breakers.report("stripe", failures(5))
    assert (shift.after.state, shift.after.openings) == (State.OPEN, 2)


async def test_a_service_that_asks_for_rest_gets_it(world: World) -> None:
    now = world.clock.now().timestamp()
    await world.store.breakers.report("stripe", failures(1, retry_after=300.0))
    shift = await world.store.breakers.report("stripe", failures(4))
    assert shift.after.until == pytest.approx(now + 300)
    shift = await world.store.breakers.report("stripe", failures(1, retry_after=400.0))
    assert shift.after.until == pytest.approx(now + 400)


async def test_what_a_service_asked_for_is_forgotten_with_the_failure_it_came_with(
    world: World,
) -> None:
    await world.store.breakers.report("stripe", failures(1, retry_after=86_400.0))
    for _ in range(20):  # others come and go meanwhile
        world.clock.advance(30)
        await world.store.breakers.report("stripe", failures(1))
    shift = await world.store.breakers.report("stripe", failures(5))
    assert shift.after.until == pytest.approx(world.clock.now().timestamp() + 30)


async def test_what_was_claimed_and_not_started_is_held_with_its_attempt_given_back(
    world: World,
) -> None:
    session = await world.open_session()
    job = await world.run(session, more=STRIPE)
    await open_it(world)
    held = Outcome(job.id, job.fence, End.HOLD, reason="limit", error=GATE)
    assert await world.finish(session, held) == []
    assert await state_of(world, job.id) == (JobState.HELD, GATE, 0)
    await world.store.breakers.close("stripe", note=None, by=None)
    await go_on(world)
    [again] = await world.claim(session)
    assert (again.id, again.attempt) == (job.id, 1)


async def test_what_is_held_for_one_that_its_kind_did_not_have_stands_behind_it_from_then_on(
    world: World,
) -> None:
    session = await world.open_session()
    more = More(extras=Extras(limit_key="a"))
    jobs = [await world.run(session), await world.run(session, more=more)]
    await open_it(world)
    held = [Outcome(job.id, job.fence, End.HOLD, reason="limit", error=GATE) for job in jobs]
    assert await world.finish(session, *held) == []
    for job in jobs:
        assert await state_of(world, job.id) == (JobState.HELD, GATE, 0)
        assert (await world.get(job.id)).extras.breaker == "stripe"
    assert (await world.get(jobs[1].id)).extras.limit_key == "a"
    world.clock.advance(30)
    await world.store.breakers.tick()
    for job in jobs:
        await go_on(world)
        [probe] = await world.claim(session)
        assert (probe.id, probe.gates, probe.attempt) == (job.id, (GATE,), 1)
        assert await world.claim(session) == []
        await end(world, session, probe)


async def test_what_is_held_for_a_limit_or_its_own_breaker_keeps_what_it_has(world: World) -> None:
    session = await world.open_session()
    plain, other = await world.run(session), await world.run(session, more=STRIPE)
    held = [
        Outcome(plain.id, plain.fence, End.HOLD, reason="limit", error="kind:echo"),
        Outcome(other.id, other.fence, End.HOLD, reason="limit", error="breaker:bank"),
    ]
    assert await world.finish(session, *held) == []
    assert (await world.get(plain.id)).extras.breaker is None
    assert (await world.get(other.id)).extras.breaker == "stripe"


async def test_by_hand_it_is_opened_for_a_time_or_until_it_is_closed(world: World) -> None:
    now = world.clock.now().timestamp()
    author = Author(world.ids, "ada")
    shift = await open_breaker(
        world.store, "stripe", new=True, seconds=600, note="they move", by=author
    )
    assert shift.after.until == pytest.approx(now + 600)
    assert shift.after.note == "they move"
    shift = await open_breaker(world.store, "stripe", by=author)
    assert shift.after.until is None
    world.clock.advance(86_400)
    assert await world.store.breakers.tick() == await world.store.breakers.tick()
    assert (await breaker(world)).state is State.OPEN
    shift = await close_breaker(world.store, "stripe", note="they are back", by=author)
    assert (shift.after.state, shift.after.by) == (State.CLOSED, "ada")
    assert (shift.after.reason, shift.after.note) == ("by hand", "they are back")
    assert shift.after == await breaker(world)
    written = [(e.actor, e.action, e.detail) for e in await world.store.audit.list(target="stripe")]
    assert written == [
        ("ada", "close breaker", {"note": "they are back"}),
        ("ada", "open breaker", {}),
        ("ada", "open breaker", {"note": "they move", "seconds": 600.0}),
    ]


async def test_closed_by_hand_it_throttles_only_where_somebody_waits(world: World) -> None:
    """What is submitted afterwards has not waited, and is not to."""
    session, author = await world.open_session(), Author(world.ids, "ada")
    await world.store.breakers.declare("stripe", Options(release=1.0))
    await open_breaker(world.store, "stripe")
    await close_breaker(world.store, "stripe", by=author)
    await world.submit_many(3, more=STRIPE)
    assert len(await world.claim(session)) == 3
    await open_breaker(world.store, "stripe")
    await world.submit_many(3, more=STRIPE)
    assert await world.claim(session) == []
    shift = await close_breaker(world.store, "stripe", note="they are back", by=author)
    assert (shift.after.state, shift.after.note) == (State.RECOVERING, "they are back")
    await go_on(world)
    assert len(await world.claim(session)) == 1
    closed = [e for e in await world.store.audit.list(target="stripe") if e.actor == "ada"]
    assert [(e.action, e.detail) for e in closed] == [
        ("close breaker", {"note": "they are back"}),
        ("close breaker", {}),
    ]


async def test_closed_by_hand_it_does_not_wait_for_one_that_tries(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(1, more=STRIPE)
    await half_open(world)
    [probe] = await world.claim(session)
    shift = await close_breaker(world.store, "stripe")
    assert shift.after.state is State.CLOSED
    await end(world, session, probe)


async def test_one_that_nobody_knows_cannot_be_closed(world: World) -> None:
    await world.store.breakers.declare("stripe", Options())
    with pytest.raises(FoliotError, match="stripe"):
        await close_breaker(world.store, "strip")
    [found] = await world.store.breakers.all(most=10)
    assert found.breaker.name == "stripe"


async def test_new_options_change_nothing_else(world: World) -> None:
    await open_it(world)
    before = await breaker(world)
    assert await world.store.breakers.declare("stripe", Options(failures=9))
    assert not await world.store.breakers.declare("stripe", Options(failures=9))
    after = await breaker(world)
    assert (after.state, after.until, after.options.failures) == (before.state, before.until, 9)


async def test_reports_at_the_same_time_are_all_counted(world: World) -> None:
    await world.store.breakers.declare("stripe", Options(failures=100))
    stores = [world.store, await world.another_store()]
    await asyncio.gather(*(one.breakers.report("stripe", failures(1)) for one in stores * 10))
    assert (await breaker(world)).counts == (20, 0)


async def test_claims_go_on_while_breakers_open_and_close(world: World) -> None:
    session = await world.open_session()
    ids = await world.submit_many(30) + await world.submit_many(10, more=STRIPE)

    async def switch() -> None:
        for _ in range(5):
            await world.store.breakers.open("stripe", seconds=None, note=None, by=None)
            await world.store.breakers.close("stripe", note=None, by=None)

    async def claim() -> list[ClaimedJob]:
        return [job for _ in range(10) for job in await world.claim(session, 10)]

    _, claimed = await asyncio.gather(switch(), claim())
    assert len(claimed) >= 30
    assert len({job.id for job in claimed}) == len(claimed)
    assert {job.id for job in claimed} <= set(ids)


async def test_those_who_wait_are_counted_for_people(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(7, more=STRIPE)
    await open_it(world)
    await world.claim(session)
    [found] = await world.store.breakers.all(most=100)
    assert (found.waiting, found.at_least) == (7, False)
    [found] = await world.store.breakers.all(most=5)
    assert (found.waiting, found.at_least) == (5, True)


async def test_a_slip_of_the_pen_opens_nothing_and_is_told(world: World) -> None:
    await open_breaker(world.store, "stripe", new=True)
    with pytest.raises(FoliotError, match="no breaker is called") as refused:
        await open_breaker(world.store, "strpe")
    assert "stripe" in str(refused.value.hint)
    assert [one.breaker.name for one in await world.store.breakers.all(most=1)] == ["stripe"]


async def test_after_the_clock_was_set_back_one_tries_and_closes_it(world: World) -> None:
    session = await world.open_session(lease=100_000.0)
    await half_open(world)
    await world.submit_many(3, more=STRIPE)
    world = await world.set_back(3600)
    await world.store.breakers.tick()
    assert len(await world.claim(session)) == 1
    for _ in range(3):
        world.clock.advance(1)
        await go_on(world)
        assert await world.claim(session) == [], "one tries"
    await world.store.breakers.report("stripe", Report(succeeded=(1.0,)))
    assert (await breaker(world)).state is State.RECOVERING


async def test_after_the_clock_was_set_back_one_that_is_open_stays_so_no_longer(
    world: World,
) -> None:
    await open_it(world)
    world = await world.set_back(3600)
    await world.store.breakers.tick()
    world.clock.advance(30)
    await world.store.breakers.tick()
    assert (await breaker(world)).state is State.HALF_OPEN
