"""What code says of limits and queues counts when it is new: what was said by hand after that stays."""

from __future__ import annotations

import pytest

from foliot.limit_commands import apply_limits, delete_limit, limit_of, list_limits
from foliot.model.lane import Strategy
from foliot.model.queue import QueueOptions
from foliot.queue_commands import apply_queues, configure_queue
from support.limits import limit
from support.stores import World

pytestmark = pytest.mark.anyio
NAME = "queue:mail"


async def _code_says(world: World, concurrency: int) -> bool:
    said = {NAME: limit_of(NAME, concurrency=concurrency)}
    return await apply_limits(world.store, said, by="code")


async def _limits(world: World) -> list[tuple[int | None, str | None]]:
    found = await list_limits(world.store)
    return [(one.limit.concurrency, one.limit.updated_by) for one in found]


async def test_a_limit_set_by_hand_stays_when_a_worker_with_the_same_code_starts(
    world: World,
) -> None:
    assert await _code_says(world, 20)
    await limit(world, NAME, concurrency=5)
    assert not await _code_says(world, 20)
    assert await _limits(world) == [(5, "ops")]


async def test_a_limit_deleted_by_hand_stays_away(world: World) -> None:
    await _code_says(world, 20)
    await delete_limit(world.store, NAME)
    assert not await _code_says(world, 20)
    assert await _limits(world) == []


async def test_what_code_says_anew_goes_before_what_was_set_by_hand(world: World) -> None:
    await _code_says(world, 20)
    await limit(world, NAME, concurrency=5)
    assert await _code_says(world, 30)
    assert await _limits(world) == [(30, "code")]
    await delete_limit(world.store, NAME)
    assert await _code_says(world, 20)
    assert await _limits(world) == [(20, "code")]


async def test_what_was_set_by_hand_before_code_said_anything_is_replaced(world: World) -> None:
    await limit(world, NAME, concurrency=5)
    assert await _code_says(world, 20)
    assert await _limits(world) == [(20, "code")]


async def test_an_order_set_by_hand_stays_until_code_says_another(world: World) -> None:
    async def code_says(**options: Strategy | float) -> bool:
        said = {"mail": QueueOptions(**options)}  # type: ignore[arg-type]
        return await apply_queues(world.store, said, by="code")

    async def order() -> tuple[Strategy, float]:
        [queue] = await world.store.queues.all()
        return queue.strategy, queue.aging

    assert await code_says(strategy=Strategy.FIFO)
    await configure_queue(world.store, "mail", strategy="aged", aging=10, by="ops")
    assert not await code_says(strategy=Strategy.FIFO)
    assert await order() == (Strategy.AGED, 10)
    assert await code_says(strategy=Strategy.FIFO, aging=30.0)
    assert await order() == (Strategy.FIFO, 30)
