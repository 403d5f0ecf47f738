"""Any number of schedulers at once: every nominal time is answered once, and the work is divided."""

from __future__ import annotations

import time

import pytest

from acceptance.conftest import FleetMaker
from support.calendar_checker import CalendarChecker
from support.fleet import Fleet

PLAIN = ("* * * * * *", "*/2 * * * * *", "every 3 seconds", "1-59/2 * * * * *")
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns")


def make_schedules(fleet: Fleet, count: int = 24) -> list[str]:
    """Plain ones and such that look at their own runs, in several zones."""
    drafts = [
        fleet.jobs.app.draft(
            f"s{number}",
            fleet.jobs.quick.prepare(number),
            PLAIN[number % len(PLAIN)],
            timezone=ZONES[number % len(ZONES)],
            overlap=("allow", "skip", "buffer_one")[number // 4 % 3],
        )
        for number in range(count)
    ]
    return [handle.name for handle in fleet.jobs.app.schedule_many(drafts)]


def test_schedulers_started_at_the_same_instant_answer_every_time_once(
    make_fleet: FleetMaker,
) -> None:
    fleet = make_fleet(partitions=8)
    names = make_schedules(fleet)
    for _ in range(5):
        fleet.start_scheduler()
    fleet.start("--no-scheduler")
    fleet.wait_for("start", count=40)
    time.sleep(2)
    checker = CalendarChecker(fleet)
    until = checker.settle()
    answers = checker.check(names, until=until)
    assert all(len(one) >= 1 for one in answers.values())
    # The checker itself sees a job that is lost, one of a wrong time, and one that is early.
    lost, wrong, early = (
        next(run for run in checker.runs()[name] if run.started_at) for name in names[:3]
    )
    checker.tables.ask(f"DELETE FROM @history WHERE id = '{lost.id}'")
    checker.tables.ask(
        f"UPDATE @history SET extras = replace(extras, '{wrong.nominal}', '1') WHERE id = '{wrong.id}'"
    )
    changed = checker.tables.earlier("created_at", 60)
    checker.tables.ask(f"UPDATE @history SET created_at = {changed} WHERE id = '{early.id}'")
    for name in names[:3]:
        with pytest.raises(AssertionError):
            checker.check([name], until=until)
    checker.check(names[3:], until=until)
