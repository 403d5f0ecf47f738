"""Draws docs/pictures/admission-door.svg: what a job passes between its submission and its start. `--check` says
whether the picture is current."""

from __future__ import annotations

import sys
from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "admission-door.svg"
WIDTH, HEIGHT = 1220, 380
INK, PALE, BLUE, RED, GREEN = "#1f2933", "#d3dae2", "#1c6dd0", "#c2410c", "#15803d"
GATES = (
    ("time", "is it due?", "scheduled"),
    ("parents", "have they ended as its rule asks?", "waiting"),
    ("order", "is it the next of its key?", "held: order, turn"),
    ("workers", "is its queue open, and one there that can?", "ready; held: kind"),
    ("limits", "is there a slot, and a token?", "held: limit"),
    ("breakers", "is the service up that it calls?", "held: limit"),
)
BEFORE = 3  # of them, before it is ready
READY = 86  # how wide the place is between those and the others
LEFT, STEP, TOP, TALL = 160, 136, 110, 110
MIDDLE = TOP + TALL // 2


def picture() -> str:
    title = "The admission door: what a job passes before it runs"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13" fill="{INK}">'
    )
    parts = [
        head,
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(WIDTH / 2, 30, title, size=17, weight="bold"),
        box(20, MIDDLE - 25, 100, "submit", INK),
        arrow(120, MIDDLE, LEFT - 8, MIDDLE, INK),
        text(place(BEFORE) - READY / 2 - 8, MIDDLE - 14, "ready", size=15, weight="bold"),
        arrow(place(BEFORE) - READY - 8, MIDDLE, place(BEFORE) - 8, MIDDLE, INK),
    ]
    for number, (name, question, state) in enumerate(GATES):
        parts += gate(place(number), name, question, state)
    end = place(len(GATES)) - 16
    parts += [
        arrow(end + 6, MIDDLE, end + 34, MIDDLE, GREEN),
        box(end + 36, MIDDLE - 25, 110, "running", GREEN),
        *early(),
        *back(end),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def place(number: int) -> int:
    """Where a gate begins."""
    return LEFT + number * STEP + (READY if number >= BEFORE else 0)


def gate(left: int, name: str, question: str, state: str) -> list[str]:
    """A post with its question above it, and where those wait whom it does not let through."""
    middle = left + STEP / 2 - 8
    return [
        f'<rect x="{left}" y="{TOP}" width="{STEP - 16}" height="{TALL}" rx="6" fill="#f5f7fa" stroke="{BLUE}"/>',
        text(middle, TOP + 28, name, size=15, weight="bold", fill=BLUE),
        *(
            text(middle, TOP + 54 + 16 * n, part, size=11)
            for n, part in enumerate(folded(question))
        ),
        arrow(middle, TOP + TALL, middle, TOP + TALL + 34, RED),
        text(middle, TOP + TALL + 52, state, size=12, fill=RED),
    ]


def folded(question: str) -> list[str]:
    """In lines that fit a gate."""
    lines = [""]
    for word in question.split():
        if len(lines[-1]) + len(word) > 16:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def early() -> list[str]:
    """Which gates are passed when."""
    spans = (
        (0, BEFORE, "before it is ready"),
        (BEFORE, len(GATES), "when a worker claims: all, or it waits"),
    )
    parts = []
    for first, last, words in spans:
        x, to_x = place(first), place(last - 1) + STEP - 16
        parts += [
            line(x, TOP - 16, to_x, TOP - 16, PALE, 3),
            text((x + to_x) / 2, TOP - 26, words, fill="#52606d"),
        ]
    return parts


def back(end: int) -> list[str]:
    """Who leaves lets the next one in."""
    from_, to, low = end + 91, place(4) + STEP / 2 - 8, TOP + TALL + 96
    path = f"M {from_} {MIDDLE + 29} L {from_} {low} L {to} {low} L {to} {TOP + TALL + 66}"
    tip = f"M {to - 5} {TOP + TALL + 74} L {to} {TOP + TALL + 64} L {to + 5} {TOP + TALL + 74}"
    words = ("who leaves gives its slot back and lets the next one in,", "in the same transaction")
    return [
        f'<path d="{path}" fill="none" stroke="{GREEN}" stroke-width="2" stroke-dasharray="5 4"/>',
        f'<path d="{tip}" fill="none" stroke="{GREEN}" stroke-width="2"/>',
        *(text((from_ + to) / 2, low + 20 + 16 * n, part, size=12) for n, part in enumerate(words)),
    ]


def box(x: float, y: float, width: float, label: str, colour: str) -> str:
    size = f'x="{x}" y="{y}" width="{width}" height="50" rx="6"'
    shape = f'<rect {size} fill="#ffffff" stroke="{colour}" stroke-width="2"/>'
    return shape + text(x + width / 2, y + 30, label, size=15, weight="bold", fill=colour)


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    head = (
        f"M {to_x - 8} {to_y - 5} L {to_x} {to_y} L {to_x - 8} {to_y + 5}"
        if y == to_y
        else f"M {to_x - 5} {to_y - 8} L {to_x} {to_y} L {to_x + 5} {to_y - 8}"
    )
    return line(x, y, to_x, to_y, colour, 2) + (
        f'<path d="{head}" fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def line(x: float, y: float, to_x: float, to_y: float, colour: str, width: int) -> str:
    return f'<path d="M {x} {y} L {to_x} {to_y}" stroke="{colour}" stroke-width="{width}"/>'


def text(
    x: float, y: float, words: str, *, size: int = 13, weight: str = "normal", fill: str = INK
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="middle" font-weight="{weight}" '
        f'fill="{fill}">{words}</text>'
    )


def main() -> None:
    if "--check" in sys.argv[1:]:
        if PICTURE.read_text("utf-8") != picture():
            sys.exit(f"{PICTURE} is not current: run {Path(__file__).name}")
    else:
        PICTURE.write_text(picture(), "utf-8")


if __name__ == "__main__":
    main()
