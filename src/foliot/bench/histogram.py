"""Histogram: how many values lie between two steps, as lines of text and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

_STEPS: Final = tuple(
    float(digit * power) for power in (1, 10, 100, 1000, 10_000) for digit in (1, 2, 5)
)
_WIDTH: Final = 50  # characters of the longest bar

_BAR: Final = 44  # pixels from bar to bar
_LEFT: Final = 70
_TOP: Final = 60
_HEIGHT: Final = 260


class Step(msgspec.Struct, frozen=True):
    """`up_to` is None for what is longer than every step."""

    up_to: float | None
    count: int


def histogram(values: Sequence[float]) -> list[Step]:
    """Of milliseconds, from the first step that has any to the last."""
    counts = [0] * (len(_STEPS) + 1)
    for value in values:
        counts[next((at for at, step in enumerate(_STEPS) if value <= step), len(_STEPS))] += 1
    steps = [Step(up_to, count) for up_to, count in zip((*_STEPS, None), counts, strict=True)]
    filled = [at for at, step in enumerate(steps) if step.count]
    return steps[filled[0] : filled[-1] + 1] if filled else []


def lines(steps: Sequence[Step]) -> list[str]:
    most = max((step.count for step in steps), default=1)
    return [
        f"{_name(step):>12} {step.count:>10,} " + "█" * round(step.count / most * _WIDTH)
        for step in steps
    ]


def picture(title: str, steps: Sequence[Step], marks: Mapping[str, float]) -> str:
    """As SVG. Under the bars, the marks: names and milliseconds."""
    most = max((step.count for step in steps), default=1)
    width = _LEFT + _BAR * max(len(steps), 12) + 30
    bottom = _TOP + _HEIGHT
    parts = [_words(_LEFT, 30, title, size=16)]
    for share in (0, 0.5, 1):
        height = bottom - _HEIGHT * share
        parts.append(
            f'<line x1="{_LEFT}" x2="{width - 30}" y1="{height:g}" y2="{height:g}" stroke="#d0d0d0"/>'
        )
        parts.append(_words(_LEFT - 8, height + 4, f"{most * share:,.0f}", anchor="end"))
    for at, step in enumerate(steps):
        left, height = _LEFT + at * _BAR, step.count / most * _HEIGHT
        parts.append(
            f'<rect x="{left + 3}" y="{bottom - height:.1f}" width="{_BAR - 6}" height="{height:.1f}" '
            f'fill="#3b6ea5"><title>{_name(step)}: {step.count:,}</title></rect>'
        )
        name = "more" if step.up_to is None else f"{step.up_to:g}"
        parts.append(_words(left + _BAR / 2, bottom + 18, name, anchor="middle"))
    parts.append(_words(_LEFT, bottom + 40, "milliseconds after the nominal time, at most"))
    told = ", ".join(f"{name} {value:,.1f} ms" for name, value in marks.items())
    parts.append(_words(_LEFT, bottom + 62, told))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 80}" '
        'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _name(step: Step) -> str:
    return "more" if step.up_to is None else f"≤ {step.up_to:g} ms"


def _words(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}">{safe}</text>'
