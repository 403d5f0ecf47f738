"""What commands print: JSON, or a table in which nothing is cut off."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def print_json(value: object) -> None:
    """One JSON object on one line."""
    import msgspec

    print(msgspec.json.encode(value).decode())


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    whole: Sequence[str] = (),
    names: Sequence[str] = (),
) -> None:
    """A table that folds long cells on a terminal, but for the `whole` columns, and those with `names` behind their
    separators; elsewhere one line a row, whatever its width."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        _print_plain([list(headers), *cells])
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from foliot.cli.terminal import Name, Screen

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in whole)
    for row in cells:
        named = zip(headers, row, strict=True)
        table.add_row(*(Name(cell) if header in names else cell for header, cell in named))
    Screen().print(table)


def print_unknown(what: str, name: str, known: Iterable[str]) -> None:
    """That no hook, or whatever it is, has this name, and which may be meant."""
    from foliot.shown import did_you_mean, shown

    hint = did_you_mean(name, sorted(known)) or f"foliot {what}s list shows those there are"
    print(f"error: no {what} is called {shown(name)}\nhint: {printable(hint)}", file=sys.stderr)


def print_doubt(doubt: str | None) -> None:
    """What may be a mistake, and was done."""
    if doubt is not None:
        print(f"warning: {printable(doubt)}", file=sys.stderr)


def ago(seconds: float) -> str:
    """A stretch of time, short: 0.4s, 12s, 3m05s, 2h10m, 4d03h."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    for unit, size, smaller, part in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole}s"


def printable(text: str) -> str:
    """The text with control characters escaped: data must not drive the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())
