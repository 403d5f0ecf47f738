"""Schedules in English: what has two meanings, or none, is refused; what is taken says how it was understood."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from corpus.rows import row
from foliot.errors import InvalidExpression
from foliot.when import parse

WEDNESDAY = int(datetime(2026, 11, 18, 6, 50, tzinfo=UTC).timestamp())
FRIDAY = WEDNESDAY + 2 * 86_400
SATURDAY = WEDNESDAY + 3 * 86_400


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [
        pytest.param("", "is empty", marks=row("N01")),
        pytest.param("   ", "is empty", marks=row("N01")),
        pytest.param("asdf", "is not understood from 'asdf' on", marks=row("N02")),
        pytest.param("tomorrow", "does not say at what time", marks=row("N03")),
        pytest.param("at 12", "may be noon or midnight", marks=row("N05")),
        pytest.param("13pm", "no time of day", marks=row("N10")),
        pytest.param("every day at 25:00", "no time of day", marks=row("N10")),
        pytest.param("9:60", "no time of day", marks=row("N10")),
        pytest.param("25:61", "no time of day", marks=row("N10")),
        pytest.param("9.30", "a time of day is due", marks=row("N11")),
        pytest.param("02/03/2026", "can be read in two ways", marks=row("N15")),
        pytest.param("30 feb every year", "never fires", marks=row("N17")),
        pytest.param("31st of every month at 9", "the last day of the month", marks=row("N37")),
        pytest.param("first business day of the month", "'business'", marks=row("N38")),
        pytest.param("every day at 9 except holidays", "'except'", marks=row("N39")),
        pytest.param("9am IST", "Asia/Kolkata, Europe/Dublin", marks=row("N45")),
        pytest.param("9am CST", "America/Chicago or Asia/Shanghai", marks=row("N45")),
        pytest.param("9am in Springfield", "a month is due", marks=row("N47")),
        pytest.param("in -5 minutes", "lies in the past", marks=row("N49")),
        pytest.param("5 minutes ago", "lies in the past", marks=row("N50")),
        pytest.param("yesterday", "lies in the past", marks=row("N50")),
        pytest.param("in 99999999999999999999 years", "is not understood", marks=row("N51")),
        pytest.param("in 999999999 years", "100 years", marks=row("N51")),
        pytest.param("a" * 5000, "5,000 characters", marks=row("N53")),
        pytest.param("1 " * 2000, "4,000 characters", marks=row("N54")),
        pytest.param("every " * 150 + "!", "is not understood", marks=row("N55")),
        pytest.param("every day\u200f at 9", "control character", marks=row("N59")),
        pytest.param("every\u200bday at 9", "control character", marks=row("N59")),
        pytest.param("cada d\u00eda a las 9", "is not understood", marks=row("N61")),
        pytest.param("<b>every day</b> at 9", "is not understood", marks=row("N62")),
        pytest.param("'; drop table jobs; --", "is not understood", marks=row("N63")),
        pytest.param("every 5 minutes for 2 hours", "'for'", marks=row("N66")),
        pytest.param("every hour until friday", "'until'", marks=row("N67")),
        pytest.param("once", "does not say how often", marks=row("N70")),
        pytest.param("from 9 to 5", "may mean 17:00 or 05:00", marks=row("N73")),
        pytest.param("from 9am to 5pm", "does not say how often", marks=row("N73")),
        pytest.param("every day at 9\nevery day at 10", "line break", marks=row("N74")),
        pytest.param("every day at 9 and every week", "'and'", marks=row("N75")),
    ],
)
def test_what_is_not_understood_whole_is_refused_with_the_place_and_examples(
    sentence: str, problem: str
) -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse(sentence, now=WEDNESDAY)
    assert problem in str(refused.value)
    assert all(example in str(refused.value) for example in InvalidExpression.EXAMPLES)
    assert len(str(refused.value)) < 1000
    assert 0 <= refused.value.position <= len(sentence)


@pytest.mark.parametrize(
    ("sentence", "english"),
    [
        pytest.param("noon", "on 2026-11-18 at 12:00", marks=row("N06")),
        pytest.param("midnight", "on 2026-11-19 at 00:00", marks=row("N07")),
        pytest.param("12am", "on 2026-11-19 at 00:00", marks=row("N09")),
        pytest.param("12pm", "on 2026-11-18 at 12:00", marks=row("N09")),
        pytest.param("every 29 feb at 9", "on day 29 of every february at 09:00", marks=row("N18")),
        pytest.param("every 5 minutes", "every 5 minutes", marks=row("N19")),
        pytest.param("every 1.5 hours", "every 90 minutes", marks=row("N21")),
        pytest.param("every 90 seconds", "every 90 seconds", marks=row("N22")),
        pytest.param("every 45 minutes", "every 45 minutes", marks=row("N23")),
        pytest.param("every day at 9", "every day at 09:00", marks=row("N26")),
        pytest.param("daily at 9 and 17", "every day at 09:00 and 17:00", marks=row("N27")),
        pytest.param(
            "every other day at 9",
            "every 2 days starting 1970-01-01 at 09:00",
            marks=row("N30"),
        ),
        pytest.param(
            "every other friday at 9", "every 2 weeks on friday at 09:00", marks=row("N31")
        ),
        pytest.param(
            "last day of the month at 23:59",
            "on the last day of the month at 23:59",
            marks=row("N35"),
        ),
        pytest.param(
            "every hour between 9 and 17 on weekdays",
            "every hour from 09:00 to 17:00 on weekdays",
            marks=row("N41"),
        ),
        pytest.param(
            "every hour between 17 and 9",
            "at minute 0 during hours 0 to 9 and 17 to 23",
            marks=row("N42"),
        ),
        pytest.param(
            "every day at 2:30am America/New_York", "every day at 02:30", marks=row("N43")
        ),
        pytest.param("9am", "on 2026-11-18 at 09:00", marks=row("N46")),
        pytest.param("EVERY DAY AT 9AM", "every day at 09:00", marks=row("N57")),
        pytest.param("every day at \uff19am", "every day at 09:00", marks=row("N58")),
        pytest.param("0 9 * * *", "every day at 09:00", marks=row("N65")),
        pytest.param("now", "on 2026-11-18 at 06:50", marks=row("N71")),
        pytest.param("asap", "on 2026-11-18 at 06:50", marks=row("N71")),
    ],
)
def test_what_is_understood_says_how(sentence: str, english: str) -> None:
    assert parse(sentence, now=WEDNESDAY).english == english


@row("N13", "N14")
@pytest.mark.parametrize(
    ("sentence", "now"),
    [("this friday at 9", SATURDAY), ("friday at 9", FRIDAY), ("this friday at 9", FRIDAY)],
)
def test_a_weekday_that_may_be_another_day_is_refused(sentence: str, now: int) -> None:
    with pytest.raises(InvalidExpression, match="may mean"):
        parse(sentence, now=now)


@row("N33")
def test_a_fortnight_needs_its_weekday() -> None:
    assert parse("fortnightly on friday at 9").english == "every 2 weeks on friday at 09:00"
    with pytest.raises(InvalidExpression, match="no day of the week"):
        parse("fortnightly at 9")
