"""Why a job is not running: every reason is there for real, in a store, when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from foliot import commands, explain_commands
from foliot.breaker_commands import open_breaker
from foliot.explain import Explanation
from foliot.explain_gate import Reason
from foliot.explain_step import facts_among, facts_around
from foliot.ids import JobId, SessionId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import End, Extras, More
from foliot.model.lane import lane_of
from foliot.model.note import NewProgress
from foliot.model.rollup import Ended, Key, Rollup
from foliot.model.session import NewSession
from foliot.model.workflow import SIGNAL_KIND, WORKFLOW_KIND, Rule
from foliot.queue_commands import pause_queue
from foliot.registry import Registry, define
from foliot.store.living import Load
from support.flows import draw
from support.stores import World

pytestmark = pytest.mark.anyio


def cut() -> None: ...


async def told(world: World, id: JobId) -> Explanation:
    return await explain_commands.explain_job(world.store, id)


def extras(**fields: str) -> More:
    return More(extras=Extras(**fields))  # type: ignore[arg-type]


async def test_a_job_whose_time_is_ahead_says_when_it_is_due(world: World) -> None:
    await world.open_session()
    id = await world.submit(delay=200)
    reason = (await told(world, id)).reasons[0]
    assert reason.why.startswith("due in 3m20s, at ")
    assert reason.since == world.clock.now()
    assert reason.change == f"its time comes; sooner with: foliot jobs change {id} --in 0s"


async def test_a_step_says_how_many_of_its_parents_it_waits_for(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"), flow.step("c", "a", "b"))
    await flow.claim()
    await flow.end("a")
    explanation = await told(world, flow.ids["c"])
    assert explanation.why == "1 of its 2 parents have ended, not yet: b (running)"
    assert "ended: a (succeeded)" in explanation.more


async def test_a_step_for_a_signal_says_that_it_waits_and_how_it_came_or_did_not(
    world: World,
) -> None:
    flow = await draw(world)
    late = flow.step("late", signal="late", kind=SIGNAL_KIND, more=More(expires_in=60))
    await flow.submit(flow.step("ok", signal="go", kind=SIGNAL_KIND), late)
    reason = (await told(world, flow.ids["ok"])).reasons[0]
    assert reason.why == "waits for the signal 'go'"
    assert reason.change == f"it comes: foliot workflows signal {flow.id} go"
    await flow.store.signal(world.partition, flow.id, "go", b"1")
    assert (await told(world, flow.ids["ok"])).why.startswith("the signal 'go' came at ")
    world.clock.advance(61)
    await world.store.admission.expire(world.partition, limit=10)
    why = (await told(world, flow.ids["late"])).why
    assert why.startswith("the signal 'late' did not come in time; ended at ")


async def test_a_step_is_explained_by_those_around_it_however_many_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await draw(world)
    steps = [flow.step("a"), flow.step("b"), flow.step("c", "a", "b"), flow.step("d", "c")]
    await flow.submit(*steps, *[flow.step(f"other-{n}") for n in range(5)], policy="continue")
    await flow.claim()
    await flow.end("other-3", End.BURY)
    world.clock.advance(1)
    await flow.end("b", End.BURY)
    workflow, found = await flow.get(), await world.store.workflows.steps(flow.id)
    for step in found:
        around = await world.store.workflows.around(step.job, most=10)
        assert around is not None
        whole, near = facts_among(workflow, step, found), facts_around(workflow, around)
        for one, other in [(whole.step, near.step), *zip(whole.parents, near.parents, strict=True)]:
            assert (one.name, one.state, one.rule) == (other.name, other.state, other.rule)
            assert other.result is None and other.job_template is None
        assert near.step.reason == step.reason
        assert (near.left, near.ended) == (whole.left, whole.ended)
        assert (whole.failed and whole.failed.name) == (near.failed and near.failed.name)
    assert await world.store.workflows.around(world.new_job().id, most=10) is None

    async def all_of_them(_: JobId) -> None:
        pytest.fail("the whole workflow was read")

    monkeypatch.setattr(world.store.workflows, "steps", all_of_them)
    assert (await told(world, flow.ids["d"])).why.startswith("ended at ")


async def test_of_many_parents_those_to_be_named_are_read_and_the_others_counted(
    world: World,
) -> None:
    flow = await draw(world)
    parents = [flow.step(f"p{n}") for n in range(40)]
    join = flow.step("join", *[step.name for step in reversed(parents)], rule=Rule.ALL_DONE)
    await flow.submit(*parents, join, policy="continue")
    await flow.claim(room=30)
    for n in range(25):
        await flow.end(f"p{n}", End.BURY if n < 12 else End.SUCCEED)
    around = await world.store.workflows.around(flow.ids["join"], most=3)
    assert around is not None and around.failed is not None
    dead, succeeded = ["p11", "p10", "p9"], ["p24", "p23", "p22"]
    named = ["p39", "p38", "p37", *succeeded, *dead]
    assert [one.name for one in around.parents] == named, "as they were given"
    assert (around.left, around.ended) == (15, {"dead": 12, "succeeded": 13})
    assert around.failed.name == "p0"
    said = await told(world, flow.ids["join"])
    assert said.why.startswith("25 of its 40 parents have ended, not yet: p39 (ready), p38 (")
    assert said.why.endswith("p31 (ready), p30 (ready), and 5 more")
    assert said.more[0].startswith("ended: p24 (succeeded), ")
    assert said.more[0].endswith("p15 (succeeded), and 15 more")


async def test_a_pause_is_seen_whichever_of_many_parents_it_holds(world: World) -> None:
    """It comes first, for they do not end by themselves."""
    flow = await draw(world)
    parents = [flow.step(f"p{n}") for n in range(14)]
    await flow.submit(*parents, flow.step("join", *[step.name for step in parents]))
    await flow.claim(room=13)
    await flow.store.pause(world.partition, flow.id, note=None, by="ada")
    first, second = (await told(world, flow.ids["join"])).reasons
    assert first.why.startswith("workflow etl was paused by ada at ")
    assert second.why.startswith("0 of its 14 parents have ended, not yet: p0 (running), ")
    assert second.why.endswith("p9 (running), and 4 more")


async def test_what_a_signal_brings_is_known_from_the_first_that_come_after_it(
    world: World,
) -> None:
    flow = await draw(world)
    use = b'{"approval":{"$result":"go","at":"by"}}'
    signal = flow.step("go", signal="go", kind=SIGNAL_KIND)
    users = [flow.step(f"use-{n}", "go", payload=use) for n in range(5)]
    other = flow.step("other", payload=b'{"approval":{"$result":"go","at":"cents"}}')
    await flow.submit(signal, *users, other)
    found = await world.store.workflows.children(flow.ids["go"], most=3)
    assert [step.name for step in found] == ["use-0", "use-1", "use-2"]
    assert {step.job_template and step.job_template.payload for step in found} == {use}
    assert {step.kind for step in found} == {"echo"}
    assert await world.store.workflows.children(flow.ids["use-4"], most=3) == []
    reason = (await told(world, flow.ids["go"])).reasons[0]
    assert reason.change is not None
    assert reason.change.endswith(f""" signal {flow.id} go --payload '{{"by":"…"}}'""")


async def test_a_paused_queue_says_by_whom_why_and_how_to_go_on(world: World) -> None:
    await world.open_session()
    await pause_queue(world.store, "default", by="ada", note="the relay is down")
    world.clock.advance(60)
    reason = (await told(world, await world.submit())).reasons[0]
    assert "the queue 'default' was paused by ada at " in reason.why
    assert reason.why.endswith(": the relay is down")
    assert reason.since == world.after(-60)
    assert reason.change == "foliot queues resume default"


async def test_what_no_live_worker_has_is_named(world: World) -> None:
    id = await world.submit(
        lane=lane_of("default", ("gpu", "region:eu")).number,
        more=More(requires=("gpu", "region:eu")),
    )
    assert (await told(world, id)).why == "no worker is alive; it waits for one"
    await world.open_session()
    reason = (await told(world, id)).reasons[0]
    nobody = "nobody has gpu, region:eu; it waits for one"
    assert reason.why.endswith(f"requires: gpu, region:eu; {nobody}")
    assert reason.change is not None and reason.change.endswith("--capabilities gpu,region:eu")


async def test_a_limit_says_how_full_it_is_and_who_holds_its_slots(world: World) -> None:
    session = await world.open_session()
    await set_limit(world.store, limit_of("key:customer:*", concurrency=1))
    more = extras(limit_key="customer:42")
    holder, id = await world.submit(more=more), await world.submit(more=more)
    [claimed] = await world.claim(session)
    assert claimed.id == holder
    reason = (await told(world, id)).reasons[0]
    assert reason.why == f"limit key:customer:42 is at 1/1, held by job {holder}"
    assert reason.change == (
        "one of them ends, or: foliot limits set key:customer:42 --concurrency 2;"
        " for all of them: foliot limits set 'key:customer:*' --concurrency 2"
    )
    await world.end(session, claimed)
    assert (await told(world, id)).why.startswith("the next of its lane")


async def test_a_rate_says_when_the_next_may_start(world: World) -> None:
    session = await world.open_session()
    await set_limit(world.store, limit_of("kind:echo", rate="6/minute"))
    await world.submit()
    id = await world.submit()
    assert len(await world.claim(session)) == 1
    world.clock.advance(4)
    reason = (await told(world, id)).reasons[0]
    assert reason.why == "limit kind:echo lets 6 start in 1m"
    assert reason.change == "the next may in 6s"


async def test_an_open_breaker_says_until_when_and_why(world: World) -> None:
    session = await world.open_session()
    await open_breaker(world.store, "stripe", new=True, seconds=600, note="they move", by="ada")
    id = await world.submit(more=extras(breaker="stripe"))
    assert await world.claim(session) == []
    reason = (await told(world, id)).reasons[0]
    assert reason.why.startswith("breaker 'stripe' is open until ")
    assert reason.why.endswith(" by ada: they move")
    assert reason.change is not None and "foliot breakers close stripe" in reason.change


async def test_a_ready_job_is_told_of_what_will_not_let_it_in(world: World) -> None:
    """All workers are busy, so nobody has asked yet, and set it aside."""
    session = await world.open_session()
    for name in ("queue:default", "kind:echo", "namespace:default"):
        await set_limit(world.store, limit_of(name, concurrency=9))
    await set_limit(world.store, limit_of("key:customer:*", concurrency=1))
    more = extras(limit_key="customer:42")
    holder, id = await world.submit(more=more), await world.submit(more=more)
    [claimed] = await world.claim(session, 1)
    assert await world.state(id) == "ready"
    first, second = (await told(world, id)).reasons
    assert first.why == f"limit key:customer:42 is at 1/1, held by job {holder}"
    assert second.why == "the next of its lane"
    await world.end(session, claimed)
    [only] = (await told(world, id)).reasons
    assert only.why == "the next of its lane: it runs as soon as a worker has room"
    await open_breaker(world.store, "stripe", new=True)
    id = await world.submit(more=extras(breaker="stripe"))
    assert (await told(world, id)).why.startswith("breaker 'stripe' was opened")


async def test_jobs_ahead_are_counted_and_timed_by_the_pace_of_the_queue(world: World) -> None:
    await world.open_session()
    await world.submit_many(30)
    id = await world.submit()
    assert (await told(world, id)).why == "30 jobs ahead"
    minute = int(world.clock.now().timestamp()) // 60 * 60
    ended = Rollup(
        minute - 60, Key("default", "default", "echo", Ended.SUCCEEDED), 600, (1 << 60) - 1, {}, {}
    )
    await world.store.rollups.write(world.ids.session(), 1, [ended])
    said = (await told(world, id)).why
    assert said.startswith("30 jobs ahead at about 10/s, expected start in 3")


@pytest.mark.parametrize("known", ["by what is ready", "by its definition"])
async def test_no_start_is_expected_where_jobs_of_the_queue_require_different_things(
    world: World, known: str
) -> None:
    """What is counted is the pace of all of them; and who lacks what a job requires is no worker for it."""
    await world.open_session()
    session = NewSession(
        id=world.ids.session(),
        host="here",
        pid=1,
        version="0",
        queues=(),
        kinds=("echo",),
        duties=False,
        capabilities=("gpu",),
    )
    await world.store.sessions.open(session, lease=1000)
    minute = int(world.clock.now().timestamp()) // 60 * 60
    key = Key("default", "default", "echo", Ended.SUCCEEDED)
    ended = Rollup(minute - 60, key, 600, (1 << 60) - 1, {}, {})
    await world.store.rollups.write(world.ids.session(), 1, [ended])
    lane, more = lane_of("default", ("gpu",)).number, More(requires=("gpu",))
    _, id = [await world.submit(lane=lane, more=more) for _ in range(2)]
    explanation = await told(world, id)
    assert explanation.why.startswith("1 job ahead at about 10/s, expected")
    assert "1 live worker of its queue can run it" in explanation.more
    if known == "by what is ready":
        await world.submit()
    else:
        registry = Registry()
        registry.add(define(cut))
        await commands.announce(world.store, registry)
    assert (await told(world, id)).why == "1 job ahead"


async def test_jobs_ahead_are_those_of_all_partitions(world: World) -> None:
    """For the pace is that of the whole queue."""
    await world.open_session()
    partitions = world.store.partitions
    for partition in range(partitions):
        await world.store.jobs.submit(partition, [world.new_job(partition) for _ in range(3)])
    world.clock.advance(1)
    id = await world.submit()
    assert (await told(world, id)).why == f"{3 * partitions} jobs ahead"
    assert (await world.store.search.standing(id, limit=2)).ahead == 2


async def test_a_kind_that_nobody_knows_is_named_with_those_that_are_known(world: World) -> None:
    session = await world.open_session()
    id = await world.submit(kind="eco")
    [job] = await world.claim(session)
    assert await world.finish(session, world.outcome(job, End.HOLD)) == []
    explanation = await told(world, id)
    assert explanation.why == "no live worker knows the kind 'eco'"
    assert "did you mean echo?" in explanation.more


async def test_a_suspect_says_that_it_waits_to_run_alone(world: World) -> None:
    session = await world.open_session()
    job = await world.run(session)
    world.beat(session, job.id)
    world.expire()
    await world.reap(session)
    await world.open_session()
    reason = (await told(world, job.id)).reasons[0]
    assert reason.why.startswith("suspect: a worker was lost while it ran; it waits to run alone")


async def test_a_suspect_that_is_claimed_says_that_it_waits_or_runs_as_its_worker_has_it(
    world: World,
) -> None:
    session = await world.open_session()
    ids = await world.submit_many(7)
    await world.claim(session)
    world.clock.advance(1)
    world.beat(session, *ids)
    world.expire()
    await world.reap(session)
    lost = world.clock.now()
    world.clock.advance(5)
    session = await world.open_session()

    async def look() -> list[str]:
        reasons = [(await told(world, id)).reasons[0] for id in ids]
        assert {one.since for one in reasons if "suspect" in one.why} <= {lost}
        return [one.why for one in reasons]

    suspect = "suspect: a worker was lost while it ran; it waits to run alone"
    claimed = f"{suspect} in a child process of here, process 1"
    runs = "attempt 2 (1 of 5, not counting 1 loss) runs on here, process 1"
    world.clock.advance(1)
    first = await world.claim(session)
    assert [job.id for job in first] == ids
    others = [claimed, f"{claimed}, behind 1 other suspect", f"{claimed}, behind 2 other suspects"]
    assert await look() == [runs] * 4 + others, "so they start, before any beat tells"
    world.clock.advance(1)
    beat(world, session, ids[:4], waiting=3)
    assert await look() == [runs] * 4 + others
    released = [world.outcome(job, End.RELEASE) for job in first[4:]]
    await world.finish(session, *released)
    assert await look() == [runs] * 4 + [suspect] * 3
    assert [job.id for job in await world.claim(session)] == ids[4:]
    assert await look() == [runs] * 4 + others
    await world.finish(session, world.outcome(first[0], End.SUCCEED))
    assert (await look())[1:] == [runs] * 4 + [claimed, others[1]]


@pytest.mark.parametrize(
    ("kind", "awaited"),
    [("echo", "a slot, a thread or a child process"), (WORKFLOW_KIND, "a slot")],
)
async def test_a_job_that_is_claimed_and_waits_there_does_not_say_that_it_runs(
    world: World, kind: str, awaited: str
) -> None:
    """What is the store's to know of a kind does not say how its function runs; Foliot's own are async."""
    session = await world.open_session()
    id = (await world.run(session, kind=kind)).id
    claimed = world.clock.now()
    world.clock.advance(1)
    beat(world, session, [], waiting=1)
    reason = (await told(world, id)).reasons[0]
    assert reason.why == f"claimed by here, process 1, where it waits for {awaited}"
    assert reason.since == claimed
    beat(world, session, [id])
    assert (await told(world, id)).why.startswith("attempt 1 of 5 runs on here")


def beat(world: World, session: SessionId, executing: Sequence[JobId], waiting: int = 0) -> None:
    heart = world.store.sessions.heart(session, lease=60)
    heart.extend(executing, Load(waiting=waiting))
    heart.close()


async def test_a_running_job_says_where_how_far_and_until_when_its_lease_is_good(
    world: World,
) -> None:
    session = await world.open_session()
    job = await world.run(session)
    progress = NewProgress(job.id, job.fence, 0.4, "rows")
    await world.store.logs.set_progress(world.partition, session, [progress])
    explanation = await told(world, job.id)
    assert explanation.why.startswith("attempt 1 of 5 runs on here, process 1")
    assert explanation.reasons[0].since == world.clock.now()
    assert "last progress: 40% done: rows" in explanation.more
    assert any(line.startswith("its lease is good until ") for line in explanation.more)


async def test_a_job_after_another_of_its_ordering_key_names_it(world: World) -> None:
    await world.open_session()
    more = More(ordering_key="account-7")
    first, id = await world.submit(more=more), await world.submit(more=more)
    await world.look()
    assert first in (await told(world, id)).why and "account-7" in (await told(world, id)).why


async def test_reasons_are_many_where_many_hold_and_the_most_decisive_is_first(
    world: World,
) -> None:
    await pause_queue(world.store, "default", by="ada")
    await world.submit_many(2)
    reasons = (await told(world, await world.submit())).reasons
    assert [reason.why.split(" ")[0] for reason in reasons] == ["the", "no", "2"]


async def test_times_are_written_out() -> None:
    moment = datetime(2026, 11, 18, 15, 3, 20, tzinfo=UTC)
    said = str(Reason("why", since=moment, change="it is so"))
    assert said.splitlines() == ["why", "  since 2026-11-18 15:03:20Z", "  until it is so"]
