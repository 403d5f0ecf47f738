"""Loops: they go on whatever happens, and end when they are told to."""

from __future__ import annotations

import asyncio

import pytest

from foliot.ids import Ids
from foliot.loop import Loop
from foliot.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


class Idle(Loop):
    name = "idle"

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, Ids(clock=clock, seed=1))
        self.ticked = asyncio.Event()

    async def tick(self) -> float:
        self.ticked.set()
        return 3600.0


@pytest.mark.parametrize("turns", range(6))
async def test_a_loop_that_is_woken_and_cancelled_at_once_ends(
    clock: ManualClock, turns: int
) -> None:
    """However many turns of the event loop are between the two."""
    loop = Idle(clock)
    running = asyncio.create_task(loop.run())
    await loop.ticked.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    loop.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=5)
    running.cancel()
    assert done == {running}
