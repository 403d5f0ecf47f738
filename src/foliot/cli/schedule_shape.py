"""Schedules as they are printed: JSON, or text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from foliot.cli.output import print_table, printable
from foliot.cli.previewing import show_local
from foliot.cli.shape import print_payload, say_entry, show_time
from foliot.model.job import Extras
from foliot.model.schedule import Rules, Schedule, ScheduleState
from foliot.units import show_duration

if TYPE_CHECKING:
    from foliot.model.audit import Entry
    from foliot.when import Fire

_HEADERS = ("schedule", "state", "kind", "when", "next", "tags", "about")
# Shown on lines of their own, or of no use to people.
_NOT_LISTED = frozenset(
    {"id", "payload", "more", "extras", "rules", "trigger", "next_at", "fired_at"}
)
_MOMENTS = ("start", "end")


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    """All of it; the payload is the JSON that it is, and times are times."""
    shape: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(schedule, payload=b""), builtin_types=(datetime,)
    )
    shape["payload"] = msgspec.Raw(schedule.payload)
    shape["more"] = None if schedule.more is None else msgspec.Raw(schedule.more.encode())
    shape["extras"] = msgspec.Raw(schedule.extras.encode())
    shape["runs"] = _runs(schedule)
    shape["english"] = english_of(schedule.rules)
    for name in ("next_at", "fired_at"):
        shape[name] = _moment(shape[name])
    for name in _MOMENTS:
        if name in shape["rules"]:
            shape["rules"][name] = _moment(shape["rules"][name])
    return shape


def print_schedules(schedules: Sequence[Schedule]) -> None:
    print_table(
        _HEADERS,
        [
            (
                one.name,
                one.state.value,
                one.kind,
                when_of(one.rules),
                next_of(one),
                ", ".join(one.tags),
                _about(one),
            )
            for one in schedules
        ],
    )


def when_of(rules: Rules) -> str:
    """As it was said."""
    if rules.after_completion is not None:
        return f"{show_duration(rules.after_completion)} after completion"
    zone = "" if rules.timezone == "UTC" or rules.timezone in rules.expression else rules.timezone
    return " ".join([*rules.expression.split(), zone]).rstrip()


def english_of(rules: Rules) -> str:
    """As it was read."""
    from foliot.when import parse

    if rules.after_completion is not None:
        return f"{show_duration(rules.after_completion)} after the end of the last run"
    return parse(rules.text, timezone=rules.timezone).english


def print_schedule(schedule: Schedule, fires: Sequence[Fire], audit: Sequence[Entry]) -> None:
    for name, value in _fields(schedule):
        print(f"{name + ':':<15} {printable(value)}")
    print_payload(schedule.kind, schedule.payload)
    for fire in fires:
        note = f"  {fire.note}" if fire.note else ""
        print(printable(f"{'fires:':<15} {show_time(fire.at)}  {show_local(fire.local)}{note}"))
    for entry in audit:
        print(printable(say_entry(entry)))


def _fields(schedule: Schedule) -> Iterator[tuple[str, str]]:
    rules = schedule.rules
    shape = {**msgspec.structs.asdict(schedule), "runs": _runs(schedule)}
    for name, value in shape.items():
        if name not in _NOT_LISTED and value not in (None, ()):
            yield name, _shown(value)
    yield "when", when_of(rules)
    yield "english", f"{english_of(rules)} ({rules.timezone})"
    said = {name: getattr(rules, name) for name in _rule_names(rules)}
    yield from (
        (name, _shown(_moment(value) if name in _MOMENTS else value))
        for name, value in said.items()
    )
    for name, text in (("more", schedule.more), ("extras", _extras(schedule))):
        if text not in (None, "{}"):
            yield name, str(text)


def _runs(schedule: Schedule) -> int | None:
    """They are counted where their number has a limit."""
    return None if schedule.rules.max_runs is None else schedule.runs


def _extras(schedule: Schedule) -> str:
    """Those that no rule says, nor the name."""
    extras = msgspec.json.decode(schedule.extras, type=Extras)
    rest = msgspec.structs.replace(extras, schedule=None, carry=False)
    return msgspec.json.encode(rest).decode()


def _rule_names(rules: Rules) -> list[str]:
    """Those with another value than usual, and those that everybody asks for."""
    usual = Rules()
    shown = {"expression", "text", "timezone", "after_completion"}
    return [
        name
        for name in Rules.__struct_fields__
        if name not in shown
        and (name in {"overlap", "misfire"} or getattr(rules, name) != getattr(usual, name))
    ]


def _shown(value: Any) -> str:
    match value:
        case datetime():
            return show_time(value)
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def next_of(schedule: Schedule) -> str:
    """The next time of its trigger, or since when it fires at all."""
    if schedule.state is not ScheduleState.ACTIVE or schedule.next_at is None:
        return "-"
    start = schedule.rules.start
    if start is not None and start > schedule.next_at:
        return f"from {show_time(_moment(start))}"
    return show_time(_moment(schedule.next_at))


def _about(schedule: Schedule) -> str:
    """What is most worth knowing beside the state."""
    if schedule.state is ScheduleState.PAUSED:
        by = f" by {schedule.paused_by}" if schedule.paused_by else ""
        note = f": {schedule.note}" if schedule.note else ""
        return f"since {show_time(schedule.paused_at)}{by}{note}"
    if schedule.state is ScheduleState.PARKED:
        return f"no longer declared in {schedule.origin}"
    return schedule.note or ""


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
