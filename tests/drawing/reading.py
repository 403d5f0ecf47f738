"""Reads pictures in a terminal as people do: along the lines. What is read must be what was drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foliot.drawing.boxes import MARKS

Cell = tuple[int, int]
Edges = set[tuple[str, str]]
UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
ENDS = {  # the sides that a line leaves a cell on
    "│": (UP, DOWN),
    "─": (LEFT, RIGHT),
    "╭": (RIGHT, DOWN),
    "╮": (LEFT, DOWN),
    "╰": (UP, RIGHT),
    "╯": (UP, LEFT),
    "├": (UP, DOWN, RIGHT),
    "┤": (UP, DOWN, LEFT),
    "┬": (LEFT, RIGHT, DOWN),
    "┴": (LEFT, RIGHT, UP),
    "┼": (UP, DOWN, LEFT, RIGHT),
}
SIGNS = frozenset(MARKS.values())


class Grid:
    """The letters of a picture. Nothing in it is wider than one cell."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def __getitem__(self, cell: Cell) -> str:
        row, column = cell
        inside = 0 <= row < len(self.lines) and 0 <= column < len(self.lines[row])
        return self.lines[row][column] if inside else " "

    def cells(self) -> Iterator[tuple[Cell, str]]:
        for row, line in enumerate(self.lines):
            for column, letter in enumerate(line):
                yield (row, column), letter

    def follow(self, start: Cell, way: Cell, never: Cell) -> set[Cell]:
        """Where the lines from here lead, which go any way but one. A line that meets another one without a turn or a
        junction goes on behind it."""
        found: set[Cell] = set()
        open_, seen = [(start, way)], set()
        while open_:
            at, towards = open_.pop()
            cell = (at[0] + towards[0], at[1] + towards[1])
            if (cell, towards) in seen:
                continue
            seen.add((cell, towards))
            back = (-towards[0], -towards[1])
            sides = ENDS.get(self[cell])
            if sides is None:
                found.add(cell)
            elif back not in sides:
                open_.append((cell, towards))
            else:
                open_ += [(cell, side) for side in sides if side not in (back, never)]
        return found


def read_panels(lines: Sequence[str]) -> Edges:
    """Boxes from left to right, by the names in them."""
    grid = Grid(lines)
    boxes = dict(_boxes(grid))  # the cell in the middle of the left side: title, width
    edges: Edges = set()
    for (row, left), (title, width) in boxes.items():
        side = (row, left + width - 1)
        if grid[side] in "├╟":
            for row_of_tip, column in grid.follow(side, RIGHT, never=LEFT):
                assert grid[row_of_tip, column] == "▶", "a line leads to no box"
                edges.add((title, boxes[row_of_tip, column + 1][0]))
    return edges


def _boxes(grid: Grid) -> Iterator[tuple[Cell, tuple[str, int]]]:
    for (row, column), letter in grid.cells():
        if letter in "╭╒╔" and grid[row + 1, column + 2] in SIGNS:
            top = grid.lines[row][column:]
            width = min(top.find(corner) for corner in "╮╕╗" if corner in top) + 1
            title = grid.lines[row + 1][column + 4 : column + width - 1].strip()
            yield (row + 1, column), (title, width)


def read_lanes(lines: Sequence[str]) -> Edges:
    """Marks in lanes, and beside each the name."""
    grid = Grid(lines)
    titles = {
        cell: grid.lines[cell[0]][cell[1] + 1 :].strip(" │").split()[0]
        for cell, letter in grid.cells()
        if letter in SIGNS and cell[1] % 2 == 0
    }
    edges: Edges = set()
    for cell, title in titles.items():
        for end in grid.follow(cell, DOWN, never=UP):
            if end in titles:
                edges.add((title, titles[end]))
    return edges
