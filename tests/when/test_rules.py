"""RRULE: the same fires as dateutil walking from the start, wherever one begins to ask."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr

from foliot.errors import InvalidExpression
from foliot.when import between, parse

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - dateutil is asked in naive time
FAR = 16_000_000_000

RULES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;BYMONTHDAY=-1,29;BYMONTH=2,3",
    "FREQ=DAILY;BYDAY=MO,WE;BYMONTH=3;BYHOUR=1,2",
    "FREQ=DAILY;COUNT=7;INTERVAL=3",
    "FREQ=DAILY;BYDAY=SA;COUNT=9",
    "FREQ=DAILY;UNTIL=20260601T235959",
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TU;WKST=SU",
    "FREQ=MONTHLY;INTERVAL=3",
    "FREQ=MONTHLY;BYMONTHDAY=31",
    "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=YEARLY",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
    "FREQ=YEARLY;BYWEEKNO=20;BYSETPOS=7",
    "FREQ=YEARLY;BYDAY=SU;BYSETPOS=-1,52",
    "FREQ=YEARLY;BYYEARDAY=1,100,366",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=HOURLY;INTERVAL=7;BYMONTHDAY=-1",
    "FREQ=MINUTELY;INTERVAL=45;BYHOUR=9,10",
    "FREQ=MINUTELY;INTERVAL=17;BYYEARDAY=-1,1,2,3,4;BYDAY=SA",
    "FREQ=SECONDLY;INTERVAL=7;BYMINUTE=3",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_fires_as_dateutil_says(rule: str) -> None:
    text = f"DTSTART:20240131T093005\nRRULE:{rule}"
    walked = [int((found - EPOCH).total_seconds()) for found in islice(rrulestr(text), 400)]
    wanted = [found for found in walked if found < FAR]
    timetable = parse(text).timetable()
    assert list(islice(between(timetable, 0, FAR), 400)) == wanted
    fresh = parse(text.replace("\n", " ")).timetable()
    for index in range(len(wanted) - 2, 0, -7):  # backwards: nothing found before is of use
        assert fresh.next_after(wanted[index] - 1) == wanted[index]
        assert fresh.next_after(wanted[index]) == wanted[index + 1]


def test_dates_are_added_and_taken_out() -> None:
    text = (
        "DTSTART:20260105T090000\nRRULE:FREQ=DAILY;COUNT=4\n"
        "RDATE:20260106T120000,20260301T000000\nEXDATE:20260107T090000"
    )
    fires = [EPOCH + timedelta(seconds=at) for at in between(parse(text).timetable(), 0, FAR)]
    assert [f"{fire:%m-%dT%H}" for fire in fires] == [
        "01-05T09",
        "01-06T09",
        "01-06T12",
        "01-08T09",
        "03-01T00",
    ]
    assert parse(text).text == text


def test_its_zone_may_be_named_by_its_properties() -> None:
    text = (
        "DTSTART;TZID=Europe/Berlin:20260101T090000\r\nRRULE:FREQ=DAILY\r\nEXDATE:20260102T080000Z"
    )
    expression = parse(text)
    assert expression.timezone == "Europe/Berlin"
    assert expression.text == "DTSTART:20260101T090000\nRRULE:FREQ=DAILY\nEXDATE:20260102T090000"
    assert parse(expression.text, timezone="Europe/Berlin") == expression
    with pytest.raises(
        InvalidExpression, match="names the zone Europe/Berlin, and timezone is UTC"
    ):
        parse(text, timezone="UTC")


def test_an_hourly_rule_follows_real_time_and_a_daily_one_the_wall() -> None:
    change = 1_793_512_800  # 2026-11-01T06:00Z: in New York 02:00 becomes 01:00
    hourly = parse("FREQ=HOURLY", timezone="America/New_York").timetable()
    around = range(change - 2 * 3600, change + 3 * 3600, 3600)
    assert list(between(hourly, around[0] - 1, around[-1])) == list(around)
    daily = parse("FREQ=DAILY;BYHOUR=1;BYMINUTE=30", timezone="America/New_York")
    day = (change - 12 * 3600, change + 12 * 3600)
    assert list(between(daily.timetable(), *day)) == [change - 1800]
    both = daily.timetable(dst_overlap="both")
    assert list(between(both, *day)) == [change - 1800, change + 1800]


NEVER = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=5",
    "FREQ=YEARLY;BYDAY=MO;BYSETPOS=300",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
    "FREQ=MINUTELY;BYYEARDAY=1;BYMONTH=2",
    "DTSTART:20260106T000000 RRULE:FREQ=DAILY;INTERVAL=7;BYDAY=MO",
    "DTSTART:20260106T000000 RRULE:FREQ=MONTHLY;INTERVAL=2;BYMONTH=2,4",
    "DTSTART:20250101T000000 RRULE:FREQ=YEARLY;INTERVAL=4;BYYEARDAY=366",
    "DTSTART:20250101T000000 RRULE:FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29",
    "DTSTART:20260101T000000 RRULE:FREQ=DAILY;COUNT=1 EXDATE:20260101T000000",
    "DTSTART:20260101T000000 RRULE:FREQ=DAILY;UNTIL=20251231",
]


@pytest.mark.parametrize("text", NEVER)
def test_a_rule_that_never_fires_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpression, match="never fires") as refused:
        parse(text)
    assert refused.value.code == "never_fires"


WRONG = {
    "FREQ=FOO": (5, "no known FREQ"),
    "RRULE:INTERVAL=2": (6, "no known FREQ"),
    "FREQ=DAILY;COUNT=1;COUNT=2": (19, "comes twice"),
    "FREQ=DAILY;COUNT=1;UNTIL=20260101": (25, "only one can end it"),
    "FREQ=DAILY;COUNT=0": (17, "is not a whole number from 1"),
    "FREQ=DAILY;INTERVAL=-1": (20, "is not a whole number from 1"),
    "FREQ=DAILY;BYHOUR=3,24": (20, "'24' is not a value of BYHOUR"),
    "FREQ=DAILY;BYDAY=1MO": (17, "'1MO' is not a value of BYDAY"),
    "FREQ=WEEKLY;BYMONTHDAY=1": (23, "has no meaning with FREQ=WEEKLY"),
    "FREQ=DAILY;BYSETPOS=1": (0, "BYSETPOS needs another"),
    "FREQ=DAILY;BYEASTER=1": (20, "BYEASTER is not a part"),
    "FREQ=DAILY\nfoo": (11, "is not a property"),
    "DTSTART:20260101T090000": (0, "has no RRULE"),
    "DTSTART:20260230T090000 FREQ=DAILY": (8, "is not a date and time"),
    "DTSTART:2026-01-01 FREQ=DAILY": (8, "is not a date and time"),
    "FREQ=DAILY EXRULE:FREQ=WEEKLY": (18, "EXRULE is not read"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_rule_is_refused_with_its_place(text: str) -> None:
    position, problem = WRONG[text]
    with pytest.raises(InvalidExpression, match=problem) as refused:
        parse(text)
    assert refused.value.position == position
