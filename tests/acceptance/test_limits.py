"""Limits among many processes: never overspent, whoever is killed, whatever is changed or paused meanwhile.

What the store has recorded of all attempts is swept: each start must have been within the limits of that moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from acceptance.conftest import FleetMaker
from foliot.ids import JobId
from foliot.limit_commands import limit_of, set_limit
from foliot.queue_commands import pause_queue, resume_queue
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet

ROUNDING = 0.001


class Lease(msgspec.Struct, frozen=True):
    """From when to when an attempt was claimed."""

    start: datetime
    end: datetime


class Setting(msgspec.Struct, frozen=True):
    """A limit, and between which moments it was set."""

    before: datetime
    after: datetime
    most: int | None = None
    rate: float | None = None  # each second
    burst: int = 1


class Limited:
    """A fleet with limits that change, and with all that was submitted under each of them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.settings: dict[str, list[Setting]] = defaultdict(list)
        self.under: dict[str, list[JobId]] = defaultdict(list)

    def limit(
        self, name: str, most: int | None = None, rate: str | None = None, burst: int | None = None
    ) -> None:
        before = self._now()
        limit = limit_of(name, concurrency=most, rate=rate, burst=burst)
        self.fleet.ask(lambda store: set_limit(store, limit, by="test"))
        setting = Setting(before, self._now(), most, limit.each_second, limit.burst)
        self.settings[name].append(setting)

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
    allowed = [*set_[-1:], *changing] if set_ else [None]
    return None if None in allowed else max(most for most in allowed if most is not None)


def too_fast(starts: list[datetime], settings: list[Setting]) -> Iterator[str]:
    """Windows with more starts than a burst and what the rates bring in them. The time since the last start counts by
    the rate that is in force at the next."""
    starts = sorted(starts)
    ends = [*(one.after for one in settings[1:]), datetime.max.replace(tzinfo=UTC)]
    paces = [
        (max((at for at in starts if at <= one.before), default=one.before), end, one)
        for one, end in zip(settings, ends, strict=True)
    ]
    for first, begin in enumerate(starts):
        for number, end in enumerate(starts[first:], 1):
            met = [
                ((min(end, until) - max(begin, since)).total_seconds() + ROUNDING, one)
                for since, until, one in paces
                if begin <= until and since <= end
            ]
            if any(one.rate is None for _, one in met):
                continue
            brought = sum(one.rate * seconds for seconds, one in met if one.rate is not None)
            if number > max((one.burst for _, one in met), default=number) + brought:
                yield f"{number} starts in {(end - begin).total_seconds()} s from {begin}"


@pytest.fixture
def limited(make_fleet: FleetMaker, server: TemporaryPostgres) -> Iterator[Limited]:
    before = len(server.log_text())
    yield Limited(make_fleet(partitions=4))
    assert "deadlock detected" not in server.log_text()[before:]


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
    shop = [jobs.nap.options(namespace="shop").prepare(0.02) for _ in range(8 * scale)]
    limited.submit(shop, "namespace:shop")
    both = jobs.quick_sync.options(queue="narrow", limit_key="customer:0")
    limited.submit(
        [both.prepare(n) for n in range(2 * scale)],
        "queue:narrow",
        "kind:quick_sync",
        "key:customer:0",
    )


def _set(limited: Limited) -> None:
    limited.limit("queue:narrow", 3)
    limited.limit("kind:quick_sync", 2, "50/second", 3)
    limited.limit("namespace:shop", 3, "1800/minute", 4)
    limited.limit("key:customer:*", 1, "20/second", 2)
    limited.limit("queue:metered", rate="30/second", burst=5)


def _check(limited: Limited) -> None:
    limited.fleet.wait_until_done()
    limited.fleet.check_all_succeeded()
    keys = {name: "key:customer:*" for name in limited.under if name.startswith("key:")}
    for name, ids in limited.under.items():
        settings, leases = limited.settings[keys.get(name, name)], limited.leases(ids)
        assert list(overspent(leases, settings)) == [], name
        assert list(too_fast([one.start for one in leases], settings)) == [], name


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
    limited.limit("kind:quick_sync", 1, "2400/minute", 2)
    limited.limit("queue:metered", rate="50/second", burst=8)
    fleet.ask(lambda store: resume_queue(store, "metered", by="test"))
    fleet.ask(lambda store: pause_queue(store, "narrow", by="test"))
    fleet.wait_for_starts(20)
    worker()
    fleet.ask(lambda store: resume_queue(store, "narrow", by="test"))
    limited.limit("queue:narrow", 4)
    limited.limit("namespace:shop", 2, "20/second", 2)
    limited.limit("key:customer:*", 2, "1800/minute", 3)


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
    settings = [Setting(_at(-2), _at(-1), rate=1, burst=2)]
    assert list(too_fast([_at(0), _at(0), _at(1), _at(2)], settings)) == []
    assert len(list(too_fast([_at(0), _at(0), _at(0.5), _at(2)], settings))) == 1


def test_the_checker_sees_starts_that_come_too_fast_when_a_rate_has_changed() -> None:
    faster = [Setting(_at(-2), _at(-1), rate=1, burst=2), Setting(_at(2), _at(2), rate=4, burst=2)]
    assert list(too_fast([_at(0), _at(0), _at(1), *[_at(2.01)] * 2, _at(2.5)], faster)) == []
    assert list(too_fast([_at(0), _at(0), *[_at(1.5)] * 2], faster)) != []
    assert list(too_fast([_at(0), _at(0), _at(1.9), *[_at(2.1)] * 2], faster)) != []
    slower = [Setting(_at(-2), _at(-1), rate=4, burst=2), Setting(_at(2), _at(2), rate=1, burst=1)]
    assert list(too_fast([_at(1), _at(1), _at(1.5), _at(3), _at(4)], slower)) == []
    assert len(list(too_fast([_at(1), _at(1), _at(1.5), _at(3), _at(3.4)], slower))) == 1


def test_any_number_starts_while_no_rate_is_set() -> None:
    settings = [
        Setting(_at(-2), _at(-1), rate=1),
        Setting(_at(1), _at(1), 5),
        Setting(_at(3), _at(3), rate=1),
    ]
    assert list(too_fast([_at(0), *[_at(2)] * 9, _at(4)], settings)) == []
    assert len(list(too_fast([_at(0), *[_at(2)] * 9, _at(4), _at(4.5)], settings))) == 1


def test_nothing_is_limited_before_the_first_setting() -> None:
    assert list(overspent([_lease(0, 2)] * 5, [Setting(_at(3), _at(4), 1)])) == []
