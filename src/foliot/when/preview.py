"""What an expression will do: its next fires in UTC and on the wall, and every clock change among them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

from msgspec import Struct

from foliot.errors import InvalidValue
from foliot.when.civil import DAY, show_wall
from foliot.when.expression import Expression
from foliot.when.forms import Cron
from foliot.when.timetable import Timetable
from foliot.when.wall import DstGap, DstOverlap, WallTimetable
from foliot.when.zones import Zone, load_zone

MOST = 10_000
_LONG_AHEAD = 400 * DAY
_FIXED = frozenset({"EST", "MST", "HST"})


class Fire(Struct, frozen=True):
    """`note`: what a clock change does to it."""

    at: datetime
    local: datetime
    note: str | None = None


class ClockChange(Struct, frozen=True):
    """Offsets are in seconds east of UTC."""

    at: datetime
    before: int
    after: int
    english: str


class Preview(Struct, frozen=True):
    text: str
    english: str
    timezone: str
    fires: list[Fire]
    changes: list[ClockChange]
    warnings: list[str]


def preview(
    expression: Expression,
    *,
    after: int,
    count: int = 10,
    dst_gap: DstGap | None = None,
    dst_overlap: DstOverlap | None = None,
) -> Preview:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise InvalidValue(
            "count", count, f"is not a whole number from 1 to {MOST:,}", example="count=10"
        )
    zone = load_zone(expression.timezone)
    timetable = expression.timetable(dst_gap=dst_gap, dst_overlap=dst_overlap)
    instants = _next(timetable, after, count)
    return Preview(
        text=expression.text,
        english=expression.english,
        timezone=expression.timezone,
        fires=[_fire(at, zone, timetable) for at in instants],
        changes=_changes(zone, instants),
        warnings=warnings(expression, after=after),
    )


def warnings(expression: Expression, *, after: int) -> list[str]:
    """What is right and may still surprise."""
    said = _about_steps(expression.form) if isinstance(expression.form, Cron) else []
    if expression.timezone in _FIXED:
        said.append(f"{expression.timezone} is a fixed offset, without summer time")
    first = expression.timetable().next_after(after)
    if first is not None and first - after > _LONG_AHEAD:
        said.append(f"next: {_utc(first):%Y-%m-%d}")
    return said


def _about_steps(cron: Cron) -> list[str]:
    fields = ((cron.seconds, 60, "minute"), (cron.minutes, 60, "hour"), (cron.hours, 24, "day"))
    steps = [(_uneven(field.mask, size), what) for field, size, what in fields if field.star]
    return [f"a step of {step} is uneven at the {what}" for step, what in steps if step]


def _uneven(mask: int, whole: int) -> int:
    """The step of a field such as */7, if it leaves a shorter one at the end; else 0."""
    values = [value for value in range(whole) if mask >> value & 1]
    steps = {right - left for left, right in pairwise(values)}
    if len(steps) != 1:
        return 0
    (step,) = steps
    return step if whole % step else 0


def _next(timetable: Timetable, after: int, count: int) -> list[int]:
    instants: list[int] = []
    found = timetable.next_after(after)
    while found is not None and len(instants) < count:
        instants.append(found)
        found = timetable.next_after(found)
    return instants


def _fire(at: int, zone: Zone, timetable: Timetable) -> Fire:
    note = _note(at, zone, timetable) if isinstance(timetable, WallTimetable) else None
    return Fire(_utc(at), _local(at, zone), note)


def _note(at: int, zone: Zone, timetable: WallTimetable) -> str | None:
    """What the change next to a fire has to do with it."""
    wall = at + zone.offset_at(at)
    moved = timetable.moved_from(at)
    if moved is not None:
        return f"clocks go forward: {_time(moved)} does not exist, runs at {_time(wall)}"
    period = bisect_right(zone.changes, at)
    if period and wall < zone.changes[period - 1] + zone.offsets[period - 1]:
        return f"clocks go back: second of two {_time(wall)}"
    if period < len(zone.changes) and wall >= zone.changes[period] + zone.offsets[period + 1]:
        return f"clocks go back: first of two {_time(wall)}"
    return None


def _changes(zone: Zone, instants: list[int]) -> list[ClockChange]:
    """The clock changes from the first of these instants to the last."""
    if not instants:
        return []
    places = range(bisect_left(zone.changes, instants[0]), bisect_right(zone.changes, instants[-1]))
    return [_change(zone, place) for place in places]


def _change(zone: Zone, place: int) -> ClockChange:
    at, before, after = zone.changes[place], zone.offsets[place], zone.offsets[place + 1]
    way = "forward" if after > before else "back"
    english = f"clocks go {way} from {_moment(at + before)} to {_moment(at + after)}"
    return ClockChange(_utc(at), before, after, english)


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _local(at: int, zone: Zone) -> datetime:
    return datetime.fromtimestamp(at, timezone(timedelta(seconds=zone.offset_at(at))))


def _time(wall: int) -> str:
    shown = show_wall(wall)[11:]
    return shown.removesuffix(":00")


def _moment(wall: int) -> str:
    return f"{show_wall(wall)[:10]} {_time(wall)}"
