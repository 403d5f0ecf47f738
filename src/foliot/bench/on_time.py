"""On time: real workers, which fire too, and every fire within a window compared with what the calendar says.

Lateness is the moment that a job's function begins minus the nominal time, on the store's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Final

import msgspec

from foliot.bench.fires import Fires, Record
from foliot.bench.histogram import Step, histogram, lines
from foliot.bench.probe import Probe
from foliot.bench.probe_schedules import ScheduleProbe
from foliot.bench.report import percentiles
from foliot.bench.stage import Stage, pause
from foliot.bench.workers import Workers
from foliot.errors import FoliotError

_SAMPLES: Final = 20
_LOOK: Final = 0.05
_STALLED: Final = 30.0  # seconds without a fire that is still expected
_LATE: Final = 1.5  # seconds; what is later than that is still being caught up with
_CALM: Final = 900.0  # seconds to catch up in
_AHEAD: Final = 1.0  # seconds from now to the start of the window, at least
_SHOWN: Final = 5

Due = Callable[[int], Iterable[int]]  # the numbers of the schedules that a second is the time of


class Reading(msgspec.Struct, frozen=True):
    """The store's clock beside the monotonic one."""

    offset: float  # seconds to add to the monotonic clock
    error: float


class Punctuality(msgspec.Struct, frozen=True):
    fires: int
    per_second: float
    lateness_ms: dict[str, float]
    clock_error_ms: float
    histogram: list[Step]


def read_clock(stage: Stage, probe: Probe) -> Reading:
    """The quickest of several answers is the most precise."""
    best: tuple[float, float] | None = None
    for _ in range(_SAMPLES):
        before = stage.clock.monotonic()
        now = probe.now()
        after = stage.clock.monotonic()
        took = after - before
        if best is None or took < best[0]:
            best = (took, now - (before + after) / 2)
    assert best is not None
    return Reading(best[1], best[0] / 2)


def calm_down(stage: Stage, probe: ScheduleProbe, workers: Workers) -> None:
    """Wait until nothing is late: what became due while nobody fired has been passed over."""
    since, told = stage.clock.monotonic(), False
    while probe.late(_LATE):
        if not told:
            stage.say("waiting until nothing is late")
            told = True
        workers.check()
        if stage.clock.monotonic() - since > _CALM:
            raise FoliotError(f"triggers are still late after {_CALM:g} s" + workers.said)
        pause(_LOOK * 4)


def watch(
    stage: Stage, fires: Fires, workers: Workers, window: range, due: Due, *, of: int = 0
) -> Punctuality:
    """Of all fires of this window of seconds, how late they were. Raises unless they are those that are due. Only
    schedules from the number `of` on are looked at."""
    before = read_clock(stage, stage.probe)
    expected = {(number, second) for second in window for number in due(second)}
    records: list[Record] = []
    missing = set(expected)
    moved = stage.clock.monotonic()
    while missing:
        pause(_LOOK)
        workers.check()
        left = len(missing)
        some = list(fires.more())
        records += some
        missing.difference_update((one.number, one.nominal) for one in some)
        now = stage.clock.monotonic()
        if len(missing) < left or now + before.offset < window.stop:
            moved = now
        if now - moved > _STALLED:
            break
    after = read_clock(stage, stage.probe)
    offset = (before.offset + after.offset) / 2
    error = max(before.error, after.error) + abs(before.offset - after.offset) / 2
    pause(2 * _LOOK)
    records += fires.more()
    mine = [one for one in records if one.nominal in window and one.number >= of]
    found = [one.began + offset - one.nominal for one in mine]
    try:
        check_fires(expected, mine, found, error=error)
    except FoliotError as wrong:
        raise FoliotError(wrong.message + workers.said) from wrong
    report = _report(found, len(window), error)
    for line in lines(report.histogram):
        stage.say(line)
    return report


def check_fires(
    expected: set[tuple[int, int]],
    records: Sequence[Record],
    lateness: Sequence[float],
    *,
    error: float,
) -> None:
    """None early, none twice, none missed, and none that was not due."""
    seen: set[tuple[int, int]] = set()
    twice: list[tuple[int, int]] = []
    for one in records:
        key = (one.number, one.nominal)
        if key in seen:
            twice.append(key)
        seen.add(key)
    early = [
        (one.number, one.nominal)
        for one, late in zip(records, lateness, strict=True)
        if late < -error
    ]
    wrong = {
        "missed": sorted(expected - seen),
        "twice": twice,
        "early": early,
        "not due": sorted(seen - expected),
    }
    if not any(wrong.values()):
        return
    told = "; ".join(
        f"{len(keys):,} {name}: "
        + ", ".join(f"schedule {number} at {nominal}" for number, nominal in keys[:_SHOWN])
        for name, keys in wrong.items()
        if keys
    )
    raise FoliotError(f"of {len(expected):,} fires {told}")


def _report(lateness: Sequence[float], seconds: int, error: float) -> Punctuality:
    if not lateness:
        raise FoliotError("nothing was due within the window")
    milliseconds = [late * 1000 for late in lateness]
    return Punctuality(
        len(lateness),
        round(len(lateness) / seconds, 1),
        {**percentiles(lateness), "max": round(max(milliseconds), 3)},
        round(error * 1000, 3),
        histogram(milliseconds),
    )


def next_window(stage: Stage, seconds: int) -> range:
    start = ceil(stage.probe.now() + _AHEAD)
    return range(start, start + seconds)
