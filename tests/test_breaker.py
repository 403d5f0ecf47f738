"""What becomes of a breaker, whatever happens in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foliot.breaker_commands import options_of
from foliot.errors import InvalidValue, Retry, SoftTimeout
from foliot.model.breaker import (
    Breaker,
    Options,
    Report,
    State,
    Tally,
    close_by_hand,
    events_of,
    open_by_hand,
    pass_time,
    report,
)
from foliot.registry import define
from foliot.store.breaking import breaker_of, values_of
from foliot.worker.blame import blames_service, retry_after

Step = Callable[[Breaker, float], Breaker]
counts = st.integers(0, 8)
reports = st.builds(
    Report,
    tallies=st.lists(st.builds(Tally, st.floats(0, 200), counts, counts), max_size=4).map(tuple),
    failed=st.lists(st.floats(0, 400), max_size=2).map(tuple),
    succeeded=st.lists(st.floats(0, 400), max_size=3).map(tuple),
    retry_after=st.none() | st.floats(-5, 1e9),
    error=st.none() | st.text(max_size=300),
)
steps = st.one_of(
    reports.map(lambda told: lambda one, now: report(one, told, now)),
    st.booleans().map(lambda waiting: lambda one, now: pass_time(one, now, waiting=waiting)),
    st.none().map(lambda _: lambda one, now: close_by_hand(one, now, note="n", by="b")),
    (st.none() | st.floats(1, 1000)).map(
        lambda s: lambda one, now: open_by_hand(one, now, seconds=s, note="n", by="b")
    ),
)
options = st.builds(
    Options,
    failures=st.integers(1, 6),
    window=st.floats(1, 300),
    ratio=st.none() | st.floats(0.1, 1),
    open_for=st.floats(0.1, 60),
    longest=st.floats(60, 600),
    probes=st.integers(1, 5),
    successes=st.integers(1, 4),
    release=st.floats(0.1, 1000),
)
lives = st.lists(st.tuples(st.floats(0, 400), steps), max_size=40)
MOVES = {
    (State.CLOSED, State.OPEN),
    (State.OPEN, State.HALF_OPEN),
    (State.OPEN, State.RECOVERING),  # by hand
    (State.HALF_OPEN, State.OPEN),
    (State.HALF_OPEN, State.RECOVERING),
    (State.HALF_OPEN, State.CLOSED),  # nobody is there to try
    (State.RECOVERING, State.OPEN),
    (State.RECOVERING, State.CLOSED),
}


def live(options: Options, life: list[tuple[float, Step]]) -> list[tuple[float, Breaker]]:
    now, one = 1_000_000.0, Breaker(name="stripe", options=options)
    past = [(now, one)]
    for pause, step in life:
        now += pause
        one = step(one, now)
        past.append((now, one))
    return past


@settings(deadline=None)
@given(options, lives)
def test_it_only_goes_from_state_to_state_as_drawn(options: Options, life: Any) -> None:
    past = [one for _, one in live(options, life)]
    for before, after in pairwise(past):
        assert before.state is after.state or (before.state, after.state) in MOVES


@settings(deadline=None)
@given(options, lives)
def test_its_gate_is_what_its_state_says(options: Options, life: Any) -> None:
    for _, one in live(options, life):
        gate = one.gate
        match one.state:
            case State.CLOSED:
                assert gate is None
            case State.OPEN:
                assert gate is not None
                assert gate.concurrency == 0
            case State.HALF_OPEN:
                assert gate is not None
                assert gate.concurrency is not None
                assert gate.concurrency % options.probes == 0
            case State.RECOVERING:
                assert gate is not None
                assert gate.concurrency is None
                assert gate.rate is not None
                assert gate.rate >= options.release


def test_each_time_the_longest_has_passed_while_half_open_as_many_more_may_try() -> None:
    """One that hangs without a timeout would keep all others out."""
    one = Breaker(name="stripe", options=Options(failures=1, open_for=5, longest=10, probes=2))
    one = report(one, Report(tallies=(Tally(0.0, 1, 0),)), 1000.0)
    one, seen = pass_time(one, 1005.0, waiting=True), []
    for second in range(150):
        one = pass_time(one, 1005.0 + second, waiting=True, trying=True)
        assert one.gate is not None
        seen.append(one.gate.concurrency)
    assert seen[::10] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 20, 20, 20, 20, 20]
    one = report(one, Report(succeeded=(140.0,)), 1155.0)
    assert one.state is State.RECOVERING, "the first that tried counts, however long it took"


@settings(deadline=None)
@given(options, lives)
def test_unless_it_was_opened_by_hand_it_never_stays_for_ever(options: Options, life: Any) -> None:
    now, one = live(options, life)[-1]
    for _ in range(3):
        if one.state is State.OPEN and one.until is None:
            assert one.reason == "by hand"
            return
        now = max(now, one.until or now)
        one = pass_time(one, now, waiting=False)
    assert one.state is State.CLOSED


@settings(deadline=None)
@given(options, lives)
def test_it_opens_for_no_longer_than_the_longest_or_what_was_asked(
    options: Options, life: Any
) -> None:
    for now, one in live(options, life):
        if one.state is State.OPEN and one.until is not None:
            assert one.until <= now + max(options.longest, 86_400) + 1e-6


@settings(deadline=None)
@given(options, lives)
def test_what_it_remembers_is_within_its_window_and_short(options: Options, life: Any) -> None:
    for now, one in live(options, life):
        assert len(one.tallies) <= 32
        assert all(t.at <= now + 1e-6 for t in one.tallies)


@settings(deadline=None)
@given(options, lives)
def test_it_survives_being_stored(options: Options, life: Any) -> None:
    _, one = live(options, life)[-1]
    told = values_of(one)
    names = ["name", "state", "since", "until", "reason", "note", "by", "rate", "memory", "options"]
    assert breaker_of([told[name] for name in names]) == one


@settings(deadline=None)
@given(options, lives)
def test_opening_and_closing_are_told_in_turns(options: Options, life: Any) -> None:
    """However many tries fail in between."""
    past = [one for _, one in live(options, life)]
    told = [e for a, b in pairwise(past) for e in events_of(a, b)]
    assert told[::2] == ["breaker.opened"] * len(told[::2])
    assert told[1::2] == ["breaker.closed"] * len(told[1::2])


@pytest.mark.parametrize(
    ("failures", "successes", "opens"), [(4, 0, False), (5, 5, True), (5, 6, False)]
)
def test_with_a_ratio_failures_must_be_that_share_of_all(
    failures: int, successes: int, opens: bool
) -> None:
    one = Breaker(name="stripe", options=Options(ratio=0.5))
    told = Report(tallies=(Tally(0.0, failures, successes),))
    assert (report(one, told, 1000.0).state is State.OPEN) is opens


def test_failures_outside_of_the_window_are_forgotten() -> None:
    one = report(Breaker(name="stripe"), Report(tallies=(Tally(0.0, 4, 0),)), 1000.0)
    one = report(one, Report(tallies=(Tally(0.0, 4, 0),)), 1061.0)
    assert (one.state, one.counts) == (State.CLOSED, (4, 0))


def test_one_that_was_closed_for_long_opens_for_its_first_time_again() -> None:
    told = Report(tallies=(Tally(0.0, 5, 0),))
    one = Breaker(name="stripe", since=1000.0, openings=7)
    assert report(one, told, 1030.0).openings == 8
    assert report(one, told, 1061.0).openings == 1


def test_several_successes_may_be_asked_for() -> None:
    one = Breaker(name="stripe", state=State.HALF_OPEN, options=Options(successes=3))
    one = report(one, Report(succeeded=(0.0, 0.0)), 1000.0)
    assert one.state is State.HALF_OPEN
    assert report(one, Report(succeeded=(0.0,)), 1001.0).state is State.RECOVERING


class Rejected(Exception):
    def __init__(self, headers: Any = None, after: Any = None) -> None:
        self.response = None if headers is None else type("Response", (), {"headers": headers})()
        if after is not None:
            self.retry_after = after


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Rejected(), None),
        (Rejected(after=3), 3.0),
        (Rejected(after=2.5), 2.5),
        (Rejected(after="7"), 7.0),
        (Rejected({"Retry-After": "120"}), 120.0),
        (Rejected({"Retry-After": "soon"}), None),
        (Rejected({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), None),
        (Rejected(after=True), None),
        (Rejected(after=-1), None),
        (Rejected(after=float("nan")), None),
        (Rejected(headers=5), None),
        (ValueError("no"), None),
    ],
)
def test_an_exception_may_say_when_to_come_back(error: Exception, seconds: float | None) -> None:
    assert retry_after(error) == seconds


def test_it_may_say_so_by_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=1000), usegmt=True)
    told = retry_after(Rejected({"Retry-After": date}))
    assert told is not None
    assert 900 < told <= 1000


def call() -> None:
    """Some job."""


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (OSError(), True),
        (ConnectionError(), True),
        (KeyError(), False),
        (ValueError(), False),
        (Retry(), False),
        (SoftTimeout(), True),
        (ExceptionGroup("some", [KeyError(), ConnectionError()]), True),
        (ExceptionGroup("some", [KeyError()]), False),
    ],
)
def test_only_what_the_service_is_to_blame_for_counts(error: Exception, blamed: bool) -> None:
    definition = define(call, breaker="stripe", no_retry=ValueError)
    definition = msgspec.structs.replace(definition, breaks_on=(OSError,))
    assert blames_service(error, definition, late=False) is blamed
    assert blames_service(KeyError(), definition, late=True)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"failures": 0}, "failures: 0 is not a whole number"),
        ({"window": -1}, "window: -1 is not a number of seconds"),
        ({"ratio": 1.5}, "ratio: 1.5 is not a share"),
        ({"probes": 101}, "probes: 101 is not a whole number"),
        ({"release": "fast"}, "release: 'fast' is not a number of starts"),
        ({"open_for": "long"}, "open_for: 'long' is not a number of seconds"),
        ({"open_for": 60, "longest": 10}, "longest: 10 is shorter than open_for, 60 seconds"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        options_of(**wrong)
    assert told in str(caught.value)


def test_one_that_opens_for_longer_than_usual_stays_open_as_long() -> None:
    assert (options_of(open_for=60).longest, options_of(open_for=3600).longest) == (600, 3600)


@pytest.mark.parametrize("tried", [True, False])
def test_one_that_was_opened_by_hand_and_closes_by_itself_was_closed_by_nobody(
    *, tried: bool
) -> None:
    one = open_by_hand(Breaker(name="b"), 100, seconds=3, note="they move", by="ann")
    one = pass_time(one, 103, waiting=True)
    assert (one.state, one.note, one.by) == (State.HALF_OPEN, "they move", "ann")
    if tried:
        one = report(one, Report(succeeded=(0.0,)), 104)
        assert one.state is State.RECOVERING
    else:
        one = pass_time(one, 10_000, waiting=False)
        assert one.state is State.CLOSED
    assert (one.reason, one.note, one.by) == (None, None, None)


def test_one_that_had_opened_by_itself_was_opened_by_hand_when_somebody_did() -> None:
    one = Breaker(name="b", options=Options(failures=1))
    one = report(one, Report(tallies=(Tally(0.0, 1, 0),), failed=(0.0,), error="503"), 100)
    assert (one.state, one.since, one.by) == (State.OPEN, 100, None)
    one = open_by_hand(one, 110, seconds=None, note="they move", by="bob")
    assert (one.since, one.by, one.reason) == (110, "bob", "by hand")
    again = open_by_hand(one, 120, seconds=None, note="they move", by="bob")
    assert again == one


def test_one_that_is_closed_by_hand_says_by_whom() -> None:
    one = open_by_hand(Breaker(name="b"), 100, seconds=None, note="they move", by="ann")
    one = close_by_hand(one, 110, note="they are done", by="bob")
    assert (one.reason, one.note, one.by) == ("by hand", "they are done", "bob")
