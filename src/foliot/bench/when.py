"""Expressions: how long it takes to find the next fire, over a corpus of cron expressions in many zones.

No store is needed. Where croniter is installed it does the same in the same run, for what both can read.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from statistics import median
from zoneinfo import ZoneInfo

import msgspec

from foliot import __version__
from foliot.bench.stage import Say
from foliot.clock import SystemClock
from foliot.when import Timetable, parse, tzdata_version

try:
    from croniter import croniter
except ImportError:  # it is no dependency, only a measure
    croniter = None

_START = 1_767_225_600  # 2026-01-01
_PEER_FIRES = 20  # croniter is given fewer: it takes its time

ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Pacific/Chatham",
)

EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "7-59/10 * * * *",
    "0 * * * *",
    "30 */2 * * *",
    "0 0 * * *",
    "30 2 * * *",
    "15 3,15 * * *",
    "0 9 * * 1-5",
    "*/10 9-17 * * 1-5",
    "0 8 * * 1",
    "0 12 * * 0,6",
    "0 0 1 * *",
    "0 0 1,15 * *",
    "0 6 L * *",
    "0 0 13 * 5",
    "0 17 * * 5#1",
    "0 17 * * 5#3",
    "0 0 1 1 *",
    "0 0 1 */3 *",
    "0 4 8-14 * *",
    "23 0-20/2 * * *",
    "5 4 * * 0",
    "0 0 29 2 *",
    "0 0 31 * *",
    "59 23 31 12 *",
    "0 22 * * 1-5",
    "*/20 * * * * *",
    "15 30 4 * * *",
    "30 */5 * * * *",
    "0 0 12 1 * *",
)
OURS_ALONE = ("0 9 15W * *", "0 9 LW * *", "0 0 L-2 * *", "0 17 * * 5L", "0 9 1W 1,4,7,10 *")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    fires: int = 200
    runs: int = 5


def when(plan: Plan, say: Say) -> dict[str, object]:
    clock = SystemClock().monotonic
    for zone in ZONES:  # read once, as a scheduler does
        parse("* * * * *", timezone=zone).timetable().next_after(_START)
    pairs = [(text, zone) for text in (*EXPRESSIONS, *OURS_ALONE) for zone in ZONES]
    say(f"{len(pairs):,} expressions and zones")
    compiled = {pair: _timed(clock, partial(_compile, *pair), 1) for pair in pairs}
    found = {pair: _median(clock, plan, _compile(*pair)) for pair in pairs}
    ordered = sorted(found.values())
    report: dict[str, object] = {
        "bench": "when",
        "next_fire_us": {
            "median": round(median(ordered), 3),
            "p95": round(ordered[len(ordered) * 95 // 100], 3),
            "most": round(ordered[-1], 3),
        },
        "compile_us": round(median(compiled.values()), 1),
    }
    if croniter is not None:
        say("the same with croniter")
        report |= _beside_croniter(clock, found)
    return {
        **report,
        "expressions": len(EXPRESSIONS) + len(OURS_ALONE),
        "zones": len(ZONES),
        "settings": msgspec.structs.asdict(plan),
        "versions": {
            "foliot": __version__,
            "python": platform.python_version(),
            "tzdata": tzdata_version(),
        },
        "cpus": os.cpu_count(),
    }


def _compile(text: str, zone: str) -> Timetable:
    return parse(text, timezone=zone).timetable()


def _median(clock: Callable[[], float], plan: Plan, timetable: Timetable) -> float:
    """Microseconds for one fire."""

    def walk() -> None:
        moment = _START
        next_after = timetable.next_after
        for _ in range(plan.fires):
            found = next_after(moment)
            moment = _START if found is None else found  # a rare one comes to its end: again

    return median(_timed(clock, walk, plan.fires) for _ in range(plan.runs))


def _timed(clock: Callable[[], float], work: Callable[[], object], steps: int) -> float:
    before = clock()
    work()
    return (clock() - before) / steps * 1e6


def _beside_croniter(
    clock: Callable[[], float], found: dict[tuple[str, str], float]
) -> dict[str, object]:
    times = {}
    for text in EXPRESSIONS:
        for zone in ZONES:
            start = datetime.fromtimestamp(_START, UTC).astimezone(ZoneInfo(zone))
            peer = croniter(text, start, second_at_beginning=True)

            def walk(peer: croniter = peer) -> None:
                for _ in range(_PEER_FIRES):
                    peer.get_next(float)

            times[text, zone] = _timed(clock, walk, _PEER_FIRES)
    ours = median(found[pair] for pair in times)
    theirs = median(times.values())
    return {
        "croniter_us": round(theirs, 1),
        "times_faster": round(theirs / ours, 1),
        "times_faster_each": round(median(times[pair] / found[pair] for pair in times), 1),
    }
