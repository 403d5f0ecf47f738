"""Why a job waits for a limit or a breaker, in words; and what a reason is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from foliot.ids import JobId
from foliot.model.breaker import Breaker, State
from foliot.model.limit import Limit, key_of, show_gate
from foliot.units import show_duration


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why something does not run: since when that is so, and what would change it."""

    why: str
    since: datetime | None = None
    change: str | None = None

    @property
    def lines(self) -> list[str]:
        """Where what somebody said has line breaks they are still in it."""
        told = [self.why]
        if self.since is not None:
            told.append(f"  since {show_time(self.since)}")
        if self.change is not None:
            told.append(f"  until {self.change}")
        return told

    def __str__(self) -> str:
        return "\n".join(self.lines)


class GateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that a job is held for, how much of it is used, and by whom. `wait`: seconds until time lets one in."""

    name: str  # that it is counted under
    limit: Limit
    used: int
    holders: Sequence[JobId] = ()
    wait: float | None = None
    waiting: int = 0
    at_least: bool = False  # more wait
    breaker: Breaker | None = None  # if it is one

    @property
    def has_room(self) -> bool:
        """Whether it lets some in: who waits is about to be asked again."""
        if self.breaker is not None:
            return self.breaker.state in (State.CLOSED, State.RECOVERING)
        return not (self.full or (self.limit.rate is not None and self.wait))

    @property
    def full(self) -> bool:
        return self.limit.concurrency is not None and self.used >= self.limit.concurrency

    @property
    def shut(self) -> bool:
        """Whether it lets nobody in before somebody changes it by hand."""
        if self.breaker is not None:
            return self.breaker.state is State.OPEN and self.breaker.until is None
        return self.limit.concurrency == 0

    def may_be_tried(self, now: datetime) -> bool:
        """Whether it is a breaker at which some may try: who does the scheduler's duties lets them go on."""
        one = self.breaker
        if one is None or one.state is not State.OPEN:
            return one is not None and one.state is State.HALF_OPEN and not self.full
        return one.until is not None and one.until <= now.timestamp()


def say_shut(gates: Sequence[GateFacts], *, since: datetime | None) -> list[Reason]:
    """Of those that let nobody in now; first what only somebody's hand will change."""
    closed = sorted((gate for gate in gates if not gate.has_room), key=lambda gate: not gate.shut)
    return [say_gate(gate, since=since) for gate in closed]


def say_gate(gate: GateFacts, *, since: datetime | None) -> Reason:
    """Of one without room, or a breaker. `since`: when the job was due, if it is; the limit may have been set later."""
    if gate.breaker is not None:
        return say_breaker(gate.breaker)
    limit, name = gate.limit, show_gate(gate.name)
    if since is not None and limit.updated_at is not None:
        since = max(since, limit.updated_at)
    if gate.full:
        held = _named(gate.holders, gate.used)
        why = f"limit {name} is at {gate.used}/{limit.concurrency}{held}"
        change = f"{_turn(gate)}{_raise(gate)}"
        return Reason(f"{why}{_others(gate)}", since=since, change=change)
    why = f"limit {name} lets {limit.rate:g} start in {show_duration(limit.period)}"
    next_ = f"the next may in {show_duration(max(0.001, round(gate.wait or 0.0, 3)))}"
    return Reason(f"{why}{_others(gate)}", since=since, change=next_)


def _others(gate: GateFacts) -> str:
    if gate.waiting <= 1:
        return ""
    return f"; {'at least ' if gate.at_least else ''}{gate.waiting:,} wait for it"


def _turn(gate: GateFacts) -> str:
    """What those who run have to do with it."""
    if not gate.used or gate.shut:
        return ""
    if gate.used != gate.limit.concurrency:
        return "enough of them have ended, or: "
    return f"{'one of them ends' if gate.waiting <= 1 else 'its turn comes as they end'}, or: "


def _raise(gate: GateFacts) -> str:
    """By one more than it has, and the rest of it stays; of a pattern first for this key alone."""
    limit = gate.limit
    rest = f" --concurrency {gate.used + 1}"
    if limit.rate is not None:
        rest += f" --rate {limit.shown_rate} --burst {limit.burst}"
    if limit.note is not None:
        rest += f" --note {shlex.quote(limit.note)}"
    raised = f"foliot limits set {shlex.quote(limit.name)}{rest}"  # keys may have spaces
    own = f"key:{key_of(gate.name)}"
    if not limit.is_pattern or "*" in own:
        return raised
    return f"foliot limits set {shlex.quote(own)}{rest}; for all of them: {raised}"


def say_breaker(breaker: Breaker) -> Reason:
    name, by = breaker.name, f" by {breaker.by}" if breaker.by else ""
    note = breaker.note or breaker.reason
    told = f"{by}{f': {note}' if note else ''}"
    close = f"foliot breakers close {name}"
    since = datetime.fromtimestamp(breaker.since, UTC)
    match breaker.state:
        case State.OPEN if breaker.until is None:
            return Reason(f"breaker {name!r} was opened{told}", since=since, change=close)
        case State.OPEN:
            until = show_time(datetime.fromtimestamp(breaker.until or 0.0, UTC))
            change = f"{until}, when some are tried; or: {close}"
            return Reason(
                f"breaker {name!r} is open until {until}{told}", since=since, change=change
            )
        case State.HALF_OPEN:
            many = breaker.options.probes
            why = (
                f"breaker {name!r} is half open: {many} at a time {'try' if many > 1 else 'tries'}"
            )
            return Reason(why, since=since, change=f"enough of them succeed, or: {close}")
    pace = f"{breaker.rate or breaker.options.release:g} a second"
    why = f"breaker {name!r} has closed: those who waited go on, {pace}"
    return Reason(why, since=since, change="its turn comes")


def _named(holders: Sequence[JobId], used: int) -> str:
    if not holders:
        return ""
    some = ", ".join(holders)
    more = f" and {used - len(holders)} more" if used > len(holders) else ""
    return f", held by job{'s' if len(holders) > 1 else ''} {some}{more}"


def show_time(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
