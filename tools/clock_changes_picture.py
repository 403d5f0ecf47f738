"""Draws docs/pictures/clock-changes.svg: what a gap and an overlap do to a daily time. The dots are where
foliot.when fires. `--check` says whether the picture is current."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from foliot.when import between, parse

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "clock-changes.svg"
ZONE = "Europe/Berlin"
DAILY = "30 2 * * *"
HOUR = 3600
HOURS = 4  # drawn, from 00:00 UTC less one
LEFT, RIGHT, STEP, TOP, ROW = 210, 60, 70, 96, 40
PLOT = 5 * ROW
WIDTH, HEIGHT = 2 * (LEFT + HOURS * STEP + RIGHT), TOP + PLOT + 5 * ROW + 50
INK, PALE, BLUE, RED = "#1f2933", "#d3dae2", "#1c6dd0", "#c2410c"

GAP = (
    "dst_gap",
    "2026-03-29",
    "Clocks go forward: 02:00 to 03:00 does not exist",
    ("skip", "shift", "run_at_transition"),
)
OVERLAP = (
    "dst_overlap",
    "2026-10-25",
    "Clocks go back: 02:00 to 03:00 comes twice",
    ("first", "second", "both"),
)
DEFAULTS = {"run_at_transition", "first"}


def picture() -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13" fill="{INK}">'
    )
    title = "A daily 02:30 in Europe/Berlin on the two days on which clocks change"
    parts = [
        head,
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(WIDTH / 2, 26, title, size=17, anchor="middle", weight="bold"),
        *half(0, *GAP),
        *half(WIDTH // 2, *OVERLAP),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def half(shift: int, option: str, day: str, heading: str, values: tuple[str, ...]) -> list[str]:
    """One clock change: wall time over real time, and below what each rule does."""
    start = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) - HOUR
    left = shift + LEFT
    parts = [
        text(left + HOURS * STEP / 2, 54, heading, anchor="middle", weight="bold"),
        text(left + HOURS * STEP / 2, 72, f"{day}, {ZONE}", anchor="middle", fill="#52606d"),
        *grid(left, start),
        *walls(left, start),
    ]
    for number, value in enumerate(values):
        label = f"{value} (default)" if value in DEFAULTS else value
        parts += row(left, number, label, fires(DAILY, start, **{option: value}), start, BLUE)
    parts += row(left, len(values), "every 30 minutes", fires("*/30 * * * *", start), start, INK)
    parts.append(
        text(left - 12, rows_top() - 22, f"{option}=", anchor="end", fill=BLUE, weight="bold")
    )
    return parts


def grid(left: int, start: int) -> list[str]:
    bottom = rows_top() + 4 * ROW - 14
    parts = []
    for number in range(HOURS + 1):
        at = left + number * STEP
        parts.append(line(at, TOP, at, bottom, PALE))
        parts.append(text(at, bottom + 20, clock(start + number * HOUR), anchor="middle"))
    for number in range(PLOT // ROW + 1):
        high = TOP + PLOT - number * ROW
        parts.append(line(left, high, left + HOURS * STEP, high, PALE))
        parts.append(text(left - 12, high + 4, f"{number:02}:00", anchor="end"))
    parts.append(text(left + HOURS * STEP + 24, bottom + 20, "UTC"))
    parts.append(text(left - 62, TOP + PLOT / 2, "on the wall", anchor="middle", turn=True))
    band = TOP + PLOT - 3 * ROW
    parts.append(
        f'<rect x="{left}" y="{band}" width="{HOURS * STEP}" height="{ROW}" fill="{RED}" opacity="0.10"/>'
    )
    return parts


def walls(left: int, start: int) -> list[str]:
    """The clock on the wall: a line that jumps."""
    change = start + 2 * HOUR
    before, after = (wall(at) for at in (change - 1, change))
    x = left + 2 * STEP
    return [
        line(left, high(wall(start)), x, high(before + 1 / HOUR), INK, 3),
        line(x, high(before + 1 / HOUR), x, high(after), RED, 2, dashed=True),
        line(x, high(after), left + HOURS * STEP, high(wall(start + HOURS * HOUR)), INK, 3),
        line(left, high(2.5), left + HOURS * STEP, high(2.5), BLUE, 1, dashed=True),
        text(left + HOURS * STEP + 6, high(2.5) + 4, "02:30", fill=BLUE),
    ]


def row(left: int, number: int, label: str, found: list[int], start: int, colour: str) -> list[str]:
    y = rows_top() + number * ROW
    parts = [
        text(left - 12, y + 4, label, anchor="end"),
        line(left, y, left + HOURS * STEP, y, PALE),
    ]
    parts += [
        f'<circle cx="{left + (at - start) / HOUR * STEP:g}" cy="{y}" r="6" fill="{colour}"/>'
        for at in found
    ]
    if colour == BLUE:
        parts += [
            text(left + (at - start) / HOUR * STEP + 11, y - 6, local(at), size=11, fill=colour)
            for at in found
        ]
    if not found:
        parts.append(
            text(left + HOURS * STEP / 2, y - 4, "not on this day", anchor="middle", fill=RED)
        )
    return parts


def fires(expression: str, start: int, **rule: str) -> list[int]:
    timetable = parse(expression, timezone=ZONE).timetable(**rule)  # type: ignore[arg-type]
    return list(between(timetable, start - 1, start + HOURS * HOUR))


def wall(at: int) -> float:
    """Hours since midnight on the day of the change, on the wall."""
    moment = datetime.fromtimestamp(at, ZoneInfo(ZONE))
    return moment.hour + moment.minute / 60 + moment.second / HOUR


def local(at: int) -> str:
    return f"{datetime.fromtimestamp(at, ZoneInfo(ZONE)):%H:%M %Z}"


def high(hours: float) -> float:
    return round(TOP + PLOT - hours * ROW, 1)


def rows_top() -> int:
    return TOP + PLOT + 56


def clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M}"


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1, *, dashed: bool = False
) -> str:
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 13,
    anchor: str = "start",
    fill: str = INK,
    weight: str = "normal",
    turn: bool = False,
) -> str:
    turned = f' transform="rotate(-90 {x:g} {y:g})"' if turn else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
        f'font-weight="{weight}"{turned}>{words}</text>'
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        current = PICTURE.exists() and PICTURE.read_text() == picture()
        sys.exit(
            0 if current else f"{PICTURE.name} is not current: run tools/{Path(__file__).name}"
        )
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture())
