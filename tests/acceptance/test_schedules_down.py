"""All schedulers down for three hours: what was missed is made up for as each schedule wants it.

The three hours have not passed: what is stored of times is moved back by as much, while nobody looks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from foliot.model.schedule import Answer, Reason
from support.calendar_checker import CalendarChecker
from support.fleet import Fleet, eventually

HOURS = 3 * 3600
SHIFTED = {"triggers": ("next_fire_at",), "schedules": ("since", "active_from", "created_at")}
RATE = 20
POLICIES: dict[str, dict[str, Any]] = {
    "skip": {"misfire": "skip"},
    "latest": {"misfire": "latest"},
    "too-late": {"misfire": "latest", "misfire_window": "10m"},
    "all": {"misfire": "all"},
    "last-hour": {"misfire": "all", "misfire_window": "1h"},
    "slowly": {"misfire": "all", "catchup_rate": RATE},
}


def test_what_was_missed_in_three_hours_is_answered_by_each_policy(any_fleet: Fleet) -> None:
    fleet = any_fleet
    checker = CalendarChecker(fleet)
    half_past = f"0 {(datetime.now(UTC).minute + 30) % 60} * * * *"
    names = []
    for policy, options in POLICIES.items():
        for overlap in ("allow", "skip", "buffer_all"):
            name = f"{policy}-{overlap}"
            expression = half_past if policy == "too-late" else "0 */10 * * * *"
            job = fleet.jobs.quick.prepare(0)
            fleet.jobs.app.schedule(name, job, expression, overlap=overlap, **options)
            names.append(name)
    for table, columns in SHIFTED.items():
        changes = ", ".join(f"{one} = {checker.tables.earlier(one, HOURS)}" for one in columns)
        checker.tables.ask(f"UPDATE @{table} SET {changes}")
    began = checker.now()
    fleet.scale(2)
    eventually(lambda: checker.tables.ask("SELECT 1 FROM @gaps"), what=fleet.logs)
    until = checker.settle()
    eventually(lambda: not checker.tables.ask("SELECT 1 FROM @jobs"), what=fleet.logs)
    answers = checker.check(names, until=until)
    missed = {
        name: {at: answer for at, answer in one.items() if at < began}
        for name, one in answers.items()
    }
    check_plain(missed, began=began, ended=checker.now())
    check_rate(checker, len(missed["slowly-allow"]))
    # A run that waits for another is a run all the same; one that may not follow says so.
    assert all(one.job for one in missed["all-buffer_all"].values())
    assert {one.reason for one in missed["all-skip"].values()} <= {None, Reason.OVERLAP}


def check_plain(missed: dict[str, dict[int, Answer]], *, began: float, ended: float) -> None:
    """Of the schedules that look at no earlier run, whose answers follow from the policy alone."""
    assert {len(missed[f"{name}-allow"]) for name in ("skip", "latest", "all")} == {18}
    assert {one.reason for one in missed["skip-allow"].values()} == {Reason.MISFIRE}
    *others, last = missed["latest-allow"].values()
    assert last.job is not None
    assert {(one.reason, one.into) for one in others} == {(Reason.COALESCED, last.job)}
    assert {one.reason for one in missed["too-late-allow"].values()} == {Reason.MISFIRE}
    assert all(one.job for one in missed["all-allow"].values())
    assert all(one.job for one in missed["slowly-allow"].values())
    for at, one in missed["last-hour-allow"].items():
        assert one.job is None or at >= began - 3600
        assert one.reason is None or (at < ended - 3600 and one.reason is Reason.MISFIRE)


def check_rate(checker: CalendarChecker, count: int) -> None:
    starts = sorted(run.started_at or 0 for run in checker.runs()["slowly-allow"])[:count]
    assert starts[-1] - starts[0] >= (count - 1) / RATE - 0.01
