"""What code says of limits and queues counts when it is new: what was said by hand after that stays."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import psycopg
import pytest

from foliot import limit_commands
from foliot.errors import FoliotError
from foliot.limit_commands import apply_limits, delete_limit, limit_of, list_limits
from foliot.model.lane import Strategy
from foliot.model.limit import Limit
from foliot.model.queue import QueueOptions
from foliot.model.said import is_heard
from foliot.queue_commands import apply_queues, configure_queue, pause_queue, resume_queue
from foliot.store.port import Store
from foliot.store.postgres.gates import RULES
from foliot.testing.clock import ManualClock
from support.limits import limit
from support.stores import Databases, World, open_world, postgres_place

pytestmark = pytest.mark.anyio
NAME = "queue:mail"
Order = tuple[Strategy, float, str | None]


async def _code_says(world: World, concurrency: int, *, store: Store | None = None) -> bool:
    said = {NAME: limit_of(NAME, concurrency=concurrency)}
    return await apply_limits(store or world.store, said, by="code")


async def _older_code_says(world: World, concurrency: int) -> None:
    """A worker of a release that kept no account of what was said."""
    await world.store.limits.set(limit_of(NAME, concurrency=concurrency), by="code")


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
    await limit(world, NAME, concurrency=7)
    assert not await _code_says(world, 20)
    assert await _limits(world) == [(7, "ops")]


async def test_a_limit_deleted_by_hand_is_there_again_when_code_says_it_again(
    world: World,
) -> None:
    """It may have been taken out of the code meanwhile, and put back: nobody is to be without it unseen."""
    await _code_says(world, 20)
    await delete_limit(world.store, NAME)
    assert await _code_says(world, 20)
    assert await _limits(world) == [(20, "code")]
    assert not await _code_says(world, 20)


async def test_what_code_says_anew_goes_before_what_was_set_by_hand(world: World) -> None:
    await _code_says(world, 20)
    await limit(world, NAME, concurrency=5)
    assert await _code_says(world, 30)
    assert await _limits(world) == [(30, "code")]
    assert await _code_says(world, 20)
    assert await _limits(world) == [(20, "code")]


async def test_what_was_set_by_hand_before_code_said_anything_is_replaced(world: World) -> None:
    await limit(world, NAME, concurrency=5)
    assert await _code_says(world, 20)
    assert await _limits(world) == [(20, "code")]


async def test_code_that_says_what_somebody_has_set_before_is_heard_and_then_not_again(
    world: World,
) -> None:
    await limit(world, NAME, concurrency=5)
    assert await _code_says(world, 5)
    assert await _limits(world) == [(5, "code")]
    assert not await _code_says(world, 5)
    await limit(world, NAME, concurrency=6)
    assert not await _code_says(world, 5)


async def test_what_a_worker_has_changed_that_keeps_no_account_is_what_code_says_again(
    world: World,
) -> None:
    await _code_says(world, 30)
    await _older_code_says(world, 20)
    assert await _limits(world) == [(20, "code")]
    assert await _code_says(world, 30)
    assert await _limits(world) == [(30, "code")]


async def test_a_release_that_dies_as_it_starts_leaves_nothing_when_it_is_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Store) -> None:
        raise FoliotError("killed")

    await _code_says(world, 20)
    with monkeypatch.context() as patched:
        patched.setattr(limit_commands, "let_in", fail)
        with pytest.raises(FoliotError, match="killed"):
            await _code_says(world, 2000)
    await _code_says(world, 20)
    assert await _limits(world) == [(20, "code")]


async def test_two_versions_that_start_at_once_leave_what_one_of_them_says_and_both_know_it(
    world: World,
) -> None:
    other = await world.another_store()
    for number in range(10):
        await asyncio.gather(_code_says(world, 20), _code_says(world, 30, store=other))
        say = 20 + 10 * (number % 2)
        await _code_says(world, say)
        assert await _limits(world) == [(say, "code")]


async def test_limits_of_which_code_says_nothing_new_are_left_alone(world: World) -> None:
    names = [f"queue:q{number}" for number in range(4)]
    said = {name: limit_of(name, rate="3/second", note="the contract") for name in names}
    assert await apply_limits(world.store, said, by="code")
    before = await world.store.limits.known()
    said[names[2]] = limit_of(names[2], rate="4/second")
    assert await apply_limits(world.store, said, by="code")
    after = await world.store.limits.known()
    assert [one.rate for one in after] == [3, 3, 4, 3]
    assert [one for one in before if one not in after] == [before[2]]


STANDING = list(itertools.product((None, "a", "b"), ("code", "ops", None), (5, 20)))


async def test_the_statement_that_sets_a_limit_decides_like_the_model(world: World) -> None:
    """It is asked again behind the lock: what was read before may be old."""
    for number, (before, owner, standing) in enumerate(STANDING):
        one = Limit(name=f"queue:q{number}", concurrency=99)
        await world.store.limits.set(msgspec.structs.replace(one, said=before), by="code")
        one = msgspec.structs.replace(one, concurrency=standing)
        await world.store.limits.set(one, by=owner)
        said = msgspec.structs.replace(one, concurrency=20, said="a")
        heard = await world.store.limits.set(said, by="code")
        wanted = is_heard("a", before=before, own=owner == "code", other=standing != 20)
        assert heard is wanted, (before, owner, standing)
        after = next(each for each in await world.store.limits.known() if each.name == one.name)
        assert (after.concurrency, after.said) == (20 if heard else standing, "a")


async def test_the_statement_that_configures_a_queue_decides_like_the_model(world: World) -> None:
    configure = world.store.queues.configure
    for number, (before, owner, standing) in enumerate(STANDING):
        name = f"q{number:02}"
        await configure(name, aging=99, by="code", said=before)
        await configure(name, aging=standing, by=owner)
        heard = await configure(name, aging=20, by="code", said="a")
        wanted = is_heard("a", before=before, own=owner == "code", other=standing != 20)
        assert heard is wanted, (before, owner, standing)
        after = (await world.store.queues.all())[-1]
        assert (after.aging, after.said) == (20 if heard else standing, "a")


@pytest.fixture
async def postgres(databases: Databases, clock: ManualClock) -> AsyncIterator[World]:
    async with postgres_place(databases, partitions=1) as place, open_world(place, clock) as world:
        yield world


async def test_who_says_nothing_new_waits_for_no_claim(postgres: World) -> None:
    """Who changes limits has them alone: all claims would wait behind it."""
    await _code_says(postgres, 20)
    async with await psycopg.AsyncConnection.connect(postgres.place.direct) as other:
        await other.execute("SELECT pg_advisory_xact_lock_shared(%s, 0)", (RULES,))  # as a claim
        assert not await asyncio.wait_for(_code_says(postgres, 20), 10)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_code_says(postgres, 21), 0.3)


async def _code_says_of_queue(world: World, **options: Any) -> bool:
    return await apply_queues(world.store, {"mail": QueueOptions(**options)}, by="code")


async def _order(world: World) -> Order:
    [queue] = await world.store.queues.all()
    return queue.strategy, queue.aging, queue.updated_by


async def test_an_order_set_by_hand_stays_until_code_says_another(world: World) -> None:
    assert await _code_says_of_queue(world, strategy=Strategy.FIFO)
    await configure_queue(world.store, "mail", strategy="aged", aging=10, by="ops")
    assert not await _code_says_of_queue(world, strategy=Strategy.FIFO)
    assert await _order(world) == (Strategy.AGED, 10, "ops")
    assert await _code_says_of_queue(world, strategy=Strategy.FIFO, aging=30.0)
    assert await _order(world) == (Strategy.FIFO, 30, "code")
    assert not await _code_says_of_queue(world, strategy=Strategy.FIFO, aging=30.0)


async def test_what_code_does_not_say_of_a_queue_stays(world: World) -> None:
    await configure_queue(world.store, "mail", strategy="aged", weights={"vip": 3}, by="ops")
    assert await _code_says_of_queue(world, aging=0.1)
    strategy, aging, by = await _order(world)
    assert (strategy, by) == (Strategy.AGED, "code")
    assert aging == pytest.approx(0.1)
    assert not await _code_says_of_queue(world, aging=0.1)
    [queue] = await world.store.queues.all()
    assert queue.weights == {"vip": 3}


async def test_a_pause_is_no_change_of_a_queues_order(world: World) -> None:
    """What is another order then was not set by hand, and is what code says again."""
    await pause_queue(world.store, "mail", by="ops")
    assert await _code_says_of_queue(world, strategy=Strategy.FIFO)
    assert await resume_queue(world.store, "mail", by="ops")
    await pause_queue(world.store, "mail", by="ops")
    assert await resume_queue(world.store, "mail", by="ops")
    assert await _order(world) == (Strategy.FIFO, 60, "code")
    await world.store.queues.configure("mail", strategy=Strategy.AGED, by="code")  # an older worker
    assert await _code_says_of_queue(world, strategy=Strategy.FIFO)
    assert await _order(world) == (Strategy.FIFO, 60, "code")


async def test_two_versions_at_once_leave_the_order_that_one_of_them_says(world: World) -> None:
    for number in range(10):
        await asyncio.gather(
            _code_says_of_queue(world, strategy=Strategy.FIFO),
            _code_says_of_queue(world, strategy=Strategy.AGED),
        )
        say = (Strategy.FIFO, Strategy.AGED)[number % 2]
        await _code_says_of_queue(world, strategy=say)
        assert await _order(world) == (say, 60, "code")
