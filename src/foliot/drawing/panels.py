"""Boxes from left to right with lines between them: the picture of a graph that is small and not tangled.

Between two layers, boxes with the same children share a net: one line from all of them to all of these. A picture that
could be read in two ways (nets that share some children, not all) is not drawn here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Final

import msgspec

from foliot.drawing.boxes import MARKS, Box, Shape
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
    width_of,
)
from foliot.drawing.layout import Layout, arrange, spread

MOST_BOXES: Final = 40
MOST_ROWS: Final = 24  # of a screen; what is higher is shorter in lanes
_HEIGHT: Final = 3
_AT_THE_END: Final = "succeeded · 999ms"  # the longest that will be said
# Its corners and sides, and where a line leaves it.
_FRAMES: Final[dict[Shape, tuple[str, ...]]] = {
    "step": tuple("╭─╮│├╰─╯"),
    "signal": tuple("╭─╮│├╰─╯"),
    "many": tuple("╒═╕│├╰─╯"),
    "workflow": tuple("╔═╗║╟╚═╝"),
}


class Net(msgspec.Struct, frozen=True):
    """Rows that a line comes from and goes to."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]

    @property
    def straight(self) -> bool:
        return self.sources == self.targets and len(self.sources) == 1

    @property
    def span(self) -> range:
        rows = (*self.sources, *self.targets)
        return range(min(rows), max(rows) + 1)


def draw_panels(
    boxes: Sequence[Box], *, width: int, steady: bool = False
) -> list[list[Piece]] | None:
    """`steady`: boxes are as wide as they will ever be. None: it is too large, or tangled."""
    if len(boxes) > MOST_BOXES:
        return None
    layout = arrange(boxes)
    rows = _rows(layout)
    channels = [
        _tracks(_nets(layout, layer, rows)) for layer in layout.layers[:-1]
    ]  # between layers
    widths = [
        max(
            (_width(boxes[node], steady=steady) for node in layer if not layout.is_bend(node)),
            default=1,
        )
        for layer in layout.layers
    ]
    rooms = [_room(channel) for channel in channels if channel is not None]
    if len(rooms) < len(channels) or sum(widths) + sum(rooms) > width:
        return None
    if max(rows, default=0) + 2 > MOST_ROWS:
        return None
    sheet = _Sheet(max(rows, default=0) + 2)
    left = 0
    for index, layer in enumerate(layout.layers):
        for node in layer:
            if layout.is_bend(node):
                sheet.across(rows[node], left, left + widths[index], net=-1 - node)
            else:
                sheet.box(boxes[node], rows[node], left, widths[index])
        left += widths[index]
        if index < len(rooms):
            ends = {rows[node] for node in layout.layers[index + 1] if not layout.is_bend(node)}
            sheet.channel(channels[index] or {}, left, rooms[index], ends)
            left += rooms[index]
    return sheet.lines()


def _rows(layout: Layout) -> list[int]:
    """The middle row of each node."""
    crowded = max(map(len, layout.layers), default=0) > 4
    at = spread(
        layout, lambda node: 1 if layout.is_bend(node) else _HEIGHT, gap=0 if crowded else 1
    )
    # Rounded all alike, so that what is level stays level, and no distance gets smaller.
    return [int(place) for place in at]


def _nets(layout: Layout, layer: Sequence[int], rows: Sequence[int]) -> list[Net]:
    shared = defaultdict(list)
    for node in layer:
        if layout.targets[node]:
            shared[frozenset(rows[target] for target in layout.targets[node])].append(rows[node])
    return [
        Net(tuple(sorted(sources)), tuple(sorted(targets))) for targets, sources in shared.items()
    ]


def _tracks(nets: Sequence[Net]) -> dict[Net, int] | None:
    """The column in which each net goes up and down, from left to right, so that none is taken for another.
    None: there is no such order."""
    before: dict[Net, set[Net]] = {net: set() for net in nets}
    for one, other in permutations(nets, 2):
        if not one.straight and not other.straight and {*one.sources} & {*other.targets}:
            before[other].add(one)
        if {*one.targets} & {*other.targets} and len(other.targets) > 1:
            if len(one.targets) > 1 or one.straight:
                return None
            before[one].add(other)
    return _in_columns(nets, before)


def _in_columns(nets: Sequence[Net], before: dict[Net, set[Net]]) -> dict[Net, int] | None:
    tracks: dict[Net, int] = {}
    while len(tracks) < len(nets):
        free = [net for net in nets if net not in tracks and before[net] <= tracks.keys()]
        if not free:
            return None
        for net in free:
            track = max((tracks[other] + 1 for other in before[net]), default=0)
            while any(track == tracks[other] and _touch(net, other) for other in tracks):
                track += 1
            tracks[net] = -1 if net.straight else track
    return tracks


def _touch(one: Net, other: Net) -> bool:
    return one.span.start <= other.span.stop and other.span.start <= one.span.stop


def _room(tracks: dict[Net, int]) -> int:
    used = max(tracks.values(), default=-1) + 1
    return 2 * used + 2 if used else 3


def _words(box: Box) -> str:
    return " · ".join(box.words)


def _width(box: Box, *, steady: bool) -> int:
    said = [box.title, _words(box)]
    if steady:
        said.append(f"if {box.rule} · {_AT_THE_END}" if box.rule else _AT_THE_END)
    return max(map(width_of, said)) + 6


class _Sheet:
    """Cells of text, and lines under them that join where they meet."""

    def __init__(self, height: int) -> None:
        self._height = height
        self._text: dict[tuple[int, int], Piece] = {}
        self._lines: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)

    def box(self, box: Box, row: int, left: int, width: int) -> None:
        words, style = _words(box), str(box.state)
        left_top, top, right_top, side, exit, left_foot, foot, right_foot = _FRAMES[box.shape]
        rest = foot * (width - width_of(words) - 5)
        self._write(row - 1, left, [(left_top + top * (width - 2) + right_top, style)])
        self._write(row, left, [(f"{side} {MARKS[box.state]} ", style), (box.title, TITLE)])
        self._write(row, left + width - 1, [(exit if box.children else side, style)])
        self._write(row + 1, left, [(f"{left_foot}{foot} {words} {rest}{right_foot}", style)])

    def across(self, row: int, left: int, right: int, *, net: int) -> None:
        for column in range(left, right):
            self._stroke(row, column, LEFT | RIGHT, net)

    def channel(self, tracks: dict[Net, int], left: int, room: int, ends: set[int]) -> None:
        for number, (net, track) in enumerate(tracks.items()):
            middle = left + 1 + 2 * track
            if net.straight:
                self.across(net.sources[0], left, left + room, net=number)
                continue
            for row in net.sources:
                self.across(row, left, middle, net=number)
                self._stroke(row, middle, LEFT, number)
            for row in net.targets:
                self.across(row, middle + 1, left + room, net=number)
                self._stroke(row, middle, RIGHT, number)
            for row in net.span:
                up = UP if row > net.span.start else 0
                self._stroke(row, middle, up | (DOWN if row < net.span.stop - 1 else 0), number)
        for row in {row for net in tracks for row in net.targets} & ends:
            self._write(row, left + room - 1, [("▶", LINE)])

    def lines(self) -> list[list[Piece]]:
        """Down to the last that has something on it: a line below the boxes ends above their feet."""
        cells = {**{cell: (_join(nets), LINE) for cell, nets in self._lines.items()}, **self._text}
        rows: list[dict[int, Piece]] = [{} for _ in range(self._height)]
        for (row, column), piece in cells.items():
            rows[row][column] = piece
        while rows and not rows[-1]:
            rows.pop()
        return [list(_pieces(row)) for row in rows]

    def _write(self, row: int, column: int, pieces: Sequence[Piece]) -> None:
        for text, style in pieces:
            self._text[row, column] = (text, style)
            column += width_of(text)

    def _stroke(self, row: int, column: int, sides: int, net: int) -> None:
        here = self._lines[row, column]
        here[net] = here.get(net, 0) | sides


def _pieces(row: dict[int, Piece]) -> Iterator[Piece]:
    at = 0
    for column, (text, style) in sorted(row.items()):
        if column > at:
            yield " " * (column - at), PLAIN
        yield text, style
        at = max(at, column) + width_of(text)


def _join(nets: dict[int, int]) -> str:
    """Lines of different nets pass each other (the one across goes under), unless one of them turns here."""
    sides = set(nets.values())
    if sides == {UP | DOWN, LEFT | RIGHT}:
        return "│"
    together = 0
    for side in sides:
        together |= side
    return STROKES[together]
