"""English: a sentence is understood whole, or refused where it is not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from foliot.errors import InvalidExpression, InvalidValue
from foliot.when import parse, preview

NOW = int(datetime(2026, 11, 18, 6, 50, tzinfo=UTC).timestamp())  # a Wednesday

SENTENCES = """
every 15 minutes | PT15M
every minute | * * * * *
each minute | * * * * *
every hour | 0 * * * *
every hour on the hour | 0 * * * *
hourly | 0 * * * *
once an hour | 0 * * * *
every day | 0 0 * * *
daily | 0 0 * * *
once a day at 9 | 0 9 * * *
every week | 0 0 * * 0
weekly | 0 0 * * 0
weekly on monday at 9 | 0 9 * * 1
every month | 0 0 1 * *
monthly | 0 0 1 * *
monthly on the 15th at 9 | 0 9 15 * *
every quarter | 0 0 1 */3 *
quarterly | 0 0 1 */3 *
every year | 0 0 1 1 *
every 2 hours | PT2H
every other hour | PT2H
every five minutes | PT5M
every twenty-five minutes | PT25M
every half hour | PT30M
every quarter of an hour | PT15M
every 2 hours and 30 minutes | PT2H30M
every 30 seconds | PT30S
every second | PT1S
every 2 days | R/1970-01-01T00:00:00/P2D
every 6 months | 0 0 1 */6 *
every 5 months | R/1970-01-01T00:00:00/P5M
every 3 months on the 1st at 9 | 0 9 1 */3 *
every weekday at 9am | 0 9 * * 1-5
weekdays at 9am | 0 9 * * 1-5
at 9am on weekdays | 0 9 * * 1-5
9am every weekday | 0 9 * * 1-5
every weekend | 0 0 * * 0,6
mondays at 9am | 0 9 * * 1
mon-fri at 9 | 0 9 * * 1-5
monday to friday at noon | 0 12 * * 1-5
from monday through friday at noon | 0 12 * * 1-5
friday to monday at 8:00 | 0 8 * * 0,1,5,6
every monday, wednesday and friday at 7:15 | 15 7 * * 1,3,5
every friday at midnight | 0 0 * * 5
midnight on fridays | 0 0 * * 5
every hour between 9am and 5pm on weekdays | 0 9-17 * * 1-5
every hour from 9:30 to 17:30 | 30 9-17 * * *
every 2 hours between 8am and 6pm | 0 8-18/2 * * *
every hour between 10pm and 6am | 0 0-6,22,23 * * *
every 10 minutes between 9:00 and 16:50 on weekdays | */10 9-16 * * 1-5
every 10 minutes between 9:00 and 16:59 | */10 9-16 * * *
every 10 minutes between 9:00 and 9:30 | 0-30/10 9 * * *
every 15 minutes on weekdays | */15 * * * 1-5
every 30 seconds on mondays | */30 * * * * 1
every hour at :15 | 15 * * * *
hourly at minute 15 | 15 * * * *
at 15 minutes past the hour | 15 * * * *
first monday of the month at 08:30 | 30 8 * * 1#1
every second tuesday of the month at 9 | 0 9 * * 2#2
the 1st and 3rd monday of the month at 10:00 | 0 10 * * 1#1,1#3
last friday of the month at 17:00 | 0 17 * * 5L
last day of the month at 6pm | 0 18 L * *
last day of the quarter at 18:00 | 0 18 L 3,6,9,12 *
first day of the year at 0:00 | 0 0 1 1 *
3 days before the last day of the month at 9:00 | 0 9 L-3 * *
first weekday of the month at 9am | 0 9 1W * *
last weekday of the month | 0 0 LW * *
the weekday nearest the 15th of the month at 9:00 | 0 9 15W * *
on the 1st and 15th at midnight | 0 0 1,15 * *
on the 3rd of every month | 0 0 3 * *
the first of every month at 9 | 0 9 1 * *
on the 31st of each month that has it at 9:00 | 0 9 31 * *
every january 1st at 00:00 | 0 0 1 1 *
every 24 december at 6 p.m. | 0 18 24 12 *
yearly on dec 24th at 18:00 | 0 18 24 12 *
every day from june to august at 7 | 0 7 * 6-8 *
on the 13th of the month or on fridays at 9:00 | 0 9 13 * 5
every day at 9am, 1pm and 5pm | 0 9,13,17 * * *
every day at 9:00, 9:30, 17:00 and 17:30 | 0,30 9,17 * * *
every day at 9 and 17 | 0 9,17 * * *
every day at half past 9 | 30 9 * * *
at 7 in the evening every day | 0 19 * * *
every evening at 7pm | 0 19 * * *
each day at 9 o'clock | 0 9 * * *
every noon | 0 12 * * *
every month on the last friday at 4pm | 0 16 * * 5L
once a month on the first monday at 9 | 0 9 * * 1#1
every hour, 9am-5pm, weekdays | 0 9-17 * * 1-5
hourly at :15 and :45 | 15,45 * * * *
every fortnight on friday at 9 | R/1970-01-09T09:00:00/P2W
every day from monday to friday at 9 | 0 9 * * 1-5
twice a day | 0 0,12 * * *
twice daily on weekdays | 0 0,12 * * 1-5
twice a day at 8am and 8pm | 0 8,20 * * *
every day except sunday at 7am | 0 7 * * 1-6
every day at 9am except on weekends | 0 9 * * 1-5
every weekday except friday at 9 | 0 9 * * 1-4
every 90s | PT1M30S
every 1h30m | PT1H30M
three times a day | 0 0,8,16 * * *
4 times an hour | 0,15,30,45 * * * *
once every 2 hours | PT2H
every other tuesday at noon | R/1970-01-06T12:00:00/P2W
every 2 weeks on tuesday at 12:00 | R/1970-01-06T12:00:00/P2W
first and last day of the month at 9 | 0 9 1,L * *
every 2nd and 4th friday of the month at 9 | 0 9 * * 5#2,5#4
every january 1st and 15th at 9 | 0 9 1,15 1 *
every hour from midnight to 6am | 0 0-6 * * *
every 2 weeks | R/1970-01-11T00:00:00/P2W
every other day at 9 | R/1970-01-01T09:00:00/P2D
every 2 weeks starting 2026-11-24 at 12:00 | R/2026-11-24T12:00:00/P2W
every hour, 5 times, starting 2026-01-01 at 9:00 | R5/2026-01-01T09:00:00Z/PT1H
in 10 minutes | 2026-11-18T07:00:00Z
in half an hour | 2026-11-18T07:20:00Z
an hour from now | 2026-11-18T07:50:00Z
in 2 hours and 30 minutes | 2026-11-18T09:20:00Z
in 1 month | 2026-12-18T06:50:00Z
now | 2026-11-18T06:50:00Z
noon | 2026-11-18T12:00:00Z
at 6 | 2026-11-19T06:00:00Z
today at 17:00 | 2026-11-18T17:00:00Z
tomorrow at 9 | 2026-11-19T09:00:00Z
9am tomorrow | 2026-11-19T09:00:00Z
the day after tomorrow at 8:15 | 2026-11-20T08:15:00Z
next monday at 10 | 2026-11-23T10:00:00Z
this friday at 10 | 2026-11-20T10:00:00Z
on 2026-12-24 at 18:00 | 2026-12-24T18:00:00Z
18:00 on 2026-12-24 | 2026-12-24T18:00:00Z
december 24th, 2026 at 6pm | 2026-12-24T18:00:00Z
on 24 december 2026 at 18:00 | 2026-12-24T18:00:00Z
EVERY   DAY AT 9 AM | 0 9 * * *
"""

ZONED = """
every weekday at 9am Europe/Berlin | Europe/Berlin
every weekday at 9am europe/berlin | Europe/Berlin
every weekday at 9am in Europe/Berlin | Europe/Berlin
every weekday at 9am, Europe/Berlin | Europe/Berlin
every weekday at 9am (America/New_York) | America/New_York
every weekday at 9am America/Argentina/Buenos_Aires | America/Argentina/Buenos_Aires
every weekday at 9am UTC | UTC
every weekday at 9am (utc) | UTC
"""

REFUSED = """
every ^7th day
every ^second tuesday at 9
every ^2nd hour
every ^7th at 9
^biweekly
^bimonthly
^12/11 at 9
every day at ^25:00
every day at ^24:00
every day at ^9:60
every day at ^13pm
every day at ^0930
every day at 9 and ^5
every day at ^9 and 5pm
every day at ^1 and 5pm
every day between ^9 and 5pm
every hour between 9 and ^5
every hour between 8:30 and ^5:30
every hour between ^10pm and 6am on weekdays
^next week sometime
^next friday at 9
^this tuesday at 9
^every 90 minutes between 9am and 5pm
every 10 minutes between 9:00 and ^17:30
every 10 minutes between 9am and ^5pm
midnight on ^friday
^friday at 9
on ^the 15th at 9
^december 24 at 6pm
^first monday of january at 9
every day at 9:00 and ^17:30
every week at ^9
every month at ^9am
every month on ^mondays
^five times a day
^twice a week
three times a day at ^9 and 17
every evening at ^7
every ^night
every other monday of ^the month at 9
every monday of ^the month at 9
every ^2nd friday in march at 9
^during hours 9 to 17
every ^2nd and 4th friday at 9
on the first of january ^and the 15th of july at 9
^first and last monday of the month at 9
every monday at 9 ^and friday at 10
every day at 9:00 and 9:00
^every month on 9 january
^midnight today
tomorrow at ^midnight
tomorrow ^5
17:00 ^weekday
every hour on mondays ^from march
every hour ^from monday
every hour tuesday ^until friday
every day at 5pm on ^mondays
on the 1st or ^fridays at 9
last ^friday at 5pm
on the ^first friday at 9
every hour ^15 minutes
on ^the 1st and 1st at 9
every hour at ^:75
every minute at ^9
every 15 minutes ^starting at 9am
^every 61 minutes on weekdays
every day on friday ^the 13th
every day at 9am ^CST
every day at 9am ^Mars/Phobos
every day at 9 ^except holidays
every 5 minutes ^for 2 hours
every hour ^until friday
tomorrow at 9 ^every day
in 10 minutes ^and every hour
on ^2026-02-30 at 9
every 100000000000 hours
every 0 minutes
every day, every week
every day,
at minutes 0 to 70
every weekday nearest
the 6th monday of the month
the last
on
every
every other
every 3
in
at
between
twice
"""


def _lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


@pytest.mark.parametrize("line", _lines(SENTENCES))
def test_a_sentence_is_read_as_what_it_says(line: str) -> None:
    sentence, _, text = line.partition(" | ")
    assert parse(sentence, now=NOW).text == parse(text).text


@pytest.mark.parametrize("line", _lines(ZONED))
def test_a_sentence_may_end_with_its_zone(line: str) -> None:
    sentence, _, zone = line.partition(" | ")
    read = parse(sentence)
    assert (read.text, read.timezone) == ("0 9 * * 1-5", zone)
    assert parse(sentence, timezone=zone) == read
    with pytest.raises(InvalidExpression, match="and timezone is Asia/Tokyo"):
        parse(sentence, timezone="Asia/Tokyo")


def test_several_days_of_every_other_week_are_a_rule() -> None:
    read = parse("every other monday and friday at 9")
    assert read.text == ("DTSTART:19700105T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR")


@pytest.mark.parametrize("line", _lines(REFUSED))
def test_what_is_not_clear_is_refused(line: str) -> None:
    sentence = line.replace("^", "")
    with pytest.raises(InvalidExpression) as refused:
        parse(sentence, now=NOW)
    assert 0 <= refused.value.position <= len(sentence)


@pytest.mark.parametrize("line", [line for line in _lines(REFUSED) if "^" in line])
def test_a_refusal_says_where_reading_stopped(line: str) -> None:
    sentence = line.replace("^", "")
    with pytest.raises(InvalidExpression) as refused:
        parse(sentence, now=NOW)
    assert refused.value.position == line.index("^")


def test_a_refusal_shows_three_expressions_that_work() -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse("every blue moon")
    assert len(refused.value.EXAMPLES) == 3
    for example in refused.value.EXAMPLES:
        assert example in str(refused.value)
        assert parse(example).recurring


@pytest.mark.parametrize(
    "sentence", ["in 10 minutes", "tomorrow at 9", "noon", "next monday at 10"]
)
def test_what_counts_from_now_needs_a_now(sentence: str) -> None:
    with pytest.raises(InvalidExpression, match="there is no now here"):
        parse(sentence)


def test_days_of_the_calendar_are_those_of_the_zone() -> None:
    late = int(datetime(2026, 11, 18, 23, 30, tzinfo=UTC).timestamp())
    assert parse("tomorrow at 9 Europe/Berlin", now=late).text == "2026-11-20T08:00:00Z"
    assert parse("tomorrow at 9 America/New_York", now=late).text == "2026-11-19T14:00:00Z"


def test_a_day_more_is_the_same_time_on_the_wall_and_24_hours_more_are_not() -> None:
    before = int(datetime(2026, 10, 24, 10, 0, tzinfo=UTC).timestamp())  # 12:00 in summer
    assert parse("in 1 day Europe/Berlin", now=before).text == "2026-10-25T11:00:00Z"
    assert parse("in 24 hours Europe/Berlin", now=before).text == "2026-10-25T10:00:00Z"


def test_a_time_that_the_clock_leaves_out_is_no_moment() -> None:
    with pytest.raises(InvalidExpression, match="leave out on that day"):
        parse("on 2026-03-29 at 2:30 Europe/Berlin")


def test_today_is_not_in_the_past() -> None:
    with pytest.raises(InvalidExpression, match="lies in the past"):
        parse("today at 6:00", now=NOW)


def test_next_and_this_are_taken_where_there_is_one_meaning() -> None:
    for place in range(7):
        now = NOW + place * 86_400  # Wednesday to Tuesday
        for name in ("monday", "wednesday", "friday", "sunday"):
            taken = [word for word in ("this", "next") if _reads(f"{word} {name} at 12:00", now)]
            assert len(taken) == 1


def _reads(sentence: str, now: int) -> bool:
    try:
        moment = parse(sentence, now=now)
    except InvalidValue:
        return False
    assert moment.timetable().next_after(now) is not None
    return True


def test_a_preview_says_how_a_sentence_was_understood() -> None:
    shown = preview(parse("every weekday at 9am Europe/Berlin"), after=NOW, count=1)
    assert (shown.text, shown.english) == ("0 9 * * 1-5", "every weekday at 09:00")
    assert shown.timezone == "Europe/Berlin"


def test_the_two_days_of_every_other_weekend_follow_each_other() -> None:
    timetable = parse("every other weekend at 10:00").timetable()
    saturday = timetable.next_after(NOW)
    assert saturday is not None
    assert datetime.fromtimestamp(saturday, UTC).weekday() == 5
    sunday = timetable.next_after(saturday)
    assert sunday == saturday + 86_400
    assert timetable.next_after(sunday) == saturday + 14 * 86_400


@pytest.mark.parametrize("words", ["1st, ", "9:00 and ", "1, ", "monday, ", "january, "])
@pytest.mark.parametrize("start", ["on the ", "every day at ", "on days ", "every ", "in "])
def test_a_long_list_is_no_sentence(start: str, words: str) -> None:
    with pytest.raises(InvalidExpression):
        parse((start + words * 500)[:990])
