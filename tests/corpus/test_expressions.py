"""Cron expressions and time zones: what is refused, and what is read as it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from corpus.rows import row
from foliot.errors import InvalidExpression, InvalidValue
from foliot.when import between, check_zone, parse, preview
from when.brute import utc

HUGE = "9" * 100_000

REFUSED = [
    pytest.param("", "empty", "is empty", marks=row("C01")),
    pytest.param("   \t", "empty", "is empty", marks=row("C01")),
    pytest.param(None, "type", "is not a text", marks=row("C02")),
    pytest.param(5, "type", "is not a text", marks=row("C02")),
    pytest.param([], "type", "is not a text", marks=row("C02")),
    pytest.param("* * * *", "syntax", "has 4 fields, not 5", marks=row("C03")),
    pytest.param("60 * * * *", "range", "minute 60 is not between 0 and 59", marks=row("C07")),
    pytest.param("* * 0 * *", "range", "day of month 0 is not", marks=row("C09")),
    pytest.param("* * 32 * *", "range", "day of month 32 is not", marks=row("C09")),
    pytest.param("* * * 0 *", "range", "month 0 is not between 1 and 12", marks=row("C10")),
    pytest.param("* * * 13 *", "range", "month 13 is not between 1 and 12", marks=row("C10")),
    pytest.param("* * * * 8", "range", "day of week 8 is not between 0 and 7", marks=row("C11")),
    pytest.param("-1 * * * *", "syntax", "a minute is missing", marks=row("C13")),
    pytest.param("*/0 * * * *", "range", "a step of 0 never moves on", marks=row("C14")),
    pytest.param("*/-5 * * * *", "syntax", "'-5' is not a step", marks=row("C15")),
    pytest.param("*/60 * * * *", "range", "larger than the range", marks=row("C14")),
    pytest.param("5-1 * * * *", "range", "5-1 goes backwards", marks=row("C18")),
    pytest.param("1-5-9 * * * *", "syntax", "'5-9' is not a minute", marks=row("C19")),
    pytest.param("1/2/3 * * * *", "syntax", "'2/3' is not a step", marks=row("C21")),
    pytest.param("1- * * * *", "syntax", "a minute is missing", marks=row("C21")),
    pytest.param("/5 * * * *", "syntax", "a minute is missing", marks=row("C21")),
    pytest.param("a * * * *", "syntax", "'A' is not a minute", marks=row("C22")),
    pytest.param("MON * * * *", "syntax", "day name in the minute field", marks=row("C23")),
    pytest.param("* * * * FRI-MON", "range", "write FRI,SAT,SUN,MON", marks=row("C26")),
    pytest.param("@midnite", "syntax", "did you mean @midnight?", marks=row("C30")),
    pytest.param("0 0 30 2 *", "never_fires", "no year has such a day", marks=row("C31")),
    pytest.param("0 0 31 2 *", "never_fires", "no year has such a day", marks=row("C33")),
    pytest.param("0 0 31 2,4,6 *", "never_fires", "no year has such a day", marks=row("C33")),
    pytest.param("0 0 31W 2 *", "never_fires", "no year has such a day", marks=row("C38")),
    pytest.param("0 0 * * 5#6", "never_fires", "never fires", marks=row("C39")),
    pytest.param("H H * * *", "syntax", "H needs the name of a schedule", marks=row("C41")),
    pytest.param("R R * * *", "syntax", "'R' is not a minute", marks=row("C42")),
    pytest.param("٣ * * * *", "syntax", "digits that are not ASCII", marks=row("C43")),
    pytest.param("\uff15 * * * *", "syntax", "digits that are not ASCII", marks=row("C43")),
    pytest.param("0 0 *\n* *", "syntax", "has a line break", marks=row("C46")),
    pytest.param("0 0 * * *\r\n", "syntax", "has a line break", marks=row("C46")),
    pytest.param("0 0 * * *\0", "syntax", "or a control character", marks=row("C46")),
    pytest.param("0 0 * * * # nightly", "syntax", "a comment is not part", marks=row("C47")),
    pytest.param(
        ",".join(["1"] * 200_000) + " * * * *", "too_long", "characters", marks=row("C50")
    ),
    pytest.param(f"{HUGE} * * * *", "too_long", "characters", marks=row("C51")),
    pytest.param(f"{HUGE[:900]} * * * *", "syntax", "is not a minute", marks=row("C51")),
    pytest.param(
        "R/10000-01-01T00:00:00Z/PT1H", "syntax", "is not a date and time", marks=row("C70")
    ),
    pytest.param("10000-01-01T00:00:00Z", "syntax", "is not a date and time", marks=row("C70")),
    pytest.param("9999-01-01T00:00:00Z", "range", "year 9999 is not between", marks=row("C70")),
    pytest.param("@every 0s", "range", "is not an interval between 1 second and", marks=row("C73")),
    pytest.param("@every -1s", "syntax", "is negative", marks=row("C73")),
    pytest.param("PT0S", "range", "is not an interval between 1 second and", marks=row("C73")),
    pytest.param("P0D", "range", "is not an interval between 1 second and", marks=row("C73")),
    pytest.param("PT1000000000000S", "range", "more than 12 digits", marks=row("C73")),
    pytest.param("PT100000000000S", "range", "is not an interval between", marks=row("C73")),
    pytest.param("rate(0 minutes)", "range", "is not an interval between", marks=row("C73")),
    pytest.param("PT1.5S", "syntax", "is not an ISO 8601 duration", marks=row("C73")),
]


@pytest.mark.parametrize(("text", "code", "complaint"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_refused(text: Any, code: str, complaint: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse(text)
    error = refused.value
    assert error.code == code
    assert complaint in str(error)
    assert len(str(error)) < 500
    assert all(example in str(error) for example in InvalidExpression.EXAMPLES)


def test_the_examples_in_an_error_can_be_read() -> None:
    for example in InvalidExpression.EXAMPLES:
        assert parse(example).recurring


READ = [
    pytest.param("0 30 9 * * *", "30 9 * * *", marks=row("C05")),
    pytest.param("* * * JAN-FEB *", "* * * 1,2 *", marks=row("C25")),
    pytest.param("* * * * MON-FRI", "* * * * 1-5", marks=row("C25")),
    pytest.param("@daily", "0 0 * * *", marks=row("C27")),
    pytest.param("@hourly", "0 * * * *", marks=row("C27")),
    pytest.param("@weekly", "0 0 * * 0", marks=row("C27")),
    pytest.param("@monthly", "0 0 1 * *", marks=row("C27")),
    pytest.param("@yearly", "0 0 1 1 *", marks=row("C27")),
    pytest.param("@every 5m", "PT5M", marks=row("C29")),
    pytest.param("0 0 L * *", "0 0 L * *", marks=row("C37")),
    pytest.param("0 0 15W * *", "0 0 15W * *", marks=row("C38")),
    pytest.param("0 0 LW * *", "0 0 LW * *", marks=row("C38")),
    pytest.param(" 0\t0   *  * * ", "0 0 * * *", marks=row("C45")),
    pytest.param("CRON_TZ=UTC 0 0 * * *", "0 0 * * *", marks=row("C49")),
    pytest.param("P1M", "P1M", marks=row("C74")),
]


@pytest.mark.parametrize(("text", "canonical"), READ)
def test_what_is_read_is_shown_expanded(text: str, canonical: str) -> None:
    assert parse(text).text == canonical


@row("C41")
def test_h_is_the_same_on_every_machine() -> None:
    assert parse("H H * * *", seed="nightly").text == "15 5 * * *"


@row("C49")
def test_a_zone_in_the_text_may_not_contradict() -> None:
    with pytest.raises(
        InvalidExpression, match="names the zone UTC, and timezone is Europe/Berlin"
    ):
        parse("TZ=UTC 0 0 * * *", timezone="Europe/Berlin")


@row("C17", "C34", "C55")
@pytest.mark.parametrize(
    ("text", "zone", "warning"),
    [
        ("*/7 * * * *", "UTC", "a step of 7 is uneven at the hour"),
        ("0 0 29 2 *", "UTC", "next: 2028-02-29"),
        ("0 9 * * *", "EST", "EST is a fixed offset, without summer time"),
        ("0 9 * * *", "MST", "MST is a fixed offset, without summer time"),
    ],
)
def test_what_may_surprise_comes_with_a_warning(text: str, zone: str, warning: str) -> None:
    shown = preview(parse(text, timezone=zone), after=utc("2026-11-01T00:00"))
    assert warning in shown.warnings


@row("C35")
def test_a_leap_day_on_a_weekday_is_found_or_refused_without_a_search_that_ends_never() -> None:
    either = parse("0 0 29 2 1").timetable()
    assert either.next_after(utc("2026-11-01T00:00")) == utc(
        "2027-02-01T00:00"
    )  # Mondays of February
    both = parse("0 0 29 2 */6").timetable()  # with a star, a Saturday or a Sunday that is the 29th
    assert both.next_after(utc("2026-11-01T00:00")) == utc("2032-02-29T00:00")


ZONES = [
    pytest.param("", "is not a known time zone", marks=row("C53")),
    pytest.param(7, "is not the name of a time zone", marks=row("C53")),
    pytest.param("utc", "did you mean Etc/UTC or UTC?", marks=row("C54")),
    pytest.param("../../etc/passwd", "is not a known time zone", marks=row("C57")),
    pytest.param("/etc/passwd", "is not a known time zone", marks=row("C57")),
    pytest.param("UTC\0", "is not a known time zone", marks=row("C57")),
    pytest.param("Mars/Phobos", "did you mean", marks=row("C58")),
    pytest.param("GMT+5", "Etc/GMT-5 is UTC+5", marks=row("C59")),
    pytest.param("EST5EDT4,M3.2.0,M11.1.0", "is not a known time zone", marks=row("C61")),
    pytest.param("Europe/Berlin" * 1000, "is not a known time zone", marks=row("C57")),
]


@pytest.mark.parametrize(("zone", "complaint"), ZONES, ids=lambda value: repr(value)[:30])
def test_a_zone_that_is_refused(zone: Any, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(name: str) -> bytes:
        raise AssertionError(f"a file was looked for: {name}")

    monkeypatch.setattr("foliot.when.zones._file", touch)
    with pytest.raises(InvalidValue) as refused:
        parse("0 9 * * *", timezone=zone)
    assert refused.value.field == "timezone"
    assert complaint in str(refused.value)
    assert len(str(refused.value)) < 400
    with pytest.raises(InvalidValue):
        check_zone(zone)


@row("C53")
def test_without_a_zone_it_is_utc() -> None:
    assert parse("0 9 * * *", timezone=None).timezone == "UTC"


@row("C63", "C66")
@pytest.mark.parametrize(
    ("text", "zone", "after", "local"),
    [
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00", "2026-03-08T03:00:00-04:00"),
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00", "2026-03-29T01:00:00+03:00"),
    ],
)
def test_a_time_that_does_not_exist_is_shown_where_it_runs(
    text: str, zone: str, after: str, local: str
) -> None:
    shown = preview(parse(text, timezone=zone), after=utc(after))
    assert shown.fires[0].local.isoformat() == local
    assert "does not exist" in str(shown.fires[0].note)


@row("C65", "C67")
@pytest.mark.parametrize(
    ("text", "zone", "start", "hours", "count"),
    [
        ("0 * * * *", "America/New_York", "2026-11-01T04:00", 25, 25),
        ("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T13:00", 24.5, 98),
        ("*/15 * * * *", "Australia/Lord_Howe", "2026-10-03T13:30", 23.5, 94),
    ],
)
def test_a_long_or_short_day_has_as_many_fires_as_it_lasts(
    text: str, zone: str, start: str, hours: float, count: int
) -> None:
    begin = utc(start)
    fires = list(
        between(parse(text, timezone=zone).timetable(), begin - 1, begin + int(hours * 3600) - 1)
    )
    assert len(fires) == count
