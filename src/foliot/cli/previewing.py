"""`foliot schedules preview`: how an expression is read, and when it would fire. Needs no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foliot.cli.given import read_time
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, print_table, printable

if TYPE_CHECKING:
    from datetime import datetime

    from foliot.when import Preview

Gap = Literal["skip", "shift", "run_at_transition"]
Overlapping = Literal["first", "second", "both"]


def preview(
    *expression: Annotated[str, Parameter(allow_leading_hyphen=True)],
    timezone: str | None = None,
    after: str | None = None,
    count: Whole = 10,
    dst_gap: Gap | None = None,
    dst_overlap: Overlapping | None = None,
    name: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Show how an expression is read, its next fires, and every clock change among them.

    Parameters
    ----------
    expression
        For example "every weekday at 9am" or "0 9 * * MON-FRI".
    timezone
        Where its times of day are, for example Europe/Berlin; else UTC.
    after
        Fires after this moment, for example 2027-01-31T09:00+01:00; else after now.
    count
        How many fires.
    dst_gap
        What happens to times that a clock change leaves out.
    dst_overlap
        Which of times that a clock change repeats.
    name
        Of the schedule, by which H picks its values.
    """
    from foliot import schedule_commands
    from foliot.clock import SystemClock

    found = schedule_commands.preview(
        " ".join(expression),
        timezone=timezone,
        after=read_time("--after", after),
        count=count,
        dst_gap=dst_gap,
        dst_overlap=dst_overlap,
        seed=name,
        clock=SystemClock(),
    )
    if options.json:
        print_json(found)
        return
    print(printable(f"{found.english} ({found.timezone})"))
    print(f"read as: {' '.join(found.text.splitlines())}")
    for warning in found.warnings:
        print(f"mind: {printable(warning)}")
    print()
    if found.fires:
        print_table(("utc", "local", "note"), _rows(found), whole=("utc", "local"))
    else:
        print("it does not fire any more")


def _rows(found: Preview) -> list[tuple[str, str, str]]:
    """Fires and clock changes in the order in which they come."""
    rows = [(fire.at, show_local(fire.local), fire.note or "") for fire in found.fires]
    rows += [(change.at, "", change.english) for change in found.changes]
    return [
        (f"{at:%Y-%m-%d %H:%M:%S}Z", local, note)
        for at, local, note in sorted(rows, key=lambda row: row[0])
    ]


def show_local(moment: datetime) -> str:
    """Mon 2027-03-29 09:00:00 +02:00"""
    return f"{moment:%a %Y-%m-%d %H:%M:%S} {moment.isoformat()[19:]}"
