"""Cron in plain time: the same fires as cronsim, and as a calendar looked at day by day."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foliot.errors import InvalidExpression
from foliot.when import Expression, between, count_between, last_until, parse
from when.brute import utc
from when.texts import five, six, with_all_days

moments = st.integers(utc("1999-01-01T00:00"), utc("2110-01-01T00:00"))


def next_of(text: str, moment: int, count: int) -> list[int]:
    return list(islice(between(parse(text).timetable(), moment, utc("2400-01-01T00:00")), count))


def read_if_it_fires(text: str, *, timezone: str = "UTC") -> Expression | None:
    try:
        return parse(text, timezone=timezone)
    except InvalidExpression as refused:
        if refused.code != "never_fires":
            raise
        return None


@settings(max_examples=400, deadline=None)
@given(text=five | six, moment=moments)
def test_the_next_fires_are_those_of_cronsim(text: str, moment: int) -> None:
    start = datetime.fromtimestamp(moment, UTC).replace(tzinfo=None)
    try:
        oracle = CronSim(text, start)
    except CronSimError:  # it looks for days that no month has in its own way
        assume(False)
    expression = read_if_it_fires(text)
    if expression is None:
        assert next(oracle, None) is None
        return
    found = next_of(text, moment, 12)
    wanted = [int(fire.replace(tzinfo=UTC).timestamp()) for fire in islice(oracle, 12)]
    assert wanted  # it gives up earlier than we do
    assert found[: len(wanted)] == wanted


def day_matches(day: date, field: str) -> bool:
    """One item of the day of the month, by the calendar of Python."""
    last = calendar.monthrange(day.year, day.month)[1]
    if field == "L":
        return day.day == last
    if field.startswith("L-"):
        return day.day == last - int(field[2:])
    wanted = last if field == "LW" else int(field[:-1])
    if wanted > last:
        return False
    inside = [date(day.year, day.month, number) for number in range(1, last + 1)]
    workdays = [each for each in inside if each.weekday() < 5]
    return day == min(workdays, key=lambda each: abs(each.day - wanted))


@pytest.mark.parametrize(
    "field", ["L", "L-1", "L-3", "L-30", "LW", "1W", "15W", "29W", "30W", "31W"]
)
def test_special_days_are_those_of_the_calendar(field: str) -> None:
    start, years = date(2023, 1, 1), 366 * 6
    days = [start + timedelta(days=number) for number in range(years)]
    wanted = [utc(f"{day}T00:00") for day in days if day_matches(day, field)]
    assert next_of(f"0 0 {field} * *", utc("2022-12-31T23:00"), len(wanted)) == wanted


def test_two_restricted_day_fields_mean_either_and_a_star_means_both() -> None:
    start = utc("2026-06-01T00:00") - 1

    def days(text: str) -> list[int]:
        found = between(parse(text).timetable(), start, start + 30 * 86_400)
        return [datetime.fromtimestamp(fire, UTC).day for fire in found]

    assert days("0 0 13 * 5") == [5, 12, 13, 19, 26]
    assert days("0 0 */2 * 1") == [1, 15, 29]
    assert days("0 0 13 * *") == [13]
    assert days("0 0 ? * 5") == [5, 12, 19, 26]
    assert days("0 0 1-31 * 1") == list(range(1, 31))
    assert days("0 0 L * 5#2") == [12, 30]
    assert days("0 0 * * 1L") == [29]


def test_a_leap_day_skips_the_centuries_that_are_none() -> None:
    years = [
        1970 + fire // 31_556_952 for fire in next_of("0 0 29 2 *", utc("2090-01-01T00:00"), 3)
    ]
    assert years == [2092, 2096, 2104]
    mondays = next_of("0 0 29 2 1#5", utc("2026-01-01T00:00"), 100)
    assert any(fire == utc("2044-02-29T00:00") for fire in mondays)
    assert len(next_of("0 0 29 2 */6", utc("2026-01-01T00:00"), 3)) == 3  # a Saturday or a Sunday


@settings(max_examples=200, deadline=None)
@given(text=with_all_days, moment=moments)
def test_fires_are_after_the_moment_and_in_order_and_counted_right(text: str, moment: int) -> None:
    expression = read_if_it_fires(text, timezone="America/New_York")
    if expression is None:
        return
    timetable = expression.timetable()
    fires = list(islice(between(timetable, moment, utc("2400-01-01T00:00")), 30))
    assert all(left < right for left, right in pairwise([moment, *fires]))
    for fire, following in pairwise(fires):
        assert timetable.next_after(fire - 1) == fire
        assert timetable.next_after(following - 1) == following
        assert last_until(timetable, following - 1) == fire
    assert count_between(timetable, moment, fires[-1]) == len(fires)
    assert count_between(timetable, moment, fires[-1], limit=3) == min(3, len(fires))
    assert list(between(timetable, moment, fires[-1] - 1)) == fires[:-1]


@settings(max_examples=300, deadline=None)
@given(text=five | six | with_all_days)
def test_the_canonical_text_is_read_as_the_same(text: str) -> None:
    expression = read_if_it_fires(text)
    if expression is None:
        return
    again = parse(expression.text)
    assert again == expression
    assert again.text == expression.text
    assert again.form == expression.form


def test_what_has_ended_has_no_next_fire() -> None:
    assert parse("2026-11-20T10:00:00Z").timetable().next_after(utc("2026-11-20T10:00")) is None
    once = parse("2026-11-20T10:00:00Z")
    assert not once.recurring
    assert once.timetable().next_after(utc("2026-11-20T09:59")) == utc("2026-11-20T10:00")
    three = parse("R3/2026-01-31T09:00:00/P1M")
    assert [
        f"{datetime.fromtimestamp(fire, UTC):%m-%d}"
        for fire in between(three.timetable(), 0, 2**34)
    ] == [
        "01-31",
        "02-28",
        "03-31",
    ]
    assert parse("* * * * *").timetable().next_after(utc("2499-12-31T23:59")) is None
    assert last_until(parse("R/2026-01-01T00:00:00Z/PT1H").timetable(), 0) is None


def test_intervals_of_elapsed_time_are_aligned_and_counted_from_their_start() -> None:
    quarter = parse("PT15M").timetable()
    assert quarter.next_after(0) == 900
    assert quarter.next_after(-1) == 0
    anchored = parse("R/2026-01-01T00:05:00Z/PT15M").timetable()
    start = utc("2026-01-01T00:05")
    assert anchored.next_after(0) == start
    assert anchored.next_after(start) == start + 900
    five_times = parse("R5/2026-01-01T00:05:00Z/PT15M").timetable()
    assert list(between(five_times, 0, 2**34)) == [start + 900 * number for number in range(5)]


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        ("P1M", ["2026-01-31T23:00", "2026-02-28T23:00", "2026-03-31T22:00"]),
        ("P1W", ["2026-01-18T23:00", "2026-01-25T23:00"]),
        ("P1D", ["2026-01-15T23:00", "2026-01-16T23:00"]),
        ("R/2026-01-31T09:00:00/P1M", ["2026-01-31T08:00", "2026-02-28T08:00", "2026-03-31T07:00"]),
        ("R/2024-02-29T09:00:00/P1Y", ["2026-02-28T08:00", "2027-02-28T08:00", "2028-02-29T08:00"]),
        (
            "R/2026-03-27T02:30:00/P1D",
            ["2026-03-27T01:30", "2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"],
        ),
        ("R/2026-01-15T12:00:00/P1DT6H", ["2026-01-16T17:00", "2026-01-17T23:00"]),
    ],
)
def test_intervals_by_the_calendar_keep_the_wall_and_the_day(text: str, fires: list[str]) -> None:
    timetable = parse(text, timezone="Europe/Berlin").timetable()
    start = utc("2026-01-15T12:00")
    assert list(islice(between(timetable, start, 2**34), len(fires))) == [
        utc(fire) for fire in fires
    ]
