"""Finishing: what becomes of a job, and who may no longer say so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foliot.model.job import End, JobState, Outcome
from foliot.store import batches
from support.stores import World

pytestmark = pytest.mark.anyio


async def test_a_succeeded_job_is_in_history_with_its_result(world: World) -> None:
    session = await world.open_session()
    id = await world.submit(kind="sum", payload=b"[1,2]", key="k", priority=4)
    world.clock.advance(3)
    [job] = await world.claim(session)
    world.clock.advance(4)
    await world.end(session, job, result=b"3")
    seen = await world.get(id)
    assert (seen.state, seen.result, seen.payload) == (JobState.SUCCEEDED, b"3", b"[1,2]")
    assert (seen.kind, seen.key, seen.priority, seen.session) == ("sum", "k", 4, session)
    assert (seen.attempt, seen.fence, seen.reason) == (1, 1, None)
    assert seen.finished_at == world.clock.now()
    assert seen.started_at == world.after(-4)
    assert seen.created_at == seen.run_at == world.after(-7)
    assert await world.attempts(id) == []
    assert await world.store.jobs.running(session) == []


async def test_a_job_without_a_result_has_none(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job)
    assert (await world.get(job.id)).result is None


async def test_a_handler_may_end_its_job_as_cancelled(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.CANCEL, reason="nothing to do")
    seen = await world.get(job.id)
    assert (seen.state, seen.reason) == (JobState.CANCELLED, "nothing to do")


async def test_a_retried_job_is_scheduled_after_its_delay(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session, max_attempts=3)
    world.clock.advance(2)
    await world.end(
        session, job, End.RETRY, delay=12.5, reason="failed", error="E: no", traceback='"\\x\n'
    )
    seen = await world.get(job.id)
    assert (seen.state, seen.session, seen.attempt, seen.fence) == (JobState.SCHEDULED, None, 1, 1)
    assert seen.run_at == world.clock.now() + timedelta(seconds=12.5)
    [attempt] = await world.attempts(job.id)
    assert (attempt.attempt, attempt.fence, attempt.outcome) == (1, 1, "failed")
    assert (attempt.error, attempt.traceback, attempt.session) == ("E: no", '"\\x\n', session)
    assert (attempt.started_at, attempt.finished_at) == (world.after(-2), world.clock.now())


async def test_a_retried_job_comes_back_no_earlier_than_its_delay(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.RETRY, delay=5)
    world.clock.advance(4.999)
    assert await world.admit() == []
    world.clock.advance(0.001)
    assert len(await world.admit()) == 1
    [again] = await world.claim(session)
    assert (again.id, again.attempt, again.fence, again.losses) == (job.id, 2, 2, 0)


async def test_a_retried_job_queues_by_its_new_time(world: World) -> None:
    session = await world.open_session()
    retried = await world.run(session)
    await world.end(session, retried, End.RETRY, delay=1)
    world.clock.advance(0.5)
    submitted = await world.submit()
    world.clock.advance(1)
    await world.admit()
    assert [job.id for job in await world.claim(session)] == [submitted, retried.id]


async def test_a_retry_because_its_process_died_is_a_loss(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.RETRY, delay=0, reason="worker_lost", error="killed")
    await world.admit()
    [again] = await world.claim(session)
    assert (again.attempt, again.losses, again.suspect) == (2, 1, True)
    assert [attempt.outcome for attempt in await world.attempts(job.id)] == ["worker_lost"]


async def test_a_job_buried_because_its_process_died_counts_that_loss(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.BURY, reason="worker_lost", error="killed")
    seen = await world.get(job.id)
    assert (seen.state, seen.reason, seen.losses) == (JobState.DEAD, "worker_lost", 1)


async def test_a_buried_job_is_dead_with_its_attempts(world: World) -> None:
    session = await world.open_session()
    id = await world.submit(payload=b"[7]", key="k")
    for number in (1, 2):
        [job] = await world.claim(session)
        end = End.RETRY if number == 1 else End.BURY
        await world.end(session, job, end, delay=0, reason="failed", error=f"no {number}")
        await world.admit()
    seen = await world.get(id)
    assert (seen.state, seen.reason, seen.payload, seen.key) == (
        JobState.DEAD,
        "failed",
        b"[7]",
        "k",
    )
    assert (seen.attempt, seen.fence, seen.session) == (2, 2, session)
    assert seen.finished_at == world.clock.now()
    assert [attempt.error for attempt in await world.attempts(id)] == ["no 1", "no 2"]
    assert await world.count() == {JobState.DEAD: 1}


async def test_a_failure_without_a_reason_is_called_failed(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.BURY)
    assert (await world.get(job.id)).reason == "failed"


async def test_a_held_job_says_what_it_waits_for(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.HOLD, reason="unknown_kind")
    seen = await world.get(job.id)
    assert (seen.state, seen.reason, seen.attempt, seen.fence) == (
        JobState.HELD,
        "unknown_kind",
        0,
        1,
    )
    assert (seen.session, seen.started_at) == (None, None)


async def test_a_released_job_keeps_its_place(world: World) -> None:
    session = await world.open_session()
    first, second = await world.submit_many(2)
    [job] = await world.claim(session, 1)
    world.clock.advance(5)
    await world.end(session, job, End.RELEASE)
    seen = await world.get(first)
    assert (seen.state, seen.attempt, seen.session, seen.started_at) == (
        JobState.READY,
        0,
        None,
        None,
    )
    assert [job.id for job in await world.claim(session)] == [first, second]


@pytest.mark.parametrize("end", list(End))
class TestALateOutcome:
    """Whatever it says: it is refused, named, and changes nothing."""

    async def test_of_an_older_fence_is_refused(self, world: World, end: End) -> None:
        session = await world.open_session()
        old = await world.run(session)
        await world.end(session, old, End.RELEASE)
        [new] = await world.claim(session)
        before = await world.get(old.id)
        assert await world.finish(session, world.outcome(old, end)) == [old.id]
        assert await world.get(old.id) == before
        await world.end(session, new)

    async def test_of_a_fence_still_to_come_is_refused(self, world: World, end: End) -> None:
        session = await world.open_session()
        job = await world.run(session)
        assert await world.finish(session, Outcome(job.id, job.fence + 1, end)) == [job.id]
        assert await world.state(job.id) is JobState.RUNNING

    async def test_of_another_session_is_refused(self, world: World, end: End) -> None:
        session, stranger = await world.open_session(), await world.open_session()
        job = await world.run(session)
        assert await world.finish(stranger, world.outcome(job, end)) == [job.id]
        assert (await world.get(job.id)).session == session

    async def test_after_a_release_is_refused(self, world: World, end: End) -> None:
        session = await world.open_session()
        job = await world.run(session)
        await world.end(session, job, End.RELEASE)
        assert await world.finish(session, world.outcome(job, end)) == [job.id]
        assert await world.state(job.id) is JobState.READY
        assert await world.attempts(job.id) == []

    async def test_after_reaping_is_refused(self, world: World, end: End) -> None:
        session = await world.open_session()
        job = await world.run(session)
        world.beat(session, job.id)
        world.expire()
        assert (await world.reap(session)).lost == 1
        assert await world.finish(session, world.outcome(job, end)) == [job.id]
        assert await world.state(job.id) is JobState.READY
        assert [attempt.outcome for attempt in await world.attempts(job.id)] == ["worker_lost"]

    async def test_of_a_job_that_another_session_has_now_is_refused(
        self, world: World, end: End
    ) -> None:
        old, new = await world.open_session(), await world.open_session(lease=1000)
        job = await world.run(old)
        world.expire()
        await world.reap(old)
        [again] = await world.claim(new)
        assert await world.finish(old, world.outcome(job, end)) == [job.id]
        # Not even with the fence that is current: it is not its job.
        assert await world.finish(old, world.outcome(again, end)) == [job.id]
        await world.end(new, again, result=b"1")
        assert (await world.get(job.id)).session == new

    async def test_sent_twice_is_refused_the_second_time(self, world: World, end: End) -> None:
        session = await world.open_session()
        job = await world.run(session)
        await world.finish(session, world.outcome(job, end))
        before = await world.get(job.id), await world.attempts(job.id)
        assert await world.finish(session, world.outcome(job, end)) == [job.id]
        assert (await world.get(job.id), await world.attempts(job.id)) == before

    async def test_of_a_job_that_never_was_is_refused(self, world: World, end: End) -> None:
        session = await world.open_session()
        ghost = world.new_job()
        assert await world.finish(session, Outcome(ghost.id, 1, end)) == [ghost.id]
        assert await world.store.jobs.get(ghost.id) is None


async def test_of_a_mixed_batch_exactly_the_late_ones_are_refused(world: World) -> None:
    session, stranger = await world.open_session(), await world.open_session()
    ends = list(End) * 2
    await world.submit_many(len(ends))
    jobs = await world.claim(session)
    theirs = [await world.run(stranger) for _ in End]
    late = jobs[len(End) :]
    for job in late:
        await world.end(session, job, End.RELEASE)
    outcomes = [world.outcome(job, end) for job, end in zip(jobs, ends, strict=True)]
    outcomes += [world.outcome(job, end) for job, end in zip(theirs, End, strict=True)]
    refused = await world.finish(session, *reversed(outcomes))
    assert sorted(refused) == sorted(job.id for job in (*late, *theirs))
    states = {end: await world.state(job.id) for job, end in zip(jobs, End, strict=False)}
    assert states == {
        End.SUCCEED: JobState.SUCCEEDED,
        End.CANCEL: JobState.CANCELLED,
        End.RETRY: JobState.SCHEDULED,
        End.BURY: JobState.DEAD,
        End.RELEASE: JobState.READY,
        End.HOLD: JobState.HELD,
    }
    for job in theirs:
        assert await world.state(job.id) is JobState.RUNNING


async def test_the_same_outcome_twice_in_one_trip_counts_once(world: World) -> None:
    session = await world.open_session()
    jobs = {end: await world.run(session) for end in End}
    outcomes = [world.outcome(job, end) for end, job in jobs.items()]
    await world.finish(session, *outcomes, *outcomes)
    assert sum((await world.count()).values()) == len(End)
    for end, job in jobs.items():
        assert len(await world.store.jobs.ended([job.id])) <= 1
        assert len(await world.attempts(job.id)) == (end in (End.RETRY, End.BURY))


async def test_of_two_outcomes_in_one_trip_the_current_fence_counts(world: World) -> None:
    session = await world.open_session()
    old = await world.run(session)
    await world.end(session, old, End.RELEASE)
    [new] = await world.claim(session)
    late = Outcome(old.id, old.fence, result=b"late")
    current = Outcome(new.id, new.fence, result=b"current")
    await world.finish(session, current, late)
    [ended] = await world.store.jobs.ended([new.id])
    assert (ended.result, ended.fence) == (b"current", new.fence)


async def test_a_thousand_outcomes_go_in_one_trip(world: World) -> None:
    session = await world.open_session()
    await world.submit_many(1000)
    jobs = await world.claim(session, 1000)
    outcomes = [Outcome(job.id, job.fence, result=str(n).encode()) for n, job in enumerate(jobs)]
    late = [Outcome(job.id, job.fence + 1) for job in jobs[:3]]
    assert await world.finish(session, *outcomes[3:], *late) == [job.id for job in jobs[:3]]
    assert (await world.get(jobs[999].id)).result == b"999"
    assert await world.count() == {JobState.SUCCEEDED: 997, JobState.RUNNING: 3}


@pytest.mark.parametrize("text", ['"', "\\", "{NULL}", "NULL", "", "ü\n\t", "a,b", "'; --"])
async def test_errors_are_any_text(world: World, text: str) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.BURY, reason=text or "failed", error=text, traceback=text)
    [attempt] = await world.attempts(job.id)
    assert (attempt.outcome, attempt.error, attempt.traceback) == (text or "failed", text, text)


async def test_an_interrupted_attempt_is_given_back(world: World) -> None:
    """A deployment must not use up attempts, however many there are in a day."""
    session = await world.open_session()
    job = await world.run(session, max_attempts=2)
    for fence in (1, 2, 3):
        assert (job.attempt, job.fence, job.last_attempt) == (1, fence, False)
        await world.end(session, job, End.RETRY, reason="interrupted", error="stopped")
        assert (await world.get(job.id)).attempt == 0
        await world.admit()
        [job] = await world.claim(session)
    found = [(a.attempt, a.fence, a.outcome) for a in await world.attempts(job.id)]
    assert found == [(1, fence, "interrupted") for fence in (1, 2, 3)]


async def test_large_results_of_many_jobs_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LARGEST", 1000)
    session = await world.open_session()
    ids = await world.submit_many(5)
    jobs = await world.claim(session)
    late = Outcome(jobs[0].id, jobs[0].fence + 1, result=b"0")
    told = [Outcome(job.id, job.fence, result=b"1" * 700) for job in jobs[1:]]
    assert await world.finish(session, late, *told) == [jobs[0].id]
    for id in ids[1:]:
        assert (await world.get(id)).result == b"1" * 700
    assert await world.state(jobs[0].id) is JobState.RUNNING
