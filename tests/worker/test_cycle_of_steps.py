"""Trips that bring steps of workflows: what is given back without being known is given back as a step."""

from __future__ import annotations

from typing import Any

import pytest

from foliot.errors import StoreUnavailable
from foliot.model.job import JobState
from support.flows import draw
from support.stores import World
from worker.test_cycle import Rig, Slots

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["postgres-1", "sqlite-1"], indirect=True),
]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_step_whose_claim_got_lost_does_not_start_in_a_workflow_that_is_paused_or_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    rig, slots = Rig(world, flow.session), Slots(10)
    rig.cycle.serve(slots)  # type: ignore[arg-type]
    claim = world.store.jobs.finish_and_claim

    async def lost(*args: Any, **rest: Any) -> Any:
        await claim(*args, **rest)
        raise StoreUnavailable("the reply was lost", unknown=True)

    with monkeypatch.context() as patched:
        patched.setattr(world.store.jobs, "finish_and_claim", lost)
        rig.cycle.see(await world.store.jobs.peek())
        await rig.cycle.step()
    assert rig.cycle.uncertain
    assert await world.state(flow.ids["a"]) is JobState.RUNNING
    if cancelled:
        await flow.store.cancel(world.partition, flow.id)
    else:
        await flow.store.pause(world.partition, flow.id, note=None, by="me")
    await rig.cycle.reconcile()
    await rig.flush()
    assert not slots.jobs
    assert await world.state(flow.ids["a"]) is (JobState.CANCELLED if cancelled else JobState.HELD)
