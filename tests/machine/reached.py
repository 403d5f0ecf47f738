"""What a run came to: a long one that missed any of this proves less than it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from foliot.model.job import End
from machine.admission import takes_turns
from machine.history import Claim, Event, Extend, Finish, Reap, Retry

_FATES: Final = ("returned", "lost", "timed_out", "dead", "cancelled")
EVERYTHING: Final = frozenset(
    {
        *(f"{end} {answer}" for end in End for answer in ("accepted", "refused")),
        *(f"reaped: {fate}" for fate in _FATES),
        "extended",
        "not extended",
        "a suspect claimed",
        "another attempt claimed",
        "claimed a part of what was ready",
        "an ordered job claimed while another waits",
        "another attempt of an ordered job claimed while another waits",
        "claimed in turn while another waits",
        "retried by hand",
        "a retried job claimed",
        "an ordered job retried by hand",
    }
)


def reached(history: Iterable[Event]) -> set[str]:
    return {found for event in history for found in _reached(event)}


def _reached(event: Event) -> Iterator[str]:
    match event:
        case Finish():
            for outcome in event.outcomes:
                answer = "refused" if outcome.id in event.refused else "accepted"
                yield f"{outcome.end} {answer}"
        case Reap():
            yield from (f"reaped: {fate}" for fate in _FATES if getattr(event.reaped, fate))
        case Extend():
            yield "extended" if event.extended else "not extended"
        case Claim() if event.claimed:
            yield from _claimed(event)
            yield from _compared(event)
        case Retry() if event.ids:
            yield "retried by hand"
            if any(row.id in event.ids and row.order for row in event.moment.after.live):
                yield "an ordered job retried by hand"


def _claimed(event: Claim) -> Iterator[str]:
    if any(job.suspect for job in event.claimed):
        yield "a suspect claimed"
    if any(job.attempt > 1 for job in event.claimed):
        yield "another attempt claimed"
    if any(row.state == "ready" for row in event.moment.after.live):
        yield "claimed a part of what was ready"


def _compared(event: Claim) -> Iterator[str]:
    """With what it was chosen from."""
    claimed = {job.id: job for job in event.claimed}
    live = event.moment.after.live
    waiting = {row.order for row in live if row.in_line}
    for row in (row for row in live if row.id in claimed):
        if row.order in waiting:
            again = "another attempt of " if row.attempt > 1 else ""
            yield f"{again}an ordered job claimed while another waits"
        if takes_turns(row.lane) and any(
            one.lane == row.lane and one.state == "ready" for one in live
        ):
            yield "claimed in turn while another waits"
        if row.generation:
            yield "a retried job claimed"
