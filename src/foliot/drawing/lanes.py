"""A line for each box, with the edges as lanes beside them, as version control shows history: for deep graphs."""

from __future__ import annotations

from collections.abc import Sequence

from foliot.drawing.boxes import FEW, MARKS, Box
from foliot.drawing.ink import (
    DOWN,
    LEFT,
    LINE,
    PLAIN,
    RIGHT,
    STROKES,
    TITLE,
    UP,
    Piece,
    fit,
    width_of,
    wrap,
)

_Row = tuple[list[Piece], Box | None, list[Piece]]  # lanes; the box that is here; lanes under it


def draw_lanes(boxes: Sequence[Box], *, width: int) -> list[list[Piece]] | None:
    """None: there would be more lanes than one can follow."""
    rows = _rows(boxes, most=max(2, width // 6))
    if rows is None:
        return None
    indent = max((width_of(_text(lanes)) for lanes, _, _ in rows), default=0) + 2
    columns = Columns(boxes, width - indent)
    lines: list[list[Piece]] = []
    for lanes, box, under in rows:
        if box is None:
            lines.append(lanes)
            continue
        first, *rest = columns.lines(box)
        lines.append([*_filled(lanes, indent), *first])
        lines += [[*_filled(under, indent), *line] for line in rest]
    return lines


def draw_list(boxes: Sequence[Box], *, width: int) -> list[list[Piece]]:
    """Each with the names of those it comes after: for graphs that no drawing makes clear."""
    columns = Columns(boxes, width - 2)
    lines: list[list[Piece]] = []
    for box in boxes:
        first, *rest = columns.lines(box)
        lines.append([(f"{MARKS[box.state]} ", box.state), *first])
        lines += [[("  ", PLAIN), *line] for line in rest]
        if box.parents:
            after = "after " + ", ".join(boxes[parent].title for parent in box.parents)
            lines += [[("    ", PLAIN), (line, LINE)] for line in wrap(after, width - 4)]
    return lines


class Columns:
    """Titles, and beside them what is said of each box."""

    def __init__(self, boxes: Sequence[Box], width: int) -> None:
        words = max((width_of(_words(box)) for box in boxes), default=0)
        titles = max((width_of(box.title) for box in boxes), default=0)
        self._beside = width - words - 3 >= min(titles, 24)
        self._width = max(8, min(titles, width - words - 3) if self._beside else width)

    def lines(self, box: Box) -> list[list[Piece]]:
        titles, words = wrap(box.title, self._width), _words(box)
        if not self._beside:
            said = ([(line, str(box.state))] for line in wrap(words, self._width))
            return [*([(title, TITLE)] for title in titles), *said]
        first, *rest = titles
        return [
            [(fit(first, self._width), TITLE), ("   ", PLAIN), (words, str(box.state))],
            *([(title, TITLE)] for title in rest),
        ]


def _words(box: Box) -> str:
    return " · ".join(box.words)


def _rows(boxes: Sequence[Box], *, most: int) -> list[_Row] | None:
    lanes: list[int | None] = []  # the box that each leads to
    rows: list[_Row] = []
    airy = len(boxes) <= FEW  # lines between marks, as long as there is room
    last: tuple[int, int] | None = None  # the box of the row above, and its lane
    for number, box in enumerate(boxes):
        here = [lane for lane, target in enumerate(lanes) if target == number]
        own = here[0] if here else _free(lanes, 0)
        linked = last is not None and last[0] in box.parents and (not airy or len(here) > 1)
        if last is not None and last[1] == own and not linked:
            # Two marks one right above the other are linked: if these are not, there is a gap between them.
            rows.append((_passing(lanes), None, []))
        if len(here) > 1:
            rows.append((_turns(lanes, own, here[1:], UP), None, []))
        for lane in here:
            lanes[lane] = None
        lanes[own] = number
        mark = _passing(lanes)
        mark[2 * own] = (MARKS[box.state], box.state)
        lanes[own] = number if box.children else None
        rows.append((mark, box, _passing(lanes)))
        turn = _branch(lanes, own, box.children)
        if len(lanes) > most:
            return None
        if turn:
            rows.append((_turns(lanes, own, turn, DOWN), None, []))
        while lanes and lanes[-1] is None:
            lanes.pop()
        last = (number, own) if not turn else None
    return rows


def _branch(lanes: list[int | None], own: int, children: Sequence[int]) -> list[int]:
    """Give each child a lane. Those that come last keep to the left: what the others lead to has room at the right."""
    if not children:
        return []
    lanes[own] = children[-1]
    turn = []
    for child in reversed(children[:-1]):
        lane = _free(lanes, own + 1)
        lanes[lane] = child
        turn.append(lane)
    return turn


def _free(lanes: list[int | None], start: int) -> int:
    for lane in range(start, len(lanes)):
        if lanes[lane] is None:
            return lane
    lanes += [None] * (start - len(lanes) + 1 if start > len(lanes) else 1)
    return len(lanes) - 1


def _passing(lanes: Sequence[int | None]) -> list[Piece]:
    pieces: list[Piece] = []
    for target in lanes:
        pieces += [(" " if target is None else "│", LINE), (" ", PLAIN)]
    return pieces


def _turns(lanes: Sequence[int | None], own: int, others: Sequence[int], side: int) -> list[Piece]:
    """A row in which other lanes join (side UP) or leave (DOWN) one; those between pass over the line."""
    first, last = min(own, *others), max(own, *others)
    pieces: list[Piece] = []
    for lane, target in enumerate(lanes):
        across = (LEFT if lane > first else 0) | (RIGHT if lane < last else 0)
        inside = first <= lane <= last
        if lane == own:
            text = STROKES[UP | DOWN | across]
        elif lane in others:
            text = STROKES[side | across]
        elif target is not None:
            text = "│"
        else:
            text = "─" if inside else " "
        pieces += [(text, LINE), ("─" if first <= lane < last else " ", LINE)]
    return pieces


def _text(pieces: Sequence[Piece]) -> str:
    return "".join(text for text, _ in pieces).rstrip()


def _filled(pieces: list[Piece], width: int) -> list[Piece]:
    used = sum(width_of(text) for text, _ in pieces)
    if used > width:  # only spaces
        return [*pieces[:-1], (" " * (width - used + width_of(pieces[-1][0])), PLAIN)]
    return [*pieces, (" " * (width - used), PLAIN)]
