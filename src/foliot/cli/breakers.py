"""`foliot breakers`: what jobs stop at while the service that they call fails."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from cyclopts import Parameter

from foliot import breaker_commands
from foliot.author import Author
from foliot.breaker_commands import LONGEST, SHORTEST
from foliot.cli.ask import ask
from foliot.cli.given import read_wait
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table
from foliot.ids import Ids
from foliot.model.breaker import Breaker, State
from foliot.store.breaking import Found, Shift


def list_breakers(*, options: Options = DEFAULT_OPTIONS) -> None:
    """List the breakers: what state each is in, why, until when, and how many jobs wait for it.

    A breaker is listed once an app has declared it, or a job that has it has failed. Counting those who wait stops at
    10,000; a + says that there are more.
    """
    found = ask(options, breaker_commands.list_breakers)
    if options.json:
        print_json({"breakers": [_told(one) for one in found]})
        return
    headers = ("breaker", "state", "since", "until", "waiting", "why", "by")
    print_table(headers, [_row(one) for one in found])


def open_breaker(
    breaker: str,
    *,
    for_: Annotated[str | None, Parameter(name="--for")] = None,
    note: str | None = None,
    new: Annotated[bool, Parameter(negative=())] = False,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Let no job of a breaker start. What runs goes on; what would start is held, and no attempt is used up.

    Parameters
    ----------
    breaker
        Its name, as in @app.job(breaker="stripe").
    for_
        For how long: 10m, 2h. Then a job tries whether the service is back. Without it: until somebody closes it.
    note
        Why, for those who wonder.
    new
        It is one that no app has named so far.
    by
        Who says so; else user@host.
    """
    seconds = read_wait("--for", for_, least=SHORTEST, most=LONGEST)
    author = Author(Ids(), by)
    shift = ask(
        options,
        lambda store: breaker_commands.open_breaker(
            store, breaker, seconds=seconds, note=note, new=new, by=author
        ),
    )
    _say(shift, options)


def close_breaker(
    breaker: str,
    *,
    note: str | None = None,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Let the jobs of a breaker start again: those who wait at its rate, which doubles every ten seconds.

    Parameters
    ----------
    breaker
        Its name, as `foliot breakers list` shows it.
    note
        Why, for those who wonder.
    by
        Who says so; else user@host.
    """
    author = Author(Ids(), by)
    shift = ask(
        options,
        lambda store: breaker_commands.close_breaker(store, breaker, note=note, by=author),
    )
    _say(shift, options)


def _say(shift: Shift, options: Options) -> None:
    after = shift.after
    if options.json:
        print_json({"changed": shift.changed, **_breaker(after)})
    elif not shift.changed:
        print(f"{after.name} is as it was, {_state(after)}")
    else:
        until = f" until {_time(after.until)}" if after.state is State.OPEN and after.until else ""
        print(f"{after.name} is {_state(after)}{until}")


def _row(found: Found) -> tuple[str, ...]:
    one = found.breaker
    closed = one.state is State.CLOSED
    return (
        one.name,
        _state(one),
        _time(one.since) if one.since else "",
        _time(one.until) if one.until is not None and one.state is State.OPEN else "",
        f"{found.waiting}{'+' if found.at_least else ''}",
        "" if closed else one.note or one.reason or "",
        "" if closed else one.by or "",
    )


def _state(breaker: Breaker) -> str:
    return breaker.state.replace("_", " ")


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


def _told(found: Found) -> dict[str, object]:
    return {
        **_breaker(found.breaker),
        "waiting": found.waiting,
        "at_least": found.at_least,
    }


def _breaker(one: Breaker) -> dict[str, object]:
    failures, successes = one.counts
    return {
        "name": one.name,
        "state": one.state,
        "since": _moment(one.since or None),
        "until": _moment(one.until),
        "reason": one.reason,
        "note": one.note,
        "by": one.by,
        "openings": one.openings,
        "failures": failures,
        "successes": successes,
        "options": msgspec.structs.asdict(one.options),
    }


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
