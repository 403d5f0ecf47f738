"""What is done to whole workflows: cancelled, paused, told signals, listed, forgotten; and what their deadlines do."""

from __future__ import annotations

import asyncio

import pytest

from foliot.ids import JobId
from foliot.model.audit import Deed
from foliot.model.change import Change
from foliot.model.job import End, JobState, More
from foliot.model.lane import lane_of
from foliot.model.workflow import SIGNAL_KIND, Rule, WorkflowState
from foliot.scheduler.duty import Office
from foliot.scheduler.flow import Flow
from foliot.scheduler.partitions import AllPartitions
from support.flows import Drawing, draw, ready
from support.stores import World

pytestmark = pytest.mark.anyio
LANE = lane_of("default").number


async def cancel(flow: Drawing) -> None:
    assert await flow.store.cancel(flow.world.partition, flow.id) is not None
    await flow.settle()


async def pause(flow: Drawing) -> None:
    assert await flow.store.pause(flow.world.partition, flow.id, note="why", by="me")


async def test_a_cancelled_workflow_ends_what_does_not_run_and_asks_the_rest(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("r"),
        flow.step("later", delay=60),
        flow.step("next", "r"),
        flow.step("clean", "r", rule=Rule.ALL_DONE),
    )
    await flow.claim()
    await cancel(flow)
    assert await flow.states() == {
        "r": "running",
        "later": "cancelled",
        "next": "cancelled",
        "clean": "cancelled",
    }
    seen = await flow.get()
    assert (seen.state, seen.cancel_requested) == (WorkflowState.RUNNING, True)
    [running] = await world.store.jobs.running(flow.session)
    assert running.cancel_requested
    assert (await flow.end("r", End.CANCEL)).advance.ended == (flow.id,)
    seen = await flow.get()
    assert (seen.state, seen.reason) == (WorkflowState.CANCELLED, "requested")
    assert await flow.store.cancel(world.partition, flow.id) is None


async def test_one_that_is_paused_again_was_paused_when_it_first_was(world: World) -> None:
    """As queues are: who said why last is told, and since when nothing starts."""
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.store.pause(world.partition, flow.id, note=None, by="you")
    since = world.clock.now()
    world.clock.advance(60)
    await pause(flow)
    seen = await flow.get()
    assert (seen.paused_at, seen.paused_by, seen.note) == (since, "me", "why")


@pytest.mark.parametrize("late", [False, True])
async def test_one_that_ends_while_it_is_paused_runs_when_it_is_tried_again(
    world: World, late: bool
) -> None:
    """It cannot be resumed before that: it has ended."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), deadline=60)
    await flow.claim()
    await pause(flow)
    if late:
        world.clock.advance(60)
        await flow.settle()
    await flow.end("a", End.CANCEL if late else End.BURY)
    await flow.settle()
    seen = await flow.get()
    assert seen.state is WorkflowState.FAILED
    assert (seen.paused_at, seen.paused_by, seen.note) == (None, None, None)
    await flow.store.retry(world.partition, flow.id)
    await flow.run("a")
    await flow.run("b")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_step_that_succeeds_although_asked_to_end_starts_nothing(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    await flow.claim()
    await cancel(flow)
    await flow.end("a", result=b"1")
    assert await flow.states() == {"a": "succeeded", "b": "cancelled"}
    assert (await flow.get()).state is WorkflowState.CANCELLED


async def test_a_workflow_that_is_late_is_cancelled_and_has_failed(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b", "a"), deadline=60)
    await flow.claim()
    world.clock.advance(59)
    assert not await flow.stuck()
    world.clock.advance(1)
    assert await flow.stuck()
    await flow.settle()
    assert await flow.states() == {"a": "running", "b": "cancelled"}
    await flow.end("a", End.CANCEL)
    seen = await flow.get()
    assert (seen.state, seen.reason) == (WorkflowState.FAILED, "deadline")


async def test_a_cancel_after_the_deadline_does_not_say_why_it_ended(world: World) -> None:
    """Steps that do not obey are cancelled by hand as well: it has failed all the same, as it was late."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), deadline=60)
    await flow.claim()
    world.clock.advance(60)
    await flow.settle()
    await cancel(flow)
    assert (await flow.get()).reason == "deadline"
    await flow.end("a")
    seen = await flow.get()
    assert (seen.state, seen.reason) == (WorkflowState.FAILED, "deadline")


async def test_a_look_sees_that_a_workflow_is_late_until_it_is_told_to_end(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), deadline=60)
    await flow.claim()
    world.clock.advance(59)
    assert (await world.store.jobs.peek()).expired == frozenset()
    world.clock.advance(1)
    assert (await world.store.jobs.peek()).expired == {world.partition}
    await flow.settle()
    assert (await flow.states(), (await flow.get()).state.value) == ({"a": "running"}, "running")
    assert (await world.store.jobs.peek()).expired == frozenset()


class Watched(Flow):
    """The duty, and how long it wanted to sleep."""

    def __init__(self, world: World) -> None:
        session = world.ids.session()
        held = AllPartitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
        super().__init__(Office(world.store, held, world.clock, world.ids))
        self.pauses: asyncio.Queue[float] = asyncio.Queue()

    async def tick(self) -> float:
        pause = await super().tick()
        self.pauses.put_nowait(pause)
        return pause


async def test_the_duty_that_sleeps_as_there_are_no_workflows_is_woken_for_a_deadline(
    world: World,
) -> None:
    duty = Watched(world)
    running = asyncio.create_task(duty.run())
    assert await duty.pauses.get() > 5
    flow = await draw(world)
    await flow.submit(flow.step("a"), deadline=60)
    world.clock.advance(60)
    duty.see(await world.store.jobs.peek())
    async with asyncio.timeout(5):
        await duty.pauses.get()
    assert (await flow.get()).reason == "deadline"
    running.cancel()


async def test_nothing_starts_in_a_paused_workflow_and_what_runs_goes_on(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"), flow.step("b", "a"), flow.step("c", queue="other"), flow.step("d", delay=60)
    )
    await flow.claim()
    await pause(flow)
    assert await flow.states() == {"a": "running", "b": "waiting", "c": "held", "d": "held"}
    assert (await flow.end("a")).advance.lanes == ((LANE, JobState.HELD),)
    assert (await flow.states())["b"] == "held"
    assert await flow.claim(queues=["default", "other"]) == set()
    seen = await flow.get()
    assert (seen.paused_at, seen.paused_by, seen.note) == (world.clock.now(), "me", "why")
    advance = await flow.store.resume(world.partition, flow.id)
    assert sorted(state for _, state in advance.lanes) == ["ready", "ready", "scheduled"]
    assert await flow.claim(queues=["default", "other"]) == {"b", "c"}
    seen = await flow.get()
    assert (seen.paused_at, seen.paused_by, seen.note) == (None, None, None)


@pytest.mark.parametrize("end", [End.RETRY, End.RELEASE])
async def test_what_comes_back_to_a_paused_workflow_waits(world: World, end: End) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.claim()
    await pause(flow)
    await flow.end("a", end, delay=0)
    assert await flow.states() == {"a": "held"}
    world.clock.advance(1)
    await flow.store.resume(world.partition, flow.id)
    await flow.run("a")


async def test_what_is_held_for_a_kind_that_nobody_knew_does_not_start_while_it_is_paused(
    world: World,
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.claim()
    await flow.end("a", End.HOLD, reason="unknown_kind")
    assert (await world.get(flow.ids["a"])).reason == "unknown_kind"
    await pause(flow)
    assert await world.store.jobs.admit_kinds(world.partition, ["echo"], limit=10) == []
    assert (await world.get(flow.ids["a"])).reason == "paused"
    await flow.store.resume(world.partition, flow.id)
    await flow.run("a")


async def test_what_is_taken_back_from_a_lost_session_waits_too(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    await flow.claim()
    await pause(flow)
    world.expire()
    assert (await world.reap(flow.session)).total == 1
    assert await flow.states() == {"a": "held"}


async def test_a_step_with_an_ordering_key_is_not_lost_to_a_pause(world: World) -> None:
    """Of those that share a key one is active; a pause does not make a second one."""
    flow = await draw(world)
    other = await world.submit(more=More(ordering_key="k"))
    await flow.submit(
        flow.step("a", queue="other"), flow.step("b", "a", more=More(ordering_key="k"))
    )
    await world.look()
    await flow.claim(queues=["other"])
    await pause(flow)
    await flow.end("a")
    assert await flow.states() == {"a": "succeeded", "b": "held"}
    [job] = await world.claim(flow.session)
    assert job.id == other
    await world.end(flow.session, job)
    await flow.store.resume(world.partition, flow.id)
    await world.look()
    await flow.run("b")


async def test_a_signal_ends_the_step_that_waits_for_it_with_what_it_says(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("ok", "a", signal="approval", kind=SIGNAL_KIND),
        flow.step("b", "ok"),
    )
    await flow.run("a")
    assert (await flow.states())["ok"] == "held"
    assert (await flow.steps())["ok"].reason == "signal"
    advance = await flow.store.signal(world.partition, flow.id, "approval", b'{"by":"me"}')
    assert advance.lanes == ready(1, LANE)
    assert await flow.states() == {"a": "succeeded", "ok": "succeeded", "b": "ready"}
    steps = await flow.steps()
    assert (steps["ok"].result, steps["ok"].reason) == (b'{"by":"me"}', "signal")
    assert (await world.get(flow.ids["ok"])).result == b'{"by":"me"}'


async def test_a_signal_that_comes_early_is_kept_and_the_last_one_counts(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("ok", "a", signal="approval", kind=SIGNAL_KIND),
        flow.step("b", "ok"),
    )
    for payload in (b"1", b"2"):
        advance = await flow.store.signal(world.partition, flow.id, "approval", payload)
        assert advance.lanes == ()
    await flow.store.signal(world.partition, flow.id, "other", b"3")
    await flow.run("a")
    assert await flow.states() == {"a": "succeeded", "ok": "succeeded", "b": "ready"}
    assert (await flow.steps())["ok"].result == b"2"


async def test_a_signal_is_for_one_step_unless_several_wait(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("x", signal="go", kind=SIGNAL_KIND),
        flow.step("y", signal="go", kind=SIGNAL_KIND),
        flow.step("z", "x", signal="go", kind=SIGNAL_KIND),
    )
    await flow.store.signal(world.partition, flow.id, "go", b"1")
    assert await flow.states() == {"x": "succeeded", "y": "succeeded", "z": "held"}
    await flow.store.signal(world.partition, flow.id, "go", b"2")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED
    assert await flow.store.signal(world.partition, flow.id, "go", b"3") is None


@pytest.mark.parametrize("change", [Change(priority=1), Change(retime=True)])
async def test_a_change_by_hand_starts_nothing_that_is_held_with_its_workflow(
    world: World, change: Change
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("ok", signal="go", kind=SIGNAL_KIND))
    await pause(flow)
    for name in ("a", "ok"):
        await world.store.jobs.change(world.partition, flow.ids[name], change)
    assert await flow.states() == {"a": "held", "ok": "held"}
    await flow.store.resume(world.partition, flow.id)
    await flow.run("a")
    await flow.store.signal(world.partition, flow.id, "go", b"1")
    assert (await flow.get()).state is WorkflowState.SUCCEEDED


async def test_a_signal_that_does_not_come_in_time_is_a_failure(world: World) -> None:
    flow = await draw(world)
    await flow.submit(
        flow.step("a"),
        flow.step("ok", "a", signal="go", kind=SIGNAL_KIND, more=More(expires_in=60)),
        flow.step("b", "ok"),
        flow.step("late", "ok", rule=Rule.ANY_FAILED),
    )
    world.clock.advance(100)
    await flow.run("a")
    world.clock.advance(59)
    assert await world.store.admission.expire(world.partition, limit=10) == 0
    world.clock.advance(1)
    assert await world.store.admission.expire(world.partition, limit=10) == 1
    await flow.settle()
    assert await flow.states() == {
        "a": "succeeded",
        "ok": "cancelled",
        "b": "skipped",
        "late": "ready",
    }
    assert (await flow.steps())["ok"].reason == "expired"


async def test_what_people_do_is_written_down_if_it_did_something(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))

    def record(action: str) -> dict[str, object]:
        def tell(ids: object) -> list[Deed]:
            assert ids == [flow.id]
            return [Deed(world.ids.job(), "me", action, flow.id)]

        return {"record": tell}

    store, partition = flow.store, world.partition
    await store.pause(partition, flow.id, note=None, by="me", **record("pause"))
    await store.resume(partition, flow.id, **record("resume"))
    await store.signal(partition, flow.id, "go", b"1", **record("signal"))
    await store.retry(partition, flow.id, **record("nothing had failed"))
    await store.cancel(partition, flow.id, **record("cancel"))
    await store.cancel(partition, flow.id, **record("it had ended"))
    await store.retry(partition, flow.id, **record("retry"))
    done = [entry.action for entry in await world.store.audit.list(target=flow.id)]
    assert sorted(done) == sorted(["pause", "resume", "signal", "cancel", "retry"])


async def test_nothing_is_done_to_a_workflow_that_there_is_not(world: World) -> None:
    flow = await draw(world)
    missing: JobId = flow.id
    store, partition = flow.store, world.partition
    assert await store.get(missing) is None
    assert await store.steps(missing) == []
    assert await store.cancel(partition, missing) is None
    assert await store.resume(partition, missing) is None
    assert not await store.pause(partition, missing, note=None, by="me")
    assert await store.signal(partition, missing, "go", b"1") is None
    assert (await store.retry(partition, missing))[0] == []
    assert (await store.advance(partition, [missing])).more == ()
    assert await store.find_stuck(partition, limit=10) == ([], False)


async def test_workflows_are_listed_newest_first_by_name_and_state(world: World) -> None:
    flows = []
    for number in range(4):
        flow = await draw(world)
        await flow.submit(flow.step("a"), name=f"n{number % 2}")
        world.clock.advance(1)
        flows.append(flow)
    await world.cancel(flows[0].ids["a"])

    async def find(
        name: str | None = None,
        state: str | None = None,
        limit: int = 10,
        before: JobId | None = None,
    ) -> list[int]:
        found = await world.store.workflows.list(name=name, state=state, limit=limit, before=before)
        order = [flow.id for flow in flows]
        return [order.index(each.id) for each in found]

    assert await find() == [3, 2, 1, 0]
    assert await find(limit=2) == [3, 2]
    assert await find(before=flows[2].id) == [1, 0]
    assert await find(name="n0") == [2, 0]
    assert await find(state="running") == [3, 2, 1]
    assert await find(name="n0", state="failed") == [0]


async def test_old_workflows_are_forgotten_and_running_ones_are_not(world: World) -> None:
    old, new, live = [await draw(world) for _ in range(3)]
    for flow in (old, new, live):
        await flow.submit(flow.step("a"), flow.step("b", "a"))
        await flow.store.signal(world.partition, flow.id, "early", b"1")
    await world.cancel(old.ids["a"])
    await old.settle()
    world.clock.advance(100)
    await world.cancel(new.ids["a"])
    await new.settle()
    world.clock.advance(100)
    assert await world.store.workflows.prune(keep=150, limit=1) == 1
    assert await world.store.workflows.get(old.id) is None
    assert await world.store.workflows.steps(old.id) == []
    assert (await new.get()).state is WorkflowState.FAILED
    assert set(await live.states()) == {"a", "b"}
    assert await world.store.workflows.prune(keep=0, limit=10) == 1
    assert await world.store.workflows.prune(keep=0, limit=10) == 0
    assert (await live.get()).state is WorkflowState.RUNNING
