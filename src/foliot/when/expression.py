"""An expression that was read: its canonical text, its zone, and its timetable."""

from __future__ import annotations

from functools import lru_cache
from typing import get_args

from msgspec import Struct

from foliot.errors import InvalidValue
from foliot.when.cron import write_cron
from foliot.when.cron_timetable import CronWalls
from foliot.when.describe import describe
from foliot.when.forms import CalendarInterval, Cron, Form, Instant, Interval, Rule
from foliot.when.interval import CalendarWalls, IntervalTimetable
from foliot.when.iso8601 import write_iso
from foliot.when.rrule import write_rule
from foliot.when.rrule_timetable import RuleWalls, follows_real_time
from foliot.when.timetable import InstantTimetable, Timetable
from foliot.when.wall import DEFAULT_GAP, DEFAULT_OVERLAP, DstGap, DstOverlap, Walls, WallTimetable
from foliot.when.zones import load_zone


class Expression(Struct, frozen=True):
    """`text` read again in `timezone` gives an equal expression."""

    text: str
    timezone: str
    form: Form

    def __hash__(self) -> int:
        return hash((self.text, self.timezone))

    @property
    def recurring(self) -> bool:
        """Whether it can fire more than once."""
        return not isinstance(self.form, Instant)

    @property
    def english(self) -> str:
        """A sentence that, read in `timezone`, fires at the same times."""
        return describe(self.form, self.timezone)

    def timetable(
        self, *, dst_gap: DstGap | None = None, dst_overlap: DstOverlap | None = None
    ) -> Timetable:
        """None: as Debian's cron does it, once at the change and the first of two."""
        _check("dst_gap", dst_gap, get_args(DstGap))
        _check("dst_overlap", dst_overlap, get_args(DstOverlap))
        return _compile(self, dst_gap or DEFAULT_GAP, dst_overlap or DEFAULT_OVERLAP)


def _check(field: str, value: object, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise InvalidValue(field, value, "is not known", example=" or ".join(known))


def write(form: Form) -> str:
    """The canonical text."""
    if isinstance(form, Cron):
        return write_cron(form)
    if isinstance(form, Rule):
        return write_rule(form)
    return write_iso(form)


@lru_cache(maxsize=16_384)
def _compile(expression: Expression, gap: DstGap, overlap: DstOverlap) -> Timetable:
    form = expression.form
    if isinstance(form, Interval):
        return IntervalTimetable(form)
    if isinstance(form, Instant):
        return InstantTimetable(form)
    if _follows_real_time(form):
        gap, overlap = "skip", "both"
    return WallTimetable(_walls(form), load_zone(expression.timezone), gap=gap, overlap=overlap)


def _walls(form: Cron | CalendarInterval | Rule) -> Walls:
    if isinstance(form, Cron):
        return CronWalls(form)
    return RuleWalls(form) if isinstance(form, Rule) else CalendarWalls(form)


def _follows_real_time(form: Cron | CalendarInterval | Rule) -> bool:
    if isinstance(form, Rule):
        return follows_real_time(form)
    return isinstance(form, Cron) and form.follows_real_time
