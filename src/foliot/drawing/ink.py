"""Text for a terminal: pieces with a style, whose widths are those on the screen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len, set_cell_size

from foliot.model.job import JobState

Piece = tuple[str, str]  # text, style
LINE: Final = "line"
TITLE: Final = "title"
PLAIN: Final = ""
_CODES: Final = {
    LINE: "2",
    TITLE: "1",
    JobState.SUCCEEDED: "32",
    JobState.DEAD: "1;31",
    JobState.CANCELLED: "35",
    JobState.RUNNING: "1;36",
    JobState.READY: "34",
    JobState.HELD: "33",
    JobState.SCHEDULED: "33",
    JobState.WAITING: "2",
    JobState.SKIPPED: "2",
}
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
# By the sides that a line leaves a cell on.
STROKES: Final = " │││─╯╮┤─╰╭├─┴┬┼"
# Where there is nothing but ASCII: letters of the same width, and of each mark another.
_ASCII: Final = str.maketrans(
    {
        **dict.fromkeys("│║", "|"),
        **dict.fromkeys("─═·", "-"),
        **dict.fromkeys("╭╮╰╯├┤┬┴┼╒╕╔╗╟╚╝", "+"),
        **dict(zip("▶×…✓✗⊘●○‖◷◌↷", ">x~vXC*o=@./", strict=True)),
    }
)
_BREAKS: Final = re.compile(r"(?<=[\s_./:,;-])")

width_of = cell_len


def paint(pieces: Iterable[Piece], *, colour: bool) -> str:
    """One line; neighbours of one style share its codes."""
    merged: list[Piece] = []
    for text, style in pieces:
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + text, style)
        else:
            merged.append((text, style))
    if merged:
        merged[-1] = (merged[-1][0].rstrip(), merged[-1][1])
    return "".join(_paint(text, style) if colour else text for text, style in merged).rstrip()


def fit(text: str, width: int) -> str:
    """Filled up with spaces."""
    return set_cell_size(text, max(width, width_of(text)))


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken after a separator where there is one; nothing is left out."""
    lines = [""]
    for word in _BREAKS.split(text):
        if width_of(lines[-1] + word.rstrip()) > width and lines[-1]:
            lines.append("")
        for letter in word:
            if width_of(lines[-1] + letter) > width and lines[-1] and letter != " ":
                lines.append("")
            lines[-1] += letter
    return [line.rstrip() for line in lines]


def to_ascii(text: str) -> str:
    """For a terminal that knows nothing else. What is no sign of ours stays."""
    return text.translate(_ASCII)


def _paint(text: str, style: str) -> str:
    code = _CODES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and text.strip() else text
