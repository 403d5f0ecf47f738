"""`foliot schedules fires` and `forecast`: what became of the times of schedules, and what is ahead."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from foliot.cli.given import read_time
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import ago, print_json, print_table, printable

if TYPE_CHECKING:
    from datetime import datetime

    from foliot.model.schedule import Answer
    from foliot.schedule_forecast import Forecast
    from foliot.store.port import Store

_WIDEST: Final = 40
_BESIDE: Final = 56  # columns for what stands before and after a bar
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def fires(
    name: str,
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: str | None = None,
    limit: Whole = 100,
    namespace: str = "default",
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Show the ledger of a schedule: for each of its times the job, or the reason why there is none.

    Parameters
    ----------
    name
        Its name.
    from_
        Times from this on, for example 2027-01-31T00:00Z.
    to
        Times up to this; else up to now.
    limit
        How many, at most: the latest of them.
    namespace
        Whose schedule it is.
    """
    from foliot import schedule_fires
    from foliot.cli.ask import ask

    start, end = read_time("--from", from_), read_time("--to", to)

    async def read(store: Store) -> list[Answer]:
        return await schedule_fires.fires(
            store, name, start=start, to=end, limit=limit, namespace=namespace
        )

    answers = ask(options, read)
    if options.json:
        print_json({"schedule": name, "fires": answers})
        return
    print_table(
        ("nominal", "job or reason", "state", "late", "about"), [_row(one) for one in answers]
    )
    if len(answers) == limit:
        print(f"there may be more than {limit:,}: see --limit", file=sys.stderr)


def _row(answer: Answer) -> tuple[str, ...]:
    about = answer.note or ""
    if answer.into is not None:
        about = f"into {answer.into}{': ' + about if about else ''}"
    if answer.job is None:
        reason = "" if answer.reason is None else answer.reason.value
        return (_second(answer.nominal), reason, "", "", about)
    state = "" if answer.state is None else answer.state.value
    return (_second(answer.nominal), answer.job, state, _late(answer), about)


def _late(answer: Answer) -> str:
    """From the nominal time to the start; of what has not started, to when the job was made."""
    moment = answer.started_at or answer.fired_at
    if moment is None:
        return ""
    seconds = (moment - answer.nominal).total_seconds()
    shown = f"{seconds * 1000:.0f}ms" if abs(seconds) < 1 else ago(seconds)
    return shown if answer.started_at is not None else f"made after {shown}"


def forecast(*, hours: Whole = 24, options: Options = DEFAULT_OPTIONS) -> None:
    """Show how many schedules will fire in each hour to come, and name the seconds in which many do at once.

    Parameters
    ----------
    hours
        How far ahead.
    """
    from foliot import schedule_forecast
    from foliot.cli.ask import ask

    async def read(store: Store) -> Forecast:
        return await schedule_forecast.forecast(store, hours=hours)

    found = ask(options, read)
    if options.json:
        told = [{"at": _moment(second), "count": count} for second, count in found.herds]
        print_json(
            {
                "start": _moment(found.start),
                "minutes": found.minutes,
                "total": found.total,
                "herds": told,
                "exact": found.exact,
            }
        )
        return
    _draw(found)
    if not found.exact:
        print("only the largest groups of schedules were counted: there are more", file=sys.stderr)


def _draw(found: Forecast) -> None:
    """An hour a line, the first and the last one as much of it as there is."""
    from rich.text import Text

    from foliot.cli.terminal import Screen

    lines = _hours(found.minutes, found.start)
    most = max((sum(minutes) for _, minutes in lines), default=0)
    screen = Screen()
    width = max(8, min(_WIDEST, screen.width - _BESIDE))
    for at, minutes in lines:
        total, peak = sum(minutes), max(minutes)
        about = ""
        if peak:
            when = _moment(at + 60 * minutes.index(peak))
            about = f"{total:>12,}  busiest minute {when:%H:%M}: {peak:,}"
        bar = _bar(total / most if most else 0.0, width)
        screen.say(Text.assemble(f"{_moment(at):%a %H:%M} ", (bar.ljust(width), "cyan"), about))
    print(f"{found.total:,} fires in {len(found.minutes) / 60:g} hours; times are UTC")
    for second, count in found.herds:
        print(f"herd: {_second(_moment(second))}  {count:,} schedules in one second")


def _hours(minutes: list[int], start: int) -> list[tuple[int, list[int]]]:
    """Minutes by the hours that they are in."""
    lines: list[tuple[int, list[int]]] = []
    for number, count in enumerate(minutes):
        at = start + 60 * number
        if not lines or at % 3600 == 0:
            lines.append((at, []))
        lines[-1][1].append(count)
    return lines


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    if share and not eighths:
        eighths = 1  # little is not nothing
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _moment(second: int) -> datetime:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(second, UTC)


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def explain(name: str, *, namespace: str = "default", options: Options = DEFAULT_OPTIONS) -> None:
    """Say why a schedule fires or does not: what it waits for, and how its last times were answered.

    Parameters
    ----------
    name
        Its name.
    namespace
        Whose schedule it is.
    """
    from foliot import schedule_commands
    from foliot.cli.ask import ask

    found = ask(options, lambda store: schedule_commands.explain(store, name, namespace=namespace))
    if options.json:
        print_json(found)
    else:
        for line in found.lines:
            print(printable(line))
