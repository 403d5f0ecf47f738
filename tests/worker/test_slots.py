"""What comes in leaves as exactly one outcome, whatever the functions do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from foliot.errors import Cancel
from foliot.model.job import End
from foliot.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
MakeBench = Callable[..., Any]


class Silent(Exception):
    """Cannot be described."""

    def __str__(self) -> str:
        raise KeyError("no text")


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - threads answer when they like
        await asyncio.sleep(0.001)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end: threads that hang would outlive their test."""
    gate = threading.Event()
    yield gate
    gate.set()


async def test_a_timeout_that_makes_room_for_a_new_timeout_keeps_the_alarm(
    make_bench: MakeBench, clock: ManualClock, gate: threading.Event
) -> None:
    def hang() -> None:
        gate.wait()

    bench = make_bench(hang, threads=8, concurrency=8)
    bench.add(bench.job("hang", timeout=1), bench.job("hang", timeout=2))
    clock.advance(1)
    waiting = bench.job("hang", timeout=3)
    bench.slots._backlog.append(waiting)
    bench.slots._waits_since[waiting.id] = 0.0
    bench.slots.attempts._timeouts.ring()
    assert [outcome.reason for outcome in bench.done] == ["timed_out"]
    assert waiting.id in bench.slots.executing
    clock.advance(3)
    bench.slots.attempts._timeouts.ring()
    assert [outcome.reason for outcome in bench.done] == ["timed_out"] * 3


async def test_an_alarm_that_fails_is_set_again(
    make_bench: MakeBench, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep() -> None:
        await asyncio.Event().wait()

    bench = make_bench(sleep)
    bench.add(bench.job("sleep", timeout=1), bench.job("sleep", timeout=2))
    timeouts = bench.slots.attempts._timeouts

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(timeouts, "_on_late", fail)
    clock.advance(1)
    with pytest.raises(RuntimeError):
        timeouts.ring()
    assert timeouts._alarm is not None
    bench.slots.attempts.interrupt_all()


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_exception_that_cannot_be_described_ends_the_attempt(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise TypeError("cannot be described")

    monkeypatch.setattr("foliot.worker.attempts.failure", broken)

    async def fail() -> None:
        raise ValueError

    def fail_sync() -> None:
        raise ValueError

    bench = make_bench(fail, fail_sync)
    bench.add(bench.job("fail" if is_async else "fail_sync"))
    await until(lambda: bench.done)
    [outcome] = bench.done
    assert (outcome.end, outcome.reason) == (End.RETRY, "failed")
    assert outcome.error == "ValueError, and TypeError when it was described"
    assert not bench.slots.executing


@pytest.mark.parametrize("reason", [ValueError("x"), Silent()])
async def test_a_cancel_with_any_reason_ends_the_attempt(
    make_bench: MakeBench, reason: Exception
) -> None:
    def give_up() -> None:
        error = Cancel()
        error.reason = reason  # type: ignore[assignment]
        raise error

    bench = make_bench(give_up)
    bench.add(bench.job("give_up"))
    await until(lambda: bench.done)
    assert not bench.slots.executing


async def test_what_is_left_behind_occupies_its_slot_until_it_ends(
    make_bench: MakeBench, clock: ManualClock, gate: threading.Event
) -> None:
    def hang() -> None:
        gate.wait()

    bench = make_bench(hang, threads=2, concurrency=50)
    bench.add(bench.job("hang", timeout=1), bench.job("hang", timeout=1))
    assert not bench.slots.worn_out
    clock.advance(1)
    bench.slots.attempts._timeouts.ring()
    assert len(bench.done) == 2
    assert (bench.slots.stuck_threads, bench.slots.room(0)) == (2, 0)
    assert bench.slots.worn_out
    gate.set()
    await until(lambda: bench.slots.stuck_threads == 0)
    assert bench.slots.room(0) == 2
    assert len(bench.done) == 2


async def test_what_is_left_behind_is_counted_while_it_ends(make_bench: MakeBench) -> None:
    """The heartbeat's thread counts, the event loop's goes on: it must not end the heartbeat."""
    bench = make_bench()
    behind = bench.slots.attempts.behind

    class Ending:
        @property
        def task(self) -> None:
            behind.discard(self)

    behind.update(Ending() for _ in range(3))
    assert bench.slots.stuck_threads == 3
    assert not behind


async def test_what_waits_in_vain_is_given_back(
    make_bench: MakeBench, clock: ManualClock, gate: threading.Event
) -> None:
    def hang() -> None:
        gate.wait()

    async def quick() -> None:
        pass

    bench = make_bench(hang, quick, threads=1, concurrency=50)
    bench.add(*[bench.job("hang") for _ in range(10)])
    clock.advance(1)
    bench.slots.tend()
    assert bench.done == []
    clock.advance(2)
    bench.slots.tend()
    assert [outcome.end for outcome in bench.done] == [End.RELEASE] * 9
    assert bench.slots.room(0) == 0, "it would only take the same jobs again"
    clock.advance(2)
    assert bench.slots.room(0) == 49


async def test_what_is_asked_to_end_before_it_has_started_is_given_back_for_the_store_to_end(
    make_bench: MakeBench,
) -> None:
    """A workflow may run for it, which ends before it. Who waits for it is told."""

    async def work() -> None:
        await asyncio.Event().wait()

    bench = make_bench(work, concurrency=1)
    starting, waiting = bench.job("work"), bench.job("work")
    bench.add(starting, waiting)
    bench.slots.cancel({starting.id, waiting.id})
    assert {outcome.id for outcome in bench.done} == {starting.id, waiting.id}
    assert [(outcome.end, outcome.reason) for outcome in bench.done] == [
        (End.RELEASE, "cancelled")
    ] * 2
    assert all(outcome.final for outcome in bench.done)


async def test_a_task_that_ignores_its_cancellation_is_left_behind(
    make_bench: MakeBench, clock: ManualClock
) -> None:
    ignored = asyncio.Event()
    end = asyncio.Event()

    async def stubborn() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                ignored.set()

    bench = make_bench(stubborn, concurrency=1)
    job = bench.job("stubborn")
    bench.add(job)
    await asyncio.sleep(0)
    bench.slots.cancel({job.id})
    await ignored.wait()
    bench.slots.tend()
    assert bench.done == []
    clock.advance(6)
    bench.slots.tend()
    assert [(outcome.end, outcome.reason) for outcome in bench.done] == [(End.RETRY, "abandoned")]
    assert not bench.slots.executing
    assert bench.slots.room(0) == 0
    end.set()
    await until(lambda: bench.slots.room(0) == 1)
    assert len(bench.done) == 1


async def test_a_job_that_cannot_be_started_goes_back(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        pass

    def no_thread(_: object) -> None:
        raise RuntimeError("can't start new thread")

    bench = make_bench(work, threads=4)
    monkeypatch.setattr("foliot.worker.executors.thread.threading.Thread.start", no_thread)
    bench.add(bench.job("work"), bench.job("work"))
    assert [outcome.end for outcome in bench.done] == [End.RELEASE] * 2
    assert not bench.slots.executing
