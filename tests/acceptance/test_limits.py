"""Limits among many processes: never overspent, whoever is killed, whatever is changed or paused meanwhile.

What the store has recorded of all attempts is swept: each start must have been within the limits of that moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec
import pytest

from acceptance.conftest import FleetMaker
from foliot.ids import JobId
from foliot.limit_commands import limit_of, set_limit
from foliot.queue_commands import pause_queue, resume_queue
from support.fleet import Fleet

RATE, BURST = 30, 5
ROUNDING = 0.001


class Lease(msgspec.Struct, frozen=True):
    """From when to when an attempt was claimed."""

    start: datetime
    end: datetime


class Setting(msgspec.Struct, frozen=True):
    """A limit, and between which moments it was set."""

    before: datetime
    after: datetime
    most: int


class Limited:
    """A fleet with limits that change, and with all that was submitted under each of them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.settings: dict[str, list[Setting]] = defaultdict(list)
        self.under: dict[str, list[JobId]] = defaultdict(list)

    def limit(self, name: str, most: int) -> None:
        before = self._now()
        limit = limit_of(name, concurrency=most)
        self.fleet.ask(lambda store: set_limit(store, limit, by="test"))
        self.settings[name].append(Setting(before, self._now(), most))

    def submit(self, calls: Iterable[object], *names: str) -> None:
        handles = self.fleet.jobs.app.submit_many(calls)  # type: ignore[arg-type]
        ids = [self.fleet.submit(handle).id for handle in handles]
        for name in names:
            self.under[name] += ids

    def leases(self, ids: Iterable[JobId]) -> list[Lease]:
        """Of all attempts: those that succeeded are in history, those that did not are kept apart."""
        wanted = set(ids)
        found = []
        for job in self.fleet.ended():
            if job.id in wanted:
                assert job.started_at is not None
                assert job.finished_at is not None
                found.append(Lease(job.started_at, job.finished_at))
                found += [
                    Lease(attempt.started_at, attempt.finished_at)
                    for attempt in self.fleet.attempts(job.id)
                    if attempt.started_at is not None
                ]
        return found

    def _now(self) -> datetime:
        return datetime.now().astimezone()


def overspent(leases: Iterable[Lease], settings: list[Setting]) -> Iterator[str]:
    """Starts at which more ran than allowed. What ran when a limit was lowered may go on; nothing may join it."""
    events = [(one.end, 0) for one in leases] + [(one.start, 1) for one in leases]
    running = 0
    for at, starts in sorted(events):
        running += 1 if starts else -1
        most = _in_force(settings, at)
        if starts and most is not None and running > most:
            yield f"{running} of {most} at {at}"


def _in_force(settings: list[Setting], at: datetime) -> int | None:
    """While it is being changed, the higher of both counts; None: before the first."""
    set_ = [one.most for one in settings if one.after <= at]
    changing = [one.most for one in settings if one.before <= at < one.after]
    last = set_[-1:]
    return max([*last, *changing]) if last else None


def too_fast(starts: list[datetime], rate: float, burst: int) -> Iterator[str]:
    """Windows with more starts than the burst and what the rate brings in them."""
    starts = sorted(starts)
    for first, begin in enumerate(starts):
        for number, end in enumerate(starts[first:], 1):
            window = (end - begin).total_seconds()
            if number > burst + rate * (window + ROUNDING):
                yield f"{number} starts in {window} s from {begin}"


@pytest.fixture
def limited(make_fleet: FleetMaker) -> Limited:
    return Limited(make_fleet(partitions=4))


def _fill(limited: Limited, scale: int) -> None:
    """Jobs under each kind of limit, mixed."""
    jobs = limited.fleet.jobs
    narrow = [jobs.nap.options(queue="narrow").prepare(0.05) for _ in range(15 * scale)]
    limited.submit(narrow, "queue:narrow")
    for number in range(5):
        key = f"customer:{number}"
        calls = [jobs.nap.options(limit_key=key).prepare(0.02) for _ in range(2 * scale)]
        limited.submit(calls, f"key:{key}")
    limited.submit([jobs.quick_sync.prepare(n) for n in range(10 * scale)], "kind:quick_sync")
    metered = [jobs.quick.options(queue="metered").prepare(n) for n in range(15 * scale)]
    limited.submit(metered, "queue:metered")
    both = jobs.quick_sync.options(queue="narrow", limit_key="customer:0")
    limited.submit(
        [both.prepare(n) for n in range(2 * scale)],
        "queue:narrow",
        "kind:quick_sync",
        "key:customer:0",
    )


def _set(limited: Limited) -> None:
    limited.limit("queue:narrow", 3)
    limited.limit("kind:quick_sync", 2)
    limited.limit("key:customer:*", 1)
    meter = limit_of("queue:metered", rate=f"{RATE}/second", burst=BURST)
    limited.fleet.ask(lambda store: set_limit(store, meter, by="test"))


def _check(limited: Limited) -> None:
    limited.fleet.wait_until_done()
    limited.fleet.check_all_succeeded()
    keys = {name: "key:customer:*" for name in limited.under if name.startswith("key:")}
    for name, ids in limited.under.items():
        if name != "queue:metered":
            settings = limited.settings[keys.get(name, name)]
            assert list(overspent(limited.leases(ids), settings)) == [], name
    starts = [one.start for one in limited.leases(limited.under["queue:metered"])]
    assert list(too_fast(starts, RATE, BURST)) == []


def _stir(limited: Limited, worker: Callable[[], None]) -> None:
    """Kill, change and pause while jobs run."""
    fleet = limited.fleet
    fleet.wait_for_starts(20, than=0)
    worker()
    limited.limit("queue:narrow", 6)
    fleet.ask(lambda store: pause_queue(store, "metered", by="test"))
    fleet.wait_for_starts(20)
    worker()
    limited.limit("queue:narrow", 1)
    limited.limit("kind:quick_sync", 1)
    fleet.ask(lambda store: resume_queue(store, "metered", by="test"))
    fleet.ask(lambda store: pause_queue(store, "narrow", by="test"))
    fleet.wait_for_starts(20)
    worker()
    fleet.ask(lambda store: resume_queue(store, "narrow", by="test"))
    limited.limit("queue:narrow", 4)
    limited.limit("key:customer:*", 2)


def test_limits_hold_while_workers_are_killed_limits_changed_and_queues_paused(
    limited: Limited,
) -> None:
    fleet = limited.fleet
    _set(limited)
    _fill(limited, 8)
    workers = fleet.scale(4)

    def kill() -> None:
        workers.append(fleet.replace(workers.pop(0)))

    _stir(limited, kill)
    _check(limited)


def test_limits_hold_in_a_file(make_fleet: FleetMaker, sqlite_url: str) -> None:
    limited = Limited(make_fleet(sqlite_url))
    fleet = limited.fleet
    _set(limited)
    _fill(limited, 4)
    workers = fleet.scale(2)

    def kill() -> None:
        workers.append(fleet.replace(workers.pop(0)))

    _stir(limited, kill)
    _check(limited)


def test_limits_of_keys_alone_hold_while_workers_are_killed(limited: Limited) -> None:
    """Decided by the database itself."""
    fleet = limited.fleet
    limited.limit("key:customer:*", 1)
    for number in range(8):
        key = f"customer:{number}"
        calls = [fleet.jobs.nap.options(limit_key=key).prepare(0.02) for _ in range(12)]
        limited.submit(calls, f"key:{key}")
    workers = fleet.scale(3)
    for most in (2, 1):
        fleet.wait_for_starts(16)
        workers.append(fleet.replace(workers.pop(0)))
        limited.limit("key:customer:*", most)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    for ids in limited.under.values():
        assert list(overspent(limited.leases(ids), limited.settings["key:customer:*"])) == []


def test_a_slot_of_a_worker_that_was_killed_is_free_again(limited: Limited) -> None:
    fleet = limited.fleet
    limited.limit("key:one", 1)
    gate = fleet.gate("open")
    calls = [fleet.jobs.gated.options(limit_key="one").prepare(str(gate)) for _ in range(3)]
    limited.submit(calls, "key:one")
    [worker] = fleet.scale(1)
    fleet.wait_for_starts(1, than=0)
    gate.touch()
    worker.pause()
    worker.kill()
    fleet.scale(1)
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert (
        list(overspent(limited.leases(limited.under["key:one"]), limited.settings["key:one"])) == []
    )


# --- the checker itself ----------------------------------------------------------------------------------------------

MOMENT = datetime.now().astimezone()


def _at(seconds: float) -> datetime:
    return MOMENT + timedelta(seconds=seconds)


def _lease(start: float, end: float) -> Lease:
    return Lease(_at(start), _at(end))


def test_the_checker_sees_one_too_many() -> None:
    settings = [Setting(_at(-2), _at(-1), 2), Setting(_at(5), _at(6), 1)]
    assert list(overspent([_lease(0, 2), _lease(1, 3), _lease(2, 4)], settings)) == []
    assert len(list(overspent([_lease(0, 2), _lease(1, 3), _lease(1.9, 4)], settings))) == 1
    assert list(overspent([_lease(3, 9), _lease(4, 9), _lease(9, 10)], settings)) == []
    assert len(list(overspent([_lease(3, 9), _lease(4, 9), _lease(8, 10)], settings))) == 1


def test_the_checker_sees_starts_that_come_too_fast() -> None:
    assert list(too_fast([_at(0), _at(0), _at(1), _at(2)], 1, 2)) == []
    assert len(list(too_fast([_at(0), _at(0), _at(0.5), _at(2)], 1, 2))) == 1


def test_nothing_is_limited_before_the_first_setting() -> None:
    assert list(overspent([_lease(0, 2)] * 5, [Setting(_at(3), _at(4), 1)])) == []
