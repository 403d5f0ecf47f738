"""What an expression can be, once it is read: pure data, made by the parsers, for timetables and English.

Sets of numbers are bit masks: bit n is set if n is in the set. Weekdays are 0 (Sunday) to 6.
Instants are whole seconds since 1970 in UTC. A wall time (`Wall`) is what a clock on a wall shows, as whole seconds
since its own 1970-01-01T00:00:00: it names an instant only together with a zone.
"""

from __future__ import annotations

from msgspec import Struct

Wall = int


class Field(Struct, frozen=True):
    """Seconds, minutes, hours or months of a cron expression. `star`: it was written with a leading `*`."""

    mask: int
    star: bool = False


class Days(Struct, frozen=True):
    """Days of the month. `last`: days before the last one (L is 0, L-3 is 3); `nearest`: the days of `15W`."""

    mask: int = 0
    star: bool = False
    last: tuple[int, ...] = ()
    nearest: tuple[int, ...] = ()
    last_weekday: bool = False  # LW: the last from Monday to Friday


class Weekdays(Struct, frozen=True):
    """Days of the week. `nth`: pairs of weekday and place (`5#3` is (5, 3)); `last`: a mask of the weekdays of `5L`."""

    mask: int = 0
    star: bool = False
    nth: tuple[tuple[int, int], ...] = ()
    last: int = 0


class Cron(Struct, frozen=True):
    """Wall times. If neither day field has a star a day needs one of them, else both."""

    minutes: Field
    hours: Field
    days: Days
    months: Field
    weekdays: Weekdays
    seconds: Field = Field(1)

    @property
    def follows_real_time(self) -> bool:
        """Every so often rather than at a fixed time: a changed clock is followed, nothing is moved or left out."""
        return self.minutes.star or self.hours.star

    @property
    def either_day(self) -> bool:
        """A day of the month or a day of the week will do."""
        return not (self.days.star or self.weekdays.star)


class Interval(Struct, frozen=True):
    """Every so many seconds of elapsed time, from the instant `start` on, `count` times; or aligned to 1970."""

    every: int
    start: int | None = None
    count: int | None = None


class CalendarInterval(Struct, frozen=True):
    """Every so many months, days and seconds by the calendar and the clock on the wall, counted from `start`.

    The nth time is start + n x months, moved back to the last day of a month that is too short, + n x (days, seconds).
    """

    months: int
    days: int
    seconds: int = 0
    start: Wall | None = None
    count: int | None = None


class Instant(Struct, frozen=True):
    """Once."""

    at: int


class Rule(Struct, frozen=True):
    """An RRULE. `parts` are its BY… parts and WKST as written there, in the order of RFC 5545."""

    frequency: str  # YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY
    interval: int = 1
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    count: int | None = None
    until: Wall | None = None
    start: Wall | None = None
    dates: tuple[Wall, ...] = ()  # RDATE
    exceptions: tuple[Wall, ...] = ()  # EXDATE


Form = Cron | Interval | CalendarInterval | Instant | Rule
