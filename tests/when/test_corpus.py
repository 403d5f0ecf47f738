"""Two hundred sentences, as users would type them: each is read right, or refused; none is read wrong.

corpus.tsv: the sentence; what it means, as an expression of another form; the zone that it names, if any.
"a | b": either is right. "a + b": the times of both. "-": a careful reader would ask back.
"""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from pathlib import Path

import pytest

from foliot.errors import InvalidExpression
from foliot.when import between, parse

ZONE = "Europe/Berlin"
NOW = int(datetime(2026, 6, 10, 8, 17, tzinfo=UTC).timestamp())  # a Wednesday, 10:17 in Berlin
FAR = NOW + 10 * 366 * 86_400
CORPUS = [
    [*line.split("\t"), ""][:3]
    for line in (Path(__file__).parent / "corpus.tsv").read_text().splitlines()
]


def _next_fires(text: str, zone: str) -> list[int]:
    timetable = parse(text, timezone=zone or ZONE, now=NOW).timetable()
    return list(islice(between(timetable, NOW, FAR), 20))


def _meanings(meaning: str, zone: str) -> list[list[int]]:
    if meaning == "-":
        return []
    return [
        sorted(set(merge(*(_next_fires(part.strip(), zone) for part in either.split(" + ")))))[:20]
        for either in meaning.split(" | ")
    ]


def _is_read(sentence: str, zone: str) -> bool:
    try:
        parse(sentence, timezone=zone or ZONE, now=NOW)
    except InvalidExpression:
        return False
    return True


@pytest.mark.parametrize(("sentence", "meaning", "zone"), CORPUS, ids=[row[0] for row in CORPUS])
def test_a_sentence_is_read_right_or_refused(sentence: str, meaning: str, zone: str) -> None:
    if not _is_read(sentence, zone):
        return
    fires = _next_fires(sentence, zone)
    assert fires in _meanings(meaning, zone)
    english = parse(sentence, timezone=zone or ZONE, now=NOW).english
    assert _next_fires(english, zone) == fires


def test_most_sentences_with_one_meaning_are_read() -> None:
    read = [row for row in CORPUS if row[1] != "-" and _is_read(row[0], row[2])]
    assert len(CORPUS) == 200
    assert len(read) >= 136
