"""What the roll-ups say to people, and how fast a queue is lately."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from foliot.errors import InvalidValue
from foliot.model.rollup import Ended, Key, Rollup, Sum, add_up, bucket_of
from foliot.stats import MOST_MINUTES, MOST_STEPS, pace_of, read_pace, read_stats
from foliot.testing.clock import ManualClock
from support.stores import World, open_world, sqlite_place

pytestmark = pytest.mark.anyio

EVERY_SECOND = (1 << 60) - 1


def rollup(
    minute: int,
    count: int,
    *,
    queue: str = "mail",
    kind: str = "send",
    outcome: Ended = Ended.SUCCEEDED,
    seconds: int = EVERY_SECOND,
    waited: float = 0.003,
    ran: float = 0.02,
) -> Rollup:
    key = Key("default", queue, kind, outcome)
    return Rollup(minute, key, count, seconds, {bucket_of(waited): count}, {bucket_of(ran): count})


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        yield world


class Past:
    """Minutes before now, on a clock at half past one of them."""

    def __init__(self, world: World) -> None:
        world.clock.advance(30)
        self.now = world.clock.now()
        self._minute = int(self.now.timestamp()) // 60 * 60
        self._store = world.store
        self._writer = world.ids.session()
        self._batch = 0

    async def add(self, ago: int, count: int, **fields: Any) -> None:
        self._batch += 1
        one = rollup(self._minute - 60 * ago, count, **fields)
        await self._store.rollups.write(self._writer, self._batch, [one])

    async def stats(self, **asked: Any) -> Any:
        return await read_stats(self._store, now=self.now, **asked)


@pytest.fixture
def past(world: World) -> Past:
    return Past(world)


async def test_of_nothing_there_are_no_rows(past: Past) -> None:
    found = await past.stats()
    assert (found.rows, found.total.ended, found.total.failed) == ([], 0, 0.0)
    assert (found.total.wait_p50, found.total.series) == (None, (0,) * 60)


async def test_what_ended_is_summed_up_by_what_is_asked_for(past: Past) -> None:
    await past.add(0, 10)
    await past.add(2, 6, outcome=Ended.FAILED, waited=0.5)
    await past.add(2, 2, kind="fetch", outcome=Ended.DEAD, ran=3)
    await past.add(1, 100, queue="reports")
    await past.add(3, 1000)
    found = await past.stats(minutes=3)
    assert [(row.queue, row.kind, row.ended, row.series) for row in found.rows] == [
        ("reports", None, 100, (0, 100, 0)),
        ("mail", None, 18, (8, 0, 10)),
    ]
    mail = found.rows[1]
    assert mail.outcomes == {Ended.SUCCEEDED: 10, Ended.FAILED: 6, Ended.DEAD: 2}
    assert mail.failed == 8 / 18
    assert mail.per_second == 18 / 150, "the last minute is half over"
    assert (bucket_of(mail.wait_p50), bucket_of(mail.wait_p95)) == (
        bucket_of(0.003),
        bucket_of(0.5),
    )
    assert bucket_of(mail.run_p95) == bucket_of(3)
    assert (found.total.ended, found.total.series) == (118, (8, 100, 10))


async def test_rows_may_be_of_several_names_and_of_some_only(past: Past) -> None:
    await past.add(0, 1)
    await past.add(0, 2, kind="fetch")
    await past.add(0, 3, kind="fetch", outcome=Ended.FAILED)
    await past.add(0, 4, queue="reports", kind="fetch")
    found = await past.stats(by=["kind", "outcome"], queue="mail")
    assert [(row.name, row.ended) for row in found.rows] == [
        (("fetch", "failed"), 3),
        (("fetch", "succeeded"), 2),
        (("send", "succeeded"), 1),
    ]
    assert (await past.stats(kind="fetch", by="queue")).total.ended == 9
    assert (await past.stats(namespace="other")).total.ended == 0


async def test_a_week_comes_in_few_enough_steps(past: Past) -> None:
    await past.add(MOST_MINUTES - 1, 5)
    await past.add(0, 7)
    found = await past.stats(minutes=MOST_MINUTES)
    series = found.total.series
    assert (found.step, len(series)) == (42 * 60, MOST_STEPS)
    assert (series[0], series[-1], sum(series)) == (5, 7, 12)


@pytest.mark.parametrize(
    "asked",
    [
        {"minutes": 0},
        {"minutes": MOST_MINUTES + 1},
        {"minutes": 1.5},
        {"minutes": True},
        {"by": "queues"},
        {"by": ""},
        {"by": []},
        {"by": ["queue", "day"]},
        {"by": None},
        {"queue": "a b"},
        {"kind": ""},
        {"namespace": "x" * 201},
    ],
    ids=str,
)
async def test_what_makes_no_sense_is_refused(past: Past, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        await past.stats(**asked)
    assert "for example" in str(caught.value)


def ended(minute: int, count: int, **more: Any) -> Sum:
    one = rollup(minute, count, **more)
    return Sum(one.minute, one.count, one.seconds, one.waits, one.runs)


def both(one: Sum, other: Sum) -> Sum:
    waits, runs = add_up([one.waits, other.waits]), add_up([one.runs, other.runs])
    return Sum(one.minute, one.count + other.count, one.seconds | other.seconds, waits, runs)


def crowded(minute: int, count: int, **more: Any) -> Sum:
    """Of jobs that others kept waiting."""
    return ended(minute, count, waited=30, **more)


def test_a_queue_that_is_always_busy_is_as_fast_as_it_was() -> None:
    pace = pace_of([crowded(minute, 18_600) for minute in (0, 60, 120)], now=180)
    assert pace == 310


def test_seconds_before_it_was_idle_do_not_count() -> None:
    """A minute with nothing to do, then ten seconds with much."""
    burst = crowded(120, 3_100, seconds=0b11_1111_1111 << 20)
    assert pace_of([crowded(0, 6), burst], now=150) == 310


def test_part_of_a_minute_counts_in_its_share() -> None:
    early, late = 0b11_1111_1111, 0b11_1111_1111 << 50
    assert pace_of([crowded(0, 200, seconds=early | late)], now=60) == 10


def test_long_jobs_are_not_fast_because_they_end_together() -> None:
    assert pace_of([crowded(0, 50, seconds=1 << 7, ran=25)], now=17) == pytest.approx(2, rel=0.3)


def test_the_pauses_between_long_jobs_are_not_idle() -> None:
    one_every_20_seconds = 1 | 1 << 20 | 1 << 40
    slow = [crowded(minute, 3, seconds=one_every_20_seconds, ran=20) for minute in (0, 60)]
    assert pace_of(slow, now=120) == pytest.approx(1 / 20, rel=0.3)


def test_nothing_has_no_pace() -> None:
    assert pace_of([], now=0) is None


@pytest.mark.parametrize(
    ("ran", "later", "pace"), [(0.02, 10, 310), (0.02, 60, None), (25, 60, 310), (25, 120, None)]
)
def test_what_has_ended_nothing_for_long_has_no_pace(
    ran: float, later: float, pace: float | None
) -> None:
    """Long for its jobs."""
    assert pace_of([crowded(0, 18_600, ran=ran)], now=59 + later) == pace


def test_a_queue_whose_jobs_did_not_wait_has_no_pace() -> None:
    """They come two a second. When a thousand come at once, that says nothing of when the last one starts."""
    assert pace_of([ended(0, 120)], now=62) is None
    few = ended(0, 60, seconds=(1 << 30) - 1)
    assert pace_of([both(few, crowded(0, 100, seconds=0b111 << 30))], now=35) is None
    pace = pace_of([both(few, crowded(0, 900, seconds=(1 << 30) - 1 << 30))], now=62)
    assert pace is not None and 15 < pace < 30


def step(start: int, count: int, *, waited: float = 30) -> Sum:
    """Ten seconds, in each of which some ended."""
    return ended(start, count, seconds=0b11_1111_1111 << start % 60, waited=waited)


def test_what_came_before_it_had_much_to_do_does_not_slow_it_down() -> None:
    """A job a second for minutes, and then as much as it can do."""
    light = [step(start, 10, waited=0.01) for start in range(0, 240, 10)]
    begins = step(240, 3_105)  # five seconds of each
    assert pace_of([*light, begins], now=257) == pytest.approx(310, rel=0.01)
    much = [step(start, 6_200) for start in (250, 260)]
    assert pace_of([*light, begins, *much], now=277) == 620
    assert pace_of([*light, begins, *much[:1]], now=267) == 620


def test_seconds_of_which_not_all_workers_have_told_do_not_count() -> None:
    """Two that do 400 a second each, since five seconds before a step ends; each tells every five seconds."""
    last_five = 0b1_1111 << 5
    first_has_told = ended(0, 1_600, seconds=last_five >> 1 & last_five, waited=2)
    assert pace_of([first_has_told], now=10) is None
    both_have = ended(0, 4_000, seconds=last_five, waited=2)
    begun = ended(10, 400, seconds=1 << 10, waited=4)
    assert pace_of([both_have, begun], now=14) is None, "the other may be late"
    assert pace_of([both_have, begun], now=17) == 800
    more = ended(10, 4_800, seconds=0b1_1111_1111 << 10, waited=8)
    assert pace_of([both_have, more], now=24) == 800
    assert pace_of([both_have, step(10, 8_000)], now=27) == 800
    done = ended(20, 80, seconds=1 << 20, waited=0.01)
    assert pace_of([both_have, step(10, 8_000), done], now=28) is None, "nobody waits any more"


def test_a_second_or_two_are_too_few_for_a_pace() -> None:
    """They began within the first of them, nobody knows when."""
    assert pace_of([crowded(0, 50, seconds=0b11 << 8)], now=17) is None
    assert pace_of([crowded(0, 500, seconds=0b11_1111_1111)], now=17) == 50


def test_the_pace_is_that_of_the_last_minute() -> None:
    """Half of its workers have gone."""
    many = [step(start, 6_000) for start in range(0, 120, 10)]
    few = [step(start, 3_000) for start in range(120, 190, 10)]
    pace = pace_of([*many, *few], now=197)
    assert pace == pytest.approx(300, rel=0.2)


async def test_the_pace_of_a_queue_is_that_of_the_last_minutes(past: Past, world: World) -> None:
    await past.add(0, 30, seconds=(1 << 30) - 1, waited=30)
    await past.add(1, 60, waited=30)
    await past.add(1, 6000, queue="reports")
    await past.add(20, 6000)
    pace = await read_pace(world.store, "mail", now=past.now)
    assert pace is not None and math.isclose(pace, 1)
    assert await read_pace(world.store, "none", now=past.now) is None


@pytest.mark.parametrize(("ran", "ago", "pace"), [(0.02, 3, None), (90, 3, 1), (90, 7, None)])
async def test_of_long_jobs_it_is_seen_for_longer_how_fast_they_were(
    past: Past, world: World, ran: float, ago: int, pace: float | None
) -> None:
    """In the last two minutes none of them had to end."""
    for earlier in (0, 1):
        await past.add(ago + earlier, 60, waited=30, ran=ran)
    assert await read_pace(world.store, "mail", now=past.now) == pace
