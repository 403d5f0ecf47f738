"""Hints: heard by other processes, throttled, and never needed."""

from __future__ import annotations

import asyncio

import pytest

from foliot.clock import SystemClock
from foliot.ids import Mark, mark_of
from foliot.store.port import Wake, together
from foliot.store.postgres.listen import decode, encode
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


async def test_the_end_of_an_awaited_job_is_told_without_a_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other hints that follow closely wait for each other."""
    if world.place.engine == "sqlite" or _pooled(world):
        return  # hints of that kind are not sent there
    monkeypatch.setattr("foliot.store.postgres.listen._QUIET", 1000.0)
    sending, other = [await world.another_store(SystemClock()) for _ in range(2)]
    heard: list[Wake] = []
    first, told = asyncio.Event(), asyncio.Event()

    def hear(wake: Wake) -> None:
        heard.append(wake)
        if wake.ready:
            first.set()
        if wake.ended:
            told.set()

    await other.listen(hear)
    mark = mark_of(world.new_job().id)
    async with asyncio.timeout(10):
        sending.wake(Wake(((0, 1),)))
        await first.wait()
        sending.wake(Wake(((0, 2),)))
        sending.wake(Wake(ended=(mark,)))
        await told.wait()
    assert heard[-1].ended == (mark,)


async def test_many_hints_at_once_do_no_harm(world: World) -> None:
    for number in range(1000):
        world.store.wake(Wake(((world.partition, number),)))
    await world.submit()
    world.store.wake(Wake(cancel=True))


async def test_marks_reach_who_listens_however_many(world: World) -> None:
    """Of SQLite, who listens to the same open store: other processes see that the file has changed."""
    listening = world.store if world.place.engine == "sqlite" else await world.another_store()
    heard: list[Wake] = []
    all_there = asyncio.Event()
    ended = tuple(mark_of(world.new_job().id) for _ in range(1500))
    awaited = tuple(mark_of(world.new_job().id) for _ in range(1500))

    def hear(wake: Wake) -> None:
        heard.append(wake)
        if sum(len(wake.ended) + len(wake.awaited) for wake in heard) == 3000:
            all_there.set()

    assert await listening.listen(hear) is not _pooled(world)
    world.store.wake(Wake(awaited=awaited, ended=ended))
    if _pooled(world):
        return
    async with asyncio.timeout(5):
        await all_there.wait()
    assert {mark for wake in heard for mark in wake.ended} == set(ended)
    assert {mark for wake in heard for mark in wake.awaited} == set(awaited)


@pytest.mark.parametrize(
    "wake",
    [
        Wake(),
        Wake(due=True),
        Wake(((3, -42), (5, 7)), cancel=True, changed=True),
        Wake(flows=True),
        Wake(awaited=(Mark("0123456789"[:9]), Mark("abcdefabc")), ended=(Mark("fffffffff"),)),
    ],
)
def test_a_notification_is_read_as_it_was_written(wake: Wake) -> None:
    assert decode(encode(wake)) == wake


def test_a_full_notification_fits() -> None:
    marks = tuple(Mark(f"{number:09x}") for number in range(600))
    lanes = tuple((4095, -(2**63) + number) for number in range(500))
    full = Wake(lanes, due=True, cancel=True, changed=True, awaited=marks)
    assert len(encode(full)) < 8000


def test_what_is_not_understood_means_look_for_yourself() -> None:
    assert decode("next=1,2,3 something") == Wake(due=True)


def test_hints_together_say_what_each_says() -> None:
    one = Wake(((0, 1),), due=True, awaited=(Mark("a" * 9),))
    other = Wake(((0, 1), (1, 2)), changed=True, ended=(Mark("b" * 9),))
    both = Wake(((0, 1), (1, 2)), due=True, changed=True, awaited=one.awaited, ended=other.ended)
    assert together(one, other) == both
