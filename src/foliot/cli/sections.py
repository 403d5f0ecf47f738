"""Sections: rows under headings, in whatever room there is.

Columns keep their width. Where the terminal is narrow the less important ones are left out, and the last one takes
what is left; where it is low, each section shows its first rows and says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.text import Text

from foliot.cli.output import printable

_GAP: Final = 2
_SHORTEST: Final = 20  # what the last column may be cut to before another is left out
_TURNS: Final = (2, 6)  # rows of each section before another one gets more


class Column(msgspec.Struct, frozen=True):
    header: str
    right: bool = False
    style: str = ""
    rank: int = 0  # the higher, the sooner it is left out


class Section(msgspec.Struct, frozen=True):
    columns: tuple[Column, ...]
    rows: list[tuple[str, ...]]
    total: int | None = None  # if there are more than rows; None: nobody asks how many there are
    styles: list[str] | None = None  # of each row, instead of the columns' own


def share(room: int | None, sections: Sequence[Section]) -> list[int]:
    """How many rows each section shows: a few of each, then more, then as many as there is room for, in order."""
    wanted = [len(section.rows) for section in sections]
    if room is None:
        return wanted
    given = [0] * len(sections)
    left = max(0, room - 2 * len(sections))  # a blank line and the headings
    for most in (*_TURNS, room):
        for position, count in enumerate(wanted):
            more = min(min(count, most) - given[position], left)
            given[position] += max(0, more)
            left -= max(0, more)
    return given


def render(section: Section, shown: int, width: int | None) -> Iterator[Text]:
    rows = [tuple(printable(cell) for cell in row) for row in section.rows]
    kept = _fit(section, rows, width)
    widths = {at: max(len(row[at]) for row in _with_headers(section, rows)) for at in kept}
    yield _line(section, kept, widths, tuple(column.header for column in section.columns), "dim")
    all_told = section.total is None or section.total <= shown
    told = shown if all_told else max(0, shown - 1)
    for number, row in enumerate(rows[:told]):
        style = None if section.styles is None else section.styles[number]
        yield _line(section, kept, widths, row, style)
    if told < shown:
        yield Text(f"… {(section.total or 0) - told} more", "dim")


def _with_headers(section: Section, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(column.header for column in section.columns), *rows]


def _fit(section: Section, rows: list[tuple[str, ...]], width: int | None) -> list[int]:
    """The columns that fit, less important ones left out first; the last one may be cut."""
    kept = list(range(len(section.columns)))
    if width is None:
        return kept
    sizes = [max(map(len, column)) for column in zip(*_with_headers(section, rows), strict=True)]
    while True:
        needed = sum(sizes[at] + _GAP for at in kept[:-1])
        needed += min(sizes[kept[-1]], _SHORTEST)
        ranks = [section.columns[at].rank for at in kept]
        if needed <= width or not max(ranks):
            return kept
        kept.remove(kept[ranks.index(max(ranks))])


def _line(
    section: Section,
    kept: list[int],
    widths: dict[int, int],
    row: tuple[str, ...],
    style: str | None,
) -> Text:
    line = Text(no_wrap=True)
    for at in kept:
        column = section.columns[at]
        cell = row[at].rjust(widths[at]) if column.right else row[at].ljust(widths[at])
        line.append(cell + " " * _GAP, column.style if style is None else style)
    line.rstrip()
    return line
