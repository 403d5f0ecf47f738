"""Schedulers share the work; who dies leaves its share to the others; a herd delays nobody else."""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import count, islice
from typing import LiteralString
from zoneinfo import available_timezones

import pytest

from acceptance.conftest import FleetMaker
from foliot.ids import partition_of, schedule_id
from support.calendar_checker import CalendarChecker, Run
from support.fire_gate import FireGate, FireNotes, named
from support.fleet import Fleet, WorkerProcess, eventually

TERM = 1.5
HERD = 20_000
# A herd takes its time, and is held up in its middle.
SLOW_HERD: LiteralString = """
    IF NEW.priority = 3 THEN
        CASE nextval('public.fires')
            WHEN 2500, 5000, 7500, 10000 THEN PERFORM pg_sleep(0.3);
            WHEN 12000 THEN PERFORM pg_advisory_xact_lock_shared(42);
            ELSE NULL;
        END CASE;
    END IF;
"""


class Herd:
    """Many schedules on one trigger, due at one instant; others on triggers of their own, due every second."""

    def __init__(self, fleet: Fleet, due: int) -> None:
        app, job = fleet.jobs.app, fleet.jobs.quick
        low = job.options(priority=3).prepare(0)
        at = f"{due % 60} * * * * *"
        self.due = due
        self.small = [f"small-{number}" for number in range(50)]
        self.many = [f"herd-{number}" for number in range(HERD)]
        zones = sorted(available_timezones() - {"localtime", "Factory"})[::10]
        drafts = [
            app.draft(name, job.prepare(0), "* * * * * *", timezone=zone, overlap="allow")
            for name, zone in zip(self.small, zones, strict=False)
        ]
        drafts += [app.draft(name, low, at, overlap="allow") for name in self.many]
        app.schedule_many(drafts)

    def check(self, checker: CalendarChecker, killed_at: float, until: float) -> None:
        runs = checker.runs()
        nominal = {name: [run.nominal for run in runs[name]] for name in self.many}
        assert all(times == [self.due] for times in nominal.values())
        self._check_order(runs, killed_at)
        checker.check([*self.small, *self.many[:10]], until=until)

    def _check_order(self, runs: dict[str, list[Run]], killed_at: float) -> None:
        """Those of others that became due during the herd were made at most one chunk later."""
        chunks = {run.made_at for name in self.many for run in runs[name]}
        meanwhile = [
            run
            for name in self.small
            for run in runs[name]
            if run.nominal is not None and self.due < run.nominal and run.made_at < killed_at
        ]
        assert len(meanwhile) >= len(self.small)
        for run in meanwhile:
            assert run.nominal is not None
            between = [one for one in chunks if run.nominal < one < run.made_at]
            assert len(between) <= 1, f"{run} waited for {len(between)} chunks of a herd"


@pytest.fixture
def shared(make_fleet: FleetMaker) -> Fleet:
    return make_fleet(partitions=8, scheduler_term=f"{TERM}s")


def test_four_schedulers_fire_a_quarter_each_and_the_share_of_a_dead_one_moves(
    shared: Fleet,
) -> None:
    fleet, checker = shared, CalendarChecker(shared)
    app, job = fleet.jobs.app, fleet.jobs.quick.prepare(0)
    names = [name for partition in range(8) for name in names_of(partition, 4)]
    app.schedule_many([app.draft(name, job, "* * * * * *", overlap="allow") for name in names])
    schedulers = start_schedulers(fleet, "abcd")
    fleet.start("--no-scheduler")
    eventually(lambda: list(leases(checker).values()) == [2, 2, 2, 2], what=fleet.logs)
    with FireNotes(fleet.url) as notes:
        time.sleep(3)
        fired = notes.fired()
        for name in schedulers:
            assert 0.15 <= fired[name] / fired.total() <= 0.35, fired
        dead = schedulers["a"]
        killed_at = checker.now()
        dead.kill()
        eventually(lambda: is_served_without(checker, dead.pid), what=fleet.logs)
        moved = checker.settle()
    checker.check(names)
    late = [
        run.made_at - run.nominal
        for some in checker.runs().values()
        for run in some
        if run.nominal is not None and killed_at <= run.nominal <= moved
    ]
    # A lease runs out a term after it was last extended, and the others look thrice in a term: 7 s for one of 5 s.
    assert max(late) <= 7 / 5 * TERM + 1


def test_a_herd_delays_others_by_a_chunk_at_most_and_goes_on_where_a_dead_one_stopped(
    make_fleet: FleetMaker,
) -> None:
    fleet = make_fleet(scheduler_term=f"{TERM}s")
    checker = CalendarChecker(fleet)
    fleet.start("--no-scheduler", "--queues", "none")
    with FireGate(fleet.url, SLOW_HERD) as gate:
        schedulers = start_schedulers(fleet, "ab")
        for scheduler in schedulers.values():
            fleet.wait_for_session(scheduler)
        gate.shut()
        herd = Herd(fleet, int(checker.now()) + 5)
        assert checker.now() < herd.due, "too slow to be there when they are due"
        firing = schedulers[gate.wait_for_one()]
        killed_at = checker.now()
        firing.kill()
        gate.open()
        eventually(lambda: count_fired(checker) == HERD, what=fleet.logs)
        settled = checker.settle()
        for scheduler in schedulers.values():
            scheduler.kill()
    herd.check(checker, killed_at, settled)  # nobody fires what has become due since


def start_schedulers(fleet: Fleet, names: str) -> dict[str, WorkerProcess]:
    return {name: fleet.start_scheduler(url=named(fleet.url, name)) for name in names}


def names_of(partition: int, number: int) -> list[str]:
    """Names whose schedules are of this partition of eight."""
    every = (f"s{n}" for n in count())
    mine = (name for name in every if partition_of(schedule_id("default", name), 8) == partition)
    return list(islice(mine, number))


def leases(checker: CalendarChecker) -> dict[int, int]:
    """How many partitions each process holds."""
    held: dict[int, int] = defaultdict(int)
    for (pid,) in checker.tables.ask(
        "SELECT s.pid FROM @leases l JOIN @sessions s ON s.id = l.holder WHERE l.expires_at > now()"
    ):
        held[pid] += 1
    return held


def is_served_without(checker: CalendarChecker, pid: int) -> bool:
    held = leases(checker)
    return sum(held.values()) == 8 and pid not in held


def count_fired(checker: CalendarChecker) -> int:
    [(number,)] = checker.tables.ask("SELECT count(*) FROM @jobs WHERE priority = 3")
    return int(number)
