"""A workflow as a picture in SVG: one file that needs nothing else, by day and by night, and says itself in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import pairwise
from typing import Final

import msgspec

from foliot.drawing.boxes import Box, boxes_of, printable
from foliot.drawing.ink import width_of, wrap
from foliot.drawing.layout import Layout, arrange, spread
from foliot.drawing.svg_style import SIGNS, style
from foliot.drawing.terminal import look_of, said_of_pause, summary
from foliot.model.job import JobState
from foliot.model.workflow import Step, Workflow

_WIDEST: Final = 1200  # from left to right; a deeper graph goes from top to bottom
_MARGIN: Final = 24
_LETTER, _SMALL = 7.9, 6.6  # wide enough for any font that may be there
_LONGEST_LINE: Final = 30  # letters of a title
_LINE: Final = 17
_MOST_SAID: Final = 100  # boxes that the description names


class Card(msgspec.Struct, frozen=True):
    titles: list[str]
    words: str
    width: float
    height: float


class Place(msgspec.Struct, frozen=True):
    """Where a node is: its middle, and its size."""

    x: float
    y: float
    width: float
    height: float


def to_svg(workflow: Workflow, steps: Sequence[Step], *, now: datetime | None = None) -> str:
    """`now`: for how long what has not ended has been going on."""
    boxes = boxes_of(steps, now=now)
    cards = [_card(box) for box in boxes]
    layout = arrange(boxes)
    places, down = _lay_out(layout, cards, down=False), False
    if _extent(places)[0] > _WIDEST:
        upright = _lay_out(layout, cards, down=True)
        if _extent(upright)[0] < _extent(places)[0]:
            places, down = upright, True
    return "".join(_document(workflow, boxes, cards, places, layout.routes(), down=down, now=now))


def _card(box: Box) -> Card:
    titles, words = wrap(box.title, _LONGEST_LINE), " · ".join(box.words)
    text = max(*(width_of(title) * _LETTER for title in titles), width_of(words) * _SMALL)
    bar = 9 if box.counts else 0
    return Card(titles, words, max(118.0, 52 + text), 37 + _LINE * len(titles) + bar)


def _lay_out(layout: Layout, cards: Sequence[Card], *, down: bool) -> list[Place]:
    """Along the layers from left to right, or from top to bottom."""
    beside, between = (26.0, 46.0) if down else (18.0, 54.0)

    def size(node: int) -> float:
        if layout.is_bend(node):
            return 10.0
        return cards[node].width if down else cards[node].height

    across = spread(layout, size, beside)
    places = [Place(0, 0, 0, 0)] * len(across)
    start = 0.0
    for layer in layout.layers:
        own = [cards[node] for node in layer if not layout.is_bend(node)]
        depth = max((card.height if down else card.width for card in own), default=0.0)
        middle = start + depth / 2
        for node in layer:
            card = None if layout.is_bend(node) else cards[node]
            if down:
                width, height = (0.0, depth) if card is None else (card.width, card.height)
                places[node] = Place(across[node], middle, width, height)
            else:
                height = 0.0 if card is None else card.height
                places[node] = Place(middle, across[node], depth, height)
        start += depth + between
    return places


def _extent(places: Sequence[Place]) -> tuple[float, float]:
    return (
        max((place.x + place.width / 2 for place in places), default=0.0),
        max((place.y + place.height / 2 for place in places), default=0.0),
    )


def _document(
    workflow: Workflow,
    boxes: Sequence[Box],
    cards: Sequence[Card],
    places: Sequence[Place],
    routes: Sequence[Sequence[int]],
    *,
    down: bool,
    now: datetime | None,
) -> Iterator[str]:
    names, said = wrap(printable(workflow.name), 60), [" · ".join(summary(workflow, boxes, now))]
    if workflow.paused_at is not None:
        said += wrap(said_of_pause(workflow), 80)
    wide, high = _extent(places)
    head = 22 * len(names) + _LINE * len(said) + 25
    text = max(
        *(width_of(name) * 10.5 for name in names), *(width_of(one) * _SMALL + 26 for one in said)
    )
    width, height = max(wide, text) + 2 * _MARGIN, high + head + 2 * _MARGIN
    id = f"foliot-{escape(workflow.id or 'draft')}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="foliot" role="img" '
        f'width="{_(width)}" height="{_(height)}" viewBox="0 0 {_(width)} {_(height)}" '
        f'aria-labelledby="{id}-title {id}-desc">\n'
        f'<title id="{id}-title">{escape(f"Workflow {printable(workflow.name)}")}</title>\n'
        f'<desc id="{id}-desc">{escape(_describe(boxes, " · ".join(said)))}</desc>\n'
        f"<style>{style()}</style>\n"
        f'<rect class="ground" width="{_(width)}" height="{_(height)}" rx="14"/>\n'
    )
    yield from _head(look_of(workflow), names, said)
    left = _MARGIN + max(0.0, (width - 2 * _MARGIN - wide) / 2 if down else 0.0)
    yield f'<g transform="translate({_(left)} {_(head + _MARGIN)})">\n'
    for route in routes:
        yield _edge(boxes[route[0]], boxes[route[-1]], [places[node] for node in route], down=down)
    for box, card, place in zip(boxes, cards, places, strict=False):
        yield from _draw(box, card, place)
    yield "</g>\n</svg>\n"


def _head(look: JobState, names: Sequence[str], said: Sequence[str]) -> Iterator[str]:
    yield f'<g class="{look}">'
    top = _MARGIN + 14
    for number, name in enumerate(names):
        yield _text("head", _MARGIN, top + 22 * number, name)
    under = top + 22 * len(names) + 2
    yield _disc(look, _MARGIN + 8, under - 4, scale=0.85)
    for number, line in enumerate(said):
        yield _text("said", _MARGIN + 23, under + _LINE * number, line)
    yield "</g>\n"


def _draw(box: Box, card: Card, place: Place) -> Iterator[str]:
    left, top = place.x - place.width / 2, place.y - card.height / 2
    size = f'width="{_(place.width)}" height="{_(card.height)}" rx="9"'
    yield f'<g class="{box.state}"><title>{escape(f"{box.title}: {box.in_words}")}</title>'
    if box.shape == "many":  # a pile of cards
        for back in (6, 3):
            yield f'<rect class="card" x="{_(left + back)}" y="{_(top + back)}" {size}/>'
    yield f'<rect class="card" x="{_(left)}" y="{_(top)}" {size}/>'
    if box.shape == "workflow":  # a card in a card
        inner = f'width="{_(place.width - 6)}" height="{_(card.height - 6)}" rx="6.5"'
        yield f'<rect class="card" x="{_(left + 3)}" y="{_(top + 3)}" {inner}/>'
    yield _disc(box.state, left + 22, top + 22 + (_LINE * (len(card.titles) - 1)) / 2 + 2)
    for number, title in enumerate(card.titles):
        yield _text("name", left + 40, top + 22 + _LINE * number, title)
    yield _text("faint", left + 40, top + 22 + _LINE * len(card.titles), card.words)
    if box.counts:
        yield from _bar(box, left + 40, top + card.height - 14, place.width - 54)
    yield "</g>\n"


def _bar(box: Box, left: float, top: float, width: float) -> Iterator[str]:
    """How many are in each state, as shares of a line; a single failure of many can still be seen."""
    total = sum(count for _, count in box.counts)
    shares = [max(3.0, width * count / total) for _, count in box.counts]
    scale = width / sum(shares)
    for (state, _count), share in zip(box.counts, shares, strict=True):
        yield (
            f'<rect class="bar-{state}" x="{_(left)}" y="{_(top)}" '
            f'width="{_(max(1.0, share * scale - 1))}" height="4" rx="1.5"/>'
        )
        left += share * scale


def _disc(state: JobState, x: float, y: float, *, scale: float = 1) -> str:
    smaller = "" if scale == 1 else f" scale({scale})"
    return (
        f'<g transform="translate({_(x)} {_(y)}){smaller}"><circle class="disc" r="9"/>'
        f'<g class="sign">{SIGNS[state]}</g></g>'
    )


def _edge(parent: Box, child: Box, way: Sequence[Place], *, down: bool) -> str:
    """From side to side, through its bends, in curves that leave and arrive along the layers."""
    path: list[str] = []
    tip = (0.0, 0.0)
    for one, other in pairwise(way):
        if down:
            x, y = one.x, one.y + one.height / 2
            to_x, to_y = other.x, other.y - other.height / 2
            back_x, back_y = 0.0, (to_y - y) / 2
        else:
            x, y = one.x + one.width / 2, one.y
            to_x, to_y = other.x - other.width / 2, other.y
            back_x, back_y = (to_x - x) / 2, 0.0
        tip = (to_x, to_y)
        if other is way[-1]:  # leave room for the tip
            to_x, to_y = (to_x, to_y - 7) if down else (to_x - 7, to_y)
        curve = (x + back_x, y + back_y, to_x - back_x, to_y - back_y, to_x, to_y)
        path.append(f"{'L' if path else 'M'}{_(x)} {_(y)}C{' '.join(map(_, curve))}")
    looks = " behind" if parent.state.final else ""
    passed = " passed" if child.state is JobState.SKIPPED else ""
    turn = " rotate(90)" if down else ""
    return (
        f'<path class="edge{looks}{passed}" d="{"".join(path)}"/>'
        f'<path class="tip{looks}" transform="translate({_(tip[0] - (0 if down else 1))} '
        f'{_(tip[1] - (1 if down else 0))}){turn}" d="M0 0-8-4.2-6.4 0-8 4.2Z"/>\n'
    )


def _describe(boxes: Sequence[Box], said: str) -> str:
    sentences = [f"{said}."]
    for box in boxes[:_MOST_SAID]:
        after = ", ".join(boxes[parent].title for parent in box.parents[:_MOST_SAID])
        sentences.append(f"{box.title}{f', after {after}' if after else ''}: {box.in_words}.")
    if len(boxes) > _MOST_SAID:
        sentences.append(f"And {len(boxes) - _MOST_SAID:,} more.")
    return " ".join(sentences)


def _text(looks: str, x: float, y: float, text: str) -> str:
    return f'<text class="{looks}" x="{_(x)}" y="{_(y)}">{escape(text)}</text>'


def _(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
