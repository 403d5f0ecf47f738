"""Screen: where commands print and draw, terminal or not."""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_BEHIND: Final = re.compile(r"(?<=[_.:/-])")
_USUAL: Final = 80  # columns, where nobody says how many there are


class Screen(Console):
    """A console to which text is text, and a width of 0 is none that is known. A reader who goes away is left to
    `main`, as wherever else something is printed."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)
        if not self.width:
            self.width = _USUAL

    def say(self, line: Text | str) -> None:
        """All of it, whatever the width."""
        if self.is_terminal:
            self.print(line, soft_wrap=True)
        else:
            print(line, file=self.file)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Name:
    """In a table: folded behind separators, and within a word only where that has no room."""

    def __init__(self, name: str) -> None:
        self._parts = _BEHIND.split(name)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widths = [cell_len(part) for part in self._parts]
        return Measurement(max(widths), sum(widths)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for part in self._parts:
            if lines[-1] and cell_len(lines[-1] + part) > options.max_width:
                lines.append("")
            lines[-1] += part
        yield Text("\n".join(lines), overflow="fold")
