"""What people do to schedules while these fire: nothing is lost, nothing is doubled, nothing is mistaken."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acceptance.conftest import FleetMaker
from foliot.client.schedule_handle import ScheduleHandle
from foliot.model.schedule import Reason
from support.calendar_checker import CalendarChecker, Span, times_of
from support.fleet import Fleet

SECONDS = 3.0
EXPRESSIONS = ("* * * * * *", "*/2 * * * * *", "every 3 seconds", "1-59/2 * * * * *")


def test_edits_pauses_and_deletions_racing_with_fires(make_fleet: FleetMaker) -> None:
    fleet = make_fleet(partitions=8)
    app, checker = fleet.jobs.app, CalendarChecker(fleet)
    began = checker.now()
    kept = [make(fleet, f"kept-{n}", overlap=("allow", "skip")[n % 2]) for n in range(8)]
    renewed = [make(fleet, f"renewed-{n}", overlap=("allow", "skip")[n % 2]) for n in range(4)]
    for _ in range(3):
        fleet.start_scheduler()
    fleet.start("--no-scheduler")
    fleet.wait_for("start")

    def renew(handle: ScheduleHandle, _: random.Random) -> None:
        handle.delete()
        make(fleet, handle.name)

    with ThreadPoolExecutor(len(kept) + len(renewed)) as pool:
        racing = [pool.submit(race, handle, disturb) for handle in kept]
        racing += [pool.submit(race, handle, renew) for handle in renewed]
        for one in racing:
            one.result()
    for handle in kept:
        handle.resume()
    time.sleep(1.1)
    answers = checker.check([handle.name for handle in kept])
    reasons = {one.reason for some in answers.values() for one in some.values()}
    assert {None, Reason.PAUSED} <= reasons
    # Of those that were deleted and made again, all jobs are left, and the past since the last time.
    runs = checker.runs()
    every_second = Span(began, None, EXPRESSIONS[0], "UTC")
    for handle in renewed:
        times = times_of(every_second, until=checker.now())
        assert len(checker.check_runs(runs[handle.name], times)) > 1
        assert app.get_schedule(handle.name).fires() is not None


def make(fleet: Fleet, name: str, overlap: Any = "allow") -> ScheduleHandle:
    job = fleet.jobs.quick.prepare(0)
    return fleet.jobs.app.schedule(name, job, EXPRESSIONS[0], overlap=overlap)


def race(handle: ScheduleHandle, act: Callable[[ScheduleHandle, random.Random], None]) -> None:
    chance = random.Random()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        act(handle, chance)
        time.sleep(chance.random() * 0.3)


def disturb(handle: ScheduleHandle, chance: random.Random) -> None:
    match chance.randrange(4):
        case 0 | 1:
            handle.update(expression=chance.choice(EXPRESSIONS))
        case 2:
            handle.pause()
        case 3:
            handle.resume()


def test_a_run_by_hand_just_before_a_nominal_time_is_not_taken_for_it(any_fleet: Fleet) -> None:
    fleet = any_fleet
    app, checker = fleet.jobs.app, CalendarChecker(fleet)
    gate = fleet.gate("open")
    plain = make(fleet, "plain")
    busy = app.schedule("busy", fleet.jobs.gated.prepare(str(gate)), "*/2 * * * * *")
    fleet.start()
    fleet.wait_for("start")
    gate.touch()
    now = checker.now()
    nominal = int(now) // 2 * 2 + 4
    time.sleep(nominal - 0.9 - now)
    checker.settle()
    gate.unlink()
    time.sleep(max(0.0, nominal - 0.4 - checker.now()))
    by_hand = [plain.trigger(), busy.trigger()]
    asked = checker.now()
    time.sleep(max(0.0, nominal + 1.1 - checker.now()))
    answers = checker.check(["plain", "busy"])
    gate.touch()
    assert asked < nominal, "this machine was too slow"
    runs = checker.runs()
    for handle, name in zip(by_hand, ("plain", "busy"), strict=True):
        assert handle is not None
        [own] = [run for run in runs[name] if run.nominal is None]
        assert own.id == handle.id
        assert own.id not in {answer.job for answer in answers[name].values()}
    assert answers["plain"][nominal].job
    assert answers["busy"][nominal].reason is Reason.OVERLAP
