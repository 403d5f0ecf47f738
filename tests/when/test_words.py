"""Words of schedules in any order: read or refused, never wrong about themselves, and never a traceback."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from foliot.errors import InvalidExpression
from foliot.when import parse

NOW = int(datetime(2026, 11, 18, 6, 50, tzinfo=UTC).timestamp())
WORDS = """
every each other 2 15 1st 2nd 31st first second last half quarter minute minutes hour day days week weeks month
year at on in of the and , to from between monday mondays friday weekday weekdays weekend january march 9 17 9am
5pm 9:30 17:00 noon midnight twice once three times a per daily hourly weekly starting 2026-11-24 within by
elapsed time that are has it or next this tomorrow today now morning evening during until nearest before
repeating taking number also except with 5 12 - ( ) & :15 past o'clock 1.5 0
"""
STARTS = ["every", "every day at", "on the", "every 2 weeks", "repeating every month ,", "in", ""]


@given(
    start=st.sampled_from(STARTS),
    words=st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=6),
)
@settings(max_examples=400, deadline=None)
def test_words_in_any_order_are_read_or_refused_and_survive_their_english(
    start: str, words: list[str]
) -> None:
    sentence = f"{start} {' '.join(words)}"
    try:
        read = parse(sentence, now=NOW, timezone="Europe/Berlin")
    except InvalidExpression as error:
        position: int | None = error.position
    else:
        position = None
        again = parse(read.english, timezone="Europe/Berlin")
        assert again.timetable().next_after(NOW) == read.timetable().next_after(NOW)
    assert position is None or 0 <= position <= len(sentence)
