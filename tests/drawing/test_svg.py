"""Workflows as SVG: one well-formed document that needs nothing else, in which nothing covers anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing.sketch import NOW, START, graphs, many, sketch, steps_of, workflow_of
from foliot.drawing import to_svg
from foliot.drawing.ink import width_of
from foliot.drawing.svg_style import style
from foliot.model.job import JobState
from foliot.model.workflow import Step

SVG = "{http://www.w3.org/2000/svg}"
CURVE = re.compile(r"[ML]([-\d.]+) ([-\d.]+)C([-\d. ]+)")
Point = tuple[float, float]
LETTER = 7.2  # of the fonts that are asked for, none is wider; see svg.py for what is left for them


class Card:
    """A step in a picture."""

    def __init__(self, group: Element) -> None:
        rect = [one for one in group.iter(f"{SVG}rect") if one.get("class") == "card"][-1]
        self.left, self.top, self.width, self.height = (
            float(rect.attrib[name]) for name in ("x", "y", "width", "height")
        )
        self.texts = list(group.iter(f"{SVG}text"))
        self.said = group.findtext(f"{SVG}title") or ""

    @property
    def title(self) -> str:
        return "".join(one.text or "" for one in self.texts[:-1])

    def holds(self, point: Point, margin: float = 0) -> bool:
        """Well inside."""
        x, y = point[0] - self.left, point[1] - self.top
        return margin < x < self.width - margin and margin < y < self.height - margin

    def covers(self, other: Card) -> bool:
        across = self.left < other.left + other.width and other.left < self.left + self.width
        return across and self.top < other.top + other.height and other.top < self.top + self.height


class Picture:
    def __init__(self, steps: list[Step], **fields: Any) -> None:
        self.text = to_svg(workflow_of(steps, **fields), steps, now=NOW)
        self.root = ET.fromstring(self.text)
        groups = [one for one in self.root.iter(f"{SVG}g") if one.find(f"{SVG}title") is not None]
        self.cards = [Card(group) for group in groups]
        self.ways = [
            list(points(one.attrib["d"]))
            for one in self.root.iter(f"{SVG}path")
            if "edge" in one.get("class", "").split()
        ]

    @property
    def head(self) -> list[str]:
        found = self.root.iter(f"{SVG}text")
        return [one.text or "" for one in found if one.get("class") in ("head", "said")]


def points(path: str) -> Iterator[Point]:
    """Along an edge: lines, and curves of Bézier."""
    for x, y, rest in CURVE.findall(path):
        start = (float(x), float(y))
        numbers = [float(one) for one in rest.split()]
        one, two, end = (numbers[0], numbers[1]), (numbers[2], numbers[3]), (numbers[4], numbers[5])
        for step in range(21):
            t = step / 20
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            yield (
                sum(w * p[0] for w, p in zip(weights, (start, one, two, end), strict=True)),
                sum(w * p[1] for w, p in zip(weights, (start, one, two, end), strict=True)),
            )


@many
@given(steps=graphs(most=12))
def test_no_card_covers_another_and_no_line_goes_through_one(steps: list[Step]) -> None:
    picture = Picture(steps)
    assert sorted(card.title for card in picture.cards) == sorted(step.name for step in steps)
    for number, card in enumerate(picture.cards):
        assert not any(card.covers(other) for other in picture.cards[number + 1 :])
    assert len(picture.ways) == sum(len(step.parents) for step in steps)
    for way in picture.ways:
        for point in way:
            assert not any(card.holds(point, margin=2) for card in picture.cards)


LONG = "read_the_weather_of_every_city_that_there_is_on_this_planet_and_on_all_others"


@pytest.mark.parametrize(
    "arrows",
    ["a > b", f"{LONG} > b, c > {LONG}-2", " > ".join(f"{LONG}-{n}" for n in range(6)), LONG * 3],
)
def test_text_keeps_within_its_card_and_the_picture(arrows: str) -> None:
    picture = Picture(sketch(arrows), name=LONG)
    for card in picture.cards:
        bottom = card.top + card.height
        for text in card.texts:
            left, base = float(text.attrib["x"]), float(text.attrib["y"])
            assert left + LETTER * width_of(text.text or "") <= card.left + card.width
            assert card.top + 10 <= base <= bottom - 4
    assert "".join(picture.head).startswith(LONG)
    _, _, width, height = (float(one) for one in picture.root.attrib["viewBox"].split())
    assert width <= 1300
    inside = [card.left + card.width <= width and card.top < height for card in picture.cards]
    assert all(inside)


def test_a_deep_graph_goes_down() -> None:
    picture = Picture(sketch(" > ".join(f"step-{number}" for number in range(12))))
    tops = [card.top for card in picture.cards]
    assert tops == sorted(tops) and len(set(tops)) == 12
    assert len({card.left for card in picture.cards}) == 1


def test_a_tall_card_is_not_touched_by_the_lines_of_its_neighbours() -> None:
    """Of a graph that goes down, in which the cards of a layer are of different heights."""
    layers = [f"{LONG}-{n}, b{n}, {LONG}-x{n}, c{n}" for n in range(8)]
    picture = Picture(sketch(" > ".join(layers)))
    for way in picture.ways:
        assert not any(card.holds(point, margin=2) for card in picture.cards for point in way)


NAMES = st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4, unique=True)


@many
@given(names=NAMES, note=st.text(max_size=20))
def test_no_name_breaks_the_document(names: list[str], note: str) -> None:
    steps = steps_of({name: names[:number] for number, name in enumerate(names)})
    picture = Picture(steps, name=names[0], paused_at=START, paused_by="ada", note=note)
    assert len(picture.cards) == len(names)
    shown = {"".join(c if c.isprintable() else ascii(c)[1:-1] for c in name) for name in names}
    assert {card.said.rpartition(": ")[0] for card in picture.cards} == shown
    tags = {one.tag.removeprefix(SVG) for one in picture.root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "text", "path", "circle"}


def test_hostile_names_are_text() -> None:
    name = '</text><script>alert("x")</script>]]>&amp;'
    picture = Picture(steps_of({name: []}), name=name)
    assert picture.cards[0].title == name and picture.head[0] == name
    assert "<script" not in picture.text


def test_it_needs_nothing_else_and_reaches_nothing_else() -> None:
    text = Picture(sketch("a > b")).text
    assert not re.search(r"(?:href|src|url\(|@import|on\w+=)", text)
    for rule in re.findall(
        r"([^{}]+)\{", style().replace("@media (prefers-color-scheme: dark) {", "")
    ):
        assert all(one.strip().startswith(".foliot ") for one in rule.split(","))


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_a_look_by_day_and_by_night(state: JobState) -> None:
    day, night = style().split("@media (prefers-color-scheme: dark)")
    for scheme in (day, night):
        assert f".foliot .{state} .card" in scheme and f".foliot .bar-{state}" in scheme
    picture = Picture(sketch("a > b", a=state))
    assert f'<g class="{state}"><title>a: ' in picture.text


def test_it_says_itself_in_words() -> None:
    steps = sketch("a > b, c > d", c="dead", d="skipped")
    picture = Picture(steps, paused_at=START, paused_by="ada", note="until monday")
    ids = picture.root.attrib["aria-labelledby"].split()
    described = {one.get("id"): one.text for one in picture.root if one.get("id") in ids}
    title, words = (described[id] for id in ids)
    assert title == "Workflow etl"
    assert words == (
        "failed · 4 steps · 1 failed · 1m00s · paused by ada: until monday. a: succeeded · 1.5s. "
        "b, after a: succeeded · 1.5s. c, after a: dead · 1.5s. d, after b, c: skipped."
    )


def test_a_workflow_is_a_card_in_a_card() -> None:
    picture = Picture(sketch("a > b", b={"kind": "foliot.workflow"}))
    inner = [one for one in picture.root.iter(f"{SVG}rect") if one.get("class") == "card"]
    assert len(inner) == 3
    outer, card = (float(one.attrib["width"]) for one in inner[1:])
    assert card == outer - 6


def test_of_very_many_boxes_the_words_say_how_many_more() -> None:
    words = Picture(sketch(" > ".join(f"s{number}" for number in range(120)))).root.findtext(
        f"{SVG}desc"
    )
    assert words is not None and words.endswith(". And 20 more.")


def test_many_are_a_pile_with_a_bar_of_their_states() -> None:
    many = ", ".join(f"read-{number}" for number in range(10_000))
    picture = Picture(sketch(f"find > {many} > report", **{"read-7": "dead"}))
    assert [card.title for card in picture.cards] == ["find", "read × 10,000", "report"]
    bars = [one for one in picture.root.iter(f"{SVG}rect") if "bar" in one.get("class", "")]
    assert [one.get("class") for one in bars] == ["bar-succeeded", "bar-dead"]
    assert float(bars[1].attrib["width"]) >= 1, "one of 10,000 is seen"
    assert picture.cards[1].said == "read × 10,000: 9,999 succeeded, 1 dead · 1.5s"
    assert len(picture.text) < 15_000


@many
@given(steps=graphs(), seed=st.randoms(use_true_random=False))
def test_the_same_workflow_is_the_same_picture(steps: list[Step], seed: Any) -> None:
    shuffled = list(steps)
    seed.shuffle(shuffled)
    assert Picture(steps).text == Picture(shuffled).text
