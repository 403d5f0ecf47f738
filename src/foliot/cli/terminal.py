"""Screen: where commands print and draw, terminal or not."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.text import Text

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
