"""Delivering: events become jobs of the hooks that hear them, once each; those of one hook and subject run in order."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from foliot.ids import JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob, End, JobState
from foliot.store.events import Delivered
from foliot.testing.clock import ManualClock
from support.hooks import HOOKS, breaker_here, event_of, listen, listener, listening, outbox, told
from support.stores import World

pytestmark = pytest.mark.anyio


async def _deliver(world: World, *, limit: int = 100) -> Delivered:
    return await world.store.events.deliver(world.partition, limit=limit)


async def _succeed(world: World, session: SessionId, count: int = 1, **fields: object) -> list[str]:
    ids = await world.submit_many(count, **fields)
    for job in await world.claim(session, count):
        await world.end(session, job)
    return list(ids)


async def _claim_hooks(world: World, session: SessionId) -> list[ClaimedJob]:
    await world.look()
    return await world.claim(session, queues=[HOOKS])


async def _open_and_close(world: World, breaker: str, note: str) -> None:
    await world.store.breakers.open(breaker, seconds=None, note=note, by=None)
    world.clock.advance(0.001)
    await world.store.breakers.close(breaker, note=note, by=None)
    world.clock.advance(0.001)


async def test_an_event_becomes_a_job_of_its_hook(world: World) -> None:
    await listen(world, "job.dead")
    session = await world.open_session()
    job = await world.run(session, namespace="eu")
    await world.end(session, job, End.BURY, reason="failed", error='no "ü"')
    assert await _deliver(world) == Delivered(1, 1)
    assert await outbox(world) == []
    [made] = await told(world)
    assert (made.kind, made.queue, made.namespace) == ("on.job.dead.hook", HOOKS, "eu")
    assert partition_of(made.id, world.store.partitions) == world.partition
    assert (made.state, made.reason) == (JobState.HELD, "admission")
    event = event_of(made)
    assert (event.name, event.subject, event.at) == ("job.dead", job.id, world.clock.now())
    assert (event.namespace, event.kind, event.queue) == ("eu", "echo", "default")
    assert event.data == {"attempt": 1, "reason": "failed", "error": 'no "ü"'}
    [claimed] = await _claim_hooks(world, session)
    assert claimed.id == made.id
    assert await _deliver(world) == Delivered(0, 0)


async def test_every_hook_that_hears_an_event_has_a_job_of_its_own(world: World) -> None:
    hooks = [
        listener("job.succeeded", "all"),
        listener("job.succeeded", "mail", queues=("mail",)),
        listener("job.succeeded", "charge", kinds=("charge", "refund"), queues=("mail", "default")),
        listener("job.dead", "dead"),
    ]
    await world.store.events.listen(hooks)
    session = await world.open_session()
    await _succeed(world, session, kind="charge")
    assert await _deliver(world) == Delivered(1, 2)
    made = await told(world)
    assert {job.kind for job in made} == {"on.job.succeeded.all", "on.job.succeeded.charge"}
    assert len({event_of(job).id for job in made}) == 1


async def test_a_hook_is_told_of_one_subject_in_the_order_of_its_events(world: World) -> None:
    await listen(world, "breaker.opened")
    notes = ["first", "second", "third"]
    run: dict[str, list[str]] = {breaker_here(world, name): [] for name in ("stripe", "mail")}
    for subject in run:
        for note in notes:
            await _open_and_close(world, subject, note)
    assert (await _deliver(world)).jobs == 6
    session = await world.open_session(lease=1000)
    for _ in notes:
        claimed = await _claim_hooks(world, session)
        assert len(claimed) == 2  # one of each: the others wait for it
        for job in claimed:
            event = event_of(await world.get(job.id))
            run[event.subject].append(event.data["note"])
            await world.end(session, job)
    assert list(run.values()) == [notes, notes]
    assert await _claim_hooks(world, session) == []


async def test_a_hook_that_is_to_be_tried_again_keeps_what_it_hears_of_its_subject_waiting(
    world: World,
) -> None:
    await listen(world, "job.dead")
    session = await world.open_session(lease=10_000)
    job = await world.run(session)
    await world.end(session, job, End.BURY)
    await world.store.dead.retry(world.partition, [job.id], record=lambda _: [])
    [again] = await world.claim(session)
    await world.end(session, again, End.BURY)
    other = await world.run(session)
    await world.end(session, other, End.BURY)
    await _deliver(world)
    first = {
        event_of(await world.get(one.id)).subject: one for one in await _claim_hooks(world, session)
    }
    assert set(first) == {job.id, other.id}
    await world.end(session, first[job.id], End.RETRY, reason="failed", delay=60)
    assert await _claim_hooks(world, session) == []
    world.clock.advance(61)
    await world.admit()
    [retried] = await _claim_hooks(world, session)
    assert retried.id == first[job.id].id
    await world.end(session, retried)
    [last] = await _claim_hooks(world, session)
    assert event_of(await world.get(last.id)).subject == job.id


async def test_a_hook_that_nobody_runs_any_more_keeps_no_other_waiting(world: World) -> None:
    await world.store.events.listen([listener("job.dead", "gone"), listener("job.dead", "here")])
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.BURY)
    await _deliver(world)
    first = {one.kind: one for one in await _claim_hooks(world, session)}
    assert set(first) == {"on.job.dead.gone", "on.job.dead.here"}
    await world.end(session, first["on.job.dead.gone"], End.HOLD, reason="unknown_kind")
    await world.end(session, first["on.job.dead.here"])
    assert await world.state(first["on.job.dead.here"].id) is JobState.SUCCEEDED


async def test_a_batch_takes_the_first_events_and_leaves_the_others(world: World) -> None:
    await listen(world)
    session = await world.open_session(lease=1000)
    ids = []
    for _ in range(5):
        ids += await _succeed(world, session)
        world.clock.advance(0.001)
    assert await _deliver(world, limit=2) == Delivered(2, 2)
    assert [event_of(job).subject for job in await told(world)] == ids[:2]
    assert [subject for _, subject in await outbox(world)] == ids[2:]
    assert await _deliver(world, limit=3) == Delivered(3, 3)
    assert [event_of(job).subject for job in await told(world)] == ids


async def test_any_number_of_processes_may_deliver_at_once(world: World) -> None:
    await listen(world)
    session = await world.open_session()
    ids = await _succeed(world, session, 60)
    stores = [world.store, *[await world.another_store() for _ in range(2)]]

    async def deliver(number: int) -> int:
        jobs = count = 0
        while not count or jobs:
            jobs = (await stores[number].events.deliver(world.partition, limit=7)).jobs
            count += jobs or 1
        return count - 1

    assert sum(await asyncio.gather(*map(deliver, range(3)))) == 60
    assert {event_of(job).subject for job in await told(world)} == set(ids)
    assert await outbox(world) == []


async def test_delivered_again_an_event_is_the_same_job(world: World) -> None:
    """As when a backup is restored, or an answer was lost."""
    await listen(world)
    session = await world.open_session()
    await _succeed(world, session)
    rows = await world.store.transfer.dump("outbox", after=None, limit=10)
    await _deliver(world)
    before = await told(world)
    await world.store.transfer.load("outbox", rows)
    await _deliver(world)
    assert await told(world) == before


async def test_what_nobody_hears_any_more_goes_without_a_job(world: World) -> None:
    await listen(world)
    session = await world.open_session()
    await _succeed(world, session)
    known = await world.store.events.listeners()
    await world.store.events.listen([], gone=[one.hook for one in known])
    assert await _deliver(world) == Delivered(1, 0)
    assert (await outbox(world), await told(world)) == ([], [])


async def test_events_of_sessions_are_delivered_in_the_first_partition(world: World) -> None:
    await listen(world, "worker.lost")
    lost = await world.open_session()
    world.expire()
    await world.store.sessions.prune()
    assert await world.store.events.deliver(0, limit=10) == Delivered(1, 1)
    [made] = await told(world)
    assert partition_of(made.id, world.store.partitions) == 0
    event = event_of(made)
    assert (event.subject, event.namespace, event.kind) == (lost, "default", None)
    assert event.data == {"host": "here", "pid": 1, "version": "0", "jobs": []}


async def test_listeners_are_what_was_said_last_and_others_stay(world: World) -> None:
    first, second = listener("job.dead", "a"), listener("job.dead", "b", kinds=("x", "y"))
    await world.store.events.listen([first, second])
    assert await listening(world) == [first, second]
    changed = listener("job.dead", "b", kinds=("y",), queues=("mail", "slow"), origin="other")
    await world.store.events.listen([changed])
    await world.store.events.listen([changed])
    assert await listening(world) == [first, changed]
    await world.store.events.listen([], gone=[first.hook, "on.job.dead.unknown"])
    assert await listening(world) == [changed]
    await world.store.events.listen([])
    assert await listening(world) == [changed]


async def test_a_hook_is_not_told_what_was_written_down_for_others_before_it_listened(
    world: World,
) -> None:
    await listen(world, "job.succeeded", name="old")
    session = await world.open_session(lease=1000)
    [before] = await _succeed(world, session)
    world.clock.advance(1)
    await listen(world, "job.succeeded", name="new")
    [then] = await _succeed(world, session)
    world.clock.advance(1)
    [after] = await _succeed(world, session)
    assert await _deliver(world) == Delivered(3, 5)
    assert await _heard(world, "old") == [before, then, after]
    assert await _heard(world, "new") == [then, after]


async def test_a_hook_keeps_the_time_since_when_it_listens_whatever_it_chooses(
    world: World,
) -> None:
    """As when its worker starts again, or there is a newer version of its code."""
    session = await world.open_session(lease=1000)
    await listen(world, "job.succeeded", kinds=("other",))
    [one] = await world.store.events.listeners()
    assert one.since == world.clock.now()
    await listen(world, "worker.lost", name="other")
    await listen(world, "job.succeeded", name="old")
    [early] = await _succeed(world, session)
    world.clock.advance(1)
    for kinds in [("echo", "other"), ("echo",), (), ("echo",)]:
        await listen(world, "job.succeeded", kinds=kinds, origin=f"shop{len(kinds)}")
        world.clock.advance(1)
    [again] = [found for found in await world.store.events.listeners() if found.hook == one.hook]
    assert (again.since, again.listens.kinds, again.origin) == (one.since, ("echo",), "shop1")
    await _deliver(world)
    assert await _heard(world, "hook") == [early]


async def test_a_hook_that_is_removed_and_added_anew_begins_anew(world: World) -> None:
    await listen(world, "job.succeeded", name="other")
    await listen(world, "job.succeeded")
    session = await world.open_session(lease=1000)
    await _succeed(world, session)
    await world.store.events.listen([], gone=["on.job.succeeded.hook"])
    world.clock.advance(1)
    await listen(world, "job.succeeded")
    [after] = await _succeed(world, session)
    await _deliver(world)
    assert await _heard(world, "hook") == [after]


async def test_a_clock_that_is_set_back_after_a_hook_began_keeps_nothing_from_it(
    world: World,
) -> None:
    now = world.clock.now()
    ahead = ManualClock(now + timedelta(hours=1))
    other = await world.another_store(clock=ahead)
    await other.events.listen([listener("job.succeeded")])
    session = await world.open_session()
    [id] = await _succeed(world, session)
    await _deliver(world)
    assert await _heard(world, "hook") == [id]


async def _heard(world: World, hook: str) -> list[str]:
    """Of what it has been told, first first."""
    jobs = await told(world)
    return [event_of(job).subject for job in jobs if job.kind.endswith(f".{hook}")]


async def test_names_of_any_form_are_carried_as_they_are(world: World) -> None:
    """What emits is free in its words."""
    subject = breaker_here(world, """a'b"c\\d\n{}[]%_*:now;--ü🙂""")
    await listen(world, "breaker.opened")
    await _open_and_close(world, subject, subject)
    await _deliver(world)
    [made] = await told(world)
    assert made.ordering_key == f"event:{subject}:hook"
    assert event_of(made).subject == subject
    assert event_of(made).data == {
        "state": "open",
        "reason": "by hand",
        "note": subject,
    }


async def test_a_job_of_a_hook_is_found_by_its_id_however_it_ends(world: World) -> None:
    await listen(world, "job.succeeded")
    session = await world.open_session()
    await _succeed(world, session)
    await _deliver(world)
    [job] = await _claim_hooks(world, session)
    await world.end(session, job, End.BURY, reason="failed", error="no")
    assert await world.state(JobId(job.id)) is JobState.DEAD
    assert await outbox(world) == []
