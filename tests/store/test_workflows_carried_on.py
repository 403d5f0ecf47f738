"""What the end of a step leads to, where that is more than is carried out with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foliot import workflow_commands
from foliot.config import LimitSettings, Settings
from foliot.errors import StoreUnavailable
from foliot.ids import SessionId
from foliot.life import Life, Requests, Role
from foliot.model.job import End, JobState, More
from foliot.model.workflow import Advance, Rule, WorkflowState
from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.flow import Flow
from foliot.scheduler.order import Orders
from foliot.scheduler.partitions import AllPartitions
from foliot.scheduler.reap import Reap
from foliot.store.port import Wake
from foliot.worker.context import State
from support.flows import Drawing, draw
from support.stores import World

pytestmark = pytest.mark.anyio
LEVELS = 220  # of a chain of skips, of which one transaction carries out fifty


async def draw_long(world: World, more: More | None = None) -> Drawing:
    flow = await draw(world)
    steps = [flow.step("0", more=more)]
    steps += [flow.step(str(number), str(number - 1)) for number in range(1, LEVELS)]
    return await flow.submit(*steps, policy="continue")


def office_of(world: World, session: SessionId, announce: Callable[[Wake], None]) -> Office:
    partitions = AllPartitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
    return Office(world.store, partitions, world.clock, world.ids, announce=announce)


@pytest.mark.parametrize("duty", [Reap, Orders])
async def test_a_long_cascade_is_carried_on_at_once(world: World, duty: type[Duty]) -> None:
    """After a step that is dead because its workers were, or has expired: nobody's trip goes on with it."""
    expires = duty is Orders
    flow = await draw_long(world, More(expires_in=5) if expires else None)
    told: list[Wake] = []
    office = office_of(world, flow.session, told.append)
    await office.partitions.tick()
    if not expires:
        for _ in range(office.settings.worker.loss_limit - 1):
            lost = await world.open_session()
            await world.claim(lost)
            await world.reap(lost)
        await world.claim(await world.open_session())
    world.expire()
    ending, carrying_on = duty(office), Flow(office)
    if isinstance(ending, Orders):
        ending.see(await world.store.jobs.peek())
    await ending.tick()
    assert any(wake.flows for wake in told)
    while await carrying_on.tick() <= 0.01:
        pass
    assert (await flow.get()).state is WorkflowState.FAILED, "before there was any other pause"


async def test_what_has_taken_effect_is_no_error_if_the_store_goes_away_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that his job was not stored submits it once more."""
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"))
    await flow.claim()
    await flow.end("a", End.BURY)  # and b, which runs, is to be asked to end

    async def away(*_: object) -> Advance:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(world.store.workflows, "advance", away)
    id = await workflow_commands.follow(
        world.store,
        world.new_job(),
        [flow.ids["a"]],
        rule=Rule.ALL_SUCCEEDED,
        ids=world.ids,
        limits=LimitSettings(),
    )
    monkeypatch.undo()
    assert await world.state(id) is JobState.SKIPPED
    await flow.settle()
    assert (await world.get(flow.ids["b"])).cancel_requested


async def test_the_duty_is_woken_when_somebody_leaves_something_to_it(world: World) -> None:
    life = Life(
        world.store,
        Role(None),
        Settings(store=world.place.settings),
        clock=world.clock,
        ids=world.ids,
        state=State(),
        requests=Requests(lambda: None, lambda _: None, lambda: None),
    )
    assert life._scheduler is not None
    duty = life._scheduler.flow
    life.hear(Wake(due=True, changed=True))
    assert not duty._woken.is_set()
    life.hear(Wake(flows=True))
    assert duty._woken.is_set()
