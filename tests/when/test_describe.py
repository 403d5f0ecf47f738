"""Every form says itself in English, and that sentence fires at the same times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foliot.errors import InvalidExpression
from foliot.when import Expression, parse

AFTER = int(datetime(2026, 2, 1, 12, 34, 56, tzinfo=UTC).timestamp())
FIRES = 20

ENGLISH = {
    "* * * * *": "every minute",
    "*/15 * * * *": "every 15 minutes within the hour",
    "0 * * * *": "every hour",
    "15 * * * *": "every hour at minute 15",
    "0 */2 * * *": "every 2 hours within the day",
    "15 */3 * * 2": "every 3 hours within the day at minute 15 on tuesdays",
    "0 9 * * *": "every day at 09:00",
    "0 9,13,17 * * *": "every day at 09:00, 13:00 and 17:00",
    "30 0 9 * * *": "every day at 09:00:30",
    "*/7 * * * * *": "every 7 seconds within the minute",
    "0 9 * * MON-FRI": "every weekday at 09:00",
    "15 7 * * 1,3,5": "every monday, wednesday and friday at 07:15",
    "0 9-17 * * 1-5": "every hour from 09:00 to 17:00 on weekdays",
    "*/10 9-16 * * *": "every 10 minutes from 09:00 to 16:50",
    "* 9 * * *": "every minute from 09:00 to 09:59",
    "0-59 9 * * *": "at minutes 0 to 59 during hour 9",
    "*/5,7 9 * * *": "at minutes 0, 5, 7, 10, 15, 20, 25, 30, 35, 40, 45, 50 and 55 during hour 9 by elapsed time",
    "30 8 * * 1#1": "on the first monday of the month at 08:30",
    "0 9 * * 1#1,1#3": "on the first and third monday of the month at 09:00",
    "0 17 * * 5L": "on the last friday of the month at 17:00",
    "0 18 L * *": "on the last day of the month at 18:00",
    "0 0 LW * *": "on the last weekday of the month at 00:00",
    "0 0 15W * *": "on the weekday nearest the 15th of the month at 00:00",
    "0 0 1,15 * *": "on the 1st and 15th of the month at 00:00",
    "0 0 13 * 5": "on the 13th of the month or on fridays at 00:00",
    "0 0 */2 * 1": "on days 1 to 31 by 2 that are mondays at 00:00",
    "0 9 24 12 *": "on the 24th of every december at 09:00",
    "0 0 * 6-8 1": "every monday in june to august at 00:00",
    "0 0 1 */3 *": ("on the 1st of every january, april, july and october at 00:00"),
    "PT15M": "every 15 minutes",
    "PT1H": "every 60 minutes",
    "P1D": "every day at 00:00",
    "P1M": "on the 1st of the month at 00:00",
    "P1DT12H": "every 1 day and 12 hours starting 1970-01-01 at 00:00",
    "R/2026-01-01T00:05:00Z/PT15M": "every 15 minutes starting 2026-01-01 at 01:05",
    "R5/2026-01-01T00:00:00Z/PT1H": "every 60 minutes, 5 times, starting 2026-01-01 at 01:00",
    "R/2026-01-31T09:00:00/P1M": "every month starting 2026-01-31 at 09:00",
    "every other tuesday at noon": "every 2 weeks on tuesday at 12:00",
    "every other monday and friday at 9": "every 2 weeks on monday and friday at 09:00",
    "2026-12-24T18:00:00Z": "on 2026-12-24 at 19:00",
    "2026-10-25T01:30:00Z": "at 2026-10-25T01:30:00Z",
    "DTSTART:20260101T090000 RRULE:FREQ=YEARLY;BYDAY=-2TH;COUNT=5": (
        "repeating every year, on 2nd to last thursday, starting 2026-01-01 at 09:00, 5 times"
    ),
}

ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]
)


def _fires(expression: Expression) -> list[int]:
    timetable, fires = expression.timetable(), list[int]()
    moment: int | None = AFTER
    while moment is not None and len(fires) < FIRES:
        moment = timetable.next_after(moment)
        fires += [] if moment is None else [moment]
    return fires


def _check(text: str, zone: str) -> None:
    try:
        expression = parse(text, timezone=zone)
    except InvalidExpression:  # never fires
        assume(False)
    english = expression.english
    assert english.isprintable()
    again = parse(english, timezone=zone)
    assert _fires(again) == _fires(expression)
    assert _fires(parse(again.english, timezone=zone)) == _fires(expression)


@pytest.mark.parametrize("text", ENGLISH)
def test_an_expression_says_itself_in_english(text: str) -> None:
    expression = parse(text, timezone="Europe/Berlin")
    assert expression.english == ENGLISH[text]
    assert _fires(parse(expression.english, timezone="Europe/Berlin")) == _fires(expression)


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(sorted)
    return st.one_of(
        number.map(str),
        span.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.builds(
            lambda pair, step: f"{pair[0]}-{pair[1]}/{min(step, max(pair[1] - pair[0], 1))}",
            span.filter(lambda pair: pair[0] < pair[1]),
            st.integers(1, high),
        ),
    )


def _field(low: int, high: int, *special: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    star = st.one_of(st.just("*"), st.integers(2, high - low).map(lambda step: f"*/{step}"))
    item = st.one_of(_numbers(low, high), *special)
    lists = st.lists(item, min_size=1, max_size=4).map(",".join)
    mixed = st.builds(lambda first, rest: f"{first},{rest}", star, lists)
    return st.one_of(star, star, lists, lists, mixed)


_days = _field(
    1,
    31,
    st.just("L"),
    st.just("LW"),
    st.integers(1, 15).map(lambda n: f"L-{n}"),
    st.integers(1, 31).map(lambda n: f"{n}W"),
)
_weekdays = _field(
    0,
    6,
    st.integers(0, 6).map(lambda n: f"{n}L"),
    st.builds(lambda n, k: f"{n}#{k}", st.integers(0, 6), st.integers(1, 5)),
)
_crons = st.tuples(_field(0, 59), _field(0, 23), _days, _field(1, 12), _weekdays).map(" ".join)
_small_crons = st.tuples(
    st.sampled_from(["0", "30", "*/5", "*", "0,30"]),
    st.sampled_from(["*", "9", "9-17", "*/2", "9,17", "0-23"]),
    st.sampled_from(["*", "1", "1,15", "31", "L", "*/2", "1-7"]),
    st.sampled_from(["*", "1", "6-8", "*/3"]),
    st.sampled_from(["*", "1-5", "0,6", "1", "1#1", "5L", "*/2"]),
).map(" ".join)


@given(cron=_crons, zone=ZONES)
@settings(max_examples=100, deadline=None)
def test_any_cron_survives_its_english(cron: str, zone: str) -> None:
    _check(cron, zone)


@given(cron=_small_crons, zone=ZONES)
@settings(max_examples=100, deadline=None)
def test_any_cron_as_people_write_it_survives_its_english(cron: str, zone: str) -> None:
    _check(cron, zone)
    assert parse(cron).english != parse(cron).text


@given(second=_field(0, 59), cron=_small_crons, zone=ZONES)
@settings(max_examples=40, deadline=None)
def test_any_cron_with_seconds_survives_its_english(second: str, cron: str, zone: str) -> None:
    _check(f"{second} {cron}", zone)


_starts = st.datetimes(datetime(2020, 1, 1), datetime(2027, 1, 1)).map(  # noqa: DTZ001 - wall times
    lambda at: at.replace(microsecond=0).isoformat()
)
_durations = st.one_of(
    st.integers(1, 10**6).map(lambda n: f"PT{n}S"),
    st.integers(1, 1000).map(lambda n: f"PT{n}M"),
    st.builds(
        lambda y, m, d, s: f"P{y}Y{m}M{d}DT{s}S",
        st.integers(0, 3),
        st.integers(0, 14),
        st.integers(1, 40),
        st.integers(0, 90_000),
    ),
    st.builds(lambda n, unit: f"P{n}{unit}", st.integers(1, 40), st.sampled_from("DWMY")),
)


@given(
    duration=_durations,
    start=st.none() | _starts | _starts.map(lambda at: at + "Z"),
    count=st.none() | st.integers(1, 10**6),
    zone=ZONES,
)
@settings(max_examples=100, deadline=None)
def test_any_interval_survives_its_english(
    duration: str, start: str | None, count: int | None, zone: str
) -> None:
    _check(duration if start is None else f"R{count or ''}/{start}/{duration}", zone)


@given(at=_starts, zone=ZONES)
@settings(max_examples=40, deadline=None)
def test_any_instant_survives_its_english(at: str, zone: str) -> None:
    expression = parse(f"{at}Z", timezone=zone)
    assert parse(expression.english, timezone=zone) == expression


def _some(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(values, min_size=1, max_size=3, unique=True)
    return st.just("") | some.map(lambda items: f";{name}={','.join(items)}")


def _place(most: int) -> st.SearchStrategy[str]:
    return (st.integers(1, most) | st.integers(-most, -1)).map(str)


_names = st.sampled_from(["SU", "MO", "TU", "WE", "TH", "FR", "SA"])
_rules = st.tuples(
    st.sampled_from(["DTSTART:20260105T093000 RRULE:", "RRULE:"]),
    st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"]).map(lambda name: f"FREQ={name}"),
    st.just("") | st.integers(2, 5).map(lambda n: f";INTERVAL={n}"),
    st.sampled_from(["", "", ";COUNT=7", ";UNTIL=20300101T000000"]),
    _some("BYMONTH", st.integers(1, 12).map(str)),
    _some("BYDAY", _names),
    _some("BYHOUR", st.integers(0, 23).map(str)),
    _some("BYMINUTE", st.integers(0, 59).map(str)),
    st.sampled_from(["", ";WKST=SU"]),
    st.sampled_from(["", " EXDATE:20260302T093000,20260303T093000", " RDATE:20260304T010203"]),
).map("".join)
_monthly = st.builds(
    lambda days, places: f"DTSTART:20260105T093000 RRULE:FREQ=MONTHLY{days}{places}",
    _some("BYMONTHDAY", _place(28)).filter(bool),
    st.sampled_from(["", ";BYSETPOS=1", ";BYSETPOS=-1"]),
)
_nth = st.builds(
    lambda days: f"DTSTART:20260105T093000 RRULE:FREQ=MONTHLY{days}",
    _some("BYDAY", st.builds(lambda place, day: place + day, _place(4), _names)).filter(bool),
)


@given(rule=_rules | _monthly | _nth, zone=ZONES)
@settings(max_examples=100, deadline=None)
def test_any_rule_survives_its_english(rule: str, zone: str) -> None:
    _check(rule, zone)
    assert not parse(rule).english.startswith(("DTSTART", "RRULE"))
