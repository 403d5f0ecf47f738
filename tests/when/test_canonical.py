"""Every expression has one canonical text, and that text is read as the same expression."""

from __future__ import annotations

import pytest

from foliot.when import parse

CANONICAL = {
    "* * * * *": "* * * * *",
    "  0\t9  *  * MON-FRI ": "0 9 * * 1-5",
    "0 0 * * 7": "0 0 * * 0",
    "0 0 * * 5-7": "0 0 * * 0,5,6",
    "0 0 * * sat-sun": "0 0 * * 0,6",
    "0 0 ? JAN,dec ?": "0 0 * 1,12 *",
    "*/15 0-23 * * *": "*/15 0-23 * * *",
    "5/15 * * * *": "5-50/15 * * * *",
    "*/15,7,8,9 * * * *": "*/15,7-9 * * * *",
    "*,5 * * * *": "* * * * *",
    "0 * * * * *": "* * * * *",
    "30 0 9 * * *": "30 0 9 * * *",
    "*/10 * * * * *": "*/10 * * * * *",
    "0 0 L-3,LW,15W,1 * *": "0 0 1,15W,L-3,LW * *",
    "0 0 L * FRIL,MON#2,3": "0 0 L * 3,1#2,5L",
    "0 0 1 1 SUN,0L,0": "0 0 1 1 0,0L",
    "@hourly": "0 * * * *",
    "@Daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@every 90s": "PT1M30S",
    "@every 1h30m": "PT1H30M",
    "rate(5 minutes)": "PT5M",
    "rate(1 day)": "PT24H",
    "PT90M": "PT1H30M",
    "P1D": "P1D",
    "P14D": "P2W",
    "P1M": "P1M",
    "P14M10DT2H": "P1Y2M10DT2H",
    "R/PT15M": "PT15M",
    "R5/2026-01-01T00:00:00Z/PT1H": "R5/2026-01-01T00:00:00Z/PT1H",
    "R/2026-01-01T00:00+01:00/PT1H": "R/2025-12-31T23:00:00Z/PT1H",
    "R/2026-01-01T00:00:00Z/2026-01-01T00:20:00Z": "R/2026-01-01T00:00:00Z/PT20M",
    "R/2026-01-31T09:00:00Z/P1M": "R/2026-01-31T09:00:00/P1M",
    "2026-11-20T10:00:00Z": "2026-11-20T10:00:00Z",
    "2026-11-20 10:00": "2026-11-20T10:00:00Z",
    "at(2026-11-20T10:00:00)": "2026-11-20T10:00:00Z",
}


@pytest.mark.parametrize(("given", "canonical"), CANONICAL.items())
def test_each_form_has_one_canonical_text(given: str, canonical: str) -> None:
    expression = parse(given)
    assert expression.text == canonical
    again = parse(canonical)
    assert again == expression
    assert hash(again) == hash(expression)
    assert expression.timezone == "UTC"


def test_a_zone_in_front_of_the_text_is_its_zone() -> None:
    expression = parse("CRON_TZ=Asia/Kathmandu 0 9 * * *")
    assert (expression.text, expression.timezone) == ("0 9 * * *", "Asia/Kathmandu")
    assert expression == parse("TZ=Asia/Kathmandu 0 9 * * *", timezone="Asia/Kathmandu")
    with pytest.raises(ValueError, match="names the zone Asia/Kathmandu, and timezone is UTC"):
        parse("CRON_TZ=Asia/Kathmandu 0 9 * * *", timezone="UTC")


def test_a_time_without_zone_is_in_the_zone_of_the_expression() -> None:
    assert parse("at(2026-11-20T10:00:00)", timezone="Europe/Berlin").text == "2026-11-20T09:00:00Z"
    assert parse("2026-03-29T02:30:00", timezone="Europe/Berlin").text == "2026-03-29T01:00:00Z"
    assert parse("2026-10-25T02:30:00", timezone="Europe/Berlin").text == "2026-10-25T00:30:00Z"
    start = parse("R/2026-07-01T00:00:00Z/P1D", timezone="Europe/Berlin")
    assert start.text == "R/2026-07-01T02:00:00/P1D"


def test_an_anchor_is_where_an_interval_without_start_is_counted_from() -> None:
    assert parse("PT15M", anchor=1_767_225_900).text == "R/2026-01-01T00:05:00Z/PT15M"
    monthly = parse("P1M", anchor=1_767_225_600, timezone="Asia/Tokyo")
    assert monthly.text == "R/2026-01-01T09:00:00/P1M"
    with pytest.raises(ValueError, match="anchor: 60 is of no use"):
        parse("0 9 * * *", anchor=60)
    for wrong in (1.5, True, "2026-01-01", 10**15):
        with pytest.raises(ValueError, match=r"anchor: .* is not an instant in whole seconds"):
            parse("PT15M", anchor=wrong)  # type: ignore[arg-type]


def test_h_is_spread_by_the_seed_and_always_the_same() -> None:
    texts = {parse("H H(2-5) H * *", seed=f"schedule {number}").text for number in range(200)}
    assert len(texts) > 190
    assert texts == {
        parse("H H(2-5) H * *", seed=f"schedule {number}").text for number in range(200)
    }
    for text in texts:
        minute, hour, day, *_ = text.split()
        assert 0 <= int(minute) <= 59
        assert 2 <= int(hour) <= 5
        assert 1 <= int(day) <= 28
    assert parse("H/15 * * * *", seed="a").timetable().next_after(0) in range(15 * 60)
    with pytest.raises(ValueError, match="H needs the name of a schedule"):
        parse("H * * * *")
