"""What can be said of a schedule: every value is checked when it is given, and brought into its one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Any, Final, Literal, TypedDict, TypeVar, get_args

from foliot import when
from foliot.checks import check_flag, check_moment, check_name, check_names, check_text, check_whole
from foliot.errors import LONGEST_WAIT, InvalidValue
from foliot.model.schedule import DstGap, DstOverlap, Misfire, Overlap
from foliot.options import Names
from foliot.shown import did_you_mean
from foliot.units import read_duration

OverlapRule = Literal[
    "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow"
]
MisfireRule = Literal["skip", "latest", "all"]
Duration = float | timedelta | str
E = TypeVar("E", bound=StrEnum)

_WEEK: Final = 7 * 86_400
_MOST_RUNS: Final = 2**31 - 1
_check_text: Final = check_text("name", "nightly-report", 200)
_check_tag: Final = check_text("tags", "vip", 100)


class ScheduleOptions(TypedDict, total=False):
    """What can be said of a schedule besides its name, its job and its expression."""

    timezone: str | None
    dst_gap: DstGap | None
    dst_overlap: DstOverlap | None
    after_completion: Duration | None  # instead of an expression: so long after the last run's end
    calendars: Names
    start: datetime | None
    end: datetime | None
    spread: Duration
    jitter: Duration
    overlap: OverlapRule
    buffer: int | None
    misfire: MisfireRule
    misfire_window: Duration | None
    catchup_rate: float | None
    start_deadline: Duration | None
    max_runs: int | None
    pause_after: int | None
    carry_result: bool
    anchor: datetime | None
    tags: Names


def check_schedule_name(name: object) -> str:
    checked = _check_text(name)
    if checked != checked.strip():
        raise InvalidValue(
            "name", name, "begins or ends with a space", example='name="nightly-report"'
        )
    return checked


def check_schedule_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """In their one form; what is None was not said."""
    for name in options:
        if name not in _CHECKS:
            hint = did_you_mean(name, _CHECKS) or f"there are {', '.join(sorted(_CHECKS))}"
            raise InvalidValue("schedule", name, "is not an option of a schedule", hint=hint)
    checked = {name: _CHECKS[name](value) for name, value in options.items() if value is not None}
    if checked.get("buffer") is not None and checked.get("overlap") is not Overlap.BUFFER_ALL:
        raise InvalidValue(
            "buffer",
            options["buffer"],
            "is of no use without overlap=buffer_all",
            example='overlap="buffer_all", buffer=10',
        )
    start, end = checked.get("start"), checked.get("end")
    if start is not None and end is not None and end <= start:
        raise InvalidValue("end", options["end"], f"is not after start, {options['start']}")
    return checked


def check_schedule_tags(tags: object) -> tuple[str, ...]:
    return check_names("tags", tags, _check_tag, example='tags=["vip"]')


def _choice(field: str, values: tuple[str, ...]) -> Callable[[object], Any]:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in values:
            problem = f"is not one of {', '.join(values)}"
            raise InvalidValue(field, value, problem, example=f'{field}="{values[0]}"')
        return str(value)

    return check


def _enum(field: str, kind: type[E]) -> Callable[[object], E]:
    chosen = _choice(field, tuple(one.value for one in kind))
    return lambda value: kind(chosen(value))


def _length(
    field: str, *, least: float = 0.0, most: float = LONGEST_WAIT, example: str = "10m"
) -> Callable[[object], float]:
    def check(value: object) -> float:
        shown = f'{field}="{example}"'
        try:
            seconds = read_duration(value)
        except ValueError as error:
            raise InvalidValue(field, value, str(error), example=shown) from None
        if not least <= seconds <= most:
            problem = f"is not from {least:g} to {most:.12g} seconds"
            raise InvalidValue(field, value, problem, example=shown)
        return seconds

    return check


def _whole_length(field: str) -> Callable[[object], int]:
    length = _length(field, most=_WEEK, example="5m")

    def check(value: object) -> int:
        seconds = length(value)
        if seconds != int(seconds):
            raise InvalidValue(field, value, "is not whole seconds", example=f'{field}="5m"')
        return int(seconds)

    return check


def _rate(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0.001 <= value <= 100_000:  # type: ignore[operator]
        problem = "is not a number of runs per second from 0.001 to 100000"
        raise InvalidValue("catchup_rate", value, problem, example="catchup_rate=10")
    return float(value)  # type: ignore[arg-type]


def _calendars(value: object) -> tuple[str, ...]:
    def one(name: object) -> str:
        return check_name("calendars", name, example='calendars=["holidays"]')

    return tuple(sorted(check_names("calendars", value, one, example='calendars=["holidays"]')))


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "timezone": when.check_zone,
    "dst_gap": _choice("dst_gap", get_args(DstGap)),
    "dst_overlap": _choice("dst_overlap", get_args(DstOverlap)),
    "after_completion": _length("after_completion", least=1.0),
    "calendars": _calendars,
    "start": lambda value: ceil(check_moment("start", value).timestamp()),
    "end": lambda value: int(check_moment("end", value).timestamp()),
    "spread": _whole_length("spread"),
    "jitter": _whole_length("jitter"),
    "overlap": _enum("overlap", Overlap),
    "buffer": lambda value: check_whole("buffer", value, 1, 10_000, example="buffer=10"),
    "misfire": _enum("misfire", Misfire),
    "misfire_window": _length("misfire_window", example="1h"),
    "catchup_rate": _rate,
    "start_deadline": _length("start_deadline", least=1.0),
    "max_runs": lambda value: check_whole("max_runs", value, 1, _MOST_RUNS, example="max_runs=10"),
    "pause_after": lambda value: check_whole(
        "pause_after", value, 1, 1_000_000, example="pause_after=3"
    ),
    "carry_result": lambda value: check_flag("carry_result", value),
    "anchor": lambda value: int(check_moment("anchor", value).timestamp()),
}
