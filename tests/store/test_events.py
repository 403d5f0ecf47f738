"""Events: every way in which something ends is told to those who listen, in the same transaction; to nobody else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import pytest

from foliot.ids import JobId, home_id, partition_of
from foliot.model.audit import Deed
from foliot.model.breaker import Options, Report, Tally
from foliot.model.job import End, More, Outcome
from foliot.model.schedule import Misfire
from foliot.model.workflow import Rule
from foliot.store.scheduling import CatchUp
from support.flows import Drawing
from support.hooks import breaker_here, listen, outbox, outbox_rows
from support.schedules import Table
from support.stores import World

pytestmark = pytest.mark.anyio


def _written(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _nobody(_: Sequence[str]) -> list[Deed]:
    """Who did it is not written down here."""
    return []


async def _succeeded(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job)
    return job.id


async def _ended_by_its_function(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.CANCEL, reason="not needed")
    return job.id


async def _exhausted(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.BURY, reason="failed", error="ValueError: no")
    return job.id


async def _cancelled_before_its_time(world: World) -> JobId:
    id = await world.submit(run_at=world.after(60))
    await world.cancel(id)
    return id


async def _cancelled_when_ready(world: World) -> JobId:
    id = await world.submit()
    await world.cancel(id)
    return id


async def _cancelled_when_held(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.HOLD, reason="unknown_kind")
    await world.cancel(job.id)
    return job.id


async def _cancelled_while_waiting(world: World) -> JobId:
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("first"), flow.step("second", "first"))
    await world.cancel(flow.ids["second"])
    return flow.ids["second"]


async def _cancelled_while_running(world: World, end: End) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    await world.cancel(job.id)
    await world.end(session, job, end, reason="cancelled", error="it was asked to end, and did")
    return job.id


async def _cancelled_and_then_failing(world: World) -> JobId:
    return await _cancelled_while_running(world, End.BURY)


async def _cancelled_and_then_to_be_retried(world: World) -> JobId:
    return await _cancelled_while_running(world, End.RETRY)


async def _cancelled_and_then_given_back(world: World) -> JobId:
    return await _cancelled_while_running(world, End.RELEASE)


async def _expired(world: World) -> JobId:
    id = await world.submit(more=More(expires_in=10))
    world.clock.advance(11)
    assert await world.store.admission.expire(world.partition, limit=10) == 1
    return id


async def _lost_too_often(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    world.expire()
    assert (await world.reap(session, loss_limit=1)).dead == 1
    return job.id


async def _past_its_deadline(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session, timeout=5, max_attempts=1)
    world.clock.advance(20)
    assert (await world.reap()).dead == 1
    return job.id


async def _cancelled_and_then_lost(world: World) -> JobId:
    session = await world.open_session()
    job = await world.run(session)
    await world.cancel(job.id)
    world.expire()
    assert (await world.reap(session)).cancelled == 1
    return job.id


async def _signalled(world: World) -> JobId:
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("gate", signal="go"), flow.step("after", "gate"))
    await world.store.workflows.signal(world.partition, flow.id, "go", b"1")
    return flow.ids["gate"]


Way = Callable[[World], Awaitable[JobId]]
WAYS: list[tuple[Way, str, dict[str, object]]] = [
    (_succeeded, "job.succeeded", {"attempt": 1}),
    (_ended_by_its_function, "job.cancelled", {"attempt": 1, "reason": "not needed"}),
    (_exhausted, "job.dead", {"attempt": 1, "reason": "failed", "error": "ValueError: no"}),
    (_cancelled_before_its_time, "job.cancelled", {"attempt": 0, "reason": "requested"}),
    (_cancelled_when_ready, "job.cancelled", {"attempt": 0, "reason": "requested"}),
    (_cancelled_when_held, "job.cancelled", {"attempt": 0, "reason": "requested"}),
    (_cancelled_while_waiting, "job.cancelled", {"attempt": 0, "reason": "requested"}),
    (_cancelled_and_then_failing, "job.cancelled", {"attempt": 1, "reason": "requested"}),
    (_cancelled_and_then_to_be_retried, "job.cancelled", {"attempt": 1, "reason": "requested"}),
    (_cancelled_and_then_given_back, "job.cancelled", {"attempt": 0, "reason": "requested"}),
    (_expired, "job.cancelled", {"attempt": 0, "reason": "expired"}),
    (
        _lost_too_often,
        "job.dead",
        {"attempt": 1, "reason": "worker_lost", "error": "the session that ran it was lost"},
    ),
    (
        _past_its_deadline,
        "job.dead",
        {"attempt": 1, "reason": "timed_out", "error": "it ran past its deadline"},
    ),
    (_cancelled_and_then_lost, "job.cancelled", {"attempt": 1, "reason": "requested"}),
    (_signalled, "job.succeeded", {"attempt": 0, "reason": "signal"}),
]
every_way = pytest.mark.parametrize(
    ("end", "event", "data"), WAYS, ids=[way.__name__.removeprefix("_") for way, _, _ in WAYS]
)


@every_way
async def test_the_end_of_a_job_is_told_once(
    world: World, end: Way, event: str, data: dict[str, object]
) -> None:
    await listen(world, "job.succeeded", "job.dead", "job.cancelled")
    id = await end(world)
    [row] = await outbox_rows(world)
    assert (row["event"], row["subject"], row["home"]) == (event, id, id)
    assert (row["partition"], row["at"]) == (world.partition, world.clock.now())
    assert (row["namespace"], row["kind"], row["queue"]) == ("default", "echo", "default")
    known = {name: value for name, value in row["data"].items() if value is not None}
    known.pop("workflow", None)
    assert known == data
    assert (await world.get(id)).state.value == event.removeprefix("job.")


@every_way
async def test_where_nobody_listens_nothing_is_written(
    world: World, end: Way, event: str, data: dict[str, object]
) -> None:
    others = {"job.succeeded", "job.dead", "job.cancelled"} - {event}
    await listen(world, *sorted(others), "worker.lost", "workflow.failed")
    await end(world)
    assert await outbox(world) == []


@every_way
async def test_what_ends_in_a_hook_is_told_to_nobody(
    world: World, end: Way, event: str, data: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    await listen(world)
    new_job = world.new_job
    monkeypatch.setattr(
        world, "new_job", lambda *args, **fields: new_job(*args, **{**fields, "kind": "on.x.y"})
    )
    await end(world)
    assert await outbox(world) == []


@pytest.mark.parametrize(
    ("choice", "heard"),
    [
        ({}, True),
        ({"kinds": ("echo",)}, True),
        ({"kinds": ("other", "echo")}, True),
        ({"kinds": ("other",)}, False),
        ({"queues": ("default",)}, True),
        ({"queues": ("other",)}, False),
        ({"kinds": ("echo",), "queues": ("other",)}, False),
        ({"kinds": ("echo",), "queues": ("other", "default")}, True),
    ],
)
@pytest.mark.parametrize("end", [_succeeded, _exhausted, _cancelled_when_ready, _lost_too_often])
async def test_only_what_somebody_chose_is_written(
    world: World, end: Way, choice: dict[str, tuple[str, ...]], heard: bool
) -> None:
    await listen(world, "job.succeeded", "job.dead", "job.cancelled", **choice)
    await end(world)
    assert len(await outbox(world)) == heard


async def test_a_batch_is_told_as_it_ended_each_in_its_way(world: World) -> None:
    await listen(world)
    session = await world.open_session()
    await world.submit_many(40)
    jobs = await world.claim(session)
    ends = [End.SUCCEED, End.CANCEL, End.BURY, End.RETRY, End.RELEASE]
    refused = Outcome(jobs[-1].id, 99)
    outcomes = [world.outcome(job, ends[n % 5]) for n, job in enumerate(jobs[:-1])]
    assert await world.finish(session, *outcomes, refused) == [jobs[-1].id]
    heard = await outbox(world)
    names = {0: "job.succeeded", 1: "job.cancelled", 2: "job.dead"}
    expected = {(names[n % 5], job.id) for n, job in enumerate(jobs[:-1]) if n % 5 in names}
    assert set(heard) == expected
    assert len(heard) == len(expected)


async def test_attempts_that_are_followed_by_another_are_no_end(world: World) -> None:
    await listen(world)
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.RETRY, reason="failed", delay=1)
    world.clock.advance(2)
    await world.admit()
    [job] = await world.claim(session)
    world.expire()
    assert (await world.reap(session)).lost == 1
    assert await outbox(world) == []


async def test_a_dead_job_that_is_purged_or_retried_is_told_no_more(world: World) -> None:
    await listen(world)
    purged, retried = await _exhausted(world), await _exhausted(world)
    before = await outbox(world)
    await world.store.dead.purge(world.partition, [purged], record=_nobody)
    await world.store.dead.retry(world.partition, [retried], record=_nobody)
    assert await outbox(world) == before


async def test_every_life_of_a_job_ends_with_an_event_of_its_own(world: World) -> None:
    """Although all of it happens in one moment."""
    await listen(world)
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job, End.BURY)
    for end in (End.BURY, End.SUCCEED):
        await world.store.dead.retry(world.partition, [job.id], record=_nobody)
        [job] = await world.claim(session)
        await world.end(session, job, end)
    assert await outbox(world) == [
        ("job.dead", job.id),
        ("job.dead", job.id),
        ("job.succeeded", job.id),
    ]
    assert [row["number"] for row in await outbox_rows(world)] == [0, 1, 2]


async def test_steps_that_are_skipped_have_no_event(world: World) -> None:
    await listen(world)
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("a"), flow.step("b", "a"), flow.step("c", "b"))
    await flow.claim()
    await flow.end("a", End.BURY)
    assert await flow.states() == {"a": "dead", "b": "skipped", "c": "skipped"}
    assert set(await outbox(world)) == {
        ("job.dead", flow.ids["a"]),
        ("workflow.failed", flow.id),
    }


async def test_a_workflow_that_succeeds_is_told_with_its_name(world: World) -> None:
    await listen(world, "workflow.succeeded")
    flow = Drawing(world, await world.open_session())
    await flow.submit(
        flow.step("a"), flow.step("b", "a", rule=Rule.ALL_DONE), namespace="eu", name="import"
    )
    await flow.claim()
    await flow.end("a")
    assert await outbox(world) == []
    await flow.claim()
    await flow.end("b")
    [row] = await outbox_rows(world)
    assert (row["event"], row["subject"], row["home"]) == ("workflow.succeeded", flow.id, flow.id)
    assert (row["namespace"], row["kind"], row["queue"]) == ("eu", None, None)
    assert row["data"] == {"workflow": "import", "steps": 2, "failed": 0, "reason": None}


async def test_a_workflow_that_is_cancelled_is_told(world: World) -> None:
    await listen(world, "workflow.cancelled", "workflow.failed")
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await world.store.workflows.cancel(world.partition, flow.id)
    assert await outbox(world) == [("workflow.cancelled", flow.id)]


async def test_a_workflow_past_its_deadline_has_failed(world: World) -> None:
    await listen(world, "workflow.cancelled", "workflow.failed")
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("a"), flow.step("b", "a"), deadline=10)
    world.clock.advance(11)
    await world.store.workflows.advance(world.partition, [flow.id])
    [row] = await outbox_rows(world)
    assert (row["event"], row["data"]["reason"]) == ("workflow.failed", "deadline")


async def test_a_workflow_that_is_retried_and_fails_again_is_told_again(world: World) -> None:
    await listen(world, "workflow.failed")
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("a"))
    await flow.claim()
    await flow.end("a", End.BURY)
    world.clock.advance(1)
    await world.store.workflows.retry(world.partition, flow.id)
    await flow.claim()
    await flow.end("a", End.BURY)
    assert await outbox(world) == [("workflow.failed", flow.id)] * 2


async def test_jobs_that_follow_others_are_no_workflow_to_be_told_of(world: World) -> None:
    await listen(world)
    flow = Drawing(world, await world.open_session())
    first = await world.submit()
    flow.ids["first"] = first
    child = flow.step("child", "first")
    await world.store.workflows.follow(world.partition, child, flow.workflow())
    for _ in range(2):
        [job] = await world.claim(flow.session)
        cycle = await world.store.jobs.finish_and_claim(
            world.partition, flow.session, outcomes=[Outcome(job.id, job.fence, flow=job.flow)]
        )
        assert not cycle.refused
    assert [event for event, _ in await outbox(world)] == ["job.succeeded", "job.succeeded"]


async def test_a_session_that_is_lost_is_told_once_with_what_it_ran(world: World) -> None:
    await listen(world, "worker.lost")
    session, other = await world.open_session(), await world.open_session(lease=1000)
    job = await world.run(session)
    assert world.beat(session, job.id)
    world.expire()
    assert await world.store.sessions.prune() == 0  # what it ran has not been taken back
    assert await outbox(world) == []
    await world.reap(session)
    assert await world.store.sessions.prune() == 1
    [row] = await outbox_rows(world)
    assert (row["event"], row["subject"], row["partition"]) == ("worker.lost", session, 0)
    assert row["data"] == {"host": "here", "pid": 1, "version": "0", "jobs": [job.id]}
    assert await world.store.sessions.prune() == 0
    assert len(await outbox(world)) == 1
    await world.store.sessions.close(other)
    assert await world.store.sessions.prune() == 0
    assert len(await outbox(world)) == 1


async def test_sessions_that_are_lost_together_are_each_told(world: World) -> None:
    await listen(world, "worker.lost")
    sessions = {await world.open_session() for _ in range(5)}
    world.expire()
    assert await world.store.sessions.prune() == 5
    assert {subject for _, subject in await outbox(world)} == sessions


async def test_a_session_that_is_lost_while_nobody_listens_is_not_told(world: World) -> None:
    await world.open_session()
    world.expire()
    assert await world.store.sessions.prune() == 1
    await listen(world)
    assert await world.store.sessions.prune() == 0
    assert await outbox(world) == []


async def _miss(table: Table) -> None:
    """The minutes 1 to 4."""
    table.world.clock.advance(4 * 60 + 30)
    assert await table.jump(4, next=5) == 1


@pytest.mark.parametrize("misfire", list(Misfire))
@pytest.mark.parametrize("stateful", [False, True])
async def test_a_schedule_that_missed_times_is_told_once(
    world: World, misfire: Misfire, stateful: bool
) -> None:
    table = Table(world)
    await listen(world, "schedule.missed")
    ids = await table.create_many(3, misfire=misfire, **({"max_runs": 100} if stateful else {}))
    await _miss(table)
    assert await outbox(world) == []
    await _catch_up(table, misfire)
    rows = await outbox_rows(world)
    assert sorted(row["subject"] for row in rows) == sorted(ids)
    for row in rows:
        assert (row["event"], row["kind"], row["home"]) == (
            "schedule.missed",
            "echo",
            row["subject"],
        )
        data = row["data"]
        assert data["schedule"] == (await table.get(row["subject"])).name
        assert (data["from"], data["to"]) == (_written(table.time(1)), _written(table.time(4)))
        assert data["misfire"] == misfire


async def _catch_up(table: Table, misfire: Misfire) -> None:
    """As the duty does it: each time for those who want all, then the last for the others; a few schedules at once."""
    times = [1, 2, 3, 4] if misfire is Misfire.ALL else []
    for place, minute in enumerate(times):
        found = await table.gap()
        assert found.due is not None
        following = table.at(times[place + 1]) if place < 3 else found.gap.to + 1
        step = CatchUp(
            found.gap,
            found.due.stateful,
            nominal=table.at(minute),
            policy=Misfire.ALL,
            place=place,
            then=following,
        )
        await table.catch_up(step)
    for _ in range(2):
        [found] = await table.world.store.schedules.gaps(table.partition, limit=10, chunk=2)
        assert found.due is not None
        upper = found.due.upper
        step = CatchUp(
            found.gap,
            found.due.stateful,
            nominal=found.gap.to,
            upper=upper,
            then=None if upper is None else found.gap.to + 1,
            after=upper,
        )
        await table.catch_up(step)


async def test_a_schedule_that_had_no_time_in_the_gap_has_missed_nothing(world: World) -> None:
    table = Table(world)
    await listen(world, "schedule.missed")
    [id] = await table.create_many(1)
    await _miss(table)
    await table.create_many(1)  # after it
    await _catch_up_at_once(table)
    assert await outbox(world) == [("schedule.missed", id)]


@pytest.mark.parametrize(("kinds", "heard"), [(("echo",), 1), (("other",), 0)])
async def test_schedules_are_chosen_by_the_kind_of_their_jobs(
    world: World, kinds: tuple[str, ...], heard: int
) -> None:
    table = Table(world)
    await listen(world, "schedule.missed", kinds=kinds)
    await table.create_many(1)
    await _miss(table)
    await _catch_up_at_once(table)
    assert len(await outbox(world)) == heard


async def _catch_up_at_once(table: Table) -> None:
    found = await table.gap()
    assert found.due is not None
    await table.catch_up(CatchUp(found.gap, found.due.stateful, nominal=found.gap.to))


async def test_that_a_breaker_closes_is_not_told_with_why_it_had_opened(world: World) -> None:
    name = breaker_here(world, "stripe")
    await listen(world, "breaker.closed")
    breakers = world.store.breakers
    await breakers.declare(name, Options(failures=1, open_for=1))
    await breakers.report(name, Report(tallies=(Tally(0.0, 1, 0),), error="ConnectionError: no"))
    world.clock.advance(1)
    await breakers.tick()
    await breakers.report(name, Report(succeeded=(0.0,)))
    [row] = await outbox_rows(world)
    assert row["data"]["state"] == "recovering"
    assert {row["data"].get(key) for key in ("reason", "note", "by")} == {None}


async def test_who_closes_a_breaker_by_hand_and_why_is_told(world: World) -> None:
    name = breaker_here(world, "stripe")
    await listen(world, "breaker.closed")
    breakers = world.store.breakers
    await breakers.report(name, Report(tallies=(Tally(0.0, 5, 0),), error="ConnectionError: no"))
    await breakers.close(name, note="they are back", by="ada")
    [row] = await outbox_rows(world)
    told = {key: row["data"].get(key) for key in ("reason", "note", "by")}
    assert told == {"reason": "by hand", "note": "they are back", "by": "ada"}


async def test_a_breaker_that_opens_is_told_to_those_who_listen_to_that(world: World) -> None:
    name = breaker_here(world, "stripe")
    await listen(world, "breaker.opened")
    breakers = world.store.breakers
    await breakers.open(name, seconds=60, note='a "b" ü', by="ada")
    until = world.after(60)
    await breakers.open(name, seconds=None, note=None, by="ada")  # it is open already
    await breakers.close(name, note=None, by="ada")
    [row] = await outbox_rows(world)
    assert (row["event"], row["subject"]) == ("breaker.opened", name)
    assert (row["namespace"], row["kind"], row["queue"]) == ("default", None, None)
    assert partition_of(row["home"], world.store.partitions) == world.partition
    data = row["data"]
    assert data.pop("until") == _written(until)
    assert data == {"state": "open", "reason": "by hand", "note": 'a "b" ü', "by": "ada"}


async def test_there_are_events_to_deliver_where_there_are(world: World) -> None:
    assert (await world.store.jobs.peek()).events == frozenset()
    await listen(world)
    await _succeeded(world)
    assert (await world.store.jobs.peek()).events == {world.partition}


def test_what_has_no_id_has_a_home_in_every_slot() -> None:
    assert home_id(0) == "00000000-0000-7000-8000-000000000000"
    assert home_id(4095)[15:18] == "fff"
