"""Hints: heard by other processes, throttled, and never needed."""

from __future__ import annotations

import asyncio

import pytest

from foliot.clock import SystemClock
from foliot.store.port import Wake
from support.stores import World

pytestmark = pytest.mark.anyio


def _pooled(world: World) -> bool:
    return world.place.settings.url != world.place.direct


async def test_a_hint_reaches_another_process(world: World) -> None:
    """Not through a pooler, where nobody can listen: there it does no harm."""
    other = await world.another_store(SystemClock())
    heard: list[Wake] = []
    something = asyncio.Event()

    def hear(wake: Wake) -> None:
        heard.append(wake)
        something.set()

    await other.listen(hear)
    something.clear()
    heard.clear()
    if world.place.engine == "sqlite":
        await world.submit()  # there a commit is the hint
    world.store.wake(Wake(((world.partition, -42),), due=True, cancel=True))
    if _pooled(world):
        return
    async with asyncio.timeout(5):
        await something.wait()
    assert heard


async def test_many_hints_at_once_do_no_harm(world: World) -> None:
    for number in range(1000):
        world.store.wake(Wake(((world.partition, number),)))
    await world.submit()
    world.store.wake(Wake(cancel=True))
