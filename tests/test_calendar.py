"""Days of calendars: what an entry may say, and what is refused."""

from __future__ import annotations

from datetime import date

import pytest

from foliot.errors import InvalidValue
from foliot.model.calendar import calendar_of


@pytest.mark.parametrize(
    "entry", ["0 0 * * SAT", "every saturday at midnight", "CRON_TZ=UTC 0 0 * * SAT"]
)
def test_the_days_of_an_expression_are_those_that_it_names(entry: str) -> None:
    calendar = calendar_of([entry])
    week = [date(2027, 1, day) for day in range(4, 11)]
    assert [day for day in week if calendar.excludes(day)] == [date(2027, 1, 9)]


@pytest.mark.parametrize(
    "entry",
    [
        "every saturday at midnight Europe/Berlin",
        "CRON_TZ=Europe/Berlin 0 0 * * SAT",
        "DTSTART;TZID=Europe/Berlin:20270102T000000 RRULE:FREQ=WEEKLY",
    ],
)
def test_an_expression_with_a_zone_is_refused_since_the_day_depends_on_the_schedule(
    entry: str,
) -> None:
    with pytest.raises(InvalidValue) as error:
        calendar_of([entry])
    assert "names the zone Europe/Berlin" in error.value.message
    assert 'for example "0 0 * * SAT,SUN"' in error.value.message
