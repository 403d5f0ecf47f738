"""Breaker: what jobs that call the same service stop at while that service fails.

Closed, it is in nobody's way. After too many failures in a window it opens: nothing passes. When its time is over it is
half open: a few jobs may try. If they succeed it recovers: those who waited pass at a rate, which doubles while nothing
fails; when nobody waits any more, or after ten minutes, it is closed. One that is not closed is a limit like others
(model/limit.py), its `gate`. All that happens to it is decided here: each function takes a breaker and gives the one
that follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import ceil
from typing import Final

import msgspec

from foliot.model.limit import AHEAD, BREAKER, Limit

_BUCKETS: Final = 30  # of a window
_DOUBLES: Final = 10.0  # seconds, after which those who waited pass twice as fast
_FASTEST: Final = 1_000_000.0  # each second
_LONGEST_RECOVERY: Final = 600.0  # seconds
_LONGEST_WAIT: Final = 86_400.0  # seconds that a service may ask to be left alone
_LONGEST_REASON: Final = 200
_MOST_ROUNDS: Final = 10
BY_HAND: Final = "by hand"
_SLACK: Final = (
    0.001  # seconds, for what subtracting loses; for longer than that it was open before
)


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    RECOVERING = "recovering"


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As `app.breaker` says them. Stored as JSON."""

    failures: int = 5  # so many within the window open it
    window: float = 60.0  # seconds
    ratio: float | None = None  # and only if they are this share of all attempts
    open_for: float = 30.0  # seconds; twice as long each time that it opens again
    longest: float = 600.0  # but not longer
    probes: int = 1  # jobs that try at once while it is half open
    successes: int = 1  # of theirs that close it
    release: float = 10.0  # jobs that waited pass at first, each second


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """Attempts that have ended in one short part of a window."""

    at: float  # when it began, in seconds since 1970; in a report, how long ago
    failures: int
    successes: int
    retry_at: float | None = None  # not before, the service said then


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has seen since its last one."""

    tallies: tuple[Tally, ...] = ()
    failed: tuple[float, ...] = ()  # of those that came through the gate: how long ago each began
    succeeded: tuple[float, ...] = ()
    retry_after: float | None = None  # seconds that the service asks to be left alone
    error: str | None = None


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds since 1970, on the store's clock."""

    name: str
    state: State = State.CLOSED
    since: float = 0.0  # when it came into this state
    until: float | None = None  # when it goes on by itself; None: it does not
    reason: str | None = None  # why it opened
    note: str | None = None
    by: str | None = None  # who opened or closed it by hand
    openings: int = 0  # in a row
    successes: int = (
        0  # of those that try; while it recovers, whether there were any since its rate changed
    )
    rate: float | None = None  # at which those who waited pass now
    tallies: tuple[Tally, ...] = ()
    options: Options = Options()

    @property
    def gate(self) -> Limit | None:
        """The limit that it is; None: it is closed."""
        if self.state is State.CLOSED:
            return None
        name, note = f"{BREAKER}:{self.name}", self.note or self.reason
        if self.state is State.RECOVERING:
            rate = self.rate or self.options.release
            return Limit(name=name, rate=rate, burst=max(1, ceil(rate / 10)), note=note)
        probes = self.options.probes * self._rounds if self.state is State.HALF_OPEN else 0
        return Limit(name=name, concurrency=probes, note=note)

    @property
    def _rounds(self) -> int:
        """Of tries: as many more may each time that the longest has passed, for one that hangs without a timeout would
        keep all others out."""
        passed = (self.until or self.since) - self.since
        return max(1, min(_MOST_ROUNDS, round(passed / self.options.longest)))

    @property
    def counts(self) -> tuple[int, int]:
        """Failures and successes within the window."""
        return sum(t.failures for t in self.tallies), sum(t.successes for t in self.tallies)

    @property
    def retry_at(self) -> float | None:
        """Not before, the service said within the window."""
        return max((t.retry_at for t in self.tallies if t.retry_at is not None), default=None)


def report(breaker: Breaker, told: Report, now: float) -> Breaker:
    """What a worker has seen. What was claimed before the breaker opened and ends later says nothing new."""
    breaker = _in_time(breaker, now)
    asked = _asked(told.retry_after, now)
    if breaker.state is State.OPEN:
        return _rest(breaker, asked)
    if breaker.state is State.HALF_OPEN:
        return _try(_count(breaker, (), now, asked), told, now)
    if breaker.state is State.RECOVERING and told.succeeded:
        breaker = msgspec.structs.replace(breaker, successes=1)
    breaker = _count(breaker, told.tallies, now, asked)
    return _open(breaker, now, _clean(told.error)) if _too_many(breaker) else breaker


def pass_time(breaker: Breaker, now: float, *, waiting: bool, trying: bool = False) -> Breaker:
    """What time alone brings. `waiting`: somebody is held for it who could go on. `trying`: it is half open, and one
    tries."""
    breaker = _in_time(breaker, now)
    over = breaker.until is not None and now >= breaker.until
    # Half open and nobody there to try, nor trying, for long: it must not be in the way of all others' claims for ever.
    idle = breaker.state is State.RECOVERING or (breaker.state is State.HALF_OPEN and over)
    # Those who wait may be such that nobody serves: by then it has doubled its rate often, or nobody else is there.
    old = breaker.state is State.RECOVERING and now - breaker.since >= _LONGEST_RECOVERY
    if old or (idle and not waiting and not trying):
        closed = breaker if breaker.state is State.RECOVERING else _let_go(breaker)
        return msgspec.structs.replace(
            closed, state=State.CLOSED, since=now, until=None, rate=None, successes=0
        )
    if not over:
        return breaker
    if breaker.state is State.OPEN:
        return msgspec.structs.replace(
            breaker, state=State.HALF_OPEN, since=now, until=now + breaker.options.longest
        )
    if breaker.state is State.RECOVERING:
        # While nobody claims, that nothing fails says nothing.
        rate = (breaker.rate or breaker.options.release) * (2 if breaker.successes else 1)
        return msgspec.structs.replace(
            breaker, rate=min(_FASTEST, rate), until=now + _DOUBLES, successes=0
        )
    if breaker.state is State.HALF_OPEN:
        until = now + breaker.options.longest
        since = (
            breaker.since if trying else now
        )  # nobody has come yet: it is as if it were half open from now on
        return msgspec.structs.replace(breaker, since=since, until=until)
    return breaker


def open_by_hand(
    breaker: Breaker, now: float, *, seconds: float | None, note: str | None, by: str | None
) -> Breaker:
    """For so long; None: until somebody closes it. What had opened by itself is from now on open by hand."""
    stays = breaker.state is State.OPEN and breaker.reason == BY_HAND
    return msgspec.structs.replace(
        breaker,
        state=State.OPEN,
        since=breaker.since if stays else now,
        until=None if seconds is None else now + seconds,
        reason=BY_HAND,
        note=note,
        by=by,
        successes=0,
        rate=None,
        tallies=(),
    )


def close_by_hand(breaker: Breaker, now: float, *, note: str | None, by: str | None) -> Breaker:
    """Those who wait pass at a rate, like those of one that closes by itself."""
    if breaker.state in (State.CLOSED, State.RECOVERING):
        return breaker
    return msgspec.structs.replace(_recover(breaker, now), reason=BY_HAND, note=note, by=by)


def events_of(before: Breaker, after: Breaker) -> tuple[str, ...]:
    """What those who listen are told of a change: that a try has failed is no news of an outage that lasts."""
    was, is_ = (one.state in (State.OPEN, State.HALF_OPEN) for one in (before, after))
    return () if was == is_ else ("breaker.opened",) if is_ else ("breaker.closed",)


def is_ahead(breaker: Breaker, now: float) -> bool:
    """Whether it came into its state at a time that is still to come: the clock was set back."""
    return breaker.since > now + AHEAD


def _in_time(breaker: Breaker, now: float) -> Breaker:
    """Else nothing that is claimed until then would be a try, and an open one would stay so for as much longer."""
    if not is_ahead(breaker, now):
        return breaker
    until = None if breaker.until is None else breaker.until - (breaker.since - now)
    return msgspec.structs.replace(breaker, since=now, until=until, tallies=())


def _try(breaker: Breaker, told: Report, now: float) -> Breaker:
    """Only those count that came through the gate, and since it is half open: what began while it recovered, or in an
    earlier try, and ends late says nothing of the service now."""
    longest = now - breaker.since + _SLACK
    if any(ago <= longest for ago in told.failed):
        return _open(breaker, now, _clean(told.error))
    succeeded = breaker.successes + sum(ago <= longest for ago in told.succeeded)
    if succeeded >= breaker.options.successes:
        return _recover(breaker, now)
    return msgspec.structs.replace(breaker, successes=succeeded)


def _open(breaker: Breaker, now: float, reason: str | None) -> Breaker:
    options = breaker.options
    again = breaker.state is not State.CLOSED or now - breaker.since < options.window
    openings = breaker.openings + 1 if again else 1
    # A number too large for a float is as long as the longest.
    seconds = min(options.longest, options.open_for * 2.0 ** min(openings - 1, 60))
    asked = breaker.retry_at
    return msgspec.structs.replace(
        breaker,
        state=State.OPEN,
        since=now,
        until=asked if asked is not None and asked > now else now + seconds,
        reason=reason,
        note=None,
        by=None,
        openings=openings,
        successes=0,
        rate=None,
        tallies=(),
    )


def _let_go(breaker: Breaker) -> Breaker:
    """Of one that closes by itself: who opened it by hand, and why, is over."""
    reason = None if breaker.reason == BY_HAND else breaker.reason
    return msgspec.structs.replace(breaker, reason=reason, note=None, by=None)


def _recover(breaker: Breaker, now: float) -> Breaker:
    return msgspec.structs.replace(
        _let_go(breaker),
        state=State.RECOVERING,
        since=now,
        until=now + _DOUBLES,
        successes=0,
        rate=breaker.options.release,
        tallies=(),
    )


def _asked(seconds: float | None, now: float) -> float | None:
    """Until when a service asks to be left alone."""
    return now + min(seconds, _LONGEST_WAIT) if seconds is not None and seconds > 0 else None


def _rest(breaker: Breaker, asked: float | None) -> Breaker:
    """It is open, for at least so long."""
    if asked is None or breaker.until is None or asked <= breaker.until:
        return breaker
    return msgspec.structs.replace(breaker, until=asked)


def _count(breaker: Breaker, told: Iterable[Tally], now: float, asked: float | None) -> Breaker:
    """Add what was told, and forget what is older than the window: also that a service asked for rest then. Where it
    opens by failures alone, nobody asks for successes."""
    options = breaker.options
    width = options.window / _BUCKETS
    counts = {t.at: t for t in breaker.tallies}
    for one in (*told, Tally(0.0, 0, 0, asked)):
        at = (now - max(0.0, one.at)) // width * width
        before = counts.get(at) or Tally(at, 0, 0)
        more = one.successes if options.ratio is not None else 0
        rests = [rest for rest in (before.retry_at, one.retry_at) if rest is not None]
        counts[at] = Tally(
            at, before.failures + one.failures, before.successes + more, max(rests, default=None)
        )
    tallies = tuple(
        one
        for at, one in sorted(counts.items())
        if at > now - options.window and (one.failures or one.successes or one.retry_at)
    )
    return msgspec.structs.replace(breaker, tallies=tallies)


def _too_many(breaker: Breaker) -> bool:
    failures, successes = breaker.counts
    ratio = breaker.options.ratio or 0.0
    enough = failures >= breaker.options.failures
    return enough and failures >= ratio * (failures + successes)


def _clean(text: str | None) -> str | None:
    return None if text is None else text[:_LONGEST_REASON]
