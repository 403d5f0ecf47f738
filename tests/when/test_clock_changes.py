"""Clock changes: a table of what fires when, by the published rules of each zone, and a walk through every minute."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foliot.errors import InvalidValue
from foliot.when import DstGap, DstOverlap, between, parse
from when.brute import at_fixed_times, following_real_time, utc, wall_at

GAPS: tuple[DstGap, ...] = ("skip", "shift", "run_at_transition")
OVERLAPS: tuple[DstOverlap, ...] = ("first", "second", "both")

# A zone, a daily time that a clock change takes away, the fires of three days: the day before and after, and between
# them skipped, shifted and run at the change.
FORWARD = [
    (
        "Europe/Berlin",
        "30 2",
        "2026-03-28T01:30",
        "2026-03-29T01:30",
        "2026-03-29T01:00",
        "2026-03-30T00:30",
    ),
    (
        "Europe/London",
        "30 1",
        "2026-03-28T01:30",
        "2026-03-29T01:30",
        "2026-03-29T01:00",
        "2026-03-30T00:30",
    ),
    (
        "America/New_York",
        "30 2",
        "2026-03-07T07:30",
        "2026-03-08T07:30",
        "2026-03-08T07:00",
        "2026-03-09T06:30",
    ),
    (
        "Australia/Lord_Howe",
        "15 2",
        "2026-10-02T15:45",
        "2026-10-03T15:45",
        "2026-10-03T15:30",
        "2026-10-04T15:15",
    ),
    (
        "Australia/Sydney",
        "30 2",
        "2026-10-02T16:30",
        "2026-10-03T16:30",
        "2026-10-03T16:00",
        "2026-10-04T15:30",
    ),
    (
        "Pacific/Chatham",
        "0 3",
        "2026-09-25T14:15",
        "2026-09-26T14:15",
        "2026-09-26T14:00",
        "2026-09-27T13:15",
    ),
    (
        "America/Sao_Paulo",
        "0 0",
        "2018-11-03T03:00",
        "2018-11-04T03:00",
        "2018-11-04T03:00",
        "2018-11-05T02:00",
    ),
    (
        "America/Asuncion",
        "0 0",
        "2023-09-30T04:00",
        "2023-10-01T04:00",
        "2023-10-01T04:00",
        "2023-10-02T03:00",
    ),
    (
        "America/Santiago",
        "30 0",
        "2026-09-05T04:30",
        "2026-09-06T04:30",
        "2026-09-06T04:00",
        "2026-09-07T03:30",
    ),
    (
        "Asia/Beirut",
        "0 0",
        "2026-03-27T22:00",
        "2026-03-28T22:00",
        "2026-03-28T22:00",
        "2026-03-29T21:00",
    ),
    (
        "Asia/Tehran",
        "30 0",
        "2021-03-20T21:00",
        "2021-03-21T21:00",
        "2021-03-21T20:30",
        "2021-03-22T20:00",
    ),
    (
        "Africa/Cairo",
        "0 0",
        "2026-04-22T22:00",
        "2026-04-23T22:00",
        "2026-04-23T22:00",
        "2026-04-24T21:00",
    ),
    (
        "Asia/Kathmandu",
        "5 0",
        "1985-12-30T18:35",
        "1985-12-31T18:35",
        "1985-12-31T18:30",
        "1986-01-01T18:20",
    ),
    (
        "Pacific/Apia",
        "0 9",
        "2011-12-29T19:00",
        "2011-12-30T19:00",
        "2011-12-30T10:00",
        "2011-12-30T19:00",
    ),
]

# A zone, a daily time that comes twice, and its fires: the day before, first and second, the day after.
BACK = [
    (
        "Europe/Berlin",
        "30 2",
        "2026-10-24T00:30",
        "2026-10-25T00:30",
        "2026-10-25T01:30",
        "2026-10-26T01:30",
    ),
    (
        "Europe/London",
        "30 1",
        "2026-10-24T00:30",
        "2026-10-25T00:30",
        "2026-10-25T01:30",
        "2026-10-26T01:30",
    ),
    (
        "America/New_York",
        "30 1",
        "2026-10-31T05:30",
        "2026-11-01T05:30",
        "2026-11-01T06:30",
        "2026-11-02T06:30",
    ),
    (
        "Australia/Lord_Howe",
        "45 1",
        "2026-04-03T14:45",
        "2026-04-04T14:45",
        "2026-04-04T15:15",
        "2026-04-05T15:15",
    ),
    (
        "Australia/Sydney",
        "30 2",
        "2026-04-03T15:30",
        "2026-04-04T15:30",
        "2026-04-04T16:30",
        "2026-04-05T16:30",
    ),
    (
        "Pacific/Chatham",
        "0 3",
        "2026-04-03T13:15",
        "2026-04-04T13:15",
        "2026-04-04T14:15",
        "2026-04-05T14:15",
    ),
    (
        "America/Sao_Paulo",
        "30 23",
        "2018-02-17T01:30",
        "2018-02-18T01:30",
        "2018-02-18T02:30",
        "2018-02-19T02:30",
    ),
    (
        "America/Santiago",
        "30 23",
        "2026-04-04T02:30",
        "2026-04-05T02:30",
        "2026-04-05T03:30",
        "2026-04-06T03:30",
    ),
    (
        "Asia/Beirut",
        "30 23",
        "2026-10-23T20:30",
        "2026-10-24T20:30",
        "2026-10-24T21:30",
        "2026-10-25T21:30",
    ),
    (
        "Asia/Tehran",
        "30 23",
        "2021-09-20T19:00",
        "2021-09-21T19:00",
        "2021-09-21T20:00",
        "2021-09-22T20:00",
    ),
    (
        "Africa/Cairo",
        "30 23",
        "2026-10-28T20:30",
        "2026-10-29T20:30",
        "2026-10-29T21:30",
        "2026-10-30T21:30",
    ),
    (
        "Africa/Casablanca",
        "30 2",
        "2024-03-09T01:30",
        "2024-03-10T01:30",
        "2024-03-10T02:30",
        "2024-03-11T02:30",
    ),
]


def fires_of(
    text: str, zone: str, start: int, end: int, gap: DstGap | None, overlap: DstOverlap | None
) -> list[int]:
    timetable = parse(text, timezone=zone).timetable(dst_gap=gap, dst_overlap=overlap)
    return list(between(timetable, start, end))


@pytest.mark.parametrize(
    ("zone", "time", "before", "shifted", "changed", "after"),
    FORWARD,
    ids=[row[0] for row in FORWARD],
)
def test_a_time_that_does_not_exist(
    zone: str, time: str, before: str, shifted: str, changed: str, after: str
) -> None:
    span = (utc(before) - 1, utc(after))
    gap_fires: dict[DstGap | None, list[str]] = {
        None: [changed],
        "run_at_transition": [changed],
        "shift": [shifted],
        "skip": [],
    }
    for gap, expected in gap_fires.items():
        wanted = sorted({utc(fire) for fire in (before, *expected, after)})
        assert fires_of(f"{time} * * *", zone, *span, gap, None) == wanted, gap


@pytest.mark.parametrize(
    ("zone", "time", "before", "first", "second", "after"), BACK, ids=[row[0] for row in BACK]
)
def test_a_time_that_comes_twice(
    zone: str, time: str, before: str, first: str, second: str, after: str
) -> None:
    span = (utc(before) - 1, utc(after))
    overlap_fires: dict[DstOverlap | None, list[str]] = {
        None: [first],
        "first": [first],
        "second": [second],
        "both": [first, second],
    }
    for overlap, expected in overlap_fires.items():
        wanted = [utc(fire) for fire in (before, *expected, after)]
        assert fires_of(f"{time} * * *", zone, *span, None, overlap) == wanted, overlap


def test_a_zone_without_changes_has_no_surprise() -> None:
    start = utc("2026-03-28T00:00")
    assert fires_of("30 2 * * *", "UTC", start, start + 3 * 86_400, None, None) == [
        start + day * 86_400 + 9000 for day in range(3)
    ]


def test_what_follows_real_time_has_as_many_fires_as_the_day_has_hours() -> None:
    for zone, day, hours in (
        ("America/New_York", "2026-11-01T04:00", 25),
        ("America/New_York", "2026-03-08T05:00", 23),
        ("Australia/Lord_Howe", "2026-04-04T13:00", 24.5),
        ("Australia/Lord_Howe", "2026-10-03T13:30", 23.5),
    ):
        start = utc(day)
        end = start + int(hours * 3600)
        assert (wall_at(start, zone).hour, wall_at(end, zone).hour) == (0, 0)
        quarters = fires_of("*/15 * * * *", zone, start - 1, end - 1, "skip", "first")
        assert quarters == list(range(start, end, 900))


def test_several_times_in_one_gap_fire_once_at_the_change() -> None:
    start = utc("2026-03-29T00:00")
    fires = fires_of("0,15,30 2,3 * * *", "Europe/Berlin", start, start + 7200, None, None)
    assert fires == [start + 3600, start + 3600 + 900, start + 3600 + 1800]


def test_a_rare_time_next_to_a_change_is_found_and_passed() -> None:
    in_gap = parse("30 2 29 3 *", timezone="Europe/Berlin").timetable()
    change = utc("2026-03-29T01:00")
    assert in_gap.next_after(utc("2025-04-01T00:00")) == change
    assert in_gap.next_after(change - 1) == change
    assert in_gap.next_after(change) == utc("2027-03-29T00:30")
    twice = parse("30 2 25 10 *", timezone="Europe/Berlin").timetable(dst_overlap="both")
    first, second = utc("2026-10-25T00:30"), utc("2026-10-25T01:30")
    assert twice.next_after(utc("2025-12-01T00:00")) == first
    assert twice.next_after(first) == second
    assert twice.next_after(second) == utc("2027-10-25T00:30")


def test_a_rule_for_clock_changes_that_is_not_known_is_refused() -> None:
    expression = parse("30 2 * * *")
    with pytest.raises(
        InvalidValue, match=r"dst_gap: 'shft' is not known, for example skip or shift or"
    ):
        expression.timetable(dst_gap="shft")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match=r"dst_overlap: 'last' is not known"):
        expression.timetable(dst_overlap="last")  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_moments_out_of_all_bounds_have_an_answer(zone: str) -> None:
    for text in ("0 9 * * *", "* * * * *", "P1D", "FREQ=DAILY", "PT1H"):
        timetable = parse(text, timezone=zone).timetable()
        assert timetable.next_after(10**15) is None
        first = timetable.next_after(-(10**15))
        assert first is not None
        assert timetable.next_after(first) is not None


def test_the_last_rule_of_a_zone_goes_on() -> None:
    fires = fires_of(
        "0 12 1 1,7 *",
        "Europe/Berlin",
        utc("2400-01-01T00:00"),
        utc("2401-01-01T00:00"),
        None,
        None,
    )
    assert fires == [utc("2400-01-01T11:00"), utc("2400-07-01T10:00")]


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("Europe/Dublin", "2026-10-25T01:00"),
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2026-11-01T06:00"),
    ("America/St_Johns", "2010-03-14T03:31"),
    ("America/Nuuk", "2026-03-29T01:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("Africa/Casablanca", "2024-03-10T02:00"),
    ("Africa/Casablanca", "2024-04-14T02:00"),
    ("Asia/Beirut", "2026-03-28T22:00"),
    ("Asia/Pyongyang", "2015-08-14T15:00"),
    ("Pacific/Chatham", "2037-09-26T14:00"),
    ("Pacific/Chatham", "2077-09-25T14:00"),
]


def numbers(low: int, high: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=most, unique=True)


def joined(values: list[int]) -> str:
    return ",".join(map(str, values))


@settings(max_examples=250, deadline=None)
@given(
    change=st.sampled_from(CHANGES),
    minutes=numbers(0, 59, 6),
    hours=st.lists(
        st.sampled_from([0, 1, 2, 3, 4, 9, 22, 23]), min_size=1, max_size=5, unique=True
    ),
    weekdays=numbers(0, 6, 7),
    gap=st.sampled_from(GAPS),
    overlap=st.sampled_from(OVERLAPS),
)
def test_fixed_times_fire_as_a_walk_through_every_minute_finds(
    change: tuple[str, str],
    minutes: list[int],
    hours: list[int],
    weekdays: list[int],
    gap: DstGap,
    overlap: DstOverlap,
) -> None:
    zone, at = change
    start, end = utc(at) - 2 * 86_400, utc(at) + 2 * 86_400
    walked = at_fixed_times(
        lambda wall: (
            wall.minute in minutes and wall.hour in hours and wall.isoweekday() % 7 in weekdays
        ),
        zone,
        start,
        end,
        gap=gap,
        overlap=overlap,
    )
    text = f"{joined(minutes)} {joined(hours)} * * {joined(weekdays)}"
    assert fires_of(text, zone, start, end, gap, overlap) == walked


@settings(max_examples=100, deadline=None)
@given(
    change=st.sampled_from(CHANGES),
    step=st.sampled_from([1, 5, 7, 15, 20, 30]),
    hours=st.none() | st.lists(st.sampled_from([0, 1, 2, 3, 23]), min_size=1, unique=True),
    gap=st.sampled_from(GAPS),
    overlap=st.sampled_from(OVERLAPS),
)
def test_what_has_a_star_fires_as_the_clock_on_the_wall_shows_it(
    change: tuple[str, str], step: int, hours: list[int] | None, gap: DstGap, overlap: DstOverlap
) -> None:
    zone, at = change
    start, end = utc(at) - 86_400, utc(at) + 86_400
    walked = following_real_time(
        lambda wall: wall.minute % step == 0 and (hours is None or wall.hour in hours),
        zone,
        start,
        end,
    )
    text = f"*/{step} {joined(hours) if hours else '*'} * * *"
    assert fires_of(text, zone, start, end, gap, overlap) == walked
